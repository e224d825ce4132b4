"""Several tables of a subscription are copied at once: each by a worker of its own, and all of them end together."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from pgrepl.catalog.facts.activity import Copying
from pgrepl.engine.choice import Choice, Engine
from pgrepl.replication.subscriber import table_workers
from pgrepl.replication.subscriber.attach import Round
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.copying import copy
from pgrepl.replication.subscriber.lease import Observer
from pgrepl.replication.subscriber.worker import Worker
from tests.harness.database import Database
from tests.harness.pair import Pair
from tests.harness.programs import PATIENCE, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("t1", "t2", "t3")
STATES = "SELECT srrelid::regclass, srsubstate FROM pg_subscription_rel ORDER BY 1"
NAME = "pgrepl-table-sync"


def on_spark(wanted: bool) -> Choice:
    return Choice(Engine.SPARK if wanted else Engine.LOCAL, "the test wants it")


@pytest.fixture
def waiting(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Three tables of 25 rows wait for their copies; they count as large, and come ten rows at a time."""
    monkeypatch.setattr(table_workers, "choose_job", lambda session, rows: on_spark(rows >= 50))
    monkeypatch.setattr(copy, "PORTION", 10)
    pair.both("; ".join(f"CREATE TABLE {name} (a int PRIMARY KEY)" for name in TABLES))
    pair.pub("CREATE PUBLICATION p FOR TABLE " + ", ".join(TABLES))
    for name in TABLES:
        pair.pub(f"INSERT INTO {name} SELECT g FROM generate_series(1, 25) g")
    pair.sub("CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=pub' PUBLICATION p")
    return pair


class Watching(Observer):
    """Tells what is copied, and lets a test step in whenever rows have come."""

    def __init__(self, came: Callable[[str, int], None] = lambda table, count: None) -> None:
        self.told: list[str] = []
        self.threads: set[str] = set()
        self._came = came

    def copied(self, subscription: str, table: str, count: int) -> None:
        self.told.append(table.rpartition(".")[2])

    def rows(self, subscription: str, table: str, copying: Copying) -> None:
        self.threads.add(threading.current_thread().name)
        if copying.tuples_processed:
            self._came(table.rpartition(".")[2], copying.tuples_processed)


def working(pair: Pair, observer: Observer) -> Round:
    oid = int(str(pair.sub("SELECT oid FROM pg_subscription")[0][0]))
    made = Worker(pair.sub.session, oid, pair.log, observer=observer)
    try:
        return made.round()
    finally:
        made.close()
        assert [thread.name for thread in threading.enumerate() if thread.name == NAME] == []


def counts(pair: Pair) -> list[int]:
    return [int(str(pair.sub(f"SELECT count(*) FROM {name}")[0][0])) for name in TABLES]


def test_two_tables_are_copied_at_the_same_time(waiting: Pair) -> None:
    """Neither goes on before the other is there; the third, and a third worker, wait for one of them."""
    together = threading.Barrier(2, timeout=PATIENCE)
    seen: list[object] = []

    def came(table: str, count: int) -> None:
        if table == "t3" or count > 10:
            return
        if together.wait() == 0:
            seen.append(waiting.pub("SELECT slot_name LIKE 'pg\\_%\\_sync\\_%' FROM pg_replication_slots ORDER BY 1"))
            seen.append(
                waiting.sub("SELECT worker_type, relid::regclass FROM pg_stat_subscription ORDER BY 1, relid::regclass")
            )
        together.wait()

    observer = Watching(came)
    done = working(waiting, observer)
    assert (done.error, done.rows_copied, done.tables_copied) == (None, 75, list(TABLES))
    assert observer.told == list(TABLES)
    assert seen == [
        [("f",), ("t",), ("t",)],
        [("apply", None), ("table synchronization", "t1"), ("table synchronization", "t2")],
    ]
    assert waiting.sub(STATES) == [(name, "r") for name in TABLES]
    assert counts(waiting) == [25, 25, 25]
    assert waiting.pub("SELECT count(*) FROM pg_replication_slots") == [("1",)]
    assert waiting.sub("SELECT count(*) FROM pg_stat_progress_copy") == [("0",)]


def test_it_is_told_in_the_order_of_the_tables(waiting: Pair) -> None:
    """The first is the last to end."""
    others = threading.Event()

    def came(table: str, count: int) -> None:
        if table == "t1":
            assert others.wait(PATIENCE)
        elif table == "t3" and count == 25:
            others.set()

    observer = Watching(came)
    done = working(waiting, observer)
    assert (done.tables_copied, observer.told) == (list(TABLES), list(TABLES))


def test_the_failure_of_one_is_no_others(waiting: Pair) -> None:
    waiting.sub("INSERT INTO t1 VALUES (7); INSERT INTO t3 VALUES (8)")
    observer = Watching()
    done = working(waiting, observer)
    assert done.error is not None
    assert done.error.message == 'duplicate key value violates unique constraint "t1_pkey"'
    assert (done.tables_copied, observer.told, counts(waiting)) == (["t2"], ["t2"], [1, 25, 1])
    assert waiting.sub("SELECT sync_error_count, apply_error_count FROM pg_stat_subscription_stats") == [("2", "0")]
    assert sorted(message for message, _, _ in waiting.log.errors) == [
        f'duplicate key value violates unique constraint "{name}_pkey"' for name in ("t1", "t3")
    ]
    waiting.sub("DELETE FROM t1; DELETE FROM t3")
    again = working(waiting, Watching())
    assert (again.error, again.tables_copied, counts(waiting)) == (None, ["t1", "t3"], [25, 25, 25])


def test_an_error_that_disables_ends_the_others(waiting: Pair) -> None:
    waiting.sub("ALTER SUBSCRIPTION s SET (disable_on_error = true); INSERT INTO t2 VALUES (7)")

    def came(table: str, count: int) -> None:
        if table == "t1":
            eventually(lambda: waiting.sub("SELECT subenabled FROM pg_subscription") == [("f",)])

    done = working(waiting, Watching(came))
    assert done.error is not None
    assert done.tables_copied == []
    assert counts(waiting) == [0, 1, 0]
    assert waiting.sub("SELECT subenabled, sync_error_count FROM pg_subscription, pg_stat_subscription_stats") == [
        ("f", "1")
    ]
    waiting.sub("DELETE FROM t2; ALTER SUBSCRIPTION s ENABLE")
    assert working(waiting, Watching()).error is None
    assert counts(waiting) == [25, 25, 25]


def test_copies_that_end_early_leave_what_else_spark_does_alone(waiting: Pair, spark: SparkSession) -> None:
    """Neither what runs beside them nor what begins soon after is cancelled."""
    waiting.sub("ALTER SUBSCRIPTION s SET (disable_on_error = true); INSERT INTO t2 VALUES (7)")
    failed: list[BaseException] = []
    enough = threading.Event()
    counted: list[int] = []

    def count() -> None:
        while not enough.is_set() and not failed:
            try:
                spark.range(0, 20_000_000, 1, 1).selectExpr("sum(id % 7)").collect()
                counted.append(7)
            except BaseException as error:
                failed.append(error)

    jobs = threading.Thread(target=count)
    jobs.start()
    eventually(lambda: counted or failed)
    assert working(waiting, Watching()).error is not None
    before = len(counted)
    eventually(lambda: len(counted) >= before + 2 or failed)
    enough.set()
    jobs.join()
    assert failed == []


def test_who_is_stopped_stops_them_all(waiting: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2, timeout=PATIENCE)

    def came(table: str, count: int) -> None:
        if count == 10 and together.wait() == 0:
            os.kill(os.getpid(), signal.SIGINT)
        elif count == 20:
            eventually(lambda: len(told) == 2)

    def stop(context: WorkerContext) -> None:
        told.add(context)
        there(context)

    told: set[WorkerContext] = set()
    there = WorkerContext.stop
    monkeypatch.setattr(WorkerContext, "stop", stop)
    with pytest.raises(KeyboardInterrupt):
        working(waiting, Watching(came))
    assert counts(waiting) == [0, 0, 0]
    assert waiting.sub("SELECT count(*) FROM pg_stat_progress_copy") == [("0",)]
    done = working(waiting, Watching())
    assert (done.error, done.rows_copied, counts(waiting)) == (None, 75, [25, 25, 25])
    assert waiting.pub("SELECT count(*) FROM pg_replication_slots") == [("1",)]


@pytest.mark.slow
def test_who_is_stopped_waits_for_no_lock(waiting: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else has an open transaction that has written: the copies wait for it, whoever stops them does not."""
    waiting.sub("ALTER SYSTEM SET lock_timeout = '5min'")
    stop = table_workers.stop_workers
    taken: list[float] = []

    def came(table: str, count: int) -> None:
        if count == 25 and table == "t1":
            waiting.pub("BEGIN; CREATE TABLE held ()")
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

    def timed(workers: Sequence[table_workers.TableWorker], tag: str) -> None:
        began = time.monotonic()
        stop(workers, tag)
        taken.append(time.monotonic() - began)
        waiting.pub("ROLLBACK")

    monkeypatch.setattr(table_workers, "stop_workers", timed)
    with pytest.raises(KeyboardInterrupt):
        working(waiting, Watching(came))
    assert taken[0] < 60  # it would be five minutes
    monkeypatch.undo()
    assert working(waiting, Watching()).error is None
    assert counts(waiting) == [25, 25, 25]


@pytest.mark.parametrize(
    "setting", ["max_sync_workers_per_subscription = 1", "max_logical_replication_workers = 2", None]
)
def test_one_after_the_other(waiting: Pair, setting: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no more workers may run, the apply worker counted; small tables are copied by itself."""
    if setting is None:
        monkeypatch.setattr(table_workers, "choose_job", lambda session, rows: on_spark(rows > 75))
    else:
        waiting.sub(f"ALTER SYSTEM SET {setting}")
    observer = Watching()
    path = waiting.sub.session.catalog.path
    assert path is not None
    again = Database(path.parent, "sub") if setting else waiting.sub
    oid = int(str(waiting.sub("SELECT oid FROM pg_subscription")[0][0]))
    made = Worker(again.session, oid, waiting.log, observer=observer)
    done = made.round()
    made.close()
    if again is not waiting.sub:
        again.close()
    assert (done.error, done.tables_copied) == (None, list(TABLES))
    assert observer.threads == {threading.main_thread().name if setting is None else NAME}
