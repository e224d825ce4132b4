"""While a table is copied as a whole the main stream goes on; a stream of its own brings the table to where that is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from pgrepl.replication.subscriber import streaming, table_workers
from pgrepl.replication.subscriber.apply import transactions
from pgrepl.replication.subscriber.copying import copy
from pgrepl.replication.subscriber.lease import Observer
from pgrepl.replication.subscriber.worker import Round, Worker
from tests.harness.database import Rows, ask, visit
from tests.harness.dose import dose
from tests.harness.pair import Pair
from tests.harness.programs import eventually

NAME = "pgrepl-table-sync"
STATES = "SELECT srrelid::regclass, srsubstate FROM pg_subscription_rel ORDER BY 1"
ALL_T, ALL_U = "SELECT * FROM t ORDER BY a, b", "SELECT * FROM u ORDER BY a"


class Killed(BaseException):
    """The worker has died."""


@pytest.fixture
def waiting(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Beside a table that is ready one without a key waits for its copy; it counts as large."""
    monkeypatch.setattr(table_workers, "_SMALL", 0)
    pair.both("CREATE TABLE t (a int, b text); CREATE TABLE u (a int PRIMARY KEY, b text)")
    pair.pub("ALTER TABLE t REPLICA IDENTITY FULL; CREATE PUBLICATION p FOR TABLE u")
    pair.subscribe()
    pair.pub("INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 25) g; ALTER PUBLICATION p ADD TABLE t")
    pair.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    return pair


def at_crash_points(monkeypatch: pytest.MonkeyPatch, reached: Callable[[str], None]) -> None:
    """Have the workers of tables call `reached`."""

    def crash_point(name: str) -> None:
        if threading.current_thread().name == NAME:
            reached(name)

    for module in (copy, streaming, table_workers, transactions):
        monkeypatch.setattr(module, "crash_point", crash_point)


@contextmanager
def worker(pair: Pair, observer: Observer | None = None) -> Iterator[Worker]:
    oid = int(str(pair.sub("SELECT oid FROM pg_subscription")[0][0]))
    made = Worker(pair.sub.session, oid, pair.log, observer=observer)
    try:
        yield made
    finally:
        made.close()
        assert [thread.name for thread in threading.enumerate() if thread.name == NAME] == []


def working(pair: Pair) -> Round:
    with worker(pair) as made:
        return made.round()


def asked(pair: Pair, database: str, text: str) -> Rows:
    """By a session of this thread."""
    with visit(pair.folder / "catalog.db", database) as session:
        return ask(session, text)


def written(pair: Pair, text: str) -> None:
    """Write at the publisher, and wait until the main stream has brought it."""
    asked(pair, "pub", text)
    there = asked(pair, "pub", ALL_U)
    eventually(lambda: asked(pair, "sub", ALL_U) == there)


def check_over(pair: Pair) -> None:
    assert pair.sub(STATES) == [("t", "r"), ("u", "r")]
    assert (pair.sub(ALL_T), pair.sub(ALL_U)) == (pair.pub(ALL_T), pair.pub(ALL_U))
    assert pair.pub("SELECT count(*) FROM pg_replication_slots") == [("1",)]
    assert pair.sub("SELECT count(*) FROM pg_replication_origin") == [("1",)]
    assert pair.sub("SELECT count(*) FROM pg_stat_subscription WHERE relid IS NOT NULL") == [("0",)]


CHANGES = (
    "INSERT INTO t VALUES (100, 'new'), (1, 'row 1'); UPDATE t SET b = 'changed' WHERE a < 5;"
    "DELETE FROM t WHERE a > 20; INSERT INTO u VALUES (1, 'comes at once')"
)


@pytest.mark.parametrize("way", ["rows", "columns"])
def test_rows_of_other_tables_come_while_a_table_is_copied(
    waiting: Pair, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "columns":
        waiting.sub("ALTER SYSTEM SET pgrepl.local_rows = 5")
    states: list[Rows] = []

    def reached(name: str) -> None:
        if name == "copy.received":
            written(waiting, CHANGES)
        elif name == "copy.committed":
            states.append(asked(waiting, "sub", STATES))
            states.append(asked(waiting, "sub", "SELECT count(*) FROM t"))

    at_crash_points(monkeypatch, reached)
    done = working(waiting)
    assert (done.error, done.tables_copied, done.rows_copied) == (None, ["t"], 25)
    assert states == [[("t", "f"), ("u", "r")], [("25",)]]
    check_over(waiting)


def test_what_comes_while_the_table_is_caught_up_is_not_missed(waiting: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time when it is about to be handed over, the main stream has gone on."""
    count = 0

    def reached(name: str) -> None:
        nonlocal count
        if name in ("copy.received", "apply.received") and count < 4:
            count += 1
            written(waiting, f"INSERT INTO t VALUES ({count}, 'new'); INSERT INTO u VALUES ({count}, 'new')")

    monkeypatch.setattr(table_workers, "_ALMOST_THERE", 0.0)
    at_crash_points(monkeypatch, reached)
    done = working(waiting)
    assert (done.error, count) == (None, 4)
    check_over(waiting)


def test_a_table_is_handed_over_though_the_main_stream_always_goes_on(
    waiting: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits in the end."""
    over = threading.Event()

    def write() -> None:
        count = 0
        while not over.is_set():
            count += 1
            asked(waiting, "pub", f"INSERT INTO u VALUES ({count}, 'new'); INSERT INTO t VALUES ({count}, 'new')")

    def reached(name: str) -> None:
        if name == "copy.received":
            writer.start()
            eventually(lambda: asked(waiting, "sub", "SELECT count(*) > 1 FROM u") == [("t",)])

    writer = threading.Thread(target=write)
    at_crash_points(monkeypatch, reached)
    with worker(waiting) as made:
        try:
            assert made.round().error is None
            assert waiting.sub("SELECT srsubstate FROM pg_subscription_rel WHERE srrelid = 't'::regclass") == [("r",)]
        finally:
            over.set()
            writer.join()
        assert made.round().error is None
    check_over(waiting)


def test_who_dies_meanwhile_goes_on_where_the_table_is(waiting: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is not made again."""

    def reached(name: str) -> None:
        if name == "copy.received":
            written(waiting, CHANGES)
        elif name == "copy.committed":
            raise Killed

    at_crash_points(monkeypatch, reached)
    with pytest.raises(Killed):
        working(waiting)
    assert waiting.sub(STATES) == [("t", "f"), ("u", "r")]
    waiting.pub("TRUNCATE t; INSERT INTO t VALUES (7, 'behind it')")
    done = working(waiting)
    assert (done.error, done.tables_copied) == (None, [])
    check_over(waiting)


def test_an_error_in_the_tables_own_stream_is_its_own(waiting: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The main stream goes on; once the obstacle is gone, the table does."""
    waiting.sub("ALTER TABLE t ADD CHECK (a < 100)")

    def reached(name: str) -> None:
        if name == "copy.received":
            written(waiting, CHANGES)

    at_crash_points(monkeypatch, reached)
    done = working(waiting)
    assert done.error is not None
    assert done.error.message == 'new row for relation "t" violates check constraint "t_a_check"'
    assert waiting.sub("SELECT apply_error_count, sync_error_count FROM pg_stat_subscription_stats") == [("0", "1")]
    waiting.pub("INSERT INTO u VALUES (2, 'too')")
    assert working(waiting).error is not None
    assert waiting.sub("SELECT a FROM u ORDER BY a") == [("1",), ("2",)]
    waiting.sub("ALTER TABLE t DROP CONSTRAINT t_a_check")
    assert working(waiting).error is None
    check_over(waiting)


def test_an_error_of_the_main_stream_does_not_end_the_copy(waiting: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting.sub("INSERT INTO u VALUES (1, 'of another')")

    def reached(name: str) -> None:
        if name == "copy.received":
            asked(waiting, "pub", CHANGES)
            eventually(lambda: waiting.log.errors)

    at_crash_points(monkeypatch, reached)
    done = working(waiting)
    assert [message for message, _, _ in waiting.log.errors] == [
        'duplicate key value violates unique constraint "u_pkey"'
    ]
    assert (done.error is None, done.tables_copied) == (False, ["t"])
    waiting.sub("DELETE FROM u")
    assert working(waiting).error is None
    check_over(waiting)


@pytest.mark.parametrize("statement", ["DROP SUBSCRIPTION s", "ALTER SUBSCRIPTION s DISABLE"])
def test_a_subscription_that_ends_meanwhile(waiting: Pair, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(name: str) -> None:
        if name == "copy.received":
            written(waiting, CHANGES)
        elif name == "copy.committed":
            asked(waiting, "sub", statement)

    at_crash_points(monkeypatch, reached)
    done = working(waiting)
    assert (done.error, done.tables_copied) == (None, [])
    if statement.startswith("DROP"):
        assert waiting.pub("SELECT count(*) FROM pg_replication_slots") == [("0",)]
        assert waiting.sub("SELECT count(*) FROM pg_replication_origin") == [("0",)]
        return
    waiting.sub("ALTER SUBSCRIPTION s ENABLE")
    assert working(waiting).error is None
    check_over(waiting)


@pytest.mark.parametrize("in_stream", [False, True])
def test_a_table_that_is_not_published_any_more(
    waiting: Pair, in_stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slot goes, whether it is being read from or not."""

    def reached(name: str) -> None:
        if name == "copy.received":
            written(waiting, CHANGES)
        elif name == ("apply.received" if in_stream else "copy.committed"):
            asked(waiting, "pub", "ALTER PUBLICATION p DROP TABLE t")
            asked(waiting, "sub", "ALTER SUBSCRIPTION s REFRESH PUBLICATION")

    at_crash_points(monkeypatch, reached)
    assert working(waiting).error is None
    assert working(waiting).error is None
    assert waiting.sub(STATES) == [("u", "r")]
    assert waiting.pub("SELECT count(*) FROM pg_replication_slots") == [("1",)]
    assert waiting.sub("SELECT count(*) FROM pg_replication_origin") == [("1",)]


def test_the_table_follows_definitions_in_its_own_stream(waiting: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting.sub("ALTER SUBSCRIPTION s SET (schema_changes = columns)")

    def reached(name: str) -> None:
        if name == "copy.received":
            written(
                waiting,
                "INSERT INTO t VALUES (50, 'before'); ALTER TABLE t ADD c int; INSERT INTO t VALUES (51, 'behind', 3);"
                "INSERT INTO u VALUES (1, 'comes')",
            )

    at_crash_points(monkeypatch, reached)
    assert working(waiting).error is None
    check_over(waiting)
    assert waiting.sub("SELECT * FROM t WHERE a > 49 ORDER BY a") == [("50", "before", None), ("51", "behind", "3")]


def test_small_tables_are_copied_by_the_main_stream_itself(waiting: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    at_crash_points(monkeypatch, lambda name: pytest.fail(name))
    assert working(waiting).error is None
    check_over(waiting)


def statement(random: Random) -> str:
    a, n = random.randint(1, 40), random.randint(1, 10**6)
    return random.choice(
        [
            f"INSERT INTO t VALUES ({a}, 'n{n}'), ({a}, 'row {a}')",
            f"UPDATE t SET b = 'u{n}', a = a + {random.choice([0, 1])} WHERE a = {a}",
            f"DELETE FROM t WHERE a BETWEEN {a} AND {a + 2}",
            *["TRUNCATE t"] * (n % 5 == 0),
        ]
    )


@pytest.mark.parametrize("seed", dose(range(100), 25))
def test_random_changes_and_deaths_end_equal(waiting: Pair, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes come at each step of the copy and of the table's own stream, now with the main stream behind them, now
    not; and the worker dies at some."""
    random, number = Random(seed), 0
    if random.random() < 0.5:
        waiting.sub("ALTER SYSTEM SET pgrepl.local_rows = 5")
    monkeypatch.setattr(table_workers, "_ALMOST_THERE", random.choice([0.0, 0.5]))

    def reached(name: str) -> None:
        nonlocal number
        happens = random.random()
        if name in ("copy.received", "copy.committed", "apply.received", "apply.committed", "columns.staged") and (
            happens < 0.6 and number < 30
        ):
            number += 1
            changes = "; ".join(statement(random) for _ in range(random.randint(1, 3)))
            text = f"BEGIN; {changes}; INSERT INTO u VALUES ({number}, '{name}'); COMMIT"
            # behind it the main stream may wait for this worker
            if name == "copy.received" and random.random() < 0.8:
                written(waiting, text)
            else:
                asked(waiting, "pub", text)
        elif happens > 0.93 and number < 30:
            raise Killed

    at_crash_points(monkeypatch, reached)
    for _ in range(20):
        try:
            assert working(waiting).error is None
            if waiting.sub("SELECT DISTINCT srsubstate FROM pg_subscription_rel") == [("r",)]:
                break
        except Killed:
            pass
    assert working(waiting).error is None
    check_over(waiting)
