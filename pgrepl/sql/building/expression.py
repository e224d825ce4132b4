"""Function calls, ordinary ones with all clauses and those with SQL syntax of their own; and operators: arithmetic,
comparison, AND and OR, pattern matching, IS tests, and operators spelled as words.
"""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Names, integer_constant, system_type_name
from pgrepl.sql.building.select import string
from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    AExpr,
    AExprKind,
    BoolExpr,
    BoolOp,
    CoercionForm,
    Expr,
    FuncCall,
    IsDocument,
    SelectStmt,
    SortBy,
    SubLink,
    SubLinkType,
    TypeCast,
    TypeName,
    WindowDef,
)

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


OP = AExprKind.OP


def system_call(
    name: str, args: tuple[Expr, ...], location: int, form: CoercionForm = CoercionForm.SQL_SYNTAX
) -> FuncCall:
    """A call of a pg_catalog function that special syntax stands for."""
    return FuncCall(("pg_catalog", name), args, form=form, location=location)


@build
def minus_sign(location: int, operand: Expr) -> Expr:
    """Unary minus; a numeric constant is negated in place (doNegate)."""
    if isinstance(operand, AConst):
        if operand.kind is AConstKind.INTEGER:
            assert isinstance(operand.value, int)
            return AConst(AConstKind.INTEGER, -operand.value, location)
        if operand.kind is AConstKind.FLOAT:
            text = str(operand.value)
            return AConst(AConstKind.FLOAT, text[1:] if text.startswith("-") else "-" + text, location)
        operand = replace(operand, location=location)
    return AExpr(OP, ("-",), None, operand, location)


def _flattened(op: BoolOp, left: Expr, right: Expr, location: int) -> BoolExpr:
    if isinstance(left, BoolExpr) and left.op is op:
        return BoolExpr(op, (*left.args, right), left.location)
    return BoolExpr(op, (left, right), location)


@build
def and_(location: int, left: Expr, right: Expr) -> BoolExpr:
    return _flattened(BoolOp.AND, left, right, location)


@build
def or_(location: int, left: Expr, right: Expr) -> BoolExpr:
    return _flattened(BoolOp.OR, left, right, location)


def not_(location: int, operand: Expr) -> BoolExpr:
    return BoolExpr(BoolOp.NOT, (operand,), location)


@build
def like(
    location: int, left: Expr, pattern: Expr, escape: Expr | None = None, *, kind: AExprKind, operator: str
) -> AExpr:
    """LIKE, ILIKE or SIMILAR TO: an operator, whose pattern goes through a function if there is an ESCAPE, and with
    SIMILAR TO always."""
    wrap = "similar_to_escape" if kind is AExprKind.SIMILAR else "like_escape"
    if escape is not None or kind is AExprKind.SIMILAR:
        args = (pattern,) if escape is None else (pattern, escape)
        pattern = system_call(wrap, args, location, CoercionForm.EXPLICIT_CALL)
    return AExpr(kind, (operator,), left, pattern, location)


@build
def in_(location: int, operand: Expr, values: SelectStmt | list[Expr]) -> Expr:
    if isinstance(values, SelectStmt):
        return SubLink(SubLinkType.ANY, operand, (), values, location)
    return AExpr(AExprKind.IN, ("=",), operand, tuple(values), location)


@build
def not_in(location: int, operand: Expr, values: SelectStmt | list[Expr]) -> Expr:
    if isinstance(values, SelectStmt):
        return not_(location, SubLink(SubLinkType.ANY, operand, (), values, location))
    return AExpr(AExprKind.IN, ("<>",), operand, tuple(values), location)


@build
def operator_subquery(location: int, left: Expr, operator: Names, quantifier: str, query: SelectStmt) -> SubLink:
    return SubLink(SubLinkType.ALL if quantifier == "all" else SubLinkType.ANY, left, operator, query, location)


@build
def operator_array(location: int, left: Expr, operator: Names, quantifier: str, array: Expr) -> AExpr:
    return AExpr(AExprKind.OP_ALL if quantifier == "all" else AExprKind.OP_ANY, operator, left, array, location)


@build
def unique_predicate(location: int, nulls: bool | None, query: SelectStmt) -> Expr:
    raise PgError("0A000", "UNIQUE predicate is not yet implemented", location=location)


@build
def overlaps(locations: tuple[int, int, int], left: list[Expr], right: list[Expr]) -> FuncCall:
    for side, row, location in (("left", left, locations[0]), ("right", right, locations[2])):
        if len(row) != 2:
            message = f"wrong number of parameters on {side} side of OVERLAPS expression"
            raise PgError("42601", message, location=location)
    return system_call("overlaps", (*left, *right), locations[1])


@build
def at_time_zone(location: int, operand: Expr, zone: Expr) -> FuncCall:
    return system_call("timezone", (zone, operand), location)


@build
def at_local(location: int, operand: Expr) -> FuncCall:
    return system_call("timezone", (operand,), -1)


@build
def is_normalized(location: int, operand: Expr) -> FuncCall:
    return system_call("is_normalized", (operand,), location)


@build
def is_normalized_form(locations: tuple[int, int], operand: Expr, form: str) -> FuncCall:
    return system_call("is_normalized", (operand, string(locations[1], form.upper())), locations[0])


@build
def is_not_normalized(location: int, operand: Expr) -> BoolExpr:
    return not_(location, is_normalized(location, operand))


@build
def is_not_normalized_form(locations: tuple[int, int], operand: Expr, form: str) -> BoolExpr:
    return not_(locations[0], is_normalized_form(locations, operand, form))


def is_document(location: int, operand: Expr) -> IsDocument:
    return IsDocument(operand, location)


@build
def is_not_document(location: int, operand: Expr) -> BoolExpr:
    return not_(location, is_document(location, operand))
