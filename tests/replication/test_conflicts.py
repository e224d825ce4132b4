"""Conflicts: their counts in both ways of applying, what is kept of them, and what becomes of rejected changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harness.database import Database, Rows, by_columns, by_message
from tests.harness.pair import Pair

T = "CREATE TABLE t (a int PRIMARY KEY, b text, c int UNIQUE)"
KEPT = "WITH (conflict_log = on)"
COUNTS = (
    "SELECT confl_insert_exists, confl_update_origin_differs, confl_update_exists, confl_update_missing,"
    " confl_delete_origin_differs, confl_delete_missing, confl_multiple_unique_conflicts"
    " FROM pgrepl_stat_subscription_conflicts"
)
ROWS = "SELECT conflict_type, state, key, local_row, remote_row FROM pgrepl_conflicts ORDER BY id"


def ready(pair: Pair, options: str = KEPT, table: str = T) -> None:
    pair.both(table)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options=options)


def logged(pair: Pair) -> list[tuple[str, str | None]]:
    return [(r.message, r.detail) for r in pair.log.reports if "conflict" in r.message]


@pytest.fixture(params=[by_message, by_columns], ids=["by message", "by columns"])
def way(request: pytest.FixtureRequest) -> Callable[[Database], None]:
    found: Callable[[Database], None] = request.param
    return found


def test_rows_that_are_missing_or_of_others_are_counted_logged_and_kept(
    pair: Pair, way: Callable[[Database], None]
) -> None:
    ready(pair)
    way(pair.sub)
    pair.pub("INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 6) g")
    assert pair.catch_up() == []
    pair.sub("DELETE FROM t WHERE a IN (1, 2)")
    pair.sub("UPDATE t SET b = 'mine' WHERE a IN (3, 4)")
    pair.pub("BEGIN; UPDATE t SET b = 'x' WHERE a = 1; DELETE FROM t WHERE a = 2; UPDATE t SET b = 'y' WHERE a = 3; COMMIT")
    pair.pub("DELETE FROM t WHERE a = 4; UPDATE t SET b = 'z' WHERE a IN (3, 5)")
    pair.pub("UPDATE t SET a = 100 WHERE a = 1")
    assert pair.catch_up() == []
    assert pair.sub("SELECT a, b FROM t ORDER BY a") == [("3", "z"), ("5", "z"), ("6", "v6")]
    assert pair.sub(COUNTS) == [("0", "1", "0", "2", "1", "1", "0")]
    assert pair.sub(ROWS) == [
        ("update_missing", "noted", '{"a": 1}', None, '{"a": 1, "b": "x", "c": 1}'),
        ("delete_missing", "noted", '{"a": 2}', None, None),
        ("update_origin_differs", "noted", '{"a": 3}', '{"a": 3, "b": "mine", "c": 3}', '{"a": 3, "b": "y", "c": 3}'),
        ("delete_origin_differs", "noted", '{"a": 4}', '{"a": 4, "b": "mine", "c": 4}', None),
        ("update_missing", "noted", '{"a": 1}', None, '{"a": 100, "b": "x", "c": 1}'),
    ]
    said = logged(pair)
    assert [message for message, _ in said] == [
        f'conflict detected on relation "public.t": conflict={kind}' for (kind, *_) in pair.sub(ROWS)
    ]
    assert said[0][1] == (
        "Could not find the row to be updated.\nRemote row (1, x, 1); replica identity (a)=(1)."
    )
    assert pair.sub.ways()["apply"] == (2 if way is by_columns else 0)
