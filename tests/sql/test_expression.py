"""The trees of expressions."""

from __future__ import annotations

import pytest

from pgrepl.sql.nodes import (
    AArrayExpr,
    AConst,
    AConstKind,
    AExpr,
    AExprKind,
    AIndices,
    AIndirection,
    AStar,
    BooleanTest,
    BoolExpr,
    BoolOp,
    BoolTestType,
    CaseExpr,
    CaseWhen,
    CoercionForm,
    CollateClause,
    ColumnRef,
    Expr,
    FuncCall,
    JsonIsPredicate,
    JsonObjectExpr,
    JsonPair,
    JsonValue,
    NamedArg,
    NullsOrder,
    NullTest,
    NullTestType,
    RowExpr,
    SortBy,
    SortDir,
    SQLValueFunction,
    SubLink,
    SubLinkType,
    TypeCast,
    TypeName,
    UnsupportedExpr,
    WindowDef,
    WindowFrame,
)
from pgrepl.sql.parser import parse_expression


def integer(value: int, location: int) -> AConst:
    return AConst(AConstKind.INTEGER, value, location)


def string(value: str, location: int) -> AConst:
    return AConst(AConstKind.STRING, value, location)


def column(name: str, location: int) -> ColumnRef:
    return ColumnRef((name,), location)


def system_type(name: str, location: int, *typmods: Expr) -> TypeName:
    return TypeName(("pg_catalog", name), typmods, location=location)


def operator(name: str, left: Expr | None, right: Expr, location: int) -> AExpr:
    return AExpr(AExprKind.OP, (name,), left, right, location)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("-5", integer(-5, 0)),
        ("- 1.5", AConst(AConstKind.FLOAT, "-1.5", 0)),
        ("- -5", integer(5, 0)),
        ("-'5'", operator("-", None, string("5", 0), 0)),
        ("b'01'", AConst(AConstKind.BITSTRING, "b01", 0)),
        ("NULL", AConst(AConstKind.NULL, None, 0)),
        ("true", AConst(AConstKind.BOOLEAN, True, 0)),
        ("a.b.*", ColumnRef(("a", "b", AStar()), 0)),
        ("a.b[1].c", AIndirection(ColumnRef(("a", "b"), 0), (AIndices(False, None, integer(1, 4)), "c"))),
        ("a[:2]", AIndirection(column("a", 0), (AIndices(True, None, integer(2, 3)),))),
        ("(a).b", AIndirection(column("a", 1), ("b",))),
        ("a AND b AND c", BoolExpr(BoolOp.AND, (column("a", 0), column("b", 6), column("c", 12)), 2)),
        ("a AND (b AND c)", BoolExpr(BoolOp.AND, (column("a", 0),
                                                  BoolExpr(BoolOp.AND, (column("b", 7), column("c", 13)), 9)), 2)),
        ("NOT a", BoolExpr(BoolOp.NOT, (column("a", 4),), 0)),
        ("a IS NOT NULL", NullTest(column("a", 0), NullTestType.IS_NOT_NULL, 2)),
        ("a IS NOT UNKNOWN", BooleanTest(column("a", 0), BoolTestType.IS_NOT_UNKNOWN, 2)),
        ("a IS DISTINCT FROM b", AExpr(AExprKind.DISTINCT, ("=",), column("a", 0), column("b", 19), 2)),
        ("a NOT BETWEEN 1 AND 2", AExpr(AExprKind.NOT_BETWEEN, ("NOT BETWEEN",), column("a", 0),
                                        (integer(1, 14), integer(2, 20)), 2)),
        ("a NOT IN (1, 2)", AExpr(AExprKind.IN, ("<>",), column("a", 0), (integer(1, 10), integer(2, 13)), 2)),
        ("a LIKE b", AExpr(AExprKind.LIKE, ("~~",), column("a", 0), column("b", 7), 2)),
        ("a NOT ILIKE b ESCAPE c", AExpr(AExprKind.ILIKE, ("!~~*",), column("a", 0), FuncCall(
            ("pg_catalog", "like_escape"), (column("b", 12), column("c", 21)), location=2), 2)),
        ("a SIMILAR TO b", AExpr(AExprKind.SIMILAR, ("~",), column("a", 0), FuncCall(
            ("pg_catalog", "similar_to_escape"), (column("b", 13),), location=2), 2)),
        ("a < SOME (b)", AExpr(AExprKind.OP_ANY, ("<",), column("a", 0), column("b", 10), 2)),
        ("a OPERATOR(s.=) ALL (b)", AExpr(AExprKind.OP_ALL, ("s", "="), column("a", 0), column("b", 21), 2)),
        ('a COLLATE s."C"', CollateClause(column("a", 0), ("s", "C"), 2)),
        ("a::varchar(5)[3]", TypeCast(column("a", 0), TypeName(("pg_catalog", "varchar"), (integer(5, 11),), (3,),
                                                               location=3), 1)),
        ("a::char", TypeCast(column("a", 0), system_type("bpchar", 3, integer(1, -1)), 1)),
        ("a::timestamp(3) with time zone", TypeCast(column("a", 0), system_type("timestamptz", 3, integer(3, 13)), 1)),
        ("interval '1' day to second(2)", TypeCast(string("1", 9), system_type(
            "interval", 0, integer(0x1C08, 13), integer(2, 27)))),
        ("date '2024-01-01'", TypeCast(string("2024-01-01", 5), TypeName(("date",), location=0))),
        ("char 'x'", TypeCast(string("x", 5), system_type("bpchar", 0))),
        ("CAST(a AS int)", TypeCast(column("a", 5), system_type("int4", 10), 0)),
        ("(a, 1)", RowExpr((column("a", 1), integer(1, 4)), False, 0)),
        ("ROW()", RowExpr((), True, 0)),
        ("ARRAY[[1], [2]]", AArrayExpr((AArrayExpr((integer(1, 7),), 6), AArrayExpr((integer(2, 12),), 11)), 0)),
        ("CASE a WHEN 1 THEN 2 END", CaseExpr(column("a", 5), (CaseWhen(integer(1, 12), integer(2, 19), 7),), None, 0)),
        ("f(1, b => 2)", FuncCall(("f",), (integer(1, 2), NamedArg("b", integer(2, 10), 5)), location=0)),
        ("count(DISTINCT a ORDER BY b DESC)", FuncCall(
            ("count",), (column("a", 15),), (SortBy(column("b", 26), SortDir.DESC, NullsOrder.DEFAULT),), distinct=True,
            location=0)),
        ("sum(a) FILTER (WHERE b) OVER w", FuncCall(
            ("sum",), (column("a", 4),), agg_filter=column("b", 21),
            over=WindowDef(None, "w", over_name=True, location=29), location=0)),
        ("f() OVER (ROWS 2 PRECEDING)", FuncCall(
            ("f",), location=0,
            over=WindowDef(None, None, frame=WindowFrame("ROWS", "PRECEDING", None, integer(2, 15)), location=9))),
        ("EXTRACT(YEAR FROM a)", FuncCall(("pg_catalog", "extract"), (string("year", 8), column("a", 18)),
                                          form=CoercionForm.SQL_SYNTAX, location=0)),
        ("a AT TIME ZONE b", FuncCall(("pg_catalog", "timezone"), (column("b", 15), column("a", 0)),
                                      form=CoercionForm.SQL_SYNTAX, location=2)),
        ("TRIM(LEADING 'x' FROM a)", FuncCall(("pg_catalog", "ltrim"), (column("a", 22), string("x", 13)),
                                              form=CoercionForm.SQL_SYNTAX, location=0)),
        ("CURRENT_TIME(3)", SQLValueFunction("current_time", 3, 0)),
        ("XMLCONCAT(a)", UnsupportedExpr("XMLCONCAT", (column("a", 10),), 0)),
        ("JSON_OBJECT('a': b)", JsonObjectExpr((JsonPair(string("a", 12), JsonValue(column("b", 17))),), location=0)),
        ("a IS JSON", JsonIsPredicate(column("a", 0), location=0)),
    ],
)  # fmt: skip
def test_tree(text: str, node: Expr) -> None:
    assert parse_expression(text) == node


def test_subqueries() -> None:
    node = parse_expression("a NOT IN (SELECT b)")
    assert isinstance(node, BoolExpr) and isinstance(node.args[0], SubLink)
    link = node.args[0]
    assert (node.op, link.kind, link.test, link.operator) == (BoolOp.NOT, SubLinkType.ANY, column("a", 0), ())
    quantified = parse_expression("a LIKE ALL (SELECT b)")
    assert isinstance(quantified, SubLink)
    assert (quantified.kind, quantified.operator, quantified.location) == (SubLinkType.ALL, ("~~",), 2)
