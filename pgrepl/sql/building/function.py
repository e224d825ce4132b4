"""Function calls: ordinary ones with all clauses, and functions with SQL syntax of their own."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.expression import string
from pgrepl.sql.building.names import Names, integer_constant, system_type_name
from pgrepl.sql.building.operator import system_call
from pgrepl.sql.nodes import CoercionForm, Expr, FuncCall, SortBy, TypeCast, TypeName, WindowDef

# ------------------------------------------------------------------------------------------------ ordinary calls


@build
def call(location: int, name: Names, args: list[Expr] | None = None, order: list[SortBy] | None = None) -> FuncCall:
    return FuncCall(name, tuple(args or ()), tuple(order or ()), location=location)


@build
def call_last_variadic(
    location: int, name: Names, args: list[Expr], last: Expr, order: list[SortBy] | None
) -> FuncCall:
    return FuncCall(name, (*args, last), tuple(order or ()), variadic=True, location=location)


@build
def func_expr(
    location: int,
    function: FuncCall,
    within: tuple[int, list[SortBy]] | None,
    filter: Expr | None,
    over: WindowDef | None,
) -> FuncCall:
    if within is not None:
        at, order = within
        if function.agg_order:
            raise PgError("42601", "cannot use multiple ORDER BY clauses with WITHIN GROUP", location=at)
        if function.distinct:
            raise PgError("42601", "cannot use DISTINCT with WITHIN GROUP", location=at)
        if function.variadic:
            raise PgError("42601", "cannot use VARIADIC with WITHIN GROUP", location=at)
        function = replace(function, agg_order=tuple(order), within_group=True)
    if filter is None and over is None:
        return function
    return replace(function, agg_filter=filter, over=over)


# ------------------------------------------------------------------------------------------------ SQL's own functions


@build
def system_user(location: int) -> FuncCall:
    return system_call("system_user", (), location)


@build
def collation_for(location: int, operand: Expr) -> FuncCall:
    return system_call("pg_collation_for", (operand,), location)


@build
def extract(locations: tuple[int, int], field: str, source: Expr) -> FuncCall:
    return system_call("extract", (string(locations[1], field), source), locations[0])


@build
def normalize(location: int, operand: Expr) -> FuncCall:
    return system_call("normalize", (operand,), location)


@build
def normalize_form(locations: tuple[int, int], operand: Expr, form: str) -> FuncCall:
    return system_call("normalize", (operand, string(locations[1], form.upper())), locations[0])


@build
def overlay(location: int, operand: Expr, placing: Expr, start: Expr, length: Expr | None) -> FuncCall:
    args = (operand, placing, start)
    return system_call("overlay", args if length is None else (*args, length), location)


@build
def position(location: int, part: Expr, whole: Expr) -> FuncCall:
    return system_call("position", (whole, part), location)


@build
def substring(location: int, *args: Expr) -> FuncCall:
    return system_call("substring", args, location)


@build
def substring_for_from(location: int, operand: Expr, length: Expr, start: Expr) -> FuncCall:
    return system_call("substring", (operand, start, length), location)


@build
def substring_for(location: int, operand: Expr, length: Expr) -> FuncCall:
    """SUBSTRING(x FOR n). The cast to integer keeps substring(text, text) from being chosen."""
    return system_call(
        "substring", (operand, integer_constant(1), TypeCast(length, system_type_name("int4"))), location
    )


@build
def treat(location: int, operand: Expr, type_name: TypeName) -> FuncCall:
    return system_call(type_name.names[-1], (operand,), location, CoercionForm.EXPLICIT_CALL)


@build
def trim_from(location: int, characters: Expr, args: list[Expr]) -> list[Expr]:
    args.append(characters)
    return args
