"""Calls: whether `name(…)` is a function, an aggregate, a window function, a cast, or a column of a row
(ParseFuncOrColumn and func_get_detail)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.namespace import (
    explicit_schema,
    is_temporary,
    is_user_routine,
    routine,
    routines_named,
    schema_name,
)
from pgrepl.expr.analyse import aggregates, lookup
from pgrepl.expr.analyse.casts import Context, Path, pathway, type_of_name_or_none
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, coerce_type, common_type, common_typmod
from pgrepl.expr.analyse.operators import (
    MAX_ARGUMENTS,
    Candidate,
    check_no_internal,
    check_set_call,
    coerce_arguments,
    coercible,
    function_candidates,
    select,
    too_many_arguments,
)
from pgrepl.expr.analyse.polymorphic import resolve
from pgrepl.expr.analyse.scope import Scope, column_of_item
from pgrepl.expr.analyse.targets import default_arguments, row_columns
from pgrepl.expr.tree import ArrayExpr, Const, Expr, FieldSelect, FuncExpr, NamedArg, Var, WindowFunc
from pgrepl.expr.walk import first_location, location_of
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql import nodes
from pgrepl.sql.nodes import CoercionForm, FuncCall
from pgrepl.types import builtin, oids
from pgrepl.types.builtin import Proc

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def signature(scope: Scope, name: Sequence[str], types: Sequence[int], names: Sequence[str] = ()) -> str:
    """A function with the types of its arguments, for messages (func_signature_string)."""
    texts = [lookup.type_text(scope.session, t) for t in types]
    first_named = len(texts) - len(names)
    texts[first_named:] = [f"{n} => {t}" for n, t in zip(names, texts[first_named:], strict=True)]
    return f"{'.'.join(name)}({', '.join(texts)})"


@frozen
class Meaning:
    """The resolution of a call: a function of any kind, or, when `proc` is None, a cast to the type `result`."""

    proc: Proc | None
    result: int
    args: tuple[int, ...]
    variadic: int = 0
    numbers: tuple[int, ...] | None = None


class Ambiguous(Exception):
    """Several functions fit the arguments equally well."""


def procs_named(scope: Scope, name: tuple[str, ...]) -> list[Proc]:
    """The functions a name can mean, of its schema or of those in the search path, in the path's order."""
    schema, bare = lookup.split_name(scope.session, name)
    if schema is not None:
        namespace = explicit_schema(scope.session, schema)
        schema = schema_name(scope.session, namespace)
        return [p for p in routines_named(scope.session, bare) if p.schema == schema]
    routines = routines_named(scope.session, bare)
    if all(p.schema == "pg_catalog" for p in routines):
        return routines
    place = {listed: number for number, listed in enumerate(lookup.search_schemas(scope.session))}
    return sorted(
        (p for p in routines if p.schema in place and not is_temporary(p.schema)), key=lambda p: place[p.schema]
    )


def is_visible(session: Session, proc: Proc) -> bool:
    """Whether the bare name finds the function: another of the same name and argument types may come earlier in
    search_path (FunctionIsVisible)."""
    same = (other for other in procs_named(Scope(session), (proc.name,)) if other.argtypes == proc.argtypes)
    first = next(same, None)
    return first is not None and first.oid == proc.oid


def find_function(
    scope: Scope, name: tuple[str, ...], args: Sequence[Expr], names: Sequence[str], *, expand_variadic: bool
) -> Meaning | None:
    """The function that a call means, as func_get_detail finds it; None: no function of that name takes these
    arguments."""
    return find_among(scope, procs_named(scope, name), name, args, names, expand_variadic=expand_variadic)


def find_among(
    scope: Scope,
    procs: Sequence[Proc],
    name: tuple[str, ...],
    args: Sequence[Expr],
    names: Sequence[str],
    *,
    expand_variadic: bool,
) -> Meaning | None:
    """The function among those of that name that fits the arguments."""
    types = tuple(arg.type for arg in args)
    nargs = len(types)
    candidates = function_candidates(procs, nargs, names, expand_variadic=expand_variadic)
    best = next((c for c in candidates if c.args[:nargs] == types), None)
    if best is None:
        if nargs == 1 and not names:
            cast = _as_cast(scope, name, args[0])
            if cast:
                return Meaning(None, cast, types)
        fitting = coercible(scope, types, candidates)
        if fitting:
            best = fitting[0] if len(fitting) == 1 else select(types, fitting)
            if best is None:
                raise Ambiguous
    return _meaning(scope, best, names, expand_variadic, nargs) if best is not None else None


def name_finds(
    session: Session, proc: Proc, types: Sequence[int], names: Sequence[str], *, expand_variadic: bool
) -> bool:
    """Whether the bare name, called with arguments of these types, means this function."""
    scope, given, nargs = Scope(session), tuple(types), len(types)
    candidates = function_candidates(procs_named(scope, (proc.name,)), nargs, names, expand_variadic=expand_variadic)
    best = next((c for c in candidates if c.args[:nargs] == given), None)
    if best is None:
        fitting = coercible(scope, given, candidates)
        best = fitting[0] if len(fitting) == 1 else select(given, fitting) if fitting else None
    return best is not None and best.oid == proc.oid


def _meaning(scope: Scope, best: Candidate, names: Sequence[str], expand_variadic: bool, nargs: int) -> Meaning | None:
    if not best.oid:
        raise Ambiguous
    if names and not expand_variadic and nargs and best.numbers is not None and best.numbers[nargs - 1] != nargs - 1:
        return None
    proc = routine(scope.session, best.oid)
    assert proc is not None
    return Meaning(proc, proc.rettype, best.args, best.variadic, best.numbers)


def _as_cast(scope: Scope, name: tuple[str, ...], arg: Expr) -> int:
    """The target type of a cast that is written as a call of one argument, `int4(x)`. 0: the call is no cast."""
    target = type_of_name_or_none(scope.session, nodes.TypeName(name))
    if target is None:
        return 0
    known = builtin.type_by_oid(target)
    if known is None or known.relid:
        return 0
    if arg.type == oids.UNKNOWN and isinstance(arg, Const):
        return target
    path, _ = pathway(target, arg.type, Context.EXPLICIT)
    if path == Path.RELABEL:
        return target
    if path == Path.IO and not (lookup.is_row(arg.type) and lookup.category(target) == lookup.STRING_CATEGORY):
        return target
    return 0


def project(scope: Scope, name: str, row: Expr, location: int) -> Expr | None:
    """A column of a row, as `(row).name` or `name(row)` (ParseComplexProjection)."""
    if isinstance(row, Var) and row.attnum == 0:
        return column_of_item(scope, scope.item(row.varno, row.levelsup), row.levelsup, name, location)
    columns = row_columns(scope, row)
    for number, column in enumerate(columns or (), 1):
        if column.name == name and not column.dropped:
            return FieldSelect(
                column.type, typmod=column.typmod, collation=column.collation, arg=row, fieldnum=number, name=name
            )
    return None


def column_or_function(scope: Scope, name: str, row: Expr, last_srf: Expr | None, location: int) -> Expr | None:
    """`row.name`: a column, or a function called with the row. None: neither exists."""
    if lookup.is_row(row.type):
        column = project(scope, name, row, location)
        if column is not None:
            return column
    try:
        meaning = find_function(scope, (name,), [row], (), expand_variadic=True)
    except Ambiguous:
        return None
    if meaning is None:
        return None
    call = FuncCall((name,), location=location)
    return _apply(scope, call, [row], (), None, last_srf, meaning)


def call_function(
    scope: Scope, call: FuncCall, args: list[Expr], agg_filter: Expr | None, last_srf: Expr | None
) -> Expr:
    """The node of a call whose arguments have been analysed."""
    location = call.location
    if len(args) > MAX_ARGUMENTS:
        raise too_many_arguments(location)
    names = argument_names(args)
    types = [arg.type for arg in args]
    try:
        meaning = find_function(scope, call.name, args, names, expand_variadic=not call.variadic)
    except Ambiguous:
        raise PgError(
            "42725",
            f"function {signature(scope, call.name, types, names)} is not unique",
            hint="Could not choose a best candidate function. You might need to add explicit type casts.",
            location=location,
        ) from None
    except PgError as error:
        raise error.at(location) from None
    if meaning is None:
        if _could_be_projection(call, args, names):
            column = project(scope, call.name[0], args[0], location)
            if column is not None:
                return column
        hint = "No function matches the given name and argument types. You might need to add explicit type casts."
        if len(call.agg_order) > 1 and not call.within_group:
            hint = (
                "No aggregate function matches the given name and argument types. Perhaps you misplaced ORDER BY; "
                "ORDER BY must appear after all regular arguments of the aggregate."
            )
        message = f"function {signature(scope, call.name, types, names)} does not exist"
        raise PgError("42883", message, hint=hint, location=location)
    return _apply(scope, call, args, names, agg_filter, last_srf, meaning)


def argument_names(args: list[Expr]) -> list[str]:
    names: list[str] = []
    for arg in args:
        if isinstance(arg, NamedArg):
            if arg.name in names:
                raise PgError("42601", f'argument name "{arg.name}" used more than once', location=arg.location)
            names.append(arg.name)
        elif names:
            raise PgError("42601", "positional argument cannot follow named argument", location=location_of(arg))
    return names


def _could_be_projection(call: FuncCall, args: list[Expr], names: Sequence[str]) -> bool:
    return (
        len(args) == 1
        and not (call.agg_order or call.agg_filter or call.star or call.distinct or call.over or call.variadic or names)
        and len(call.name) == 1
        and lookup.is_row(args[0].type)
    )


def _apply(
    scope: Scope,
    call: FuncCall,
    args: list[Expr],
    names: Sequence[str],
    agg_filter: Expr | None,
    last_srf: Expr | None,
    meaning: Meaning,
) -> Expr:
    location = call.location
    proc = meaning.proc
    types = [arg.type for arg in args]
    if proc is not None and proc.kind == "p":
        message = f"{signature(scope, call.name, types, names)} is a procedure"
        raise PgError("42809", message, hint="To call a procedure, use CALL.", location=location)
    if proc is None or proc.kind == "f":
        _check_plain(call)
    if proc is None:
        return coerce_type(
            scope, args[0], types[0], meaning.result, -1, Context.EXPLICIT, CoercionForm.EXPLICIT_CALL, location
        )
    declared = list(meaning.args)
    if proc.kind == "a":
        args, types, declared = _check_aggregate(scope, call, proc, meaning, args, types, declared, names)
    elif proc.kind == "w":
        _check_window(call)

    args, result = coerced_arguments(scope, call, proc, replace(meaning, args=tuple(declared)), args)
    variadic = bool(proc.variadic) and (call.variadic or (meaning.variadic > 0 and proc.variadic != oids.ANY))
    if args and proc.variadic == oids.ANY and variadic and not lookup.base_element(types[-1]):
        raise PgError("42804", "VARIADIC argument must be an array", location=location_of(args[-1]))
    if proc.retset:
        check_set_call(scope, last_srf, location)

    if proc.kind == "f":
        node: Expr = FuncExpr(
            result,
            location=location,
            func=proc.oid,
            args=tuple(args),
            retset=proc.retset,
            variadic=variadic,
            form=call.form,
            volatile=proc.volatile if is_user_routine(proc.oid) else "",
        )
    elif proc.kind == "a" and call.over is None:
        node = aggregates.make_aggregate(scope, call, proc, result, args, agg_filter, variadic, bool(names))
    else:
        node = _window_function(scope, call, proc, result, args, agg_filter, last_srf)
    if proc.retset:
        scope.last_srf = node
    return node


def coerced_arguments(
    scope: Scope, call: FuncCall, proc: Proc, meaning: Meaning, args: list[Expr]
) -> tuple[list[Expr], int]:
    """The arguments cast to the types of the parameters, those of a VARIADIC parameter as one array; and the type of
    the result."""
    types = [arg.type for arg in args]
    default_types = _default_types(scope, proc, meaning, len(args))
    declared, result = resolve(scope.session, [*types, *default_types], meaning.args, proc.rettype)
    if meaning.numbers is not None:
        args = [
            replace(arg, argnumber=number) if isinstance(arg, NamedArg) else arg
            for arg, number in zip(args, meaning.numbers, strict=False)
        ]
    args = coerce_arguments(scope, args, types, declared)
    check_no_internal(result)
    if meaning.variadic and proc.variadic != oids.ANY:
        args = _gathered(scope, args, meaning.variadic)
    return args, result


def _dotted(call: FuncCall) -> str:
    return ".".join(call.name)


def _check_plain(call: FuncCall) -> None:
    name = _dotted(call)
    problem = None
    if call.star:
        problem = f"{name}(*) specified, but {name} is not an aggregate function"
    elif call.distinct:
        problem = f"DISTINCT specified, but {name} is not an aggregate function"
    elif call.within_group:
        problem = f"WITHIN GROUP specified, but {name} is not an aggregate function"
    elif call.agg_order:
        problem = f"ORDER BY specified, but {name} is not an aggregate function"
    elif call.agg_filter is not None:
        problem = f"FILTER specified, but {name} is not an aggregate function"
    elif call.over is not None:
        problem = f"OVER specified, but {name} is not a window function nor an aggregate function"
    if problem is not None:
        raise PgError("42809", problem, location=call.location)


def _check_window(call: FuncCall) -> None:
    if call.over is None:
        raise PgError("42809", f"window function {_dotted(call)} requires an OVER clause", location=call.location)
    if call.within_group:
        raise PgError("42809", f"window function {_dotted(call)} cannot have WITHIN GROUP", location=call.location)


def _check_aggregate(
    scope: Scope,
    call: FuncCall,
    proc: Proc,
    meaning: Meaning,
    args: list[Expr],
    types: list[int],
    declared: list[int],
    names: Sequence[str],
) -> tuple[list[Expr], list[int], list[int]]:
    """Check WITHIN GROUP: only ordered-set aggregates have it, and both argument lists must match the function."""
    name, location = _dotted(call), call.location
    aggregate = builtin.aggregate_by_oid(proc.oid)
    assert aggregate is not None
    if aggregate.kind == "n":
        if call.within_group:
            message = f"{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"
            raise PgError("42809", message, location=location)
        return args, types, declared
    if not call.within_group:
        message = f"WITHIN GROUP is required for ordered-set aggregate {name}"
        raise PgError("42809", message, location=location)
    if call.over is not None:
        raise PgError("0A000", f"OVER is not supported for ordered-set aggregate {name}", location=location)
    sorted_args = len(call.agg_order)
    direct, wanted = len(args) - sorted_args, aggregate.numdirectargs
    plural = "" if wanted == 1 else "s"
    hint = None
    if not proc.variadic or wanted < proc.nargs:
        if direct != wanted:
            hint = (
                f"There is an ordered-set aggregate {name}, but it requires {wanted} direct argument{plural}, "
                f"not {direct}."
            )
    elif aggregate.kind == "h":
        if meaning.variadic != 2 * sorted_args:
            hint = (
                f"To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments "
                f"(here {meaning.variadic - sorted_args}) must match the number of ordering columns "
                f"(here {sorted_args})."
            )
    elif meaning.variadic <= sorted_args:
        hint = f"There is an ordered-set aggregate {name}, but it requires at least {wanted} direct argument{plural}."
    if hint is not None:
        message = f"function {signature(scope, call.name, types, names)} does not exist"
        raise PgError("42883", message, hint=hint, location=location)
    if aggregate.kind == "h":
        args, types = _unified(scope, args, types, declared, sorted_args)
    return args, types, declared


def _unified(
    scope: Scope, args: list[Expr], types: list[int], declared: list[int], sorted_args: int
) -> tuple[list[Expr], list[int]]:
    """Each hypothetical argument and its ordering column get one type (unify_hypothetical_args)."""
    args, types = list(args), list(types)
    direct = len(args) - sorted_args
    first = direct - sorted_args
    for hypothetical in range(first, direct):
        column = direct + hypothetical - first
        if declared[hypothetical] != oids.ANY:
            continue
        pair = [args[column], args[hypothetical]]
        common = common_type(scope, pair, "WITHIN GROUP")
        typmod = common_typmod(pair, common)
        for place in (hypothetical, column):
            args[place] = coerce_type(
                scope, args[place], types[place], common, typmod, Context.IMPLICIT, IMPLICIT_CAST, -1
            )
            types[place] = common
    return args, types


def _default_types(scope: Scope, proc: Proc, meaning: Meaning, nargs: int) -> list[int]:
    """The types of the parameters that are filled by defaults. In built-in functions a default always has its
    parameter's type."""
    declared = meaning.args[nargs:]
    if not is_user_routine(proc.oid) or not declared:
        return list(declared)
    defaults = default_arguments(scope.session, proc.oid)
    first = proc.nargs - len(defaults)
    numbers = range(nargs, proc.nargs) if meaning.numbers is None else meaning.numbers[nargs:]
    return [defaults[number - first].type for number in numbers]


def _gathered(scope: Scope, args: list[Expr], count: int) -> list[Expr]:
    """Collect the arguments of a VARIADIC parameter into one array."""
    first = len(args) - count
    elements = args[first:]
    element = elements[0].type
    array = lookup.array_over(element)
    location = first_location(elements)
    if not array:
        text = lookup.type_text(scope.session, element)
        raise PgError("42704", f"could not find array type for data type {text}", location=location)
    return [*args[:first], ArrayExpr(array, location=location, element_type=element, elements=tuple(elements))]


def _window_function(
    scope: Scope,
    call: FuncCall,
    proc: Proc,
    result: int,
    args: list[Expr],
    agg_filter: Expr | None,
    last_srf: Expr | None,
) -> Expr:
    location = call.location
    is_aggregate = proc.kind == "a"
    problem = None
    if call.distinct:
        problem = "DISTINCT is not implemented for window functions"
    elif is_aggregate and len(args) >= MAX_ARGUMENTS:
        raise PgError("54023", f"aggregates cannot have more than {MAX_ARGUMENTS - 1} arguments", location=location)
    elif is_aggregate and not args and not call.star:
        message = f"{_dotted(call)}(*) must be used to call a parameterless aggregate function"
        raise PgError("42809", message, location=location)
    elif call.agg_order:
        problem = "aggregate ORDER BY is not implemented for window functions"
    elif not is_aggregate and agg_filter is not None:
        problem = "FILTER is not implemented for non-aggregate window functions"
    if problem is not None:
        raise PgError("0A000", problem, location=location)
    if scope.last_srf is not last_srf:
        raise PgError(
            "0A000",
            "window function calls cannot contain set-returning function calls",
            hint="You might be able to move the set-returning function into a LATERAL FROM item.",
            location=location_of(scope.last_srf),
        )
    node = WindowFunc(
        result,
        location=location,
        func=proc.oid,
        args=tuple(args),
        filter=agg_filter,
        star=call.star,
        is_aggregate=is_aggregate,
    )
    assert call.over is not None
    return aggregates.place_window_function(scope, node, call.over)
