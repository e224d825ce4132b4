"""The look-up of operators by symbol and operand types, and the nodes that they become (parse_oper.c)."""

from __future__ import annotations

from typing import Any

from pgrepl.catalog import operators
from pgrepl.catalog.namespace import explicit_schema
from pgrepl.catalog.routines import routine
from pgrepl.errors import PgError
from pgrepl.expr import lookup, typefacts
from pgrepl.expr.candidates import Candidate, coercible, select
from pgrepl.expr.casts import Context, is_binary_coercible
from pgrepl.expr.coerce import IMPLICIT_CAST, coerce_type
from pgrepl.expr.kinds import ExprKind, set_refused
from pgrepl.expr.polymorphic import resolve
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Expr, NamedArg, OpExpr, ScalarArrayOpExpr
from pgrepl.expr.walk import location_of
from pgrepl.types import oids
from pgrepl.types.builtin import Operator, Proc

Name = tuple[str, ...]


def signature(scope: Scope, name: Name, left: int, right: int) -> str:
    """As op_signature_string does."""
    operand = f"{typefacts.type_text(scope.session, left)} " if left else ""
    return f"{operand}{'.'.join(name)} {typefacts.type_text(scope.session, right)}"


def operators_named(scope: Scope, name: Name, location: int = -1) -> list[Operator]:
    """The operators a name can mean, in the order of search_path."""
    schema, symbol = lookup.split_name(scope.session, name)
    namespace = 0 if schema is None else explicit_schema(scope.session, schema, location=location)
    return operators.operators_named(scope.session, symbol, namespace)


def find_operator(scope: Scope, name: Name, left: int, right: int, location: int) -> Operator:
    """The operator for operands of these types (left 0: prefix); an error when there is none or no best one."""
    found, ambiguous = _find(scope, name, left, right, location)
    if found is not None:
        return found
    if ambiguous:
        raise PgError(
            "42725",
            f"operator is not unique: {signature(scope, name, left, right)}",
            hint="Could not choose a best candidate operator. You might need to add explicit type casts.",
            location=location,
        )
    hint = (
        "No operator matches the given name and argument types. You might need to add explicit type casts."
        if left and right
        else "No operator matches the given name and argument type. You might need to add an explicit type cast."
    )
    message = f"operator does not exist: {signature(scope, name, left, right)}"
    raise PgError("42883", message, hint=hint, location=location)


def find_operator_or_none(scope: Scope, name: Name, left: int, right: int) -> Operator | None:
    return _find(scope, name, left, right)[0]


def compatible_operator(scope: Scope, name: Name, left: int, right: int, location: int) -> Operator:
    """An operator that takes these operands as they are (compatible_oper)."""
    found = find_operator(scope, name, left, right, location)
    if is_binary_coercible(left, found.left) and is_binary_coercible(right, found.right):
        return found
    message = f"operator requires run-time type coercion: {signature(scope, name, left, right)}"
    raise PgError("42883", message, location=location)


def _find(scope: Scope, name: Name, left: int, right: int, location: int = -1) -> tuple[Operator | None, bool]:
    """The operator; or whether there were several equally good ones. Kept until a definition changes (OprCacheHash)."""
    session = scope.session
    key = ("found operator", name, left, right, session.settings.get("search_path"), session.role)
    known: tuple[Operator | None, bool] | None = session.derived.get(key)
    if known is None:
        known = session.derived[key] = _resolved(scope, name, left, right, location)
    return known


def _resolved(scope: Scope, name: Name, left: int, right: int, location: int) -> tuple[Operator | None, bool]:
    named = operators_named(scope, name, location)
    exact = _exact(named, left, right)
    if exact is not None:
        return exact, False
    args = (left, right) if left else (right,)
    kind = "b" if left else "l"
    candidates: dict[tuple[int, ...], Candidate] = {}  # the first of search_path hides others of its types
    for o in named:
        if o.kind == kind:
            types = (o.left, o.right) if left else (o.right,)
            candidates.setdefault(types, Candidate(o.oid, types))
    fitting = coercible(scope, args, list(candidates.values()))
    if not fitting:
        return None, False
    best = fitting[0] if len(fitting) == 1 else select(args, fitting)
    return (operators.operator(scope.session, best.oid), False) if best is not None else (None, True)


def _exact(named: list[Operator], left: int, right: int) -> Operator | None:
    """As binary_oper_exact does: an unknown operand is taken to be of the other's type."""
    unknown = False
    if left == oids.UNKNOWN and right:
        left, unknown = right, True
    elif right == oids.UNKNOWN and left:
        right, unknown = left, True
    found = _of_types(named, left, right)
    if found is None and unknown:
        base = typefacts.base(left)
        if base != left:
            found = _of_types(named, base, base)
    return found


def _of_types(named: list[Operator], left: int, right: int) -> Operator | None:
    return next((o for o in named if o.left == left and o.right == right), None)


def coerce_arguments(scope: Scope, args: list[Expr], actual: list[int], declared: list[int]) -> list[Expr]:
    """Implicit casts of arguments to what the function declares (make_fn_arguments)."""
    return [_argument(scope, arg, given, wanted) for arg, given, wanted in zip(args, actual, declared, strict=False)]


def _argument(scope: Scope, arg: Expr, given: int, wanted: int) -> Expr:
    if given == wanted:
        return arg
    if isinstance(arg, NamedArg):
        assert arg.arg is not None
        value = coerce_type(scope, arg.arg, given, wanted, -1, Context.IMPLICIT, IMPLICIT_CAST, -1)
        return NamedArg(
            value.type,
            typmod=value.typmod,
            location=arg.location,
            arg=value,
            name=arg.name,
            argnumber=arg.argnumber,
        )
    return coerce_type(scope, arg, given, wanted, -1, Context.IMPLICIT, IMPLICIT_CAST, -1)


def check_no_internal(result: int) -> None:
    """Nothing in SQL has a value of this type, and so none of its parameters is given one."""
    if result == oids.INTERNAL:
        raise PgError("0A000", "cannot accept a value of type internal")


def make_operator(scope: Scope, name: Name, left: Expr | None, right: Expr, location: int) -> OpExpr:
    """As make_op does."""
    last_srf = scope.last_srf
    args = [right] if left is None else [left, right]
    actual = [arg.type for arg in args]
    found = find_operator(scope, name, left.type if left is not None else 0, right.type, location)
    parameters = [found.right] if left is None else [found.left, found.right]
    declared, result = resolve(scope.session, actual, parameters, found.result)
    args = coerce_arguments(scope, args, actual, declared)
    check_no_internal(result)
    proc = _function_of(scope, name, found, location)
    retset = proc.retset
    node = OpExpr(result, location=location, op=found.oid, args=tuple(args), retset=retset, **_of_user(found, proc))
    if retset:
        check_set_call(scope, last_srf, location)
        scope.last_srf = node
    return node


def _function_of(scope: Scope, name: Name, found: Operator, location: int) -> Proc:
    proc = routine(scope.session, found.code)
    if proc is None:
        text = signature(scope, name, found.left, found.right)
        raise PgError("42883", f"operator is only a shell: {text}", location=location)
    return proc


def _of_user(found: Operator, proc: Proc) -> dict[str, Any]:
    """What the node of a user's operator has beside its OID."""
    return {"func": proc.oid, "volatile": proc.volatile} if operators.is_user_operator(found.oid) else {}


def check_set_call(scope: Scope, last_srf: Expr | None, location: int) -> None:
    """As check_srf_call_placement does."""
    if scope.kind is ExprKind.FROM_FUNCTION and scope.last_srf is not last_srf:
        message = "set-returning functions must appear at top level of FROM"
        raise PgError("0A000", message, location=location_of(scope.last_srf))
    problem = set_refused(scope.kind, location)
    if problem is not None:
        raise problem
    if scope.kind is not ExprKind.FROM_FUNCTION:
        scope.has_target_srfs = True


def make_array_operator(
    scope: Scope, name: Name, use_or: bool, left: Expr, right: Expr, location: int
) -> ScalarArrayOpExpr:
    """scalar op ANY / ALL (array): as make_scalar_array_op does."""
    element = oids.UNKNOWN if right.type == oids.UNKNOWN else typefacts.base_element(right.type)
    if not element:
        raise PgError("42809", "op ANY/ALL (array) requires array on right side", location=location)
    found = find_operator(scope, name, left.type, element, location)
    declared, result = resolve(scope.session, [left.type, element], [found.left, found.right], found.result)
    if result != oids.BOOL:
        raise PgError("42809", "op ANY/ALL (array) requires operator to yield boolean", location=location)
    proc = _function_of(scope, name, found, location)
    if proc.retset:
        raise PgError("42809", "op ANY/ALL (array) requires operator not to return a set", location=location)
    if declared[1] in typefacts.POLYMORPHIC:
        array = right.type
    else:
        array = typefacts.array_over(declared[1])
        if not array:
            text = typefacts.type_text(scope.session, declared[1])
            raise PgError("42704", f"could not find array type for data type {text}", location=location)
    args = coerce_arguments(scope, [left, right], [left.type, right.type], [declared[0], array])
    return ScalarArrayOpExpr(
        oids.BOOL, location=location, op=found.oid, use_or=use_or, args=tuple(args), **_of_user(found, proc)
    )
