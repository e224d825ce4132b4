"""A server's arrays of several dimensions arrive, whichever way rows take."""

from __future__ import annotations

import pytest

from tests.harness.database import by_columns, by_message
from tests.harness.dose import dose
from tests.postgres.served import Served

ROWS = "SELECT * FROM t ORDER BY n"


@pytest.mark.parametrize("way", dose([by_columns, by_message], 2))
@pytest.mark.parametrize("declared", dose(["int[]", "int[][]"], 2, 1))
def test_arrays_come_with_the_copy_and_with_changes(served: Served, way: object, declared: str) -> None:
    assert callable(way)
    way(served.sub)
    served.pub("CREATE TABLE t (n int PRIMARY KEY, a int[], b text[])")
    served.sub(f"CREATE TABLE t (n int PRIMARY KEY, a {declared}, b text[])")
    served.pub("INSERT INTO t VALUES (1, '{1}', '{x}'), (2, '{{1,2},{3,NULL}}', '{x}')")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    served.same(ROWS)
    served.pub("INSERT INTO t SELECT g, '[0:1]={1,2}', ARRAY[['a', g::text]] FROM generate_series(3, 500) g")
    served.pub("UPDATE t SET a = a || '{7}', b = '{}' WHERE n = 400")
    served.pub("DELETE FROM t WHERE n = 5")
    assert served.catch_up() == []
    served.same(ROWS)
