"""The trees of queries and of the statements that change rows."""

from __future__ import annotations

import pytest

from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    AExpr,
    AExprKind,
    Alias,
    AStar,
    ColumnRef,
    CommonTableExpr,
    CopyStmt,
    CTECycleClause,
    CTESearchClause,
    CurrentOf,
    DefElem,
    DeleteStmt,
    ExplainStmt,
    FloatText,
    FuncCall,
    GroupingKind,
    GroupingSet,
    IndexElem,
    InsertStmt,
    JoinExpr,
    JoinType,
    LockingClause,
    MergeStmt,
    MergeWhen,
    MultiAssign,
    OnConflictClause,
    RangeFunction,
    RangeSubselect,
    RangeTableSample,
    RangeVar,
    ResTarget,
    ReturningClause,
    RowExpr,
    SelectStmt,
    SetOp,
    SetToDefault,
    Statement,
    TruncateStmt,
    UnsupportedFromItem,
    UpdateStmt,
    VacuumStmt,
    WithClause,
)
from pgrepl.sql.parser import parse


def only(text: str) -> Statement:
    (raw,) = parse(text)
    return raw.stmt


def integer(value: int, location: int) -> AConst:
    return AConst(AConstKind.INTEGER, value, location)


def column(name: str, location: int) -> ColumnRef:
    return ColumnRef((name,), location)


def table(name: str, location: int) -> RangeVar:
    return RangeVar(name, location=location)


def select_one(location: int) -> SelectStmt:
    """SELECT 1"""
    return SelectStmt((ResTarget(integer(1, location + 7), location=location + 7),), location=location)


STAR = (ResTarget(ColumnRef((AStar(),), 7), location=7),)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("SELECT", SelectStmt(location=0)),
        ("SELECT a AS b, c d FROM t", SelectStmt(
            (ResTarget(column("a", 7), "b", location=7), ResTarget(column("c", 15), "d", location=15)),
            from_=(table("t", 24),), location=0)),
        ("SELECT DISTINCT ON (a) 1", SelectStmt(
            (ResTarget(integer(1, 23), location=23),), (column("a", 20),), location=0)),
        ("SELECT INTO TEMP x", SelectStmt(into=RangeVar("x", location=17, persistence="t"), location=0)),
        ("TABLE ONLY s.t", SelectStmt((ResTarget(ColumnRef((AStar(),))),),
                                      from_=(RangeVar("t", "s", inh=False, location=11),), location=0)),
        ("VALUES (1, DEFAULT), (2, 3)", SelectStmt(
            values=((integer(1, 8), SetToDefault(11)), (integer(2, 22), integer(3, 25))), location=0)),
        ("SELECT 1 UNION ALL SELECT 1 ORDER BY a", SelectStmt(
            op=SetOp.UNION, all=True, left=select_one(0), right=select_one(19),
            order_by=only("SELECT 1                    ORDER BY a").order_by, location=0)),  # type: ignore[attr-defined]
        ("SELECT 1 LIMIT ALL OFFSET 1", SelectStmt(
            (ResTarget(integer(1, 7), location=7),), limit=AConst(AConstKind.NULL, None, 15), offset=integer(1, 26),
            location=0)),
        ("SELECT 1 FETCH NEXT ROW ONLY", SelectStmt(
            (ResTarget(integer(1, 7), location=7),), limit=integer(1, -1), location=0)),
        ("SELECT 1 FOR NO KEY UPDATE OF t NOWAIT FOR SHARE", SelectStmt(
            (ResTarget(integer(1, 7), location=7),), location=0,
            locking=(LockingClause("NO KEY UPDATE", (table("t", 30),), "NOWAIT"), LockingClause("SHARE")))),
        ("SELECT 1 GROUP BY DISTINCT a, (), ROLLUP (b)", SelectStmt(
            (ResTarget(integer(1, 7), location=7),), location=0, group_distinct=True,
            group_by=(column("a", 27), GroupingSet(GroupingKind.EMPTY, (), 30),
                      GroupingSet(GroupingKind.ROLLUP, (column("b", 42),), 34)))),
        ("SELECT * FROM a x (y), LATERAL (SELECT 1) z", SelectStmt(STAR, location=0, from_=(
            RangeVar("a", alias=Alias("x", ("y",)), location=14), RangeSubselect(select_one(32), Alias("z"), True)))),
        ("SELECT * FROM a JOIN b USING (c) AS j", SelectStmt(STAR, location=0, from_=(JoinExpr(
            JoinType.INNER, False, table("a", 14), table("b", 21), ("c",), Alias("j")),))),
        ("SELECT * FROM a NATURAL LEFT JOIN b CROSS JOIN c", SelectStmt(STAR, location=0, from_=(JoinExpr(
            JoinType.CROSS, False, JoinExpr(JoinType.LEFT, True, table("a", 14), table("b", 34)), table("c", 47)),))),
        ("SELECT * FROM f() WITH ORDINALITY g", SelectStmt(STAR, location=0, from_=(RangeFunction(
            ((FuncCall(("f",), location=14), ()),), Alias("g"), ordinality=True),))),
        ("SELECT * FROM t TABLESAMPLE system (1)", SelectStmt(STAR, location=0, from_=(RangeTableSample(
            table("t", 14), ("system",), (integer(1, 36),), None, 28),))),
        ("SELECT * FROM XMLTABLE('a' PASSING b COLUMNS c int) x", SelectStmt(STAR, location=0, from_=(
            UnsupportedFromItem("XMLTABLE", (AConst(AConstKind.STRING, "a", 23), column("b", 35)), Alias("x"), 14),))),
        ("WITH RECURSIVE r (a) AS MATERIALIZED (SELECT 1) SEARCH DEPTH FIRST BY a SET o CYCLE a SET c USING p SELECT",
         SelectStmt(location=100, with_=WithClause((CommonTableExpr(
             "r", ("a",), select_one(38), True, CTESearchClause(("a",), False, "o", 48),
             CTECycleClause(("a",), "c", "p", location=78), 15),), True, 0))),
        ("INSERT INTO t AS x (a, b[1]) OVERRIDING USER VALUE SELECT 1 RETURNING a", InsertStmt(
            RangeVar("t", alias=Alias("x"), location=12),
            (ResTarget(None, "a", location=20), ResTarget(None, "b", only("SELECT a[                1]").targets[0].value.indirection, 23)),  # type: ignore[attr-defined]  # noqa: E501
            select_one(51), "USER", returning=ReturningClause((ResTarget(column("a", 70), location=70),)))),
        ("INSERT INTO t DEFAULT VALUES", InsertStmt(table("t", 12), (), None)),
        ("INSERT INTO t SELECT 1 ON CONFLICT (a) WHERE b DO UPDATE SET c = DEFAULT WHERE d", InsertStmt(
            table("t", 12), (), select_one(14), on_conflict=OnConflictClause(
                False, (IndexElem("a", None, location=36),), column("b", 45), None,
                (ResTarget(SetToDefault(65), "c", location=61),), column("d", 79), 23, 35))),
        ("INSERT INTO t SELECT 1 ON CONFLICT ON CONSTRAINT c DO NOTHING", InsertStmt(
            table("t", 12), (), select_one(14), on_conflict=OnConflictClause(True, constraint="c", location=23))),
        ("UPDATE ONLY t x SET a = 1, (b, c) = (2, 3) FROM u WHERE CURRENT OF k", UpdateStmt(
            RangeVar("t", inh=False, alias=Alias("x"), location=12),
            (ResTarget(integer(1, 24), "a", location=20),
             *(ResTarget(MultiAssign(RowExpr((integer(2, 37), integer(3, 40)), False, 36), n, 2), name, location=at)
               for n, (name, at) in enumerate([("b", 28), ("c", 31)], 1))),
            (table("u", 48),), CurrentOf("k"))),
        ("DELETE FROM t USING u WHERE a", DeleteStmt(table("t", 12), (table("u", 20),), column("a", 28))),
        ("MERGE INTO t USING s ON a WHEN MATCHED AND b THEN UPDATE SET c = 1 WHEN NOT MATCHED BY SOURCE THEN DELETE"
         " WHEN NOT MATCHED THEN INSERT (d) VALUES (2) WHEN NOT MATCHED THEN DO NOTHING", MergeStmt(
             table("t", 11), table("s", 19), column("a", 24), (
                 MergeWhen("MATCHED", "UPDATE", column("b", 43), (ResTarget(integer(1, 65), "c", location=61),)),
                 MergeWhen("NOT MATCHED BY SOURCE", "DELETE"),
                 MergeWhen("NOT MATCHED", "INSERT", None, (ResTarget(None, "d", location=136),), (integer(2, 147),)),
                 MergeWhen("NOT MATCHED", "NOTHING")))),
        ("TRUNCATE t, ONLY u RESTART IDENTITY CASCADE", TruncateStmt(
            (table("t", 9), RangeVar("u", inh=False, location=17)), True, True)),
        ("COPY BINARY t (a) FROM 'f' WITH DELIMITER ';' CSV HEADER FORCE NOT NULL a, b", CopyStmt(
            table("t", 12), None, ("a",), True, False, "f", (
                DefElem("format", "binary", 5), DefElem("delimiter", ";", 32), DefElem("format", "csv", 46),
                DefElem("header", True, 50), DefElem("force_not_null", ("a", "b"), 57)))),
        ("COPY (SELECT 1) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE *, FORCE_NULL (a, b), NULL 1.5)", CopyStmt(
            None, select_one(6), (), False, False, None, (
                DefElem("format", "csv", 27), DefElem("header", None, 39), DefElem("force_quote", AStar(), 47),
                DefElem("force_null", ("a", "b"), 62), DefElem("null", FloatText("1.5"), 81)))),
        ("COPY t FROM STDIN WHERE a = 1", CopyStmt(
            table("t", 5), None, (), True, False, None, (),
            AExpr(AExprKind.OP, ("=",), column("a", 24), integer(1, 28), 26))),
        ("EXPLAIN ANALYSE VERBOSE SELECT 1", ExplainStmt(
            select_one(24), (DefElem("analyze", None, 8), DefElem("verbose", None, 16)))),
        ("EXPLAIN (FORMAT json, COSTS off) SELECT 1", ExplainStmt(
            select_one(33), (DefElem("format", "json", 9), DefElem("costs", "off", 22)))),
        ("VACUUM FULL ANALYZE t (a)", VacuumStmt(
            True, (DefElem("full", None, 7), DefElem("analyze", None, 12)), ((table("t", 20), ("a",)),))),
        ("ANALYZE (VERBOSE)", VacuumStmt(False, (DefElem("verbose", None, 9),))),
    ],
)  # fmt: skip
def test_tree(text: str, node: Statement) -> None:
    assert only(text) == node


def test_update_set_is_no_alias() -> None:
    assert only("UPDATE t SET set = 1") == UpdateStmt(table("t", 7), (ResTarget(integer(1, 19), "set", location=13),))
