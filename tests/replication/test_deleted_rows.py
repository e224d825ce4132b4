"""Conflicts of kind update_deleted (A22), for which the snapshots of the lake are kept (19, retain_dead_tuples)."""

from __future__ import annotations

import pytest

from tests.harness.database import by_columns, by_message
from tests.harness.pair import Pair

KEPT = "SELECT conflict_type, key, local_origin IS NULL FROM pgrepl_conflicts ORDER BY id"
COUNTED = "SELECT confl_update_deleted, confl_update_missing FROM pgrepl_stat_subscription_conflicts"
ROWS = "INSERT INTO t SELECT g, 'v' FROM generate_series(1, 9) g"


@pytest.fixture(params=[by_columns, by_message], ids=["by columns", "by message"])
def ready(pair: Pair, request: pytest.FixtureRequest) -> Pair:
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    request.param(pair.sub)
    pair.pub("CREATE PUBLICATION p FOR TABLE t", ROWS)
    pair.subscribe(options="WITH (retain_dead_tuples = true, conflict_log = on)")
    return pair


def test_an_update_finds_that_its_row_was_deleted_here(ready: Pair) -> None:
    ready.sub("DELETE FROM t WHERE a IN (1, 2)", "VACUUM")
    ready.pub("UPDATE t SET b = 'w' WHERE a IN (1, 3)", "DELETE FROM t WHERE a = 2")
    assert ready.catch_up() == []
    assert ready.sub(KEPT) == [("update_deleted", '{"a": 1}', "t"), ("delete_missing", '{"a": 2}', "t")]
    (detail,) = ready.sub("SELECT detail FROM pgrepl_conflicts WHERE conflict_type = 'update_deleted'")[0]
    assert detail is not None
    assert detail.startswith("Could not find the row to be updated.\n")
    assert "\nThe row to be updated was deleted locally in transaction " in detail
    assert ready.sub(COUNTED) == [("1", "0")]
    # it has caught up: what was deleted before is not looked for any more
    ready.pub("UPDATE t SET b = 'x' WHERE a = 1")
    assert ready.catch_up() == []
    ready.pub("UPDATE t SET b = 'y' WHERE a = 1")
    assert ready.catch_up() == []
    assert ready.sub(COUNTED) == [("1", "2")]
    assert ready.sub("SELECT a, b FROM t WHERE a < 4") == [("3", "w")]


def test_what_this_subscription_has_deleted_itself_is_missing(ready: Pair) -> None:
    ready.pub("DELETE FROM t WHERE a = 4")
    assert ready.catch_up() == []
    ready.pub("INSERT INTO t VALUES (4, 'again')", "UPDATE t SET b = 'w' WHERE a = 4", "DELETE FROM t WHERE a = 4")
    ready.sub("DELETE FROM t WHERE a = 5", "INSERT INTO t VALUES (5, 'mine')")
    ready.pub("UPDATE t SET b = 'w' WHERE a = 5")
    assert ready.catch_up() == []
    assert ready.sub(COUNTED) == [("0", "0")]
    assert ready.sub("SELECT b FROM t WHERE a = 5") == [("w",)]


def test_without_the_parameter_it_is_missing(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t", ROWS)
    pair.subscribe(options="WITH (conflict_log = on)")
    pair.sub("DELETE FROM t WHERE a = 1")
    pair.pub("UPDATE t SET b = 'w' WHERE a = 1")
    assert pair.catch_up() == []
    assert pair.sub(COUNTED) == [("0", "1")]


def test_snapshots_are_kept_for_so_long(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t", ROWS)
    pair.subscribe(options="WITH (retain_dead_tuples = true)")
    state = "SELECT subretaindeadtuples, submaxretention, subretentionactive FROM pg_subscription"
    assert pair.sub(state) == [("t", "0", "t")]
    said = 'cannot set option "retain_dead_tuples" for enabled subscription'
    assert pair.sub.says("ALTER SUBSCRIPTION s SET (retain_dead_tuples = false)") == said
    assert pair.sub.says("ALTER SUBSCRIPTION s SET (max_retention_duration = -1)") == (
        'option "max_retention_duration" cannot be negative'
    )
    pair.sub("ALTER SUBSCRIPTION s SET (max_retention_duration = 1)", "SELECT pg_sleep(0.1)")
    assert pair.sub(state) == [("t", "1", "f")]  # not retained any more
    pair.sub("ALTER SUBSCRIPTION s SET (max_retention_duration = 0)", "DELETE FROM t WHERE a = 1", "VACUUM")
    first = "SELECT count(*) FROM pg_subscription WHERE subretentionactive"
    assert pair.sub(first) == [("1",)]
    pair.sub("ALTER SUBSCRIPTION s DISABLE", "ALTER SUBSCRIPTION s SET (retain_dead_tuples = true)")
    assert pair.sub.notices[-1].startswith("deleted rows to detect conflicts would not be removed until")
    pair.sub("ALTER SUBSCRIPTION s SET (retain_dead_tuples = false)")
    pair.sub("ALTER SUBSCRIPTION s SET (max_retention_duration = 5)")
    assert pair.sub.notices[-1] == "max_retention_duration is ineffective when retain_dead_tuples is disabled"
