"""Large tables of a server are copied in pieces: what is finished stays, and the stream goes on meanwhile."""

from __future__ import annotations

import signal
import sqlite3
import threading
from contextlib import closing
from random import Random

import psycopg
import pytest

from pgrepl.replication.publisher.postgres import copies
from pgrepl.replication.publisher.postgres.copy_workers import readers
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.tables import Snapshot
from tests.harness.database import Database
from tests.harness.dose import dose
from tests.postgres.served import Served
from tests.postgres.test_server_faults import apply

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"
ON_ONE = pytest.mark.parametrize("publishing", [18], indirect=True)
ROWS = 30_000
ALL_T = "SELECT * FROM t ORDER BY a"
MOVED = f"UPDATE t SET a = -a WHERE a > {ROWS - 5}"  # from the last range to the first


def ranges(served: Served, where: str = "number > 0") -> int:
    with closing(sqlite3.connect(served.folder / "catalog.db")) as link:
        return int(link.execute(f"SELECT count(*) FROM pgrepl_copy_range WHERE {where}").fetchone()[0])


def same(served: Served) -> None:
    there, here = set(served.pub(ALL_T)), served.sub(ALL_T)
    assert len(here) == len(there) and (sorted(there - set(here))[:9], sorted(set(here) - there)[:9]) == ([], [])


def finished(served: Served) -> int:
    return ranges(served, "snapshot IS NOT NULL AND number > 0")


def filled(served: Served, rows: int = ROWS, size: str = "64kB") -> None:
    served.both(T)
    served.sub(f"ALTER DATABASE sub SET pgrepl.copy_range_size = '{size}'")
    served.pub(f"INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, {rows}) g; ANALYZE t")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe_only()


def test_an_interrupted_copy_goes_on_where_it_was(served: Served) -> None:
    filled(served)
    assert apply(served, "range.written") == -signal.SIGKILL
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


def test_a_table_that_is_truncated_while_it_is_copied_is_copied_anew(served: Served) -> None:
    filled(served)
    assert apply(served, "copy.committed:2") == -signal.SIGKILL
    served.pub("TRUNCATE t")
    served.pub("INSERT INTO t SELECT g, 'behind it' FROM generate_series(1, 500) g")
    assert apply(served) == 0
    same(served)


@ON_ONE
def test_rows_of_others_are_not_overwritten(served: Served) -> None:
    filled(served)
    assert apply(served, "copy.committed") == -signal.SIGKILL
    served.sub("ALTER SUBSCRIPTION s DISABLE")
    served.sub(f"INSERT INTO t VALUES ({ROWS}, 'of another')")
    served.sub("ALTER SUBSCRIPTION s ENABLE")
    assert apply(served) != 0
    assert served.sub("SELECT srsubstate FROM pg_subscription_rel") == [("d",)]
    served.sub("ALTER SUBSCRIPTION s DISABLE")
    served.sub("DELETE FROM t WHERE b = 'of another'")
    served.sub("ALTER SUBSCRIPTION s ENABLE")
    assert apply(served) == 0
    same(served)


@ON_ONE
@pytest.mark.parametrize("statement", [MOVED, "TRUNCATE t"])
def test_what_comes_before_the_last_snapshot_and_behind_the_others(
    served: Served, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """The stream has it when all ranges are copied: a row that moves to where it was not copied, without all of its
    values; rows that are gone."""
    filled(served)
    served.pub("ALTER TABLE t ALTER b SET STORAGE EXTERNAL")
    served.pub(f"UPDATE t SET b = repeat('long', 1000) WHERE a > {ROWS - 9}")
    taken = copies.take_snapshot

    def take_snapshot(link: Link, passed: frozenset[int]) -> tuple[Snapshot, int]:
        if 0 < ranges(served, "snapshot IS NULL AND number > 0") <= readers() and not played:
            played.append(served.pub(statement))
        return taken(link, passed)

    played: list[object] = []
    monkeypatch.setattr(copies, "take_snapshot", take_snapshot)
    assert served.catch_up() == []
    assert played
    same(served)
    assert served.sub("SELECT srsubstate FROM pg_subscription_rel") == [("r",)]
    served.pub("INSERT INTO t VALUES (-1, 'behind it')")
    assert served.catch_up() == []
    same(served)


TRIGGERED = """
CREATE TABLE log (what text, a int);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.log VALUES (TG_OP, NEW.a);
    RETURN NEW; END';
CREATE {} EXECUTE FUNCTION f(); ALTER TABLE t ENABLE REPLICA TRIGGER x
"""
FEW = 1500
FIRED = "SELECT what, count(*), count(DISTINCT a) FROM log GROUP BY what"


def triggered(served: Served, trigger: str, size: str = "256kB") -> None:
    """The ranges of a table with triggers are a 16th as large."""
    served.both("CREATE TABLE u (a int PRIMARY KEY)")
    filled(served, FEW, size)
    served.pub("ALTER PUBLICATION p ADD TABLE u")
    served.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    served.sub(TRIGGERED.format(trigger))


@ON_ONE
def test_the_stream_goes_on_between_the_pieces_of_a_table_with_triggers(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    triggered(served, "TRIGGER x BEFORE INSERT OR UPDATE ON t FOR EACH ROW")
    taken = copies.take_snapshot
    seen: list[int] = []

    def take_snapshot(link: Link, passed: frozenset[int]) -> tuple[Snapshot, int]:
        seen.append(len(other("SELECT FROM u")))
        served.pub(f"INSERT INTO u VALUES ({len(seen)})")
        return taken(link, passed)

    monkeypatch.setattr(copies, "take_snapshot", take_snapshot)
    other = Database(served.folder, "sub")
    assert served.catch_up() == []
    other.close()
    assert len(seen) > 3
    assert seen == list(range(len(seen)))
    same(served)
    assert served.sub(FIRED) == [("INSERT", str(FEW), str(FEW))]


@ON_ONE
def test_triggers_fire_once_for_each_row_of_an_interrupted_copy(served: Served) -> None:
    triggered(served, "TRIGGER x AFTER INSERT OR UPDATE ON t FOR EACH ROW")
    for point in ("copy.received", "range.written", "copy.committed:2", "copy.written"):
        assert apply(served, point) == -signal.SIGKILL
    served.pub("UPDATE t SET b = 'changed' WHERE a % 100 = 0")
    assert apply(served) == 0
    same(served)
    assert ("INSERT", str(FEW), str(FEW)) in served.sub(FIRED)


@ON_ONE
@pytest.mark.parametrize(
    "trigger",
    dose(
        [
            "TRIGGER x AFTER INSERT ON t FOR EACH STATEMENT",
            "TRIGGER x AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH ROW",
            "CONSTRAINT TRIGGER x AFTER INSERT ON t FOR EACH ROW",
        ],
        3,
    ),
)
def test_a_table_whose_triggers_ask_about_all_rows_is_copied_as_a_whole(served: Served, trigger: str) -> None:
    triggered(served, trigger, size="32kB")
    assert served.catch_up() == []
    same(served)
    reason = "it has triggers of statements or constraints here"
    assert [text for text in served.log.messages("LOG") if text.endswith(f"is copied as a whole, because {reason}")]


class Writer(threading.Thread):
    """Writes to the table at random, key changes and long values that are not sent again among it, until it is told to
    end."""

    def __init__(self, served: Served, seed: int, rows: int, pause: float) -> None:
        super().__init__(daemon=True)
        self._highest = 2 * rows
        self._pause = pause
        self._conninfo = served.conninfo
        self._random = Random(seed)
        self._over = threading.Event()

    def run(self) -> None:
        with psycopg.connect(self._conninfo, autocommit=True) as link:
            while not self._over.wait(self._pause):
                with link.transaction():
                    for _ in range(self._random.randint(1, 20)):
                        link.execute(self._statement().encode())

    def _statement(self) -> str:
        key, other = (self._random.randint(1, self._highest) for _ in range(2))
        near = f"a BETWEEN {key} AND {key + self._random.choice([0, 0, 30])}"
        return self._random.choice(
            [
                f"INSERT INTO t VALUES ({key}, repeat(md5('{other}'), 200)) ON CONFLICT DO NOTHING",
                f"UPDATE t SET b = 'changed {other}' WHERE {near}",
                f"UPDATE t SET a = {other} WHERE a = {key} AND NOT EXISTS (SELECT FROM t WHERE a = {other})",
                f"DELETE FROM t WHERE {near}",
            ]
        )

    def end(self) -> None:
        self._over.set()
        self.join()


def killed_at_random(served: Served, seed: int, rows: int = ROWS, pause: float = 0.0) -> None:
    """`pause`: of the writer between two transactions, in seconds."""
    served.pub("ALTER TABLE t ALTER b SET STORAGE EXTERNAL")
    writer, random = Writer(served, seed, rows, pause), Random(seed)
    writer.start()
    try:
        for _ in range(5):
            point = random.choice(
                ["range.written", "copy.committed", "copy.received", "apply.settled", "apply.committed"]
            )
            apply(served, f"{point}:{random.randint(1, 6)}")
    finally:
        writer.end()
    assert apply(served) == 0
    same(served)


@ON_ONE
@pytest.mark.parametrize("seed", dose(range(200), 200))
def test_copies_that_are_killed_at_random_beside_writes_end_equal(served: Served, seed: int) -> None:
    filled(served)
    killed_at_random(served, seed)


MIRRORED = """
CREATE TABLE mirror (a int PRIMARY KEY, b text);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
    IF TG_OP <> ''INSERT'' THEN DELETE FROM public.mirror WHERE a = OLD.a; END IF;
    IF TG_OP <> ''DELETE'' THEN INSERT INTO public.mirror VALUES (NEW.a, NEW.b); END IF;
    RETURN NULL; END';
CREATE TRIGGER x AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION f();
ALTER TABLE t ENABLE ALWAYS TRIGGER x
"""


@pytest.mark.slow
@ON_ONE
@pytest.mark.parametrize("seed", range(20))
def test_triggers_are_told_of_each_row_once_by_copies_that_are_killed_at_random(served: Served, seed: int) -> None:
    filled(served, FEW, "512kB")
    served.sub(MIRRORED)
    killed_at_random(served, seed, FEW, pause=0.3)  # a row with its triggers takes a millisecond or two
    assert served.sub("SELECT * FROM mirror ORDER BY a") == served.sub(ALL_T)
