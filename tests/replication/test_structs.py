"""Composite types cross between lakes, by columns as far as they can and by message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.database import Database, by_columns, by_message
from tests.harness.dose import dose


@pytest.mark.parametrize("way", dose([by_columns, by_message], 2))
def test_structs_are_replicated(tmp_path: Path, way: object) -> None:
    assert callable(way)
    pub, sub = Database(tmp_path), Database(tmp_path, "sub", new=True)
    way(sub)
    for each in (pub, sub):
        each("CREATE TYPE inside AS (x int, y text)", "CREATE TYPE c AS (a int, i inside, l int[])")
        each("CREATE TABLE t (n int PRIMARY KEY, s c, l c[], k int)")
    rows = "ROW(g, ROW(g, NULL), ARRAY[g])::c, ARRAY[NULL, ROW(g, NULL, NULL)::c]"
    pub(f"INSERT INTO t SELECT g, {rows} FROM generate_series(1, 120) g", "CREATE PUBLICATION p FOR TABLE t")
    sub.subscribe("p", "dbname=postgres")
    everything = "SELECT * FROM t ORDER BY n"
    assert sub.catch_up() == [] and sub(everything) == pub(everything)
    pub(f"INSERT INTO t SELECT g, {rows} FROM generate_series(201, 320) g", "UPDATE t SET s.i.y = 'u' WHERE n % 3 = 0")
    pub("UPDATE t SET k = 5 WHERE n < 200", "DELETE FROM t WHERE n % 7 = 0", "UPDATE t SET s = NULL WHERE n = 1")
    assert sub.catch_up() == [] and sub(everything) == pub(everything)
    assert sub.ways() == ({"copy row by row": 1, "apply": 1} if way is by_columns else {})
    pub("INSERT INTO t VALUES (1000, ROW(1, NULL, '{{1},{2}}'), NULL)")
    for each in (pub, sub):
        each("ALTER TYPE c RENAME ATTRIBUTE a TO z", "ALTER TYPE inside ADD ATTRIBUTE w date")
    pub("UPDATE t SET k = 7, s.z = 3 WHERE n < 50")
    assert sub.catch_up() == [] and sub(everything) == pub(everything)
    pub.close()
    sub.close()
