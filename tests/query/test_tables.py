"""What the engine choice, privileges, row security and EXPLAIN say of queries over user tables; no Spark is needed."""

from __future__ import annotations

import pytest

from pgrepl.engine.choice import COLD, Engine, is_warm
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Query
from pgrepl.ground.errors import PgError
from pgrepl.lake.read.bounds import Bound
from pgrepl.query.engine_choice import choose
from pgrepl.query.reads import bounds_of
from pgrepl.sql.nodes import DefElem, SelectStmt
from pgrepl.sql.parser import parse
from pgrepl.statements.explain_options import read_options
from tests.harness.played import Instance


@pytest.fixture
def shop(instance: Instance) -> Instance:
    instance.play(
        "pub",
        "CREATE TABLE t (a int PRIMARY KEY, b text, c date)",
        "INSERT INTO t VALUES (1, 'x', '2024-01-01'), (2, 'y', NULL), (3, NULL, '2024-03-01')",
        "CREATE TABLE u (a int, n int)",
        "INSERT INTO u VALUES (1, 10), (1, 11), (3, 30)",
    )
    return instance


def analyzed(shop: Instance, text: str) -> Query:
    (statement,) = parse(text)
    assert isinstance(statement.stmt, SelectStmt)
    return analyze_query(shop.session("pub"), statement.stmt)


def bounds(shop: Instance, text: str) -> dict[int, tuple[Bound, ...]]:
    return bounds_of(analyzed(shop, text), Context(shop.session("pub")))


def test_conditions_become_bounds(shop: Instance) -> None:
    found = bounds(
        shop, "SELECT FROM t WHERE a >= 1 + 1 AND 'x' = b AND a IN (2, NULL, 3) AND a < c - date '2024-01-01'"
    )
    assert found == {1: (Bound(1, 2, None, True, True), Bound(2, "x", "x", True, True), Bound(1, values=(2, 3)))}


def test_an_outer_join_keeps_the_rows_it_must_not_drop(shop: Instance) -> None:
    text = "SELECT FROM t LEFT JOIN u ON t.a = u.a AND t.a > 1 AND u.n > 10"
    assert bounds(shop, text) == {2: (Bound(2, 10, None, False, True),)}
    assert bounds(shop, "SELECT FROM t FULL JOIN u ON t.a = u.a WHERE u.n > 10") == {
        2: (Bound(2, 10, None, False, True),)
    }


def test_a_condition_that_fails_is_no_bound(shop: Instance) -> None:
    assert bounds(shop, "SELECT FROM t WHERE a = 1 / 0") == {}


def test_large_tables_are_for_spark_unless_their_rows_are_just_given(shop: Instance) -> None:
    session, context = shop.session("pub"), Context(shop.session("pub"))

    def on_spark(text: str) -> bool:
        return choose(session, analyzed(shop, text), context).on_spark

    assert not on_spark("SELECT a FROM t ORDER BY b")
    shop.play("pub", "SET pgrepl.local_rows = 0")
    assert on_spark("SELECT a FROM t ORDER BY b")
    shop.play("pub", "SET pgrepl.local_rows = 2")
    assert on_spark("SELECT a FROM t ORDER BY b") is is_warm()
    assert choose(session, analyzed(shop, "SELECT count(*) FROM t"), context).engine is Engine.COLUMNS
    assert not on_spark("SELECT a FROM t LIMIT 1")
    assert not on_spark("SELECT count(*) FROM pg_class")
    assert on_spark("SELECT count(*) FROM generate_series(1, 100000000)")
    shop.play("pub", "SET pgrepl.engine = local", "SET pgrepl.local_rows = 0")
    assert not on_spark("SELECT a FROM t ORDER BY b")


def test_rows_within_the_bounds_are_counted_before_spark_is_asked(shop: Instance) -> None:
    session, context = shop.session("pub"), Context(shop.session("pub"))
    shop.play("pub", "CREATE TABLE many (a int, b int)", f"SET pgrepl.local_rows = {COLD if is_warm() else 1}")
    shop.play(
        "pub", "INSERT INTO many SELECT g, g % 100 FROM generate_series(1, 900) g", "DELETE FROM many WHERE a = 7"
    )
    for text, spark in (("b = 7", False), ("b < 5", True), ("b = 7 OR a > 0", True), ("b IN (3, 200)", False)):
        query = analyzed(shop, f"SELECT a FROM many WHERE {text} ORDER BY b")
        assert choose(session, query, context).on_spark is spark, text
    assert choose(session, analyzed(shop, "SELECT a FROM many WHERE b = 7 ORDER BY b"), context).rows == 8


def test_settings_refuse_what_they_do_not_know(shop: Instance) -> None:
    assert shop.play("pub", "SET pgrepl.engine = sparc", "SHOW pgrepl.engine") == [
        'ERROR:  invalid value for parameter "pgrepl.engine": "sparc"',
        "HINT:  Available values: auto, local, spark.",
        "auto",
    ]


def test_privileges_on_columns_and_through_views(shop: Instance) -> None:
    shop.play(
        "pub",
        "CREATE ROLE ann",
        "GRANT SELECT (a) ON t TO ann",
        "CREATE VIEW seen AS SELECT b FROM t WHERE a < 3",
        "GRANT SELECT ON seen TO ann",
    )
    queries = ("SELECT a FROM t WHERE a > 1", "SELECT count(*) FROM t", "SELECT b FROM t", "SELECT t FROM t",
               "SELECT b FROM seen", "SELECT n FROM u")  # fmt: skip
    assert shop.as_role("ann", "pub", *queries) == [
        "2", "3", "3", "ERROR:  permission denied for table t", "ERROR:  permission denied for table t", "x", "y",
        "ERROR:  permission denied for table u",
    ]  # fmt: skip


def test_row_security_without_policies_hides_all_rows(shop: Instance) -> None:
    shop.play("pub", "CREATE ROLE bob", "GRANT SELECT ON t TO bob", "ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    shop.play("pub", "CREATE VIEW owned AS SELECT a FROM t", "GRANT SELECT ON owned TO bob")
    assert shop.as_role("bob", "pub", "SELECT a FROM t", "SELECT count(*) FROM owned") == ["3"]
    assert shop.as_role("bob", "pub", "SET row_security = off", "SELECT a FROM t") == [
        "SET",
        'ERROR:  query would be affected by row-level security policy for table "t"',
    ]


def test_explain(shop: Instance) -> None:
    found = shop.play(
        "pub",
        "EXPLAIN (COSTS OFF) SELECT t.b, sum(n) FROM t JOIN u USING (a) WHERE t.a > 1 GROUP BY t.b ORDER BY 2 DESC",
    )
    assert found == [
        "Sort",
        "  Engine: local (6 rows, not more than 20000)",
        "  Sort Key: sum(u.n) DESC",
        "  ->  HashAggregate",
        "        Group Key: t.b",
        "        ->  Hash Join",
        "              Hash Cond: (t.a = u.a)",
        "              ->  Lake Scan on t",
        "                    Filter: (t.a > 1)",
        "                    Files: 0 read, 0 skipped",
        "                    Inlined Rows: 3",
        "                    Bounds: a > 1",
        "              ->  Lake Scan on u",
        "                    Files: 0 read",
        "                    Inlined Rows: 3",
    ]


def test_numbers_that_are_made_count_as_rows_where_they_are_written(shop: Instance) -> None:
    def engine(text: str) -> str:
        return next(line.strip() for line in shop.play("pub", "EXPLAIN " + text) if "Engine" in line)

    made = "generate_series(1, 300000)"
    assert engine(f"INSERT INTO u SELECT g, g FROM {made} g").startswith("Engine: columns (300000 rows")
    assert engine("INSERT INTO u SELECT g, g FROM generate_series(1, 15000) g").startswith("Engine: local")
    assert engine(f"INSERT INTO u SELECT count(*), 1 FROM {made}").startswith("Engine: local")
    assert engine(f"SELECT g FROM {made} g").startswith("Engine: local")


def test_explain_analyze_carries_the_statement_out(shop: Instance) -> None:
    text = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) DELETE FROM u WHERE n = 30"
    assert shop.play("pub", text, "SELECT count(*) FROM u") == [
        "Delete on u (actual rows=0 loops=1)",
        "  Engine: local (3 rows, not more than 20000)",
        "  ->  Lake Scan on u (actual rows=1 loops=1)",
        "        Filter: (n = 30)",
        "        Files: 0 read, 0 skipped",
        "        Inlined Rows: 3",
        "        Bounds: n = 30",
        "2",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((DefElem("foo"),), 'unrecognized EXPLAIN option "foo"'),
        ((DefElem("analyze", 2),), "analyze requires a Boolean value"),
        ((DefElem("wal"),), "EXPLAIN option WAL requires ANALYZE"),
        ((DefElem("timing"),), "EXPLAIN option TIMING requires ANALYZE"),
        ((DefElem("serialize"),), "EXPLAIN option SERIALIZE requires ANALYZE"),
        ((DefElem("format", "foo"),), 'unrecognized value for EXPLAIN option "format": "foo"'),
        ((DefElem("format"),), "format requires a parameter"),
        (
            (DefElem("analyze"), DefElem("generic_plan")),
            "EXPLAIN options ANALYZE and GENERIC_PLAN cannot be used together",
        ),
    ],
)
def test_bad_options_of_explain(options: tuple[DefElem, ...], message: str) -> None:
    with pytest.raises(PgError) as caught:
        read_options(options)
    assert caught.value.report.message == message
