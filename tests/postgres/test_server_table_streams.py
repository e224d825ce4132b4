"""While a server's table without a key is copied, the stream goes on for the others, and then for this table alone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random

import psycopg
import pytest

from pgrepl.catalog.facts.activity import Copying
from pgrepl.replication.subscriber import table_workers
from pgrepl.replication.subscriber.lease import Observer, WorkerStopped
from pgrepl.replication.subscriber.worker import Worker
from tests.harness.database import Rows, ask, visit
from tests.harness.dose import dose
from tests.harness.programs import PATIENCE, eventually
from tests.postgres.served import Served
from tests.postgres.test_server_faults import ON_ONE, apply

ALL_T, ALL_U = "SELECT * FROM t ORDER BY a, b", "SELECT * FROM u ORDER BY a"
STATES = "SELECT srrelid::regclass, srsubstate FROM pg_subscription_rel ORDER BY 1"
SYNC = "slot_name LIKE 'pg\\_%\\_sync\\_%'"
ROWS = 600


def filled(served: Served, where: str = "") -> None:
    served.both("CREATE TABLE t (a int, b text); CREATE TABLE u (a int PRIMARY KEY, b text)")
    served.pub("ALTER TABLE t REPLICA IDENTITY FULL; CREATE PUBLICATION p FOR TABLE u")
    served.subscribe()
    served.pub(f"INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, {ROWS}) g")
    served.pub(f"ALTER PUBLICATION p ADD TABLE t {where}")
    served.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")


class Held(Observer):
    """Holds the copy when its rows have come, until `release` is set."""

    def __init__(self) -> None:
        self.is_held, self.release = threading.Event(), threading.Event()

    def rows(self, subscription: str, table: str, copying: Copying) -> None:
        if copying.tuples_processed and not self.is_held.is_set():
            self.is_held.set()
            assert self.release.wait(PATIENCE)


@contextmanager
def copying(served: Served) -> Iterator[tuple[Worker, Held, threading.Thread]]:
    """A worker at its round, in a thread; the copy is held."""
    held = Held()
    with visit(served.folder / "catalog.db", "sub") as session:
        oid = int(str(served.sub("SELECT oid FROM pg_subscription")[0][0]))
        worker = Worker(session, oid, served.log, observer=held)

        def play() -> None:
            with suppress(WorkerStopped):
                worker.round()

        rounds = threading.Thread(target=play)
        rounds.start()
        try:
            assert held.is_held.wait(PATIENCE), served.log.errors
            yield worker, held, rounds
        finally:
            held.release.set()
            rounds.join()
            worker.close()


def asked(served: Served, text: str) -> Rows:
    with visit(served.folder / "catalog.db", "sub") as session:
        return ask(session, text)


def same(served: Served) -> None:
    served.same(ALL_T)
    served.same(ALL_U)
    assert served.sub(STATES) == [("t", "r"), ("u", "r")]
    assert served.pub(f"SELECT count(*) FROM pg_replication_slots WHERE {SYNC}") == [("0",)]
    assert served.sub("SELECT count(*) FROM pg_replication_origin") == [("1",)]


def test_rows_of_another_table_arrive_while_one_is_copied(served: Served) -> None:
    """A transaction that has begun before the copy, and commits while it is under way, is not lost."""
    filled(served)
    with psycopg.connect(served.conninfo) as straddling, copying(served) as (_, held, _rounds):
        straddling.execute("INSERT INTO t VALUES (1001, 'straddles')")
        straddling.commit()
        for number in range(3):
            served.pub(f"INSERT INTO u VALUES ({number}, 'comes')")
            there = served.pub(ALL_U)
            eventually(lambda there=there: asked(served, ALL_U) == there)  # type: ignore[misc]
        served.pub("UPDATE t SET b = 'changed' WHERE a < 10; DELETE FROM t WHERE a > 500 AND a < 1000")
        served.pub("INSERT INTO t VALUES (1, 'row 1'), (1, 'row 1'); INSERT INTO u VALUES (9, 'behind it')")
        eventually(lambda: asked(served, "SELECT max(a) FROM u") == [("9",)])
        assert asked(served, STATES) == [("t", "d"), ("u", "r")]
        held.release.set()
    assert served.log.errors == []
    assert served.catch_up() == []
    same(served)


def test_a_truncate_that_waits_for_the_copy(served: Served) -> None:
    filled(served)
    truncating = threading.Thread(target=served.pub, args=["TRUNCATE t; INSERT INTO t VALUES (1, 'behind it')"])
    with psycopg.connect(served.conninfo, autocommit=True) as another, copying(served) as (_, held, _rounds):
        truncating.start()
        another.execute("INSERT INTO u VALUES (1, 'comes')")
        eventually(lambda: asked(served, "SELECT count(*) FROM u") == [("1",)])
        held.release.set()
        truncating.join()
    assert served.catch_up() == []
    same(served)


def test_many_changes_go_by_columns(served: Served) -> None:
    filled(served)
    served.sub("ALTER SYSTEM SET pgrepl.engine = local")  # a JVM that other tests have started would copy at once
    with copying(served) as (_, held, _rounds):
        served.pub("UPDATE t SET b = b || '!'; INSERT INTO t SELECT g, 'new' FROM generate_series(1, 5000) g")
        served.pub("INSERT INTO u VALUES (1, 'too')")
        eventually(lambda: asked(served, "SELECT count(*) FROM u") == [("1",)])
        held.release.set()
    assert served.catch_up() == []
    same(served)
    assert served.sub.ways()["apply"] > 0


def test_a_worker_that_is_stopped_meanwhile_ends(served: Served) -> None:
    filled(served)
    with copying(served) as (worker, held, rounds):
        served.pub("INSERT INTO u VALUES (1, 'comes')")
        eventually(lambda: asked(served, "SELECT count(*) FROM u") == [("1",)])
        held.release.set()
        while rounds.is_alive():
            worker.stop()
            rounds.join(0.1)
    assert served.catch_up() == []
    same(served)


@pytest.mark.parametrize("statement", ["DROP SUBSCRIPTION s", "ALTER SUBSCRIPTION s REFRESH PUBLICATION"])
def test_a_table_that_goes_while_its_own_stream_is_read(
    served: Served, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(served)
    catch_up = table_workers._catch_up
    gone: list[object] = []

    def once(*arguments: object, **options: object) -> bool:
        if not gone:
            gone.append(True)
            served.pub("ALTER PUBLICATION p DROP TABLE t")
            dropping.start()
        return catch_up(*arguments, **options)  # type: ignore[arg-type]

    dropping = threading.Thread(target=lambda: asked(served, statement))
    monkeypatch.setattr(table_workers, "_catch_up", once)
    with copying(served) as (_, held, _rounds):
        served.pub("INSERT INTO t VALUES (1, 'new'); INSERT INTO u VALUES (1, 'comes')")
        eventually(lambda: asked(served, "SELECT count(*) FROM u") == [("1",)])
        held.release.set()
    dropping.join()
    assert served.pub(f"SELECT count(*) FROM pg_replication_slots WHERE {SYNC}") == [("0",)]
    assert served.sub("SELECT count(*) FROM pg_subscription_rel WHERE srrelid = 't'::regclass") == [("0",)]


# --- processes that are killed ----------------------------------------------------------------------------------------

SLOW = "WHERE (length(repeat(md5(b), 40000)) > 0)"  # most of a millisecond a row


class Writer(threading.Thread):
    """Writes to both tables in each of its transactions, some of them long, until it is told to end."""

    def __init__(self, served: Served, seed: int) -> None:
        super().__init__(daemon=True)
        self._conninfo, self._random, self._over = served.conninfo, Random(seed), threading.Event()

    def run(self) -> None:
        number = 0
        with psycopg.connect(self._conninfo, autocommit=True) as link:
            while not self._over.is_set():
                number += 1
                with link.transaction():
                    link.execute(self._statement().encode())
                    link.execute(f"INSERT INTO u VALUES ({number}, 'n')".encode())
                    self._over.wait(self._random.choice([0.0, 0.02, 0.1]))

    def _statement(self) -> str:
        a = self._random.randint(1, 2 * ROWS)
        return self._random.choice(
            [
                f"INSERT INTO t VALUES ({a}, 'row {a}'), ({a}, 'new')",
                f"UPDATE t SET b = 'changed', a = a + {self._random.choice([0, 1])} WHERE a BETWEEN {a} AND {a + 3}",
                f"DELETE FROM t WHERE a BETWEEN {a} AND {a + 3}",
                f"DELETE FROM t WHERE a = {a} AND b LIKE 'row%'",
            ]
        )

    def end(self) -> None:
        self._over.set()
        self.join()


def test_an_interrupted_stream_of_a_table_goes_on(served: Served) -> None:
    filled(served, SLOW)
    writer = Writer(served, 1)
    writer.start()
    try:
        assert apply(served, "copy.committed") == -signal.SIGKILL
        assert served.sub(STATES) == [("t", "f"), ("u", "r")]
        assert apply(served, "table.settled") == -signal.SIGKILL
        assert served.sub(STATES) == [("t", "f"), ("u", "r")]
        assert apply(served, "table.left") == -signal.SIGKILL
    finally:
        writer.end()
    assert served.sub(STATES) == [("t", "s"), ("u", "r")]
    assert apply(served) == 0
    same(served)


@ON_ONE
@pytest.mark.parametrize("seed", dose(range(100), 100, 3))
def test_copies_and_streams_that_are_killed_at_random_beside_writes_end_equal(served: Served, seed: int) -> None:
    filled(served, SLOW)
    writer, random = Writer(served, seed), Random(seed)
    points = ["copy.committed", "copy.received", "table.settled", "table.left", "apply.settled", "apply.committed"]
    writer.start()
    try:
        for _ in range(4):
            apply(served, f"{random.choice(points)}:{random.randint(1, 4)}")
    finally:
        writer.end()
    assert apply(served) == 0
    same(served)
