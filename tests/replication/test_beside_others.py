"""A14, A15: catching up beside statements and beside others: bounded, in its own transaction, never in the way."""

from __future__ import annotations

import pytest

from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.launcher import CatchUp
from tests.harness.database import Database
from tests.harness.pair import Pair


@pytest.fixture
def ready(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.pub("INSERT INTO t VALUES (1, 'x'), (2, 'y'); CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options="WITH (disable_on_error)")
    return pair


@pytest.mark.usefixtures("usual_way")
def test_a_row_that_is_changed_here_meanwhile_stops_nothing(ready: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A15: what was read is read again, silently."""
    local = Database(ready.folder, "sub")
    between = WorkerContext.lock
    waiting = ["UPDATE t SET b = 'local' WHERE a = 1; DELETE FROM t WHERE a = 2; INSERT INTO t VALUES (5, 'local')"]

    def locks(self: WorkerContext, *given: object) -> None:
        if waiting:
            local(waiting.pop())
        between(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(WorkerContext, "lock", locks)
    ready.pub("UPDATE t SET b = b || '!'; INSERT INTO t VALUES (3, 'z')")
    for _ in range(4):
        assert ready.catch_up() == []
    local.close()
    assert waiting == []
    assert ready.sub("SELECT * FROM t ORDER BY a") == [("1", "x!"), ("3", "z"), ("5", "local")]
    assert ready.sub("SELECT subenabled FROM pg_subscription") == [("t",)]
    assert ready.sub("SELECT apply_error_count FROM pg_stat_subscription_stats") == [("0",)]


@pytest.mark.usefixtures("usual_way")
def test_a_constraint_that_comes_meanwhile_is_obeyed(ready: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    local = Database(ready.folder, "sub")
    between = WorkerContext.lock
    waiting = ["ALTER TABLE t ADD CHECK (b <> 'bad')"]

    def locks(self: WorkerContext, *given: object) -> None:
        if waiting:
            local(waiting.pop())
        between(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(WorkerContext, "lock", locks)
    ready.pub("INSERT INTO t VALUES (3, 'bad')")
    errors = ready.catch_up() + ready.catch_up()
    local.close()
    assert [message for message, _, _ in errors] == ['new row for relation "t" violates check constraint "t_b_check"']
    assert ready.sub("SELECT a FROM t ORDER BY a") == [("1",), ("2",)]


def test_what_is_in_a_transaction_block_is_not_caught_up(ready: Pair) -> None:
    """A14."""
    ready.pub("INSERT INTO t VALUES (3, 'z')")
    ready.sub("BEGIN")
    assert ready.catch_up() == []
    assert ready.sub("SELECT count(*) FROM t") == [("2",)]
    ready.sub("COMMIT")
    assert ready.catch_up() == []
    assert ready.sub("SELECT count(*) FROM t") == [("3",)]


def test_two_that_subscribe_to_each_other_come_to_an_end(pair: Pair) -> None:
    """A14: with origin = any each change comes back; one catching up goes no further than the publisher's LSN at its
    start."""
    pair.both("CREATE TABLE t (a int)")
    pair.both("CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert')")
    pair.subscribe(options="WITH (copy_data = false)")
    pair.pub("CREATE SUBSCRIPTION back CONNECTION 'dbname=sub' PUBLICATION p WITH (copy_data = false)")
    back = CatchUp(pair.pub.session, pair.log)
    pair.pub("INSERT INTO t VALUES (1)")
    for rows in (1, 2, 3):
        assert pair.catch_up() == []
        assert pair.sub("SELECT count(*) FROM t") == [(str(rows),)]
        back.now()
        assert pair.pub("SELECT count(*) FROM t") == [(str(rows + 1),)]
