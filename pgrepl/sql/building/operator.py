"""Operators: arithmetic, comparison, AND and OR, pattern matching, IS tests, and operators spelled as words."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.expression import string
from pgrepl.sql.building.names import Names
from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    AExpr,
    AExprKind,
    BooleanTest,
    BoolExpr,
    BoolOp,
    BoolTestType,
    CoercionForm,
    CollateClause,
    Expr,
    FuncCall,
    IsDocument,
    NullTest,
    NullTestType,
    SelectStmt,
    SetToDefault,
    SubLink,
    SubLinkType,
    TypeCast,
    TypeName,
)

OP = AExprKind.OP


def system_call(
    name: str, args: tuple[Expr, ...], location: int, form: CoercionForm = CoercionForm.SQL_SYNTAX
) -> FuncCall:
    """A call of a pg_catalog function that special syntax stands for."""
    return FuncCall(("pg_catalog", name), args, form=form, location=location)


def _binary(alias: str, operator: str) -> None:
    name = (operator,)

    @build(alias, at=2)
    def binary(location: int, left: Expr, right: Expr) -> AExpr:
        return AExpr(OP, name, left, right, location)


for _alias, _operator in {
    "plus": "+", "minus": "-", "times": "*", "divided": "/", "modulo": "%", "power": "^", "less": "<", "greater": ">",
    "equal": "=", "less_equal": "<=", "greater_equal": ">=", "not_equal": "<>",
}.items():  # fmt: skip
    _binary(_alias, _operator)


@build("plus_sign", "plus_sign_number")
def plus_sign(location: int, operand: Expr) -> AExpr:
    return AExpr(OP, ("+",), None, operand, location)


@build("minus_sign", "minus_sign_number")
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


@build(at=2)
def operator_between(location: int, left: Expr, operator: Names, right: Expr) -> AExpr:
    return AExpr(OP, operator, left, right, location)


@build
def operator_before(location: int, operator: Names, operand: Expr) -> AExpr:
    return AExpr(OP, operator, None, operand, location)


def _flattened(op: BoolOp, left: Expr, right: Expr, location: int) -> BoolExpr:
    if isinstance(left, BoolExpr) and left.op is op:
        return BoolExpr(op, (*left.args, right), left.location)
    return BoolExpr(op, (left, right), location)


@build("and", at=2)
def and_(location: int, left: Expr, right: Expr) -> BoolExpr:
    return _flattened(BoolOp.AND, left, right, location)


@build("or", at=2)
def or_(location: int, left: Expr, right: Expr) -> BoolExpr:
    return _flattened(BoolOp.OR, left, right, location)


@build("not", "not_look_ahead")
def not_(location: int, operand: Expr) -> BoolExpr:
    return BoolExpr(BoolOp.NOT, (operand,), location)


def _pattern_match(alias: str, kind: AExprKind, operator: str) -> None:
    """Register LIKE, ILIKE or SIMILAR TO: an operator, whose pattern goes through a function if there is an ESCAPE, and
    with SIMILAR TO always."""
    name = (operator,)
    wrap = "similar_to_escape" if kind is AExprKind.SIMILAR else "like_escape"

    @build(alias, f"{alias}_escape", at=2)
    def match(location: int, left: Expr, pattern: Expr, escape: Expr | None = None) -> AExpr:
        if escape is not None:
            pattern = system_call(wrap, (pattern, escape), location, CoercionForm.EXPLICIT_CALL)
        elif kind is AExprKind.SIMILAR:
            pattern = system_call(wrap, (pattern,), location, CoercionForm.EXPLICIT_CALL)
        return AExpr(kind, name, left, pattern, location)


for _alias, _kind, _operator in (
    ("like", AExprKind.LIKE, "~~"), ("not_like", AExprKind.LIKE, "!~~"),
    ("ilike", AExprKind.ILIKE, "~~*"), ("not_ilike", AExprKind.ILIKE, "!~~*"),
    ("similar", AExprKind.SIMILAR, "~"), ("not_similar", AExprKind.SIMILAR, "!~"),
):  # fmt: skip
    _pattern_match(_alias, _kind, _operator)


@build("is_null", "is_null_word", at=2)
def is_null(location: int, operand: Expr) -> NullTest:
    return NullTest(operand, NullTestType.IS_NULL, location)


@build("is_not_null", "is_not_null_word", at=2)
def is_not_null(location: int, operand: Expr) -> NullTest:
    return NullTest(operand, NullTestType.IS_NOT_NULL, location)


for _test in BoolTestType:
    build(_test.name.lower())(lambda location, test=_test: test)


@build(at=2)
def is_boolean(location: int, operand: Expr, test: BoolTestType) -> BooleanTest:
    return BooleanTest(operand, test, location)


@build(at=2)
def is_distinct(location: int, left: Expr, right: Expr) -> AExpr:
    return AExpr(AExprKind.DISTINCT, ("=",), left, right, location)


@build(at=2)
def is_not_distinct(location: int, left: Expr, right: Expr) -> AExpr:
    return AExpr(AExprKind.NOT_DISTINCT, ("=",), left, right, location)


def _between(alias: str, kind: AExprKind, name: str) -> None:
    @build(alias, at=2)
    def between(location: int, operand: Expr, *bounds: Expr) -> AExpr:
        return AExpr(kind, (name,), operand, bounds[-2:], location)


for _alias, _kind, _operator in (
    ("between", AExprKind.BETWEEN, "BETWEEN"), ("not_between", AExprKind.NOT_BETWEEN, "NOT BETWEEN"),
    ("between_symmetric", AExprKind.BETWEEN_SYM, "BETWEEN SYMMETRIC"),
    ("not_between_symmetric", AExprKind.NOT_BETWEEN_SYM, "NOT BETWEEN SYMMETRIC"),
):  # fmt: skip
    _between(_alias, _kind, _operator)


@build("in", at=2)
def in_(location: int, operand: Expr, values: SelectStmt | list[Expr]) -> Expr:
    if isinstance(values, SelectStmt):
        return SubLink(SubLinkType.ANY, operand, (), values, location)
    return AExpr(AExprKind.IN, ("=",), operand, tuple(values), location)


@build(at=2)
def not_in(location: int, operand: Expr, values: SelectStmt | list[Expr]) -> Expr:
    if isinstance(values, SelectStmt):
        return not_(location, SubLink(SubLinkType.ANY, operand, (), values, location))
    return AExpr(AExprKind.IN, ("<>",), operand, tuple(values), location)


for _alias, _operator in {
    "like_operator": "~~", "not_like_operator": "!~~", "ilike_operator": "~~*", "not_ilike_operator": "!~~*",
}.items():  # fmt: skip
    build(_alias)(lambda location, name=(_operator,): name)


@build(at=2)
def operator_subquery(location: int, left: Expr, operator: Names, quantifier: str, query: SelectStmt) -> SubLink:
    return SubLink(SubLinkType.ALL if quantifier == "all" else SubLinkType.ANY, left, operator, query, location)


@build(at=2)
def operator_array(location: int, left: Expr, operator: Names, quantifier: str, array: Expr) -> AExpr:
    return AExpr(AExprKind.OP_ALL if quantifier == "all" else AExprKind.OP_ANY, operator, left, array, location)


@build
def unique_predicate(location: int, nulls: bool | None, query: SelectStmt) -> Expr:
    raise PgError("0A000", "UNIQUE predicate is not yet implemented", location=location)


@build(at=(1, 2, 3))
def overlaps(locations: tuple[int, int, int], left: list[Expr], right: list[Expr]) -> FuncCall:
    for side, row, location in (("left", left, locations[0]), ("right", right, locations[2])):
        if len(row) != 2:
            message = f"wrong number of parameters on {side} side of OVERLAPS expression"
            raise PgError("42601", message, location=location)
    return system_call("overlaps", (*left, *right), locations[1])


@build(at=2)
def at_time_zone(location: int, operand: Expr, zone: Expr) -> FuncCall:
    return system_call("timezone", (zone, operand), location)


@build
def at_local(location: int, operand: Expr) -> FuncCall:
    return system_call("timezone", (operand,), -1)


@build(at=2)
def is_normalized(location: int, operand: Expr) -> FuncCall:
    return system_call("is_normalized", (operand,), location)


@build(at=(2, 3))
def is_normalized_form(locations: tuple[int, int], operand: Expr, form: str) -> FuncCall:
    return system_call("is_normalized", (operand, string(locations[1], form.upper())), locations[0])


@build(at=2)
def is_not_normalized(location: int, operand: Expr) -> BoolExpr:
    return not_(location, is_normalized(location, operand))


@build(at=(2, 4))
def is_not_normalized_form(locations: tuple[int, int], operand: Expr, form: str) -> BoolExpr:
    return not_(locations[0], is_normalized_form(locations, operand, form))


@build(at=2)
def is_document(location: int, operand: Expr) -> IsDocument:
    return IsDocument(operand, location)


@build(at=2)
def is_not_document(location: int, operand: Expr) -> BoolExpr:
    return not_(location, is_document(location, operand))


@build
def default(location: int) -> SetToDefault:
    return SetToDefault(location)


@build(at=2)
def cast(location: int, operand: Expr, type_name: TypeName) -> TypeCast:
    return TypeCast(operand, type_name, location)


@build(at=2)
def collate(location: int, operand: Expr, collation: Names) -> CollateClause:
    return CollateClause(operand, collation, location)
