"""When a database catches up with its publishers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pgrepl.lake.changes import changes as lake_changes
from pgrepl.replication.subscriber import apply_loop
from pgrepl.replication.subscriber.launcher import CatchUp
from tests.harness.pair import Pair
from tests.harness.programs import eventually


@pytest.fixture
def failing(pair: Pair) -> Iterator[CatchUp]:
    """The row that comes is there already."""
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.sub("INSERT INTO t VALUES (1)")
    pair.pub("INSERT INTO t VALUES (1), (2)")
    with closing(CatchUp(pair.sub.session, pair.log)) as catching:
        yield catching


def set_retry_interval(pair: Pair, interval: str) -> None:
    pair.sub(f"ALTER SYSTEM SET wal_retrieve_retry_interval = '{interval}'")
    pair.sub("SELECT pg_reload_conf()")


def test_a_failed_subscription_is_tried_again_once_its_own_session_has_changed_something(
    pair: Pair, failing: CatchUp
) -> None:
    set_retry_interval(pair, "1h")
    for _ in range(3):
        failing.now()  # once in vain; then it waits until something has changed
    assert len(pair.log.errors) == 1
    pair.sub("DELETE FROM t")
    failing.now()
    assert pair.sub("SELECT a FROM t ORDER BY a") == [("1",), ("2",)]


def test_failed_subscriptions_do_not_try_each_other_again(pair: Pair, failing: CatchUp) -> None:
    set_retry_interval(pair, "1h")
    pair.both("CREATE TABLE u (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION q FOR TABLE u")
    pair.sub("INSERT INTO u VALUES (1)")
    connection = "host=localhost dbname=pub"
    pair.sub(f"CREATE SUBSCRIPTION other CONNECTION '{connection}' PUBLICATION q WITH (copy_data = false)")
    pair.pub("INSERT INTO u VALUES (1)")
    for _ in range(3):
        failing.now()
    assert [message.rpartition(" ")[2] for message, _, _ in pair.log.errors] == ['"t_pkey"', '"u_pkey"']


def test_a_failed_subscription_is_tried_again_after_wal_retrieve_retry_interval(pair: Pair, failing: CatchUp) -> None:
    set_retry_interval(pair, "20ms")

    def tried_twice() -> bool:
        failing.now()
        return len(pair.log.errors) == 2

    eventually(tried_twice, 4)  # by default it would take 5 s


@pytest.mark.parametrize("cascade", [False, True])
def test_of_a_long_backlog_each_batch_reads_about_what_it_takes(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, cascade: bool
) -> None:
    """So memory is that of a batch, and the time grows with the backlog, not with its square."""
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.sub("SET pgrepl.engine = local")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    if cascade:
        pair.sub("CREATE PUBLICATION q FOR TABLE t WITH (publish = 'insert')")
    pair.subscribe()
    for number in range(30):
        pair.pub(f"INSERT INTO t SELECT g FROM generate_series({number * 10}, {number * 10 + 9}) g")
    read: list[int] = []

    def changes(*arguments: object) -> list[object]:
        found: list[object] = list(there(*arguments))  # type: ignore[arg-type]
        read.append(len(found))
        return found

    there = lake_changes.changes
    monkeypatch.setattr(lake_changes, "changes", changes)
    monkeypatch.setattr(apply_loop, "BATCH", 20)
    assert pair.catch_up() == []
    assert pair.sub("SELECT count(*) FROM t") == [("300",)]
    assert sum(read) <= 4 * 300
    assert max(read) <= 16 * 10
