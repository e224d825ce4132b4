"""A changed row on its way from a publisher to a subscriber of the same instance: what it asks of the catalog, and that
the short way does what the usual one does."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgrepl.replication.subscriber import lease
from pgrepl.replication.subscriber.worker import Worker
from tests.harness.database import Database
from tests.harness.dose import dose
from tests.harness.pair import Pair
from tests.harness.programs import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
_TRANSACTIONS = ("BEGIN", "COMMIT", "ROLLBACK")


class Asked:
    """The statements that reach catalog.db."""

    def __init__(self) -> None:
        self.listens = False
        self.texts: list[str] = []

    def hear(self, text: str) -> None:
        if self.listens:
            self.texts.append(text)

    @contextmanager
    def listening(self) -> Iterator[None]:
        self.texts, self.listens = [], True
        yield
        self.listens = False

    @property
    def statements(self) -> list[str]:
        return [text for text in self.texts if not text.startswith(_TRANSACTIONS)]

    @property
    def transactions(self) -> int:
        return sum(text.startswith("BEGIN") for text in self.texts)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Hears every connection that is made from here on, by whichever session."""
    made = Asked()
    connect = sqlite3.connect

    def heard(database: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
        link = connect(database, *arguments, **options)
        if str(database).endswith("catalog.db"):
            link.set_trace_callback(made.hear)
        return link

    monkeypatch.setattr(sqlite3, "connect", heard)
    return made


@pytest.fixture
def warm(asked: Asked, pair: Pair) -> Pair:
    """A publisher and a subscriber that have both seen a few changes; `asked` hears them."""
    return _warmed(pair)


def _warmed(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    for text in (
        "INSERT INTO t VALUES (1, 'b'), (2, 'c'), (3, 'y')",
        "UPDATE t SET b = 'd' WHERE a = 2",
        "DELETE FROM t WHERE a = 3",
        "INSERT INTO t VALUES (4, 'e')",
    ):
        pair.pub(text)
        assert pair.catch_up() == []
    return pair


CHANGES = ("INSERT INTO t VALUES (10, 'z')", "UPDATE t SET b = 'q' WHERE a = 2", "DELETE FROM t WHERE a = 1")


@pytest.mark.parametrize("text", CHANGES)
def test_a_changed_row_takes_few_statements(asked: Asked, warm: Pair, text: str) -> None:
    with asked.listening():
        warm.pub(text)
        assert warm.catch_up() == []
    assert warm.sub("SELECT * FROM t ORDER BY a") == warm.pub("SELECT * FROM t ORDER BY a")
    assert len(asked.statements) <= 40, "\n".join(asked.statements)
    assert asked.transactions <= 3


def test_an_idle_catch_up_takes_fewer(asked: Asked, warm: Pair) -> None:
    for most in (10, 5):  # the first sees what the one before has written itself
        with asked.listening():
            assert warm.catch_up() == []
        assert len(asked.statements) <= most, "\n".join(asked.statements)
    assert asked.transactions == 1


def test_an_update_by_key_is_planned_once(asked: Asked, warm: Pair) -> None:
    with asked.listening():
        warm.pub("UPDATE t SET b = 'q' WHERE a = 2")
    assert asked.transactions == 1
    of_bounds = [text for text in asked.statements if "FROM ducklake_file_column_stats" in text]
    assert len(of_bounds) == 1
    assert sum("FROM ducklake_data_file" in text for text in asked.statements if text not in of_bounds) == 1
    assert sum('SELECT count(*) FROM "ducklake_inlined' in text for text in asked.statements) == 1
    assert len(asked.statements) <= 16, "\n".join(asked.statements)


# --- both ways --------------------------------------------------------------------------------------------------------

STORY = (
    *CHANGES,
    "UPDATE t SET a = 20, b = NULL WHERE a = 10",
    "BEGIN; INSERT INTO t VALUES (30, 'x'); UPDATE t SET b = 'yy' WHERE a = 30; DELETE FROM t WHERE a = 20; COMMIT",
    "CREATE TABLE nobody (a int); INSERT INTO nobody VALUES (1)",
    "TRUNCATE t",
    "INSERT INTO t SELECT g, 'g' || g FROM generate_series(1, 90) g",
    "ALTER PUBLICATION p SET (publish = 'insert, delete'); UPDATE t SET b = 'lost' WHERE a = 5",
    "DELETE FROM t WHERE a > 3",
    "ALTER PUBLICATION p SET TABLE t WHERE (a > 2); INSERT INTO t VALUES (-1, 'out'), (100, 'in')",
)  # fmt: skip


def _state(pair: Pair) -> dict[str, object]:
    return {
        "rows": pair.sub("SELECT * FROM t ORDER BY a"),
        "slot": pair.sub(
            "SELECT slot_name, active, active_pid, restart_lsn, confirmed_flush_lsn, inactive_since IS NOT NULL"
            " FROM pg_replication_slots"
        ),
        "origin": pair.sub("SELECT * FROM pg_replication_origin_status"),
        "workers": pair.sub("SELECT pid, received_lsn FROM pg_stat_subscription"),
        "senders": pair.sub("SELECT count(*) FROM pg_stat_replication"),
        "errors": pair.sub("SELECT apply_error_count, sync_error_count FROM pg_stat_subscription_stats"),
        "sent": pair.sub("SELECT total_txns, total_bytes FROM pg_stat_replication_slots"),
        "applied": pair.sub("SELECT n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables WHERE relname = 't'"),
        "lake": pair.sub.session.link.execute(
            "SELECT snapshot_id, changes_made, commit_extra_info FROM ducklake_snapshot_changes ORDER BY 1"
        ),
    }


def test_both_ways_come_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[list[dict[str, object]]] = []
    for usual in (False, True):
        if usual:
            monkeypatch.setattr("pgrepl.replication.subscriber.worker.catch_up_at_once", lambda context: None)
        folder = tmp_path / str(usual)
        folder.mkdir()
        pair = _warmed(Pair(folder))
        seen = []
        for text in STORY:
            pair.pub(text)
            assert pair.catch_up() == []
            seen.append(_state(pair))
        states.append(seen)
        pair.close()
    for text, short, long in zip(STORY, *states, strict=True):
        assert short == long, text


def test_what_cannot_be_applied_is_told_once(warm: Pair) -> None:
    warm.sub("INSERT INTO t VALUES (10, 'mine')")
    warm.pub("INSERT INTO t VALUES (10, 'z')")
    errors = warm.catch_up()
    assert [message for message, _, _ in errors] == ['duplicate key value violates unique constraint "t_pkey"']
    assert warm.sub("SELECT apply_error_count FROM pg_stat_subscription_stats") == [("1",)]
    warm.sub("DELETE FROM t WHERE a = 10")
    assert warm.catch_up() == []
    assert warm.sub("SELECT b FROM t WHERE a = 10") == [("z",)]


def test_what_comes_before_an_error_is_applied(warm: Pair) -> None:
    warm.sub("ALTER TABLE t ADD CHECK (a < 50)")
    warm.pub("INSERT INTO t VALUES (10, 'z')")
    warm.pub("INSERT INTO t VALUES (60, 'z')")
    assert len(warm.catch_up()) == 1
    assert warm.sub("SELECT a FROM t WHERE a >= 10") == [("10",)]


def test_another_worker_is_left_alone(warm: Pair) -> None:
    oid = int(str(warm.sub("SELECT oid FROM pg_subscription")[0][0]))
    other = Worker(warm.sub.session, oid, warm.log, keeps_lease=True)
    assert other.round().error is None
    warm.pub("INSERT INTO t VALUES (10, 'z')")
    done = Worker(warm.sub.session, oid, warm.log).round()
    assert done.error is not None
    assert done.error.sqlstate == "55000" or "is active for PID" in done.error.message
    assert warm.sub("SELECT count(*) FROM t WHERE a = 10") == [("0",)]
    other.close()
    assert warm.catch_up() == []
    assert warm.sub("SELECT count(*) FROM t WHERE a = 10") == [("1",)]


def test_a_locked_row_is_waited_for(warm: Pair, tmp_path: Path) -> None:
    local = Database(tmp_path, "sub")
    local("BEGIN; UPDATE t SET b = 'locked' WHERE a = 2")
    warm.pub("UPDATE t SET b = 'q' WHERE a = 2")
    ends = threading.Timer(0.5, lambda: local("ROLLBACK"))
    ends.start()
    assert warm.catch_up() == []
    ends.join()
    local.session.close()
    assert warm.sub("SELECT b FROM t WHERE a = 2") == [("q",)]


def test_what_another_session_alters_counts_at_once(warm: Pair, tmp_path: Path) -> None:
    other = Database(tmp_path, "sub")
    other("ALTER SUBSCRIPTION s DISABLE")
    warm.pub("INSERT INTO t VALUES (10, 'z')")
    assert warm.catch_up() == []
    assert warm.sub("SELECT count(*) FROM t WHERE a = 10") == [("0",)]
    other("ALTER SUBSCRIPTION s ENABLE")
    other("ALTER TABLE t RENAME COLUMN b TO c")
    errors = warm.catch_up()
    assert [m for m, _, _ in errors] == [
        'logical replication target relation "public.t" is missing replicated column: "b"'
    ]
    other("ALTER TABLE t RENAME COLUMN c TO b")
    other("ALTER TABLE t ADD COLUMN c int DEFAULT 5")
    assert warm.catch_up() == []
    assert warm.sub("SELECT * FROM t WHERE a = 10") == [("10", "z", "5")]
    publisher = Database(tmp_path, "pub")
    publisher("ALTER PUBLICATION p SET TABLE t WHERE (a > 100)")
    warm.pub("INSERT INTO t VALUES (11, 'z'), (101, 'z')")
    assert warm.catch_up() == []
    assert warm.sub("SELECT a FROM t WHERE a > 10") == [("101",)]
    other.session.close()
    publisher.session.close()


WRITER = """
import sys
from pathlib import Path
from tests.harness.database import Database

folder, first = Path(sys.argv[1]), int(sys.argv[2])
pub, sub = Database(folder, "pub"), Database(folder, "sub")
for number in range(first, first + 25):
    pub(f"INSERT INTO t VALUES ({number}, 'x')")
    if number % 5 == 0:
        sub(f"CREATE TABLE own_{number} (a int)")
        pub(f"CREATE TABLE own_{number} (a int)")
    sub.catch_up()
sub.leave()
"""


@pytest.mark.slow
def test_processes_that_catch_up_beside_each_other_apply_each_change_once(warm: Pair, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(first)], env=environment)
        for first in (1000, 2000)
    ]
    for each in started:
        assert each.wait(PATIENCE) == 0
    assert warm.catch_up() == []
    count = warm.sub("SELECT count(*), count(DISTINCT a) FROM t WHERE a >= 1000")
    assert count == [("50", "50")]
    assert warm.sub("SELECT * FROM t ORDER BY a") == warm.pub("SELECT * FROM t ORDER BY a")
    subid = int(str(warm.sub("SELECT oid FROM pg_subscription")[0][0]))
    assert lease.workers(warm.sub.session, subid) == []


KILLED = """
import os
import sys
from pathlib import Path
from tests.harness.database import Database

sub = Database(Path(sys.argv[1]), "sub")
pub = Database(Path(sys.argv[1]), "pub")
sub.catch_up()
pub("INSERT INTO t VALUES (9, 'warm')")
sub.catch_up()
pub("UPDATE t SET b = 'changed' WHERE a = 2; INSERT INTO t VALUES (10, 'z'); DELETE FROM t WHERE a = 1")
os.environ["PGREPL_KILL_AT"] = sys.argv[2]
sub.catch_up()
"""


@pytest.mark.parametrize(
    "point",
    dose(["apply.received", "commit.begin", "commit.rows", "apply.origin", "apply.settled", "apply.committed"], 6),
)
def test_killed_on_the_short_way(warm: Pair, tmp_path: Path, point: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), point], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    before = [("1", "b"), ("2", "d"), ("4", "e"), ("9", "warm")]
    after = [("2", "changed"), ("4", "e"), ("9", "warm"), ("10", "z")]
    assert warm.sub("SELECT * FROM t ORDER BY a") == (after if point == "apply.committed" else before)
    assert warm.sub("SELECT active FROM pg_replication_slots") == [("f",)]
    assert warm.catch_up() == []
    assert warm.sub("SELECT * FROM t ORDER BY a") == after
