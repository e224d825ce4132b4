"""Function calls: ordinary ones with all clauses, and functions with SQL syntax of their own."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.expression import string
from pgrepl.sql.building.names import Names, integer_constant, system_type_name
from pgrepl.sql.building.operator import system_call
from pgrepl.sql.nodes import (
    AExpr,
    AExprKind,
    CoalesceExpr,
    CoercionForm,
    Expr,
    FuncCall,
    MergeSupportFunc,
    MinMaxExpr,
    NamedArg,
    SortBy,
    SQLValueFunction,
    TypeCast,
    TypeName,
    WindowDef,
)

# ------------------------------------------------------------------------------------------------ ordinary calls


@build
def named_arg(location: int, name: str, value: Expr) -> NamedArg:
    return NamedArg(name, value, location)


@build
def call(location: int, name: Names, args: list[Expr] | None = None, order: list[SortBy] | None = None) -> FuncCall:
    return FuncCall(name, tuple(args or ()), tuple(order or ()), location=location)


@build
def call_variadic(location: int, name: Names, last: Expr, order: list[SortBy] | None) -> FuncCall:
    return FuncCall(name, (last,), tuple(order or ()), variadic=True, location=location)


@build
def call_last_variadic(
    location: int, name: Names, args: list[Expr], last: Expr, order: list[SortBy] | None
) -> FuncCall:
    return FuncCall(name, (*args, last), tuple(order or ()), variadic=True, location=location)


@build
def call_distinct(location: int, name: Names, args: list[Expr], order: list[SortBy] | None) -> FuncCall:
    return FuncCall(name, tuple(args), tuple(order or ()), distinct=True, location=location)


@build
def call_star(location: int, name: Names) -> FuncCall:
    return FuncCall(name, star=True, location=location)


@build
def within_group(location: int, order: list[SortBy]) -> tuple[int, list[SortBy]]:
    return location, order


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


@build(at=2)
def over_name(location: int, name: str) -> WindowDef:
    return WindowDef(None, name, over_name=True, location=location)


# ------------------------------------------------------------------------------------------------ SQL's own functions


def _value_function(name: str) -> None:
    @build(name)
    def value_function(location: int, precision: int | None = None) -> SQLValueFunction:
        return SQLValueFunction(name, -1 if precision is None else precision, location)


for _name in (
    "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "current_role", "current_user",
    "session_user", "user", "current_catalog", "current_schema",
):  # fmt: skip
    _value_function(_name)


@build
def system_user(location: int) -> FuncCall:
    return system_call("system_user", (), location)


@build
def collation_for(location: int, operand: Expr) -> FuncCall:
    return system_call("pg_collation_for", (operand,), location)


@build
def cast_call(location: int, operand: Expr, type_name: TypeName) -> TypeCast:
    return TypeCast(operand, type_name, location)


@build(at=(1, 3))
def extract(locations: tuple[int, int], field: str, source: Expr) -> FuncCall:
    return system_call("extract", (string(locations[1], field), source), locations[0])


@build
def normalize(location: int, operand: Expr) -> FuncCall:
    return system_call("normalize", (operand,), location)


@build(at=(1, 5))
def normalize_form(locations: tuple[int, int], operand: Expr, form: str) -> FuncCall:
    return system_call("normalize", (operand, string(locations[1], form.upper())), locations[0])


@build
def overlay(location: int, operand: Expr, placing: Expr, start: Expr, length: Expr | None) -> FuncCall:
    args = (operand, placing, start)
    return system_call("overlay", args if length is None else (*args, length), location)


@build
def overlay_call(location: int, args: list[Expr] | None) -> FuncCall:
    return FuncCall(("overlay",), tuple(args or ()), location=location)


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
def substring_call(location: int, args: list[Expr] | None) -> FuncCall:
    return FuncCall(("substring",), tuple(args or ()), location=location)


@build
def treat(location: int, operand: Expr, type_name: TypeName) -> FuncCall:
    return system_call(type_name.names[-1], (operand,), location, CoercionForm.EXPLICIT_CALL)


@build
def trim_from(location: int, characters: Expr, args: list[Expr]) -> list[Expr]:
    args.append(characters)
    return args


def _trim(name: str) -> None:
    @build(name)
    def trim(location: int, args: list[Expr]) -> FuncCall:
        return system_call(name, tuple(args), location)


for _name in ("btrim", "ltrim", "rtrim"):
    _trim(_name)


@build
def nullif(location: int, left: Expr, right: Expr) -> AExpr:
    return AExpr(AExprKind.NULLIF, ("=",), left, right, location)


@build
def coalesce(location: int, args: list[Expr]) -> CoalesceExpr:
    return CoalesceExpr(tuple(args), location)


@build
def greatest(location: int, args: list[Expr]) -> MinMaxExpr:
    return MinMaxExpr(True, tuple(args), location)


@build
def least(location: int, args: list[Expr]) -> MinMaxExpr:
    return MinMaxExpr(False, tuple(args), location)


@build
def merge_action(location: int) -> MergeSupportFunc:
    return MergeSupportFunc(location)
