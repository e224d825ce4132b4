"""Casting an expression to another type, the common type of several (select_common_type), and defaults of polymorphic
parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import Context, Path, castable, function_typmod, length_function, pathway
from pgrepl.expr.analyse.kinds import BoundText, TypedParam, UnknownParam, not_read
from pgrepl.expr.analyse.polymorphic import consistent, resolve
from pgrepl.expr.analyse.scope import Scope, item_vars
from pgrepl.expr.tree import (
    ArrayCoerceExpr,
    CaseTestExpr,
    CoerceToDomain,
    CoerceViaIO,
    CollateExpr,
    Const,
    ConvertRowtypeExpr,
    Expr,
    FuncExpr,
    RelabelType,
    RowExpr,
    Var,
)
from pgrepl.expr.walk import location_of, returns_set
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types import builtin, oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_ANY_TARGETS = frozenset({oids.ANY, oids.ANYELEMENT, oids.ANYNONARRAY, oids.ANYCOMPATIBLE, oids.ANYCOMPATIBLENONARRAY})
_FORMS = (FuncExpr, RelabelType, CoerceViaIO, ArrayCoerceExpr, ConvertRowtypeExpr, RowExpr, CoerceToDomain)
IMPLICIT_CAST = CoercionForm.IMPLICIT_CAST


def can_coerce(
    sources: tuple[int, ...], targets: tuple[int, ...], context: Context, scope: Scope | None = None
) -> bool:
    """Whether arguments of these types fit parameters of those (can_coerce_type)."""
    generics = False
    of_18 = scope is None or scope.session.settings.release >= 18
    for source, target in zip(sources, targets, strict=True):
        if source != target and target in lookup.POLYMORPHIC and source != oids.INTERNAL:
            generics = True
            continue
        if castable(source, target, context) and (of_18 or not _is_later(source, target, context)):
            continue
        if scope is not None and lookup.row_inherits(scope.session, source, target):
            continue
        return False
    return not generics or consistent(sources, targets)


def _is_later(source: int, target: int, context: Context) -> bool:
    """Whether the cast is one that 18 has brought: of integers to bytea and back, written by a user."""
    if context is not Context.EXPLICIT or source == target:
        return False
    path, function = pathway(target, source, context)
    if path == Path.ARRAY:
        return _is_later(lookup.element(lookup.base(source)), lookup.element(lookup.base(target)), context)
    return function in builtin.LATER


def can_coerce_one(source: int, target: int, context: Context, scope: Scope | None = None) -> bool:
    return can_coerce((source,), (target,), context, scope)


def coerce_to_target(
    scope: Scope, expr: Expr, source: int, target: int, typmod: int, context: Context, form: CoercionForm, location: int
) -> Expr | None:
    """The expression cast to the type and its modifier; None when no cast exists (coerce_to_target_type)."""
    if not can_coerce_one(source, target, context, scope):
        return None
    original = expr
    while isinstance(expr, CollateExpr):
        assert expr.arg is not None
        expr = expr.arg
    result = coerce_type(scope, expr, source, target, typmod, context, form, location)
    hide = result is not expr and not isinstance(result, Const)
    result = _coerce_typmod(scope, result, target, typmod, context, form, location, hide)
    if expr is not original and lookup.is_collatable(target):
        assert isinstance(original, CollateExpr)
        result = _collated(result, original)
    return result


def _collated(expr: Expr, like: CollateExpr) -> CollateExpr:
    return CollateExpr(expr.type, typmod=expr.typmod, collation=like.collation, location=like.location, arg=expr)


def coerce_type(
    scope: Scope, expr: Expr, source: int, target: int, typmod: int, context: Context, form: CoercionForm, location: int
) -> Expr:
    """The cast expression; the caller has checked that the cast exists."""
    if target == source or target in _ANY_TARGETS:
        return expr
    if target in lookup.POLYMORPHIC and source != oids.UNKNOWN:
        base = lookup.base(source)
        return RelabelType(base, arg=expr, form=form, location=location) if base != source else expr
    if source == oids.UNKNOWN and isinstance(expr, Const):
        return _literal(scope, expr, target, typmod, context, form, location)
    if isinstance(expr, CollateExpr):
        assert expr.arg is not None
        inner = coerce_type(scope, expr.arg, source, target, typmod, context, form, location)
        return _collated(inner, expr) if lookup.is_collatable(target) else inner
    path, function = pathway(target, source, context)
    if path == Path.RELABEL:
        result = _to_domain(scope, expr, 0, -1, target, context, form, location, hide=False)
        if result is expr:
            return RelabelType(target, arg=expr, form=form, location=location)
        return result
    if path != Path.NONE:
        base, base_typmod = lookup.base_and_typmod(target, typmod)
        result = _cast_node(scope, expr, path, function, base, base_typmod, context, form, location)
        if base != target:
            result = _to_domain(scope, result, base, base_typmod, target, context, form, location, hide=True)
        return result
    if source == oids.RECORD and lookup.is_complex(target):
        return _record_to_complex(scope, expr, target, context, form, location)
    if target in (oids.RECORD, oids.RECORD_ARRAY):
        return expr
    return ConvertRowtypeExpr(target, arg=expr, form=form, location=location)


def _literal(
    scope: Scope, expr: Const, target: int, typmod: int, context: Context, form: CoercionForm, location: int
) -> Expr:
    """A literal of unknown type, read by the type's input function. An error points at the literal."""
    if isinstance(expr, UnknownParam):
        expr.settle(target)
        collation = lookup.collation(target)
        return TypedParam(target, collation=collation, location=expr.location, number=expr.number)
    base, base_typmod = lookup.base_and_typmod(target, typmod)
    input_typmod = base_typmod if base == oids.INTERVAL else -1
    value = expr.value
    if value is not None or base == oids.INTERNAL:  # whose input function refuses NULL, too
        try:
            value = lookup.read_value(scope.session, value or "", base, input_typmod)
        except PgError as error:
            raise (not_read(error, expr.number) if isinstance(expr, BoundText) else error.at(expr.location)) from None
    collation = lookup.collation(base)
    constant = Const(base, typmod=input_typmod, collation=collation, location=expr.location, value=value)
    if base != target:
        return _to_domain(scope, constant, base, base_typmod, target, context, form, location, hide=False)
    return constant


def _to_domain(
    scope: Scope,
    expr: Expr,
    base: int,
    base_typmod: int,
    target: int,
    context: Context,
    form: CoercionForm,
    location: int,
    *,
    hide: bool,
) -> Expr:
    """The value cast to the domain as coerce_to_domain does; unchanged when the target is no domain."""
    if not base:
        base, base_typmod = lookup.base_and_typmod(target, base_typmod)
    if base == target:
        return expr
    if hide:
        expr = _hidden(expr)
    expr = _coerce_typmod(scope, expr, base, base_typmod, context, IMPLICIT_CAST, location, hide=False)
    return CoerceToDomain(target, arg=expr, form=form, location=location)


def _hidden(expr: Expr) -> Expr:
    """Mark a cast as implicit, so that only the cast around it is printed (hide_coercion_node)."""
    assert isinstance(expr, _FORMS)
    return replace(expr, form=IMPLICIT_CAST)


def _coerce_typmod(
    scope: Scope, expr: Expr, target: int, typmod: int, context: Context, form: CoercionForm, location: int, hide: bool
) -> Expr:
    """Apply a type modifier (coerce_type_typmod)."""
    if typmod == expr.typmod:
        return expr
    if hide:
        expr = _hidden(expr)
    if typmod >= 0:
        path, function = length_function(target)
        if path != Path.NONE:
            return _cast_node(scope, expr, path, function, target, typmod, context, form, location)
    return _relabelled(expr, target, typmod, form, location)


def _relabelled(expr: Expr, target: int, typmod: int, form: CoercionForm, location: int) -> Expr:
    """A RelabelType as applyRelabelType makes it: never two on top of each other, and none over a constant."""
    collation = expr.collation
    while isinstance(expr, RelabelType):
        assert expr.arg is not None
        expr = expr.arg
    if isinstance(expr, Const):
        return replace(expr, type=target, typmod=typmod, collation=collation)
    if expr.type == target and expr.typmod == typmod and expr.collation == collation:
        return expr
    return RelabelType(target, typmod=typmod, collation=collation, arg=expr, form=form, location=location)


def _cast_node(
    scope: Scope,
    expr: Expr,
    path: str,
    function: int,
    target: int,
    typmod: int,
    context: Context,
    form: CoercionForm,
    location: int,
) -> Expr:
    """The node of a cast that was found (build_coercion_expression)."""
    if path == Path.FUNC:
        proc = builtin.proc_by_oid(function)
        assert proc is not None
        args: list[Expr] = [expr]
        if proc.nargs >= 2:
            args.append(Const(oids.INT4, value=typmod))
        if proc.nargs == 3:
            args.append(Const(oids.BOOL, value=context is Context.EXPLICIT))
        result_typmod = function_typmod(function, tuple(args), form)
        return FuncExpr(target, typmod=result_typmod, location=location, func=function, args=tuple(args), form=form)
    if path == Path.IO:
        return CoerceViaIO(target, arg=expr, form=form, location=location)
    base, base_typmod = lookup.base_and_typmod(expr.type, expr.typmod)
    element = CaseTestExpr(lookup.element(base), typmod=base_typmod)
    cast = coerce_to_target(scope, element, element.type, lookup.element(target), typmod, context, form, location)
    assert cast is not None
    return ArrayCoerceExpr(target, typmod=cast.typmod, arg=expr, elem=cast, form=form, location=location)


def _record_to_complex(
    scope: Scope, expr: Expr, target: int, context: Context, form: CoercionForm, location: int
) -> Expr:
    """ROW(…) or a whole row as a value of a named row type (coerce_record_to_complex)."""
    base, base_typmod = lookup.base_and_typmod(target, -1)
    if base != target:
        row = _record_to_complex(scope, expr, base, context, IMPLICIT_CAST, location)
        return _to_domain(scope, row, base, base_typmod, target, context, form, location, hide=False)
    text = f"cannot cast type {lookup.type_text(scope.session, oids.RECORD)} to "
    text += lookup.type_text(scope.session, target)
    args: list[Expr]
    if isinstance(expr, RowExpr):
        args = list(expr.args)
    elif isinstance(expr, Var) and expr.attnum == 0:
        item = scope.item(expr.varno, expr.levelsup)
        args = [var for _, var in item_vars(item, expr.levelsup, expr.location)]
    else:
        raise PgError("42846", text, location=coercion_location(location, expr))
    converted: list[Expr] = []
    number = 0
    for attribute in lookup.row_attributes(scope.session, target):
        if attribute.dropped:
            converted.append(Const(oids.INT4))
            continue
        if number >= len(args):
            detail = "Input has too few columns."
            raise PgError("42846", text, detail=detail, location=coercion_location(location, expr))
        arg = args[number]
        number += 1
        cast = coerce_to_target(scope, arg, arg.type, attribute.type, attribute.typmod, context, IMPLICIT_CAST, -1)
        if cast is None:
            detail = (
                f"Cannot cast type {lookup.type_text(scope.session, arg.type)} to "
                f"{lookup.type_text(scope.session, attribute.type)} in column {number}."
            )
            raise PgError("42846", text, detail=detail, location=coercion_location(location, arg))
        converted.append(cast)
    if number < len(args):
        detail = "Input has too many columns."
        raise PgError("42846", text, detail=detail, location=coercion_location(location, expr))
    return RowExpr(target, args=tuple(converted), form=form, location=location)


def coercion_location(location: int, expr: Expr) -> int:
    """Where a cast's error points: at the cast if it is written, else at the value (parser_coercion_errposition)."""
    return location if location >= 0 else location_of(expr)


def coerce_to_boolean(scope: Scope, expr: Expr, construct: str) -> Expr:
    return coerce_to_specific(scope, expr, oids.BOOL, construct)


def coerce_to_specific(scope: Scope, expr: Expr, target: int, construct: str) -> Expr:
    """The argument of a construct, cast to the type that the construct requires: `argument of WHERE must be type
    boolean, not type integer`."""
    if expr.type != target:
        cast = coerce_to_target(scope, expr, expr.type, target, -1, Context.ASSIGNMENT, IMPLICIT_CAST, -1)
        if cast is None:
            wanted = lookup.type_text(scope.session, target)
            given = lookup.type_text(scope.session, expr.type)
            message = f"argument of {construct} must be type {wanted}, not type {given}"
            raise PgError("42804", message, location=location_of(expr))
        expr = cast
    if returns_set(expr):
        raise PgError("42804", f"argument of {construct} must not return a set", location=location_of(expr))
    return expr


# --- common -----------------------------------------------------------------------------------------------------------


def common_type(scope: Scope, exprs: Sequence[Expr], construct: str) -> int:
    """The common type, or an error that names the construct."""
    common, problem = _common(scope, exprs)
    if problem is not None:
        best, expr = problem
        one, other = (lookup.type_text(scope.session, best), lookup.type_text(scope.session, lookup.base(expr.type)))
        message = f"{construct} types {one} and {other} cannot be matched"
        raise PgError("42804", message, location=location_of(expr))
    return common


def common_type_or_none(scope: Scope, exprs: Sequence[Expr]) -> int:
    """The common type; 0 when there is none."""
    return _common(scope, exprs)[0]


def common_type_and_expr(scope: Scope, exprs: Sequence[Expr], construct: str) -> tuple[int, Expr]:
    """The common type and the first expression that has it."""
    common = common_type(scope, exprs, construct)
    return common, next((e for e in exprs if lookup.base(e.type) == lookup.base(common)), exprs[0])


def _common(scope: Scope, exprs: Sequence[Expr]) -> tuple[int, tuple[int, Expr] | None]:
    best = exprs[0].type
    if best != oids.UNKNOWN and all(e.type == best for e in exprs):
        return best, None
    best = lookup.base(best)
    for expr in exprs[1:]:
        other = lookup.base(expr.type)
        if other in (oids.UNKNOWN, best):
            continue
        if best == oids.UNKNOWN:
            best = other
        elif lookup.category(other) != lookup.category(best):
            return 0, (best, expr)
        elif (
            not lookup.preferred(best)
            and can_coerce_one(best, other, Context.IMPLICIT, scope)
            and not can_coerce_one(other, best, Context.IMPLICIT, scope)
        ):
            best = other
    return (oids.TEXT if best == oids.UNKNOWN else best), None


def all_coercible(scope: Scope, exprs: Sequence[Expr], target: int) -> bool:
    """Whether all expressions can become a type implicitly (verify_common_type)."""
    return all(can_coerce_one(e.type, target, Context.IMPLICIT, scope) for e in exprs)


def coerce_to_common(scope: Scope, expr: Expr, target: int, construct: str) -> Expr:
    """An expression cast to the common type that was chosen (coerce_to_common_type)."""
    if expr.type == target:
        return expr
    if can_coerce_one(expr.type, target, Context.IMPLICIT, scope):
        return coerce_type(scope, expr, expr.type, target, -1, Context.IMPLICIT, IMPLICIT_CAST, -1)
    one, other = lookup.type_text(scope.session, expr.type), lookup.type_text(scope.session, target)
    raise PgError("42846", f"{construct} could not convert type {one} to {other}", location=location_of(expr))


def common_typmod(exprs: Sequence[Expr], common: int) -> int:
    """The type modifier that all expressions share, else -1 (select_common_typmod)."""
    typmods = {e.typmod for e in exprs}
    return typmods.pop() if len(typmods) == 1 and all(e.type == common for e in exprs) else -1


def with_default_types(
    session: Session, declared: Sequence[int], args: Sequence[Expr], filled: Collection[int]
) -> list[Expr]:
    """The arguments of all input parameters; those that defaults have filled are cast to the types that the polymorphic
    ones among them have here."""
    filled_args = list(args)
    if not any(declared[number] in lookup.POLYMORPHIC for number in filled):
        return filled_args
    types, _ = resolve(session, [arg.type for arg in args], declared, oids.VOID)
    scope = Scope(session)
    for number in filled:
        given, wanted = filled_args[number], types[number]
        cast = coerce_to_target(scope, given, given.type, wanted, -1, Context.IMPLICIT, IMPLICIT_CAST, -1)
        filled_args[number] = given if cast is None else cast
    return filled_args
