"""EXPLAIN ANALYZE of what Spark does: rows by Spark's own counts, and nothing where these do not tell."""

from __future__ import annotations

import re

import pytest

from tests.harness.dose import dose
from tests.harness.played import Instance


@pytest.fixture
def tables(instance: Instance, spark: object) -> Instance:
    """u is made of a file with a deleted row, and a row in the catalog."""
    instance.play(
        "pub",
        "SET pgrepl.engine = local",
        "CREATE TABLE t (a int, b int)",
        "INSERT INTO t SELECT g, g % 3 FROM generate_series(1, 1000) g",
        "CREATE TABLE u (a int, n int)",
        "INSERT INTO u SELECT g, g % 3 FROM generate_series(1, 2000) g",
        "INSERT INTO u VALUES (3, 3)",
        "DELETE FROM u WHERE a = 7",
        "SET pgrepl.engine = spark",
    )
    return instance


@pytest.mark.parametrize(
    ("query", "nodes"),
    dose([
        ("SELECT t.b, count(*) FROM t LEFT JOIN u ON t.a = u.a AND u.n > 0 WHERE t.a > 400 GROUP BY 1"
         " HAVING count(*) > 200 - t.b ORDER BY 1",
         ["Sort 2", "HashAggregate 2", "Hash Left Join 600", "Lake Scan on t 600 -400", "Lake Scan on u 1067"]),
        ("SELECT count(*) FROM t", ["Aggregate 1", "Lake Scan on t 1000"]),
        ("SELECT t.a FROM t, u x WHERE t.a = x.a ORDER BY 1 LIMIT 3",
         ["Limit 3", "Sort", "Hash Join 1000", "Lake Scan on t 1000", "Lake Scan on u x 2000"]),
        ("SELECT a FROM t WHERE b = 1 ORDER BY a", ["Sort 334", "Lake Scan on t 334"]),
        ("SELECT DISTINCT b FROM t WHERE a IN (SELECT n FROM u)", ["Unique 3", "Lake Scan on t", "Lake Scan on u"]),
        ("SELECT * FROM u WHERE n = 1", ["Lake Scan on u 666"]),
    ], 3),
)  # fmt: skip
def test_rows_of_nodes(tables: Instance, query: str, nodes: list[str]) -> None:
    plan = tables.play("pub", f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {query}")
    assert plan[1] == '  Engine: spark (pgrepl.engine is "spark")'
    told: list[str] = []
    for line in plan:
        node = re.match(r"^(?: *->  )?([A-Z]\w+(?: [A-Za-z]+)*)(?: \(actual rows=(\d+) loops=1\))?$", line)
        removed = re.search("Rows Removed by Filter: (.*)", line)
        if node is not None:
            told.append(node[1] + (f" {node[2]}" if node[2] else ""))
        elif removed is not None:
            told[-1] += f" -{removed[1]}"
    assert told == nodes


@pytest.mark.slow
def test_nodes_have_the_times_of_their_stages(tables: Instance) -> None:
    query = "SELECT t.b, count(*) FROM t JOIN u x ON x.a = t.a WHERE t.a > 1 GROUP BY 1"
    top, *rest = tables.play("pub", f"EXPLAIN (ANALYZE, COSTS OFF) {query}")
    assert re.fullmatch(r"HashAggregate \(actual time=\d+\.\d{3}\.\.\d+\.\d{3} rows=3 loops=1\)", top)
    assert rest[-1].startswith("Execution Time: ")
    whole = float(rest[-1].split()[2])
    nodes = [line for line in rest if "->" in line]
    assert len(nodes) == 3
    for line in nodes:
        times = re.search(r"\(actual time=(\d+\.\d{3})\.\.(\d+\.\d{3}) rows=\d+ loops=1\)", line)
        assert times is not None, line
        assert 0 <= float(times[1]) <= float(times[2]) <= whole
