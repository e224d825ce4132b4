"""Overload resolution: which functions or operators of a name fit the arguments best (parse_func.c, parse_oper.c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pgrepl.catalog.facts.namespace import explicit_schema, is_user_operator, operator, operators_called, routine
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import Context, is_binary_coercible
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, can_coerce, coerce_type
from pgrepl.expr.analyse.kinds import ExprKind, set_refused
from pgrepl.expr.analyse.polymorphic import resolve
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.tree import Expr, NamedArg, OpExpr, ScalarArrayOpExpr
from pgrepl.expr.walk import location_of
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.builtin import Operator, Proc

MAX_ARGUMENTS = 100  # FUNC_MAX_ARGS


@frozen
class Candidate:
    """A function or operator that may be meant. oid 0: several have the same parameters, so that none can be chosen."""

    oid: int
    args: tuple[int, ...]  # as many as the call has arguments, or more: then defaults fill them
    variadic: int = 0  # arguments that the VARIADIC parameter takes
    defaults: int = 0
    schema: str = ""
    numbers: tuple[int, ...] | None = None  # the parameter each argument goes to, in a call with named arguments


def too_many_arguments(location: int) -> PgError:
    message = f"cannot pass more than {MAX_ARGUMENTS} arguments to a function"
    return PgError("54023", message, location=location)


def function_candidates(
    procs: Sequence[Proc], nargs: int, names: Sequence[str], *, expand_variadic: bool
) -> list[Candidate]:
    """The functions that a call with this number of arguments and these argument names can mean; `procs` in the order
    of the search path (FuncnameGetCandidates)."""
    candidates: list[Candidate] = []
    for proc in procs:
        candidate = _candidate(proc, nargs, names, expand_variadic)
        if candidate is None:
            continue
        own = candidate.args[: len(candidate.args) - candidate.defaults]
        same = next((c for c in candidates if c.args[: len(c.args) - c.defaults] == own), None)
        if same is not None:
            if candidate.schema != same.schema or (candidate.variadic and not same.variadic):
                continue
            candidates.remove(same)
            if bool(candidate.variadic) == bool(same.variadic):
                candidate = replace(same, oid=0)
        candidates.append(candidate)
    return candidates


def _candidate(proc: Proc, nargs: int, names: Sequence[str], expand_variadic: bool) -> Candidate | None:
    declared = proc.nargs
    if names and proc.variadic and expand_variadic:
        return None
    variadic = bool(proc.variadic) and expand_variadic and declared <= nargs
    defaults = max(declared - nargs, 0)
    if defaults > proc.ndefaults or (declared < nargs and not variadic):
        return None
    numbers = None
    args = list(proc.argtypes)
    if names:
        numbers = _numbers(proc, nargs, names)
        if numbers is None:
            return None
        args = [args[number] for number in numbers]
    taken = 0
    if variadic:
        taken = nargs - declared + 1
        args[declared - 1 :] = [proc.variadic] * taken
    return Candidate(proc.oid, tuple(args), taken, defaults, proc.schema, numbers)


def _numbers(proc: Proc, nargs: int, names: Sequence[str]) -> tuple[int, ...] | None:
    """The parameter number of each argument, then of each default (MatchNamedCall)."""
    if proc.argnames is None:
        return None
    inputs = [
        name
        for number, name in enumerate(proc.argnames)
        if proc.argmodes is None or proc.argmodes[number] in ("i", "b", "v")
    ]
    positional = nargs - len(names)
    numbers = list(range(positional))
    for name in names:
        if name not in inputs:
            return None
        number = inputs.index(name)
        if number in numbers:
            return None
        numbers.append(number)
    for number in range(positional, proc.nargs):
        if number not in numbers[:nargs]:
            if number < proc.nargs - proc.ndefaults:
                return None
            numbers.append(number)
    return tuple(numbers)


def coercible(scope: Scope, args: Sequence[int], candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates whose parameter types the arguments can be cast to implicitly (func_match_argtypes)."""
    given = tuple(args)
    return [c for c in candidates if can_coerce(given, c.args[: len(given)], Context.IMPLICIT, scope)]


def select(args: Sequence[int], candidates: Sequence[Candidate]) -> Candidate | None:
    """The best of several candidates; None: none is best (func_select_candidate)."""
    if len(args) > MAX_ARGUMENTS:
        raise too_many_arguments(-1)
    given = [oids.UNKNOWN if t == oids.UNKNOWN else lookup.base(t) for t in args]
    known = [i for i, t in enumerate(given) if t != oids.UNKNOWN]
    unknown = [i for i, t in enumerate(given) if t == oids.UNKNOWN]

    left = _most(candidates, lambda c: sum(c.args[i] == given[i] for i in known))
    if len(left) == 1:
        return left[0]
    categories = [lookup.category(t) for t in given]
    left = _most(
        left, lambda c: sum(c.args[i] == given[i] or lookup.is_preferred(categories[i], c.args[i]) for i in known)
    )
    if len(left) == 1:
        return left[0]
    if not unknown:
        return None

    slots = [_slot(left, i) for i in unknown]
    if all(slot is not None for slot in slots):
        kept = [c for c in left if all(_fits_slot(c.args[i], slot) for i, slot in zip(unknown, slots, strict=True))]
        left = kept or left
        if len(kept) == 1:
            return kept[0]

    types = {given[i] for i in known}
    if len(types) == 1:
        same = tuple(types) * len(given)
        fitting = [c for c in left if can_coerce(same, c.args[: len(same)], Context.IMPLICIT)]
        if len(fitting) == 1:
            return fitting[0]
    return None


def _most(candidates: Sequence[Candidate], matches: Callable[[Candidate], int]) -> list[Candidate]:
    counts = [matches(c) for c in candidates]
    best = max(counts)
    return [c for c, count in zip(candidates, counts, strict=True) if count == best]


def _slot(candidates: Sequence[Candidate], position: int) -> tuple[str, bool] | None:
    """The type category assumed for an argument of unknown type, and whether a candidate has that category's preferred
    type there. The string category wins over others; None: the candidates disagree otherwise."""
    category, has_preferred, conflict = "", False, False
    for candidate in candidates:
        typoid = candidate.args[position]
        own = lookup.category(typoid)
        if not category or (own != category and own == lookup.STRING_CATEGORY):
            category, has_preferred = own, lookup.preferred(typoid)
        elif own == category:
            has_preferred |= lookup.preferred(typoid)
        else:
            conflict = True
    return None if conflict and category != lookup.STRING_CATEGORY else (category, has_preferred)


def _fits_slot(typoid: int, slot: tuple[str, bool] | None) -> bool:
    assert slot is not None
    category, has_preferred = slot
    return lookup.category(typoid) == category and (lookup.preferred(typoid) or not has_preferred)


# --- operators --------------------------------------------------------------------------------------------------------


Name = tuple[str, ...]


def signature(scope: Scope, name: Name, left: int, right: int) -> str:
    """An operator with the types of its operands, for messages (op_signature_string)."""
    operand = f"{lookup.type_text(scope.session, left)} " if left else ""
    return f"{operand}{'.'.join(name)} {lookup.type_text(scope.session, right)}"


def operators_named(scope: Scope, name: Name, location: int = -1) -> list[Operator]:
    """The operators a name can mean, in the order of search_path."""
    schema, symbol = lookup.split_name(scope.session, name)
    namespace = 0 if schema is None else explicit_schema(scope.session, schema, location=location)
    return operators_called(scope.session, symbol, namespace)


def find_operator(scope: Scope, name: Name, left: int, right: int, location: int) -> Operator:
    """The operator for operands of these types (left 0: prefix); an error when there is none or no best one."""
    op, ambiguous = _find(scope, name, left, right, location)
    if op is not None:
        return op
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
    op = find_operator(scope, name, left, right, location)
    if is_binary_coercible(left, op.left) and is_binary_coercible(right, op.right):
        return op
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
    return (operator(scope.session, best.oid), False) if best is not None else (None, True)


def _exact(named: list[Operator], left: int, right: int) -> Operator | None:
    """As binary_oper_exact does: an unknown operand is taken to be of the other's type."""
    unknown = False
    if left == oids.UNKNOWN and right:
        left, unknown = right, True
    elif right == oids.UNKNOWN and left:
        right, unknown = left, True
    op = _of_types(named, left, right)
    if op is None and unknown:
        base = lookup.base(left)
        if base != left:
            op = _of_types(named, base, base)
    return op


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
            value.type, typmod=value.typmod, location=arg.location, arg=value, name=arg.name, argnumber=arg.argnumber
        )
    return coerce_type(scope, arg, given, wanted, -1, Context.IMPLICIT, IMPLICIT_CAST, -1)


def check_no_internal(result: int) -> None:
    """Nothing in SQL has a value of this type, and so none of its parameters is given one."""
    if result == oids.INTERNAL:
        raise PgError("0A000", "cannot accept a value of type internal")


def make_operator(scope: Scope, name: Name, left: Expr | None, right: Expr, location: int) -> OpExpr:
    """The node of an operator: chosen by types, operands cast (make_op)."""
    last_srf = scope.last_srf
    args = [right] if left is None else [left, right]
    actual = [arg.type for arg in args]
    op = find_operator(scope, name, left.type if left is not None else 0, right.type, location)
    parameters = [op.right] if left is None else [op.left, op.right]
    declared, result = resolve(scope.session, actual, parameters, op.result)
    args = coerce_arguments(scope, args, actual, declared)
    check_no_internal(result)
    proc = _function_of(scope, name, op, location)
    retset = proc.retset
    node = OpExpr(result, location=location, op=op.oid, args=tuple(args), retset=retset, **_of_user(op, proc))
    if retset:
        check_set_call(scope, last_srf, location)
        scope.last_srf = node
    return node


def _function_of(scope: Scope, name: Name, op: Operator, location: int) -> Proc:
    proc = routine(scope.session, op.code)
    if proc is None:
        text = signature(scope, name, op.left, op.right)
        raise PgError("42883", f"operator is only a shell: {text}", location=location)
    return proc


def _of_user(op: Operator, proc: Proc) -> dict[str, Any]:
    """What the node of a user's operator has beside its OID."""
    return {"func": proc.oid, "volatile": proc.volatile} if is_user_operator(op.oid) else {}


def check_set_call(scope: Scope, last_srf: Expr | None, location: int) -> None:
    """Raises where a set-returning function must not stand (check_srf_call_placement)."""
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
    element = oids.UNKNOWN if right.type == oids.UNKNOWN else lookup.base_element(right.type)
    if not element:
        raise PgError("42809", "op ANY/ALL (array) requires array on right side", location=location)
    op = find_operator(scope, name, left.type, element, location)
    declared, result = resolve(scope.session, [left.type, element], [op.left, op.right], op.result)
    if result != oids.BOOL:
        raise PgError("42809", "op ANY/ALL (array) requires operator to yield boolean", location=location)
    proc = _function_of(scope, name, op, location)
    if proc.retset:
        raise PgError("42809", "op ANY/ALL (array) requires operator not to return a set", location=location)
    if declared[1] in lookup.POLYMORPHIC:
        array = right.type
    else:
        array = lookup.array_over(declared[1])
        if not array:
            text = lookup.type_text(scope.session, declared[1])
            raise PgError("42704", f"could not find array type for data type {text}", location=location)
    args = coerce_arguments(scope, [left, right], [left.type, right.type], [declared[0], array])
    return ScalarArrayOpExpr(
        oids.BOOL, location=location, op=op.oid, use_or=use_or, args=tuple(args), **_of_user(op, proc)
    )
