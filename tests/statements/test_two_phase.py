"""Prepared transactions live without a session: in processes, beside others, through kills and lost files."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from tests.harness.database import Rows, ask
from tests.harness.dose import dose
from tests.harness.forked import pgrepl
from tests.harness.programs import PATIENCE, eventually
from tests.lake.duck import close, duck

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.db"
    with closing(open_session(open_catalog(path))) as session:
        ask(session, "ALTER SYSTEM SET max_prepared_transactions = 3")
        ask(session, "CREATE TABLE t (a int PRIMARY KEY, b text)")
        ask(session, "INSERT INTO t SELECT g, 'old' FROM generate_series(1, 5) g")
    return path


@pytest.fixture
def one(path: Path) -> Iterator[Session]:
    with closing(open_session(open_catalog(path))) as session:
        yield session


@pytest.fixture
def two(path: Path) -> Iterator[Session]:
    with closing(open_session(open_catalog(path))) as session:
        yield session


# a few rows in the catalog, some hundred in a file, changes of both and of what it has made itself
CHANGES = (
    "BEGIN; INSERT INTO t VALUES (6, 'six'); INSERT INTO t SELECT g, 'many' FROM generate_series(100, 400) g;"
    " UPDATE t SET b = 'new' WHERE a IN (1, 6, 100); DELETE FROM t WHERE a IN (2, 101)"
)
SUMMARY = "SELECT count(*), min(a), max(a), string_agg(b, ',' ORDER BY a) FILTER (WHERE a < 100 OR b = 'new') FROM t"
BEFORE: Rows = [("5", "1", "5", "old,old,old,old,old")]
AFTER: Rows = [("305", "1", "400", "new,old,old,old,new,new")]


def spawn(path: Path, *statements: str, kill_at: str = "") -> int:
    arguments = [part for text in statements for part in ("-c", text)]
    done = pgrepl("-X", "--catalog", str(path), *arguments, PGREPL_KILL_AT=kill_at)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def test_another_process_commits(path: Path) -> None:
    assert spawn(path, f"{CHANGES}; PREPARE TRANSACTION 'x'") == 0
    with closing(open_session(open_catalog(path))) as session:
        assert ask(session, SUMMARY) == BEFORE
        with pytest.raises(PgError) as refused:
            ask(session, "SELECT * FROM t WHERE a = 2 FOR UPDATE NOWAIT")
        assert refused.value.sqlstate == "55P03"
    assert spawn(path, "COMMIT PREPARED 'x'") == 0
    with closing(open_session(open_catalog(path))) as session:
        assert ask(session, SUMMARY) == AFTER
        assert ask(session, "SELECT * FROM pg_locks") == []
    assert duck(path, "SELECT count(*) FROM postgres.t") == [("305",)]
    close(path)


@pytest.mark.parametrize("step", dose(["prepare.begin", "prepare.recorded", "prepare.end"], 3))
def test_killed_while_it_prepares(path: Path, step: str) -> None:
    assert spawn(path, f"{CHANGES}; PREPARE TRANSACTION 'x'", kill_at=step) == -signal.SIGKILL
    with closing(open_session(open_catalog(path))) as session:
        ask(session, "SET lock_timeout = 100")
        known = ask(session, "SELECT gid FROM pg_prepared_xacts")
        assert known == ([("x",)] if step == "prepare.end" else [])
        assert ask(session, SUMMARY) == BEFORE
        if known:
            with pytest.raises(PgError) as refused:
                ask(session, "DELETE FROM t WHERE a = 1")
            assert refused.value.sqlstate == "55P03"
            ask(session, "COMMIT PREPARED 'x'")
            assert ask(session, SUMMARY) == AFTER
        ask(session, "DELETE FROM t WHERE a = 1")


@pytest.mark.parametrize("end", dose(["COMMIT", "ROLLBACK"], 18))
@pytest.mark.parametrize("step", ["finish.begin", "finish.recorded", "commit.rows:2"])
def test_killed_while_it_ends(path: Path, step: str, end: str) -> None:
    assert spawn(path, f"{CHANGES}; PREPARE TRANSACTION 'x'") == 0
    code = spawn(path, f"{end} PREPARED 'x'", kill_at=step)
    assert code == (0 if step.startswith("commit") and end == "ROLLBACK" else -signal.SIGKILL)
    with closing(open_session(open_catalog(path))) as session:
        if code:
            ask(session, "SET lock_timeout = 100")
            with pytest.raises(PgError) as refused:
                ask(session, "DELETE FROM t WHERE a = 1")
            assert refused.value.sqlstate == "55P03"
            ask(session, f"{end} PREPARED 'x'")
        assert ask(session, SUMMARY) == (AFTER if end == "COMMIT" else BEFORE)
        ask(session, "DELETE FROM t")


def test_locks_that_were_lost_are_there_again(path: Path) -> None:
    assert spawn(path, f"{CHANGES}; PREPARE TRANSACTION 'x'") == 0
    for lock_file in path.parent.glob("catalog.db-locks*"):
        lock_file.unlink()
    with closing(open_session(open_catalog(path))) as session:
        ask(session, "SET lock_timeout = 100")
        with pytest.raises(PgError) as refused:
            ask(session, "DELETE FROM t WHERE a = 1")
        assert refused.value.sqlstate == "55P03"
        assert ask(session, "SELECT count(*), count(pid) FROM pg_locks WHERE locktype = 'transactionid'") == [
            ("1", "0")
        ]
        ask(session, "ROLLBACK PREPARED 'x'")
        ask(session, "DELETE FROM t WHERE a = 1")


def test_a_copy_of_the_catalog_has_them_with_their_locks(path: Path, tmp_path: Path) -> None:
    assert spawn(path, "BEGIN; UPDATE t SET b = 'copied' WHERE a = 1; PREPARE TRANSACTION 'x'") == 0
    copied = tmp_path / "copy" / "catalog.db"
    copied.parent.mkdir()
    for file in ("catalog.db", "catalog.db-locks"):
        shutil.copy(path.with_name(file), copied.with_name(file))
    assert spawn(path, "ROLLBACK PREPARED 'x'") == 0
    with closing(open_session(open_catalog(copied))) as session:
        ask(session, "SET lock_timeout = 100")
        with pytest.raises(PgError) as refused:
            ask(session, "DELETE FROM t WHERE a = 1")
        assert refused.value.sqlstate == "55P03"
        ask(session, "COMMIT PREPARED 'x'")
        assert ask(session, "SELECT b FROM t WHERE a = 1") == [("copied",)]


def test_others_wait_for_its_end(one: Session, two: Session) -> None:
    ask(one, "BEGIN; UPDATE t SET b = b || ' first' WHERE a = 1; PREPARE TRANSACTION 'x'")
    waiting = threading.Thread(target=lambda: ask(two, "UPDATE t SET b = b || ' second' WHERE a = 1"))
    waiting.start()
    eventually(lambda: ask(one, "SELECT count(*) FROM pg_locks WHERE NOT granted") == [("1",)])
    ask(one, "COMMIT PREPARED 'x'")
    waiting.join(PATIENCE)
    assert ask(one, "SELECT b FROM t WHERE a = 1") == [("old first second",)]


def test_vacuum_keeps_what_it_needs(one: Session, two: Session) -> None:
    """Rows are moved into other files, and old snapshots and files that nothing refers to go."""
    ask(one, "INSERT INTO t SELECT g, 'file' FROM generate_series(1000, 1300) g")
    ask(
        one,
        f"{CHANGES}; UPDATE t SET b = 'moved' WHERE a = 1000; DELETE FROM t WHERE a = 1001; PREPARE TRANSACTION 'x'",
    )
    ask(two, "DELETE FROM t WHERE a BETWEEN 1100 AND 1200")
    ask(two, "SET lock_timeout = 100")
    with pytest.raises(PgError):
        ask(two, "VACUUM FULL t")
    ask(two, "VACUUM")
    ask(two, "COMMIT PREPARED 'x'")
    assert ask(two, "SELECT count(*), sum(a) FILTER (WHERE a >= 1000) FROM t WHERE b <> 'x'") == [
        ("504", str(sum(range(1000, 1301)) - 1001 - sum(range(1100, 1201))))
    ]
    assert ask(two, "SELECT b FROM t WHERE a = 1000") == [("moved",)]


def test_no_more_than_there_may_be(one: Session) -> None:
    for gid in ("a", "b", "c"):
        ask(one, f"BEGIN; PREPARE TRANSACTION '{gid}'")
    with pytest.raises(PgError) as refused:
        ask(one, "BEGIN; INSERT INTO t VALUES (6); PREPARE TRANSACTION 'd'")
    assert refused.value.sqlstate == "53400"
    assert refused.value.report.hint == 'Increase "max_prepared_transactions" (currently 3).'
    assert ask(one, "SELECT count(*) FROM t") == [("5",)]
    ask(one, "ROLLBACK PREPARED 'b'")
    ask(one, "BEGIN; PREPARE TRANSACTION 'd'")


def test_definitions_are_refused(one: Session) -> None:
    for change in ("CREATE TABLE u (a int)", "TRUNCATE t", "ALTER TABLE t ADD c int"):
        with pytest.raises(PgError) as refused:
            ask(one, f"BEGIN; INSERT INTO t VALUES (7); {change}; PREPARE TRANSACTION 'x'")
        assert refused.value.sqlstate == "0A000"
        assert "PREPARE TRANSACTION after changes of definitions" in refused.value.message
    assert ask(one, "SELECT count(*) FROM t") == [("5",)]
    assert ask(one, "SELECT count(*) FROM pg_locks") == [("0",)]


def test_serializable_ones_cannot_fail_any_more(one: Session, two: Session) -> None:
    """Each reads what the other writes: the one that is prepared stays."""
    for session in (one, two):
        ask(session, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t")
    ask(one, "INSERT INTO t VALUES (7, 'one'); PREPARE TRANSACTION 'x'")
    with pytest.raises(PgError) as refused:
        ask(two, "INSERT INTO t VALUES (8, 'two'); COMMIT")
    assert refused.value.sqlstate == "40001"
    ask(one, "COMMIT PREPARED 'x'")


def test_without_the_setting(tmp_path: Path) -> None:
    with closing(open_session(open_catalog(tmp_path / "catalog.db"))) as session:
        ask(session, "CREATE TABLE t (a int)")
        with pytest.raises(PgError) as refused:
            ask(session, "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'x'")
        assert (refused.value.sqlstate, refused.value.message) == ("55000", "prepared transactions are disabled")
        assert ask(session, "SELECT count(*) FROM t") == [("0",)]
