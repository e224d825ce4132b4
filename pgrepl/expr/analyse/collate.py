"""The collation of each part of an expression, and the one that its operators use (parse_collate.c).

A collation comes from a column or a type (implicit) or from a COLLATE clause (explicit), and an expression takes over
that of its arguments. Two different explicit collations are an error; two different implicit ones are a conflict, which
is an error only where a collation is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import collation_name
from pgrepl.expr.walk import location_of, map_children
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import replace
from pgrepl.types import builtin, oids


class Strength(IntEnum):
    NONE = 0
    IMPLICIT = 1
    CONFLICT = 2
    EXPLICIT = 3


@dataclass(slots=True)
class State:
    """The collation derived for a subtree; after a conflict also the second collation."""

    collation: int = 0
    strength: Strength = Strength.NONE
    location: int = -1
    other: int = 0
    other_location: int = -1

    def merge(self, collation: int, strength: Strength, location: int, inner: State) -> None:
        """Takes over the collation of a part, or notes a conflict (merge_collation_state)."""
        if strength > self.strength:
            self.collation, self.strength, self.location = collation, strength, location
            if strength is Strength.CONFLICT:
                self.other, self.other_location = inner.other, inner.other_location
        elif strength is self.strength is Strength.IMPLICIT and collation != self.collation:
            if self.collation == oids.DEFAULT_COLLATION:
                self.collation, self.location = collation, location
            elif collation != oids.DEFAULT_COLLATION:
                self.strength, self.other, self.other_location = Strength.CONFLICT, collation, location
        elif strength is self.strength is Strength.EXPLICIT and collation != self.collation:
            one, two = collation_name(self.collation), collation_name(collation)
            message = f'collation mismatch between explicit collations "{one}" and "{two}"'
            raise PgError("42P21", message, location=location)


def assign_collations(expr: tree.Expr) -> tree.Expr:
    """The expression with collations assigned to all its nodes (assign_expr_collations)."""
    return _assign(expr, State())


def assign_target_collations(expr: tree.Expr, *, is_key: bool) -> tree.Expr:
    """The expression of a target list entry with collations assigned. A sort or group key must have no conflict."""
    state = State()
    expr = _assign(expr, state)
    if is_key and state.strength is Strength.CONFLICT:
        raise _implicit_mismatch(state)
    return expr


def common_collation(exprs: tuple[tree.Expr, ...], *, none_ok: bool) -> int:
    """The common collation of expressions that already have theirs (select_common_collation)."""
    state = State()
    for expr in exprs:
        _assign(expr, state)
    if state.strength is not Strength.CONFLICT:
        return state.collation
    if none_ok:
        return 0
    raise _implicit_mismatch(state)


def _implicit_mismatch(state: State) -> PgError:
    one, two = collation_name(state.collation), collation_name(state.other)
    return PgError(
        "42P21",
        f'collation mismatch between implicit collations "{one}" and "{two}"',
        hint="You can choose the collation by applying the COLLATE clause to one or both expressions.",
        location=state.other_location,
    )


_LEAVES = (tree.Var, tree.Const, tree.Param, tree.Variable, tree.CaseTestExpr, tree.SetToDefault)


def _assign(expr: tree.Expr, outer: State) -> tree.Expr:
    """Assign an expression's collation and merge it into its parent's state (assign_collations_walker)."""
    inner = State()
    if isinstance(expr, _LEAVES):
        strength = Strength.IMPLICIT if expr.collation else Strength.NONE
        outer.merge(expr.collation, strength, expr.location, inner)
        return expr
    if isinstance(expr, tree.RowExpr):
        return replace(expr, args=tuple(assign_collations(arg) for arg in expr.args))
    if isinstance(expr, tree.RowCompareExpr):
        return _row_compare(expr)
    if isinstance(expr, tree.CollateExpr):
        expr = map_children(expr, lambda child: _assign(child, inner))
        outer.merge(expr.collation, Strength.EXPLICIT, expr.location, inner)  # type: ignore[attr-defined]
        return expr
    if isinstance(expr, tree.FieldSelect):
        expr = map_children(expr, lambda child: _assign(child, inner))
        if expr.collation:
            outer.merge(expr.collation, Strength.IMPLICIT, location_of(expr), inner)
        return expr
    expr = _inside(expr, inner)
    own = lookup.collation(expr.type)
    if isinstance(expr, tree.CoerceToDomain) and own and own != oids.DEFAULT_COLLATION:
        collation, strength, location = own, Strength.IMPLICIT, location_of(expr)
    elif isinstance(expr, tree.CoerceToDomain) and own:
        collation, strength, location = inner.collation, inner.strength, inner.location
    elif not own:
        collation, strength, location = 0, Strength.NONE, -1
    elif inner.strength > Strength.NONE:
        collation, strength, location = inner.collation, inner.strength, inner.location
    else:
        collation, strength, location = own, Strength.IMPLICIT, location_of(expr)
    changes: dict[str, Any] = {"collation": 0 if strength is Strength.CONFLICT else collation}
    if _has_input_collation(type(expr)):
        changes["input_collation"] = 0 if inner.strength is Strength.CONFLICT else inner.collation
    if isinstance(expr, tree.SubLink):
        changes = {}
    outer.merge(collation, strength, location, inner)
    return replace(expr, **changes) if changes else expr


_input: dict[type, bool] = {}


def _has_input_collation(kind: type) -> bool:
    known = _input.get(kind)
    if known is None:
        known = _input[kind] = any(f.name == "input_collation" for f in fields(kind))
    return known


def _row_compare(expr: tree.RowCompareExpr) -> tree.Expr:
    left = tuple(assign_collations(arg) for arg in expr.left)
    right = tuple(assign_collations(arg) for arg in expr.right)
    for pair in zip(left, right, strict=True):
        common_collation(pair, none_ok=True)  # raises where explicit collations differ
    return replace(expr, left=left, right=right)


def _inside(expr: tree.Expr, inner: State) -> tree.Expr:
    """Assign collations below a node; only the parts that yield its value contribute to its own collation."""
    if isinstance(expr, tree.CaseExpr):
        arg = assign_collations(expr.arg) if expr.arg is not None else None
        whens = tuple((_assign(condition, inner), _assign(result, inner)) for condition, result in expr.whens)
        default = _assign(expr.default, inner) if expr.default is not None else None
        return replace(expr, arg=arg, whens=whens, default=default)
    if isinstance(expr, tree.SubscriptingRef):
        upper = tuple(assign_collations(e) if e is not None else None for e in expr.upper)
        lower = tuple(assign_collations(e) if e is not None else None for e in expr.lower)
        container = _assign(expr.container, inner) if expr.container is not None else None
        return replace(expr, upper=upper, lower=lower, container=container)
    if isinstance(expr, tree.WindowFunc):
        args = tuple(_assign(arg, inner) for arg in expr.args)
        condition = assign_collations(expr.filter) if expr.filter is not None else None
        return replace(expr, args=args, filter=condition)
    if isinstance(expr, tree.Aggref):
        return _aggregate(expr, inner)
    if isinstance(expr, tree.SubLink):
        return _sublink(expr, inner)
    return map_children(expr, lambda child: _assign(child, inner))


def _sublink(expr: tree.SubLink, inner: State) -> tree.Expr:
    if expr.test is not None:
        expr = replace(expr, test=_assign(expr.test, inner))
    if expr.query is not None and expr.query.columns:
        column = expr.query.targets[0].expr
        inner.merge(column.collation, Strength.IMPLICIT, location_of(column), State())
    return expr


def _aggregate(expr: tree.Aggref, inner: State) -> tree.Expr:
    """Give the arguments of an aggregate their collations. Those that an ordered-set aggregate sorts count for its own
    only if there is one of them (assign_aggregate_collations, assign_ordered_set_collations,
    assign_hypothetical_collations)."""
    condition = assign_collations(expr.filter) if expr.filter is not None else None
    if expr.kind == "n":
        args = tuple(_assign(arg, inner) for arg in expr.args)
        return _with_order(replace(expr, args=args, filter=condition), expr.args)
    proc = builtin.proc_by_oid(expr.func)
    merge_sorted = len(expr.args) == 1 and proc is not None and not proc.variadic
    if expr.kind == "o":
        direct = tuple(_assign(arg, inner) for arg in expr.direct_args)
        args = tuple(_assign(arg, inner) if merge_sorted else assign_collations(arg) for arg in expr.args)
        return _with_order(replace(expr, direct_args=direct, args=args, filter=condition), expr.args)
    extra = len(expr.direct_args) - len(expr.args)
    direct_list = [_assign(arg, inner) for arg in expr.direct_args[:extra]]
    sorted_list: list[tree.Expr] = []
    for hypothetical, column in zip(expr.direct_args[extra:], expr.args, strict=True):
        pair = State()
        direct_list.append(_assign(hypothetical, pair))
        settled = _assign(column, pair)
        if pair.strength is Strength.CONFLICT:
            raise _implicit_mismatch(pair)
        if pair.collation and pair.collation != settled.collation:
            settled = tree.RelabelType(settled.type, typmod=settled.typmod, collation=pair.collation, arg=settled)
        sorted_list.append(settled)
        if merge_sorted:
            inner.merge(pair.collation, pair.strength, pair.location, pair)
    settled_expr = replace(expr, direct_args=tuple(direct_list), args=tuple(sorted_list), filter=condition)
    return _with_order(settled_expr, expr.args)


def _with_order(expr: tree.Aggref, before: tuple[tree.Expr, ...]) -> tree.Aggref:
    """Assign the collations of ORDER BY keys: with the arguments where a key is one, else on its own."""
    order = tuple(
        replace(key, expr=expr.args[before.index(key.expr)] if key.expr in before else assign_collations(key.expr))
        for key in expr.order
    )
    return replace(expr, order=order)
