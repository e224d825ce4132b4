"""Arrays of several dimensions cross between lakes, and a table of lists takes them when they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.database import Database, by_columns, by_message

ROWS = "SELECT * FROM t ORDER BY n"


@pytest.mark.parametrize("way", [by_columns, by_message])
def test_they_come_with_the_copy_and_with_changes(tmp_path: Path, way: object) -> None:
    assert callable(way)
    pub, sub = Database(tmp_path), Database(tmp_path, "sub", new=True)
    way(sub)
    pub("CREATE TABLE t (n int PRIMARY KEY, a int[], b text[][])")
    sub("CREATE TABLE t (n int PRIMARY KEY, a int[], b text[])")
    pub("INSERT INTO t VALUES (1, '{1}', '{x}')", "CREATE PUBLICATION p FOR TABLE t")
    sub.subscribe("p", "dbname=postgres")
    assert sub.catch_up() == []
    assert sub(ROWS) == pub(ROWS)
    pub("INSERT INTO t SELECT g, ARRAY[g], NULL FROM generate_series(2, 400) g")
    assert sub.catch_up() == []
    assert sub(ROWS) == pub(ROWS)
    pub("INSERT INTO t SELECT g, ARRAY[[g], [g]], ARRAY[['a', g::text]] FROM generate_series(401, 800) g")
    pub("UPDATE t SET a[0] = 7 WHERE n = 400")
    assert sub.catch_up() == []
    assert sub(ROWS) == pub(ROWS)
    pub.close()
    sub.close()
