"""Workers among themselves and in the statistics: one at a time for a subscription, and what others see of it."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pgrepl.catalog.facts.activity import Copying
from pgrepl.catalog.store.connection import Catalog
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber import at_once, streaming
from pgrepl.replication.subscriber.apply import transactions
from pgrepl.replication.subscriber.attach import attach, detach
from pgrepl.replication.subscriber.context import KeptConnection, WorkerContext
from pgrepl.replication.subscriber.launcher import CatchUp
from pgrepl.replication.subscriber.lease import Heartbeat, Observer, SubscriptionChanged, WorkerFailed
from pgrepl.replication.subscriber.worker import Worker
from tests.harness.database import Database, HeardLog
from tests.harness.pair import Pair
from tests.harness.programs import eventually

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"


@pytest.fixture
def ready(pair: Pair) -> Pair:
    pair.both(T)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    return pair


def worker(pair: Pair, *, keeps_lease: bool = False, observer: Observer | None = None) -> Worker:
    oid = int(str(pair.sub("SELECT oid FROM pg_subscription")[0][0]))
    return Worker(pair.sub.session, oid, pair.log, keeps_lease=keeps_lease, observer=observer)


@pytest.fixture
def holder(ready: Pair) -> Iterator[Worker]:
    """One that keeps the lease."""
    made = worker(ready, keeps_lease=True)
    assert made.round().error is None
    yield made
    made.close()


def test_a_physical_slot_is_no_subscriptions(pair: Pair) -> None:
    pair.both(T)
    pair.pub("CREATE PUBLICATION p FOR TABLE t; SELECT pg_create_physical_replication_slot('standby')")
    connection = "host=localhost dbname=pub"
    options = "create_slot = false, slot_name = 'standby'"
    pair.sub(f"CREATE SUBSCRIPTION s CONNECTION '{connection}' PUBLICATION p WITH ({options})")
    error = worker(pair).round().error
    assert error is not None
    assert error.message == (
        "could not start WAL streaming: ERROR:  cannot use physical replication slot for logical decoding"
    )


def test_the_other_says_who_holds_the_slot(ready: Pair, holder: Worker) -> None:
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    other = worker(ready)
    error = other.round().error
    assert error is not None
    assert (error.sqlstate, error.message) == (
        "08P01",
        f'could not start WAL streaming: ERROR:  replication slot "s" is active for PID {os.getpid()}',
    )
    assert ready.sub("SELECT * FROM t") == []
    assert holder.round().transactions == 1
    holder.close()
    assert other.round().error is None
    other.close()
    assert ready.sub("SELECT apply_error_count FROM pg_stat_subscription_stats") == [("0",)]


def test_a_shell_waits_for_the_worker_that_is_busy(
    ready: Pair, holder: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees what the other has applied, and takes over nothing."""
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            holder.round()

    monkeypatch.setattr(time, "sleep", sleep)
    CatchUp(ready.sub.session, HeardLog()).now()
    assert len(slept) >= 3
    assert ready.sub("SELECT * FROM t") == [("1", "x")]
    assert ready.sub("SELECT active_pid FROM pg_replication_slots") == [(str(os.getpid()),)]


def test_what_a_dead_worker_held_is_taken_over_at_once(ready: Pair) -> None:
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    oid = ready.sub("SELECT oid FROM pg_subscription")[0][0]
    link = ready.sub.session.link
    link.execute(
        "INSERT INTO pgrepl_worker (subid, relid, token, pid, host, beat) VALUES (?, 0, '1.x', ?, ?, ?)",
        (oid, dead, os.uname().nodename, time.time()),
    )
    link.execute(
        "INSERT INTO pgrepl_walsender (slot_name, token, pid, host, beat) VALUES ('s', '1.x', ?, ?, ?)",
        (dead, os.uname().nodename, time.time()),
    )
    assert ready.sub("SELECT active, active_pid FROM pg_replication_slots") == [("f", None)]
    assert ready.catch_up() == []
    assert ready.sub("SELECT * FROM t") == [("1", "x")]


def test_a_worker_elsewhere_is_waited_for_until_it_has_been_silent_for_long(ready: Pair) -> None:
    oid = ready.sub("SELECT oid FROM pg_subscription")[0][0]
    link = ready.sub.session.link
    row = "INSERT INTO pgrepl_worker (subid, relid, token, pid, host, beat) VALUES (?, 0, '1.x', 7, 'elsewhere', ?)"
    link.execute(row, (oid, time.time()))
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    here = worker(ready)
    assert here.round().error is not None
    link.execute("UPDATE pgrepl_worker SET beat = ?", (time.time() - 100,))
    assert here.round().error is None
    here.close()
    assert ready.sub("SELECT * FROM t") == [("1", "x")]


def test_who_has_lost_the_lease_commits_nothing(ready: Pair) -> None:
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    oid = int(str(ready.sub("SELECT oid FROM pg_subscription")[0][0]))
    context = WorkerContext(ready.sub.session, oid, ready.log)
    attach(context)
    ready.sub.session.link.execute("UPDATE pgrepl_worker SET token = 'another'")
    with pytest.raises(SubscriptionChanged):
        streaming.stream_batch(context, None, None)
    detach(context)
    context.close()
    assert ready.sub("SELECT * FROM t") == []
    ready.sub.session.link.execute("DELETE FROM pgrepl_worker")
    assert ready.catch_up() == []
    assert ready.sub("SELECT * FROM t") == [("1", "x")]


def test_nothing_is_locked_while_rows_are_received(
    ready: Pair, holder: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else writes meanwhile; what was played on the rows before that is played again."""
    ready.pub("INSERT INTO t VALUES (1, 'x'); UPDATE t SET b = 'y'")
    play = transactions.play
    plays = 0

    def interrupted(*arguments: object) -> object:
        nonlocal plays
        played = play(*arguments)  # type: ignore[arg-type]
        plays += 1
        if plays == 1:
            ready.sub("INSERT INTO t VALUES (2, 'local')")
        return played

    for module in (streaming, at_once):
        monkeypatch.setattr(module, "play", interrupted)
    assert holder.round().error is None
    assert plays == 2
    assert ready.sub("SELECT * FROM t ORDER BY a") == [("1", "y"), ("2", "local")]


def test_an_idle_round_writes_nothing(ready: Pair) -> None:
    idle = worker(ready)
    assert idle.round().error is None
    before = ready.sub.session.link.execute("PRAGMA data_version")
    done = idle.round()
    assert (done.transactions, done.tables_copied, done.error) == (0, [], None)
    assert ready.sub.session.link.execute("PRAGMA data_version") == before
    idle.close()


def test_the_statistics_of_a_worker(ready: Pair, holder: Worker) -> None:
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    holder.round()
    lsn = ready.sub("SELECT confirmed_flush_lsn FROM pg_replication_slots")[0][0]
    pid = str(os.getpid())
    assert ready.sub(
        "SELECT subname, worker_type, pid, leader_pid, relid, received_lsn, latest_end_lsn,"
        " last_msg_receipt_time > now() - interval '1 minute' FROM pg_stat_subscription"
    ) == [("s", "apply", pid, None, None, lsn, lsn, "t")]
    assert ready.pub(
        "SELECT pid, usename, application_name, state, sent_lsn, write_lsn, flush_lsn, replay_lsn, sync_state"
        " FROM pg_stat_replication"
    ) == [(pid, "postgres", "s", "streaming", lsn, lsn, lsn, lsn, "async")]
    assert ready.pub("SELECT active, active_pid, inactive_since FROM pg_replication_slots") == [("t", pid, None)]
    holder.close()
    assert ready.sub("SELECT subname, worker_type, pid, received_lsn FROM pg_stat_subscription") == [
        ("s", None, None, None)
    ]
    assert ready.pub("SELECT count(*) FROM pg_stat_replication") == [("0",)]
    assert ready.pub("SELECT active, inactive_since IS NULL FROM pg_replication_slots") == [("f", "f")]


def test_a_running_copy_shows(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    from pgrepl.replication.subscriber import lease
    from pgrepl.replication.subscriber.copying import copy

    monkeypatch.setattr(lease, "WHILE_COPYING", 0.02)
    monkeypatch.setattr(copy, "PORTION", 10)
    pair.both(T)
    pair.pub("CREATE PUBLICATION p FOR TABLE t; INSERT INTO t SELECT g, 'v' FROM generate_series(1, 25) g")
    connection = "host=localhost dbname=pub"
    pair.sub(f"CREATE SUBSCRIPTION s CONNECTION '{connection}' PUBLICATION p")
    seen: list[list[tuple[str | None, ...]]] = []

    expected = (str(os.getpid()), "sub", "t", "COPY FROM", "CALLBACK", str(9 * 4 + 11 * 5), "0", "20", "0", "0")

    class Looks(Observer):
        def rows(self, subscription: str, table: str, copying: Copying) -> None:
            if copying.tuples_processed != 20:
                return
            assert copying.tuples_total == 25
            progress = (
                "SELECT pid, datname, relid::regclass, command, type, bytes_processed, bytes_total, tuples_processed,"
                " tuples_excluded, tuples_skipped FROM pg_stat_progress_copy"
            )
            eventually(lambda: pair.sub(progress) == [expected])
            seen.append(pair.sub(progress))
            seen.append(pair.sub("SELECT worker_type, relid::regclass FROM pg_stat_subscription"))

    copies = worker(pair, observer=Looks())
    assert copies.round().rows_copied == 25
    copies.close()
    assert seen == [[expected], [("apply", None), ("table synchronization", "t")]]
    assert pair.sub("SELECT count(*) FROM pg_stat_progress_copy") == [("0",)]


@pytest.mark.parametrize(("meanwhile", "times"), [("heartbeat", 1), ("slot", 1), ("trigger", 2)])
def test_a_batch_is_played_again_only_if_tables_or_definitions_have_changed(
    ready: Pair, holder: Worker, monkeypatch: pytest.MonkeyPatch, meanwhile: str, times: int
) -> None:
    ready.sub("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    happens = {
        "heartbeat": lambda: heart_of(holder)._beat(),
        "slot": lambda: ready.pub("SELECT pg_create_physical_replication_slot('other')"),
        "trigger": lambda: ready.sub("CREATE TRIGGER f AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"),
    }
    played = []
    play = transactions.play

    def play_long(*arguments: Any) -> Any:
        played.append(play(*arguments))
        if len(played) == 1:
            happens[meanwhile]()
        return played[-1]

    for module in (streaming, at_once):
        monkeypatch.setattr(module, "play", play_long)
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    assert holder.round().error is None
    assert ready.sub("SELECT b FROM t WHERE a = 1") == [("x",)]
    assert len(played) == times


def heart_of(worker: Worker) -> Heartbeat:
    heart = worker.context.heartbeat
    assert heart is not None
    return heart


def test_a_subscription_is_dropped_from_under_its_worker(ready: Pair, holder: Worker) -> None:
    ready.sub("DROP SUBSCRIPTION s")
    assert ready.pub("SELECT count(*) FROM pg_replication_slots") == [("0",)]
    done = holder.round()
    assert (done.error, done.transactions) == (None, 0)
    assert ready.log.reports[-1].message == (
        'logical replication worker for subscription "s" will stop because the subscription was removed'
    )


def test_a_subscription_is_dropped_before_its_worker_starts_the_stream(
    ready: Pair, holder: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = KeptConnection.publisher

    def late(connection: KeptConnection, *given: Any) -> Any:
        monkeypatch.undo()
        ready.sub("DROP SUBSCRIPTION s")
        return connected(connection, *given)

    ready.pub("INSERT INTO t VALUES (1)")
    monkeypatch.setattr(KeptConnection, "publisher", late)
    assert holder.round().error is None
    assert ready.log.messages("ERROR") == []
    assert ready.log.messages("LOG")[-1] == (
        'logical replication worker for subscription "s" will stop because the subscription was removed'
    )


def test_what_is_asked_of_a_slot_in_use(ready: Pair, holder: Worker) -> None:
    for call in ("pg_drop_replication_slot('s')", "pg_replication_slot_advance('s', '0/FF')"):
        with pytest.raises(PgError, match=f'replication slot "s" is active for PID {os.getpid()}'):
            ready.pub(f"SELECT {call}")


def test_errors_before_the_stream_are_not_counted_and_disable_nothing(ready: Pair) -> None:
    """As PostgreSQL: only what goes wrong in the apply loop counts and disables."""
    ready.sub("ALTER SUBSCRIPTION s SET (disable_on_error)")
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    ready.sub("ALTER SUBSCRIPTION s CONNECTION 'host=/nowhere/at/all dbname=pub'")
    ((message, _, _),) = ready.catch_up()
    assert message.startswith("could not connect to the publisher: ")
    assert ready.sub("SELECT apply_error_count, subenabled FROM pg_stat_subscription_stats, pg_subscription") == [
        ("0", "t")
    ]
    ready.sub("ALTER SUBSCRIPTION s CONNECTION 'host=localhost dbname=pub'")
    assert ready.catch_up() == []
    assert ready.sub("SELECT * FROM t") == [("1", "x")]


# --- what is out of order ---------------------------------------------------------------------------------------------


def in_two_folders(folder: Path) -> tuple[Database, Database]:
    """A publisher and where its subscriber is to be, each in a catalog of its own."""
    there, here = (_in_a_new_folder(folder / name) for name in ("there", "here"))
    there("CREATE PUBLICATION p FOR TABLE t; INSERT INTO t VALUES (0, 'first')")
    return there, here


def _in_a_new_folder(folder: Path) -> Database:
    folder.mkdir()
    made = Database(folder, "postgres")
    made(T)
    return made


def test_a_publisher_that_is_gone_for_a_while(tmp_path: Path) -> None:
    """Its folder, its catalog's lock, one of its files: a clear error each time, nothing lost."""
    there, here = in_two_folders(tmp_path)
    here(f"CREATE SUBSCRIPTION s CONNECTION 'host={tmp_path / 'there'} dbname=postgres' PUBLICATION p")
    log = HeardLog()
    kept = Worker(here.session, int(str(here("SELECT oid FROM pg_subscription")[0][0])), log)

    def message() -> str:
        error = kept.round().error
        return "" if error is None else error.message

    assert message() == ""
    there("INSERT INTO t SELECT g, 'many' FROM generate_series(1, 400) g")
    there.close()

    (tmp_path / "there").rename(tmp_path / "away")
    assert message() == (
        f'could not connect to the publisher: connection to server on socket "{tmp_path}/there/.s.PGSQL.5432" failed: '
        "No such file or directory\n\tIs the server running locally and accepting connections on that socket?"
    )
    (tmp_path / "away").rename(tmp_path / "there")

    files = list((tmp_path / "there" / "catalog.db.files").rglob("*.parquet"))
    assert files
    files[0].rename(tmp_path / "kept")
    assert message().startswith("could not receive data from WAL stream: ERROR:  could not open file ")
    (tmp_path / "kept").rename(files[0])
    assert message() == ""
    assert here("SELECT count(*), max(b) FROM t") == [("401", "many")]
    kept.close()
    here.close()


def test_ctrl_c_ends_the_wait_for_another_worker(ready: Pair, holder: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    sleep = time.sleep

    def interrupted(seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():  # of the test's surroundings
            sleep(seconds)
        else:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        CatchUp(ready.sub.session, HeardLog()).now()
    monkeypatch.undo()
    assert holder.round().transactions == 1


def test_a_publisher_whose_catalog_is_locked_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = in_two_folders(tmp_path)
    waits: list[float] = []  # that ended in vain
    failure = Catalog.lock_failure

    def noted(catalog: Catalog, timeout: float) -> PgError:
        waits.append(timeout)
        return failure(catalog, timeout)

    monkeypatch.setattr(Catalog, "lock_failure", noted)
    there("ALTER SYSTEM SET lock_timeout = '200ms'")
    here(f"CREATE SUBSCRIPTION s CONNECTION 'host={tmp_path / 'there'} dbname=postgres' PUBLICATION p")
    alone = Worker(here.session, int(str(here("SELECT oid FROM pg_subscription")[0][0])), HeardLog())
    with closing(sqlite3.connect(tmp_path / "there" / "catalog.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        error = alone.round().error
        assert error is not None
        assert error.message.startswith("could not start WAL streaming: ERROR:  could not lock catalog ")
        assert " within 0.2 s\n" in error.message
        assert waits.count(0.2) == 1
        assert here("SELECT pid FROM pg_stat_subscription") == [(None,)]
        other.execute("ROLLBACK")
    assert alone.round().error is None
    assert here("SELECT * FROM t") == [("0", "first")]
    alone.close()
    for database in (there, here):
        database.close()


def test_a_catalog_that_is_locked(ready: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who only reads goes on without what is new; it comes when the lock is gone."""
    from pgrepl.replication.subscriber import launcher

    monkeypatch.setattr(launcher, "PATIENCE", 0.3)
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    path = ready.sub.session.catalog.path
    assert path is not None
    log = HeardLog()
    shell = CatchUp(ready.sub.session, log)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        shell.now()
        other.execute("ROLLBACK")
    assert [message for message, _, _ in log.errors] == [f'could not lock catalog "{path}" within 0.3 s']
    assert ready.sub("SELECT * FROM t") == []
    shell.close()
    CatchUp(ready.sub.session, log).now()
    assert ready.sub("SELECT * FROM t") == [("1", "x")]


def test_a_subscription_that_is_disabled_while_its_worker_fails(ready: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nobody left whose error it would be."""
    ready.pub("INSERT INTO t VALUES (1, 'x')")

    def unreachable(connection: KeptConnection, subscription: object) -> object:
        ready.sub("ALTER SUBSCRIPTION s DISABLE")
        raise WorkerFailed(PgError("08006", "could not connect to the publisher"), began=False)

    monkeypatch.setattr(KeptConnection, "publisher", unreachable)
    with closing(worker(ready, keeps_lease=True)) as alone:
        assert alone.round().transactions == 0
    monkeypatch.undo()
    ready.sub("ALTER SUBSCRIPTION s ENABLE")
    assert ready.catch_up() == []
    assert ready.sub("SELECT * FROM t") == [("1", "x")]
