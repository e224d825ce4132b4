"""Conditions over columns of composite types: counted by whole columns as row by row, whatever the lake keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.database import Database

MADE = (
    "CREATE TYPE pair AS (a int, b int)",
    "CREATE TYPE deep AS (p pair, z int[])",
    "CREATE TABLE t (k int, c pair, d deep, n int) PARTITION BY RANGE (k)",
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (300)",
    "INSERT INTO t SELECT g, ROW(g % 3, nullif(g % 5, 0))::pair, ROW(ROW(g % 2, 1)::pair, ARRAY[g % 3])::deep, g "
    "FROM generate_series(1, 200) g",
    "INSERT INTO t VALUES (201, NULL, NULL), (202, ROW(NULL, NULL), ROW(NULL, NULL)), (203, ROW(NULL, 1), NULL)",
)
CHANGED = (  # the names of two attributes are exchanged, one is dropped, a new one comes
    "ALTER TYPE pair ADD ATTRIBUTE c text",
    "ALTER TYPE pair RENAME ATTRIBUTE a TO x",
    "ALTER TYPE pair RENAME ATTRIBUTE b TO a",
    "ALTER TYPE pair RENAME ATTRIBUTE x TO b",
    "ALTER TYPE pair DROP ATTRIBUTE c",
    "ALTER TYPE pair ADD ATTRIBUTE c text",
    "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (300) TO (900)",
    "INSERT INTO t SELECT g, ROW(g % 3, g % 5, 'c')::pair, ROW(ROW(g % 2, 1, NULL)::pair, ARRAY[g % 3])::deep, g "
    "FROM generate_series(300, 500) g",
)
CONDITIONS = (
    "c = '(1,2{0})'::pair",
    "c <> '(1,{0})'::pair",
    "c IS NULL",
    "c IS NOT NULL",
    "c IS DISTINCT FROM (d).p",
    "c = (d).p OR (c).a = 2 AND (c).b = 1",
    "d IN (ROW(ROW(1, 1{1})::pair, '{{1}}')::deep, '(,)')",
    "((d).p).a = 1",
    "c = ROW(n % 2, 1{1})::pair",
)


@pytest.mark.parametrize("is_text", [False, True])
def test_as_row_by_row(tmp_path: Path, *, is_text: bool) -> None:
    """`is_text`: a value that no struct holds makes a column text."""
    database = Database(tmp_path)
    database(*MADE)
    if is_text:
        database("INSERT INTO t VALUES (204, NULL, ROW(NULL, '[2:2]={1}'::int[])::deep)")
    for changes, fields in ((), ("", "")), (CHANGED, (",", ", NULL")):
        database(*changes)
        for condition in CONDITIONS:
            asked = f"SELECT count(*), sum(n) FROM t WHERE {condition.format(*fields)}"
            found = []
            for rows in (10, 1_000_000):
                database("SET pgrepl.engine = local", f"SET pgrepl.local_rows = {rows}")
                found.append(database(asked))
            assert found[0] == found[1], asked
    wanted = database("SELECT count(*), sum(n) FROM t WHERE (c = '(2,1,)'::pair OR c IS NULL) IS NOT TRUE")
    database("SET pgrepl.local_rows = 1")
    assert (f"  Engine: columns ({404 + is_text} rows, more than 1)",) in database(
        "EXPLAIN SELECT count(*) FROM t WHERE c <> (d).p"
    )
    database("DELETE FROM t WHERE c = '(2,1,)'::pair OR c IS NULL")
    assert database("SELECT count(*), sum(n) FROM t") == wanted
    database.close()
