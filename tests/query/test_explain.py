"""What EXPLAIN says is read, and what EXPLAIN ANALYZE says has come of it."""

from __future__ import annotations

import json
import re

import pytest

from pgrepl.lake.read import extent, footers
from pgrepl.lake.write import file_writer
from tests.harness.played import Instance

_NUMBERS = re.compile(r"\d+kB")


@pytest.fixture
def filled(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> Instance:
    """A table of two files, the first with five row groups."""
    monkeypatch.setattr(file_writer, "ROWS_IN_GROUP", 1000)
    instance.play(
        "pub",
        "CREATE TABLE r (id int PRIMARY KEY, v text)",
        "INSERT INTO r SELECT g, 'v' || g FROM generate_series(1, 5000) g",
        "INSERT INTO r SELECT g, 'v' || g FROM generate_series(5001, 5500) g",
    )
    return instance


def reading(instance: Instance, query: str) -> list[str]:
    lines = [line.strip() for line in instance.play("pub", f"EXPLAIN {query}")]
    return [_NUMBERS.sub("nkB", line) for line in lines if re.match("Lake|Files|Row|Size", line)]


def test_explain_says_what_is_skipped(filled: Instance) -> None:
    assert reading(filled, "SELECT * FROM r WHERE id BETWEEN 1500 AND 2500") == [
        "Lake Scan on r  (rows=2000)",
        "Files: 1 read, 1 skipped",
        "Row Groups: 2 read, 3 skipped",
        "Rows: 2000 read, 3500 skipped",
        "Size: nkB read, nkB skipped",
    ]
    assert reading(filled, "SELECT * FROM r") == ["Lake Scan on r  (rows=5500)", "Files: 2 read", "Size: nkB read"]


def test_what_is_read_and_what_is_skipped_are_the_whole(filled: Instance) -> None:
    session = filled.session("pub")
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.table import lake_table

    oid = int(filled.play("pub", "SELECT 'r'::regclass::oid")[0])
    filled.play("pub", "BEGIN")
    table = lake_table(session, oid)
    found = extent.skipping(session, table, (Bound(1, 1500, 2500),))
    nothing = extent.skipping(session, table, (Bound(1, 9000, 9001),))
    filled.play("pub", "COMMIT")
    sizes = [path.stat().st_size for path in filled.folder.rglob("*.parquet")]
    assert (found.whole.rows, found.whole.bytes) == (5500, sum(sizes))
    assert max(sizes) / 3 < found.extent.bytes < max(sizes)
    assert (nothing.files, nothing.extent.rows, nothing.extent.bytes, nothing.groups) == (0, 0, 0, None)


def test_no_file_is_read_where_there_are_many(filled: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extent, "FEW", 1)
    monkeypatch.setattr(footers, "of", None)
    assert reading(filled, "SELECT * FROM r WHERE id > 4500") == [
        "Lake Scan on r  (rows=5500)",
        "Files: 2 read, 0 skipped",
        "Rows: 5500 read, 0 skipped",
        "Size: nkB read, nkB skipped",
    ]


def test_conflicts_name_their_indexes_and_their_filter(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int PRIMARY KEY, b int, UNIQUE (b))")

    def details(clause: str) -> list[str]:
        lines = instance.play("pub", f"EXPLAIN (COSTS OFF) INSERT INTO t VALUES (1, 2) ON CONFLICT {clause}")
        return [line.strip() for line in lines if "Conflict" in line or "ERROR" in line]

    assert details("DO NOTHING") == ["Conflict Resolution: NOTHING"]
    assert details("(b) DO UPDATE SET b = 7 WHERE t.a > 5 AND excluded.b < 7") == [
        "Conflict Resolution: UPDATE",
        "Conflict Arbiter Indexes: t_b_key",
        "Conflict Filter: ((t.a > 5) AND (excluded.b < 7))",
    ]
    assert details("(a, b) DO NOTHING") == [
        "ERROR:  there is no unique or exclusion constraint matching the ON CONFLICT specification"
    ]


# --- EXPLAIN ANALYZE --------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(instance: Instance) -> Instance:
    instance.play(
        "pub",
        "CREATE TABLE t (a int, b int)",
        "INSERT INTO t SELECT g, g % 3 FROM generate_series(1, 10) g",
        "CREATE TABLE u (a int, n int)",
        "INSERT INTO u SELECT g, g % 3 FROM generate_series(1, 20) g",
    )
    return instance


def analyzed(instance: Instance, query: str) -> list[str]:
    """Without what is said of engines and files."""
    lines = instance.play("pub", f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {query}")
    return [line for line in lines if not re.match(" *(Engine|Files|Size|Rows:|Row Groups|Inlined Rows|Bounds):", line)]


def test_every_node_says_what_came_of_it(pair: Instance) -> None:
    query = """SELECT t.b, count(*) FROM t LEFT JOIN u ON t.a = u.a AND t.b + u.n > 2
        WHERE t.a + 0 > 3 GROUP BY 1 HAVING count(*) > 2 ORDER BY 1 LIMIT 1"""
    assert analyzed(pair, query) == [
        "Limit (actual rows=1 loops=1)",
        "  ->  Sort (actual rows=1 loops=1)",
        "        Sort Key: t.b",
        "        ->  HashAggregate (actual rows=1 loops=1)",
        "              Group Key: t.b",
        "              Filter: (count(*) > 2)",
        "              Rows Removed by Filter: 2",
        "              ->  Hash Left Join (actual rows=7 loops=1)",
        "                    Hash Cond: (t.a = u.a)",
        "                    Join Filter: ((t.b + u.n) > 2)",
        "                    Rows Removed by Join Filter: 5",
        "                    ->  Lake Scan on t (actual rows=7 loops=1)",
        "                          Filter: ((t.a + 0) > 3)",
        "                          Rows Removed by Filter: 3",
        "                    ->  Lake Scan on u (actual rows=20 loops=1)",
    ]


def test_loops_are_averaged_and_what_never_runs_says_so(pair: Instance) -> None:
    """As PostgreSQL has it, to the rounded zero."""
    query = """WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5), d AS (SELECT * FROM t)
        SELECT * FROM c, d WHERE n = 100"""
    assert analyzed(pair, query) == [
        "Nested Loop (actual rows=0 loops=1)",
        "  CTE c",
        "    ->  Recursive Union (actual rows=5 loops=1)",
        "          ->  Result (actual rows=1 loops=1)",
        "          ->  WorkTable Scan on c c_1 (actual rows=1 loops=5)",
        "                Filter: (c_1.n < 5)",
        "                Rows Removed by Filter: 0",
        "  CTE d",
        "    ->  Lake Scan on t (never executed)",
        "  ->  CTE Scan on c (actual rows=0 loops=1)",
        "        Filter: (c.n = 100)",
        "        Rows Removed by Filter: 5",
        "  ->  CTE Scan on d (never executed)",
    ]
    assert analyzed(pair, "SELECT * FROM t, LATERAL (SELECT count(*) FROM u WHERE u.a + 0 < t.a) x") == [
        "Nested Loop (actual rows=10 loops=1)",
        "  ->  Lake Scan on t (actual rows=10 loops=1)",
        "  ->  Subquery Scan on x (actual rows=1 loops=10)",
        "        ->  Aggregate (actual rows=1 loops=10)",
        "              ->  Lake Scan on u (actual rows=4 loops=10)",
        "                    Filter: ((u.a + 0) < t.a)",
        "                    Rows Removed by Filter: 16",
    ]


@pytest.mark.parametrize(
    ("query", "nodes"),
    [
        (
            "SELECT generate_series(1, 3), a FROM t WHERE a > 8 UNION SELECT 1, 2",
            ["HashAggregate 7", "Append 7", "ProjectSet 6", "Lake Scan on t 2", "Result 1"],
        ),
        ("SELECT a, generate_series(1, a) FROM t ORDER BY a LIMIT 2",
         ["Limit 2", "ProjectSet 2", "Sort 2", "Lake Scan on t 10"]),
        ("SELECT a FROM t EXCEPT SELECT n FROM u", ["HashSetOp Except 8", "Lake Scan on t 10", "Lake Scan on u 20"]),
        ("SELECT DISTINCT b, rank() OVER (PARTITION BY b) FROM t",
         ["Unique 3", "WindowAgg 10", "Lake Scan on t 10"]),
        ("SELECT a FROM t WHERE EXISTS (SELECT FROM u WHERE n = b GROUP BY n)",
         ["Lake Scan on t 10", "Lake Scan on u 1"]),
        ("SELECT a FROM t FOR UPDATE LIMIT 2", ["Limit 2", "Lake Scan on t 2"]),
        ("UPDATE t SET b = n FROM u WHERE u.a = t.a AND n <> b",
         ["Update on t 0", "Hash Join 0", "Lake Scan on t 10", "Lake Scan on u 20"]),
        ("INSERT INTO t SELECT a, n FROM u ORDER BY 1 LIMIT 3",
         ["Insert on t 0", 'Subquery Scan on "*SELECT*" 3', "Limit 3", "Sort 3", "Lake Scan on u 20"]),
    ],
)  # fmt: skip
def test_rows_of_nodes(pair: Instance, query: str, nodes: list[str]) -> None:
    found = re.findall(r"^(?: *->  | *)(\S.*?) \(actual rows=(\d+)", "\n".join(analyzed(pair, query)), re.M)
    assert [f"{title} {rows}" for title, rows in found] == nodes


def test_partitions_are_counted_one_by_one(instance: Instance) -> None:
    instance.play(
        "pub",
        "CREATE TABLE p (a int) PARTITION BY LIST (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)",
        "INSERT INTO p VALUES (1), (2), (2)",
    )
    assert analyzed(instance, "SELECT * FROM p WHERE a + 0 = 2") == [
        "Append on p (actual rows=2 loops=1)",
        "  Filter: ((a + 0) = 2)",
        "  Rows Removed by Filter: 1",
        "  ->  Lake Scan on p1 (actual rows=1 loops=1)",
        "  ->  Lake Scan on p2 (actual rows=2 loops=1)",
    ]


def test_groups_found_by_columns_are_counted(pair: Instance) -> None:
    pair.play("pub", "SET pgrepl.local_rows = 1")
    assert analyzed(pair, "SELECT n, count(*) FROM u WHERE a > 7 GROUP BY 1 HAVING count(*) > 4 ORDER BY 1") == [
        "Sort (actual rows=1 loops=1)",
        "  Sort Key: n",
        "  ->  HashAggregate (actual rows=1 loops=1)",
        "        Group Key: n",
        "        Filter: (count(*) > 4)",
        "        Rows Removed by Filter: 2",
        "        ->  Lake Scan on u (actual rows=13 loops=1)",
        "              Filter: (a > 7)",
    ]


def test_times_and_formats(pair: Instance) -> None:
    (text,) = pair.play("pub", "EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM t WHERE a + 0 > 4 ORDER BY 1")
    (plan,) = json.loads(text)
    sort, scan = plan["Plan"], plan["Plan"]["Plans"][0]
    assert [sort["Actual Rows"], sort["Actual Loops"], scan["Rows Removed by Filter"]] == [6, 1, 4]
    assert 0 <= scan["Actual Total Time"] <= sort["Actual Total Time"] <= plan["Execution Time"]
    assert scan["Actual Startup Time"] <= scan["Actual Total Time"]
    (yaml,) = pair.play("pub", "EXPLAIN (ANALYZE, TIMING OFF, FORMAT YAML) SELECT * FROM t WHERE a + 0 > 4")
    assert '    Filter: "((a + 0) > 4)"\n    Rows Removed by Filter: 4\n' in yaml
    (xml,) = pair.play("pub", "EXPLAIN (ANALYZE, TIMING OFF, FORMAT XML) SELECT * FROM t WHERE a + 0 > 4")
    assert "<Rows-Removed-by-Filter>4</Rows-Removed-by-Filter>" in xml
    found = pair.play("pub", "EXPLAIN (ANALYZE, COSTS OFF) SELECT 1")
    assert re.fullmatch(r"Result \(actual time=\d+\.\d{3}\.\.\d+\.\d{3} rows=1 loops=1\)", found[0])


def test_a_condition_on_the_rows_that_an_outer_join_keeps_is_asked_before_it(pair: Instance) -> None:
    query = "SELECT count(*) FROM u RIGHT JOIN (t LEFT JOIN u v ON v.a = t.a) ON u.a = t.a WHERE t.b = 1 AND v.a > 4"
    assert pair.play("pub", query) == ["2"]
    assert analyzed(pair, query) == [
        "Aggregate (actual rows=1 loops=1)",
        "  ->  Hash Left Join (actual rows=2 loops=1)",
        "        Hash Cond: (u.a = t.a)",
        "        ->  Hash Left Join (actual rows=2 loops=1)",
        "              Hash Cond: (v.a = t.a)",
        "              Filter: (v.a > 4)",
        "              Rows Removed by Filter: 2",
        "              ->  Lake Scan on t (actual rows=4 loops=1)",
        "                    Filter: (t.b = 1)",
        "              ->  Lake Scan on u v (actual rows=16 loops=1)",
        "        ->  Lake Scan on u (actual rows=20 loops=1)",
    ]


def test_explain_refuses_what_the_statement_refuses(filled: Instance) -> None:
    assert filled.play("pub", "EXPLAIN INSERT INTO r VALUES (1, 'x') ON CONFLICT (v) DO NOTHING") == [
        "ERROR:  there is no unique or exclusion constraint matching the ON CONFLICT specification"
    ]


def test_statements_in_with_are_parts_of_the_plan(instance: Instance) -> None:
    """As in PostgreSQL they stand below the statement that they belong to, and ANALYZE carries them out."""
    instance.play("pub", "CREATE TABLE t (a int)", "CREATE TABLE u (a int)", "INSERT INTO t VALUES (1), (2), (3)")

    def plan(query: str) -> list[str]:
        lines = instance.play("pub", f"EXPLAIN {query}")
        return [line for line in lines if not re.match(" *(Files|Inlined Rows|Engine):", line)]

    moved = "WITH w AS (DELETE FROM t WHERE a > 1 RETURNING a), x AS (UPDATE u SET a = 0) INSERT INTO u SELECT a FROM w"
    assert plan(f"(COSTS off) {moved}") == [
        "Insert on u",
        "  CTE w",
        "    ->  Delete on t",
        "          ->  Lake Scan on t",
        "                Filter: (a > 1)",
        "                Bounds: a > 1",
        "  CTE x",
        "    ->  Update on u",
        "          ->  Lake Scan on u",
        '  ->  Subquery Scan on "*SELECT*"',
        "        ->  CTE Scan on w",
    ]
    assert instance.play("pub", "SELECT count(*) FROM t") == ["3"]
    measured = "(ANALYZE, COSTS off, TIMING off, SUMMARY off)"
    assert plan(f"{measured} {moved}") == [
        "Insert on u (actual rows=0 loops=1)",
        "  CTE w",
        "    ->  Delete on t (actual rows=2 loops=1)",
        "          ->  Lake Scan on t (actual rows=2 loops=1)",
        "                Filter: (a > 1)",
        "                Bounds: a > 1",
        "  CTE x",
        "    ->  Update on u (actual rows=0 loops=1)",
        "          ->  Lake Scan on u (actual rows=0 loops=1)",
        '  ->  Subquery Scan on "*SELECT*" (actual rows=2 loops=1)',
        "        ->  CTE Scan on w (actual rows=2 loops=1)",
    ]
    assert instance.play("pub", "SELECT a FROM u ORDER BY a") == ["2", "3"]
    assert plan(f"{measured} WITH w AS (DELETE FROM u RETURNING a) SELECT count(*) FROM w") == [
        "Aggregate (actual rows=1 loops=1)",
        "  CTE w",
        "    ->  Delete on u (actual rows=2 loops=1)",
        "          ->  Lake Scan on u (actual rows=2 loops=1)",
        "  ->  CTE Scan on w (actual rows=2 loops=1)",
    ]
    assert instance.play("pub", "SELECT count(*) FROM u") == ["0"]
