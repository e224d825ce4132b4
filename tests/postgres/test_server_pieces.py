"""Large tables of a server are copied in pieces: what is finished stays, and the stream goes on meanwhile."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing

import pytest

from tests.postgres.served import Served
from tests.postgres.test_server_faults import apply

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"
ON_ONE = pytest.mark.parametrize("publishing", [18], indirect=True)
ROWS = 30_000
ALL_T = "SELECT * FROM t ORDER BY a"


def ranges(served: Served, where: str = "number > 0") -> int:
    with closing(sqlite3.connect(served.folder / "catalog.db")) as link:
        return int(link.execute(f"SELECT count(*) FROM pgrepl_copy_range WHERE {where}").fetchone()[0])


def same(served: Served) -> None:
    there, here = set(served.pub(ALL_T)), served.sub(ALL_T)
    assert len(here) == len(there) and (sorted(there - set(here))[:9], sorted(set(here) - there)[:9]) == ([], [])


def finished(served: Served) -> int:
    return ranges(served, "snapshot IS NOT NULL AND number > 0")


def filled(served: Served, table: str = T) -> None:
    served.both(table)
    served.sub("ALTER SYSTEM SET pgrepl.copy_range_size = '64kB'")
    served.pub(f"INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, {ROWS}) g; ANALYZE t")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe_only()


def test_an_interrupted_copy_goes_on_where_it_was(served: Served) -> None:
    filled(served)
    assert apply(served, "copy.range") == -signal.SIGKILL
    assert finished(served) == 0
    assert apply(served, "copy.committed") == -signal.SIGKILL
    first = finished(served)
    assert 1 <= first < ranges(served)
    served.pub("UPDATE t SET a = 100000 + a WHERE a % 1000 = 1")
    served.pub("UPDATE t SET a = a - 150000 WHERE a > 100000 AND a % 2000 = 1001")
    served.pub("DELETE FROM t WHERE a % 7 = 0; UPDATE t SET b = 'changed' WHERE a % 5 = 0")
    assert apply(served, "copy.committed") == -signal.SIGKILL
    assert finished(served) > first
    served.pub("INSERT INTO t SELECT g, 'new' FROM generate_series(40001, 41000) g")
    assert apply(served) == 0
    same(served)
    assert served.sub("SELECT srsubstate FROM pg_subscription_rel") == [("r",)]
    assert not ranges(served)
