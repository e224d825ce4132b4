"""Row locks between processes and between sessions, as a person meets them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run
from tests.harness.programs import PATIENCE, environment, eventually

INCREMENTS = """
import sys
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.backend import open_session
from pgrepl.statements.run import run

session = open_session(open_catalog(sys.argv[1]))
for _ in range(10):
    list(run(session, "BEGIN"))
    n = int(list(run(session, "SELECT n FROM counter FOR UPDATE"))[0].rows[0][0])
    list(run(session, f"UPDATE counter SET n = {n + 1}"))
    list(run(session, "COMMIT"))
"""

JOBS = """
import sys
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.backend import open_session
from pgrepl.statements.run import run

session = open_session(open_catalog(sys.argv[1]))
while True:
    list(run(session, "BEGIN"))
    got = list(run(session, "SELECT id FROM jobs WHERE NOT done ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"))[0].rows
    if not got:
        break
    print(got[0][0], flush=True)
    list(run(session, f"UPDATE jobs SET done = true WHERE id = {got[0][0]}"))
    list(run(session, "COMMIT"))
"""

HOLDS = """
import sys, time
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.backend import open_session
from pgrepl.statements.run import run

session = open_session(open_catalog(sys.argv[1]))
list(run(session, "BEGIN"))
list(run(session, "UPDATE counter SET n = 100"))
print("locked", flush=True)
time.sleep(60)
"""


def start(script: str, path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    session = open_session(open_catalog(tmp_path / "catalog.db"))
    list(run(session, "CREATE TABLE counter (n int); INSERT INTO counter VALUES (0)"))
    list(run(session, "CREATE TABLE jobs (id int PRIMARY KEY, done bool DEFAULT false)"))
    list(run(session, "INSERT INTO jobs SELECT g FROM generate_series(1, 12) g"))
    session.close()
    return tmp_path / "catalog.db"


def answers(session: Session, text: str) -> list[tuple[str | None, ...]]:
    return list(list(run(session, text))[-1].rows)


@pytest.mark.slow
def test_forty_increments_by_four_writers_end_at_forty(path: Path) -> None:
    workers = [start(INCREMENTS, path) for _ in range(4)]
    for worker in workers:
        assert worker.communicate(timeout=PATIENCE)[1] == ""
    assert answers(open_session(open_catalog(path)), "SELECT n FROM counter") == [("40",)]


def test_a_job_goes_to_one_worker(path: Path) -> None:
    workers = [start(JOBS, path) for _ in range(3)]
    taken = [int(line) for worker in workers for line in worker.communicate(timeout=PATIENCE)[0].split()]
    assert sorted(taken) == list(range(1, 13))


def test_a_killed_process_leaves_no_lock(path: Path) -> None:
    worker = start(HOLDS, path)
    assert worker.stdout is not None and worker.stdout.readline() == "locked\n"
    session = open_session(open_catalog(path))
    with pytest.raises(PgError, match='could not obtain lock on row in relation "counter"'):
        list(run(session, "SELECT * FROM counter FOR UPDATE NOWAIT"))
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert answers(session, "UPDATE counter SET n = n + 1 RETURNING n") == [("1",)]
    assert answers(session, "SELECT count(*) FROM pg_locks") == [("0",)]


def test_writers_of_other_rows_do_not_wait(path: Path) -> None:
    one, two = open_session(open_catalog(path)), open_session(open_catalog(path))
    list(run(one, "BEGIN"))
    list(run(two, "BEGIN"))
    list(run(one, "UPDATE jobs SET done = true WHERE id = 1"))
    list(run(two, "UPDATE jobs SET done = true WHERE id = 2"))
    list(run(two, "INSERT INTO jobs VALUES (20)"))
    list(run(two, "COMMIT"))
    list(run(one, "DELETE FROM jobs WHERE id = 3"))
    list(run(one, "COMMIT"))
    found = answers(one, "SELECT id FROM jobs WHERE done OR id IN (3, 20) ORDER BY id")
    assert found == [("1",), ("2",), ("20",)]


def test_locking_rows_asks_for_the_right_to_update(path: Path) -> None:
    session = open_session(open_catalog(path))
    list(run(session, "CREATE ROLE reader; GRANT SELECT ON counter TO reader; SET ROLE reader"))
    with pytest.raises(PgError, match="permission denied for table counter"):
        list(run(session, "SELECT * FROM counter FOR SHARE"))
    assert answers(session, "SELECT * FROM counter") == [("0",)]


def test_a_deadlock_ends_with_one_of_the_two(path: Path) -> None:
    one, two = open_session(open_catalog(path)), open_session(open_catalog(path))
    for session, job in ((one, 1), (two, 2)):
        list(run(session, f"SET deadlock_timeout = {'600s' if job == 1 else '100ms'!r}"))  # the second looks
        list(run(session, "BEGIN"))
        list(run(session, f"UPDATE jobs SET done = true WHERE id = {job}"))
    waiting = threading.Thread(target=lambda: list(run(one, "UPDATE jobs SET done = true WHERE id = 2")))
    waiting.start()
    eventually(lambda: waiting_at(one))
    with pytest.raises(PgError) as refused:
        list(run(two, "UPDATE jobs SET done = true WHERE id = 1"))
    report = refused.value.report
    assert (report.sqlstate, report.message) == ("40P01", "deadlock detected")
    assert report.hint == "See server log for query details."
    assert report.context == 'while updating tuple (0,1) in relation "jobs"'
    first, second = (report.detail or "").split("\n")
    assert first.startswith(f"Process {os.getpid()} waits for ShareLock on transaction ")
    assert second.endswith(f"blocked by process {os.getpid()}.")
    waiting.join()
    list(run(one, "COMMIT"))
    assert answers(one, "SELECT count(*) FROM jobs WHERE done") == [("2",)]


@pytest.mark.parametrize("begin", ["", "BEGIN"])
def test_a_schema_that_others_have_made_anew_is_found_at_once(path: Path, begin: str) -> None:
    one, two = open_session(open_catalog(path)), open_session(open_catalog(path))
    assert answers(two, "SELECT n FROM counter") == [("0",)]
    list(run(one, "DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE counter AS SELECT 7 AS n"))
    list(run(two, begin))
    assert answers(two, "SELECT n FROM counter") == [("7",)]


def waiting_at(session: Session) -> bool:
    """Does somebody wait for a lock?"""
    other = open_session(session.catalog)
    waits = answers(other, "SELECT count(*) FROM pg_locks WHERE NOT granted") != [("0",)]
    other.close()
    return waits


class Waiting(threading.Thread):
    """A statement that waits for another session."""

    def __init__(self, session: Session, text: str) -> None:
        super().__init__(daemon=True)
        self.session, self.text = session, text
        self.problem: PgError | None = None
        self.start()
        eventually(lambda: not self.is_alive() or waiting_at(session))
        assert self.is_alive(), "it does not wait"

    def run(self) -> None:
        try:
            list(run(self.session, self.text))
        except PgError as problem:
            self.problem = problem

    def ended(self) -> str:
        self.join(PATIENCE)
        return "" if self.problem is None else self.problem.sqlstate


@pytest.fixture
def three(path: Path) -> list[Session]:
    sessions = [open_session(open_catalog(path)) for _ in range(3)]
    list(run(sessions[0], "CREATE TABLE p (id int PRIMARY KEY); INSERT INTO p VALUES (1), (2)"))
    list(run(sessions[0], "CREATE TABLE c (id int, p int REFERENCES p ON UPDATE CASCADE ON DELETE CASCADE)"))
    list(run(sessions[0], "CREATE TABLE d (id int, p int REFERENCES p)"))
    return sessions


def test_who_waits_while_two_others_commit_sees_both(three: list[Session]) -> None:
    one, two, other = three
    list(run(two, "BEGIN; UPDATE p SET id = 3 WHERE id = 1"))
    list(run(other, "BEGIN; DELETE FROM p WHERE id = 2"))
    list(run(one, "BEGIN"))
    waiting = Waiting(one, "INSERT INTO d VALUES (1, 1)")
    list(run(other, "COMMIT"))
    list(run(two, "COMMIT"))
    assert waiting.ended() == "23503"


@pytest.mark.parametrize(("table", "sqlstate"), [("d", "23503"), ("c", "40001")])
def test_a_kept_snapshot_does_not_hide_what_references_a_key(three: list[Session], table: str, sqlstate: str) -> None:
    one, two, _ = three
    list(run(one, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM c"))
    list(run(two, f"INSERT INTO {table} VALUES (1, 1)"))
    with pytest.raises(PgError) as raised:
        list(run(one, "DELETE FROM p WHERE id = 1"))
    assert raised.value.sqlstate == sqlstate


@pytest.mark.parametrize(("level", "sqlstate"), [("READ COMMITTED", ""), ("REPEATABLE READ", "40001")])
def test_removing_a_key_waits_for_who_removes_its_reference(three: list[Session], level: str, sqlstate: str) -> None:
    one, two, _ = three
    list(run(one, "INSERT INTO d VALUES (1, 1)"))
    list(run(two, "BEGIN; DELETE FROM d"))
    list(run(one, f"BEGIN ISOLATION LEVEL {level}; SELECT * FROM d"))
    waiting = Waiting(one, "DELETE FROM p WHERE id = 1")
    list(run(two, "COMMIT"))
    assert waiting.ended() == sqlstate
    if waiting.problem is not None:
        statement = 'SELECT 1 FROM ONLY "public"."d" x WHERE $1 OPERATOR(pg_catalog.=) "p" FOR KEY SHARE OF x'
        assert waiting.problem.report.context == f'SQL statement "{statement}"'


def test_cascades_reach_rows_that_others_have_changed_meanwhile(three: list[Session]) -> None:
    one, two, _ = three
    list(run(one, "INSERT INTO c VALUES (1, 1), (2, 1), (3, 2)"))
    list(run(one, "BEGIN"))
    list(run(two, "BEGIN; UPDATE c SET id = id + 10 WHERE id = 1; UPDATE c SET p = 2 WHERE id = 2"))
    waiting = Waiting(one, "UPDATE p SET id = 9 WHERE id = 1")
    list(run(two, "COMMIT"))
    assert waiting.ended() == ""
    list(run(one, "COMMIT"))
    assert answers(one, "SELECT id, p FROM c ORDER BY id") == [("2", "2"), ("3", "2"), ("11", "9")]


def test_on_conflict_inserts_when_the_row_it_waited_for_is_gone(three: list[Session]) -> None:
    one, two, _ = three
    list(run(one, "CREATE TABLE u (k int PRIMARY KEY, v text); INSERT INTO u VALUES (1, 'a')"))
    list(run(one, "BEGIN"))
    list(run(two, "BEGIN; SELECT * FROM u FOR UPDATE; DELETE FROM u"))
    waiting = Waiting(one, "INSERT INTO u VALUES (1, 'b') ON CONFLICT (k) DO UPDATE SET v = u.v || 'c'")
    list(run(two, "COMMIT"))
    assert waiting.ended() == ""
    list(run(one, "COMMIT"))
    assert answers(one, "SELECT * FROM u") == [("1", "b")]


def test_a_key_that_on_conflict_brings_is_held(three: list[Session]) -> None:
    one, two, _ = three
    list(run(one, "INSERT INTO jobs VALUES (30), (31)"))
    list(run(one, "BEGIN; INSERT INTO jobs VALUES (30) ON CONFLICT (id) DO UPDATE SET id = 50"))
    waiting = Waiting(two, "INSERT INTO jobs VALUES (50)")
    list(run(one, "COMMIT"))
    assert waiting.ended() == "23505"


def test_a_key_may_be_referenced_whose_other_columns_have_changed_since_the_snapshot(three: list[Session]) -> None:
    one, two, _ = three
    list(run(one, "CREATE TABLE e (id int REFERENCES jobs)"))
    list(run(one, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM e"))
    list(run(two, "UPDATE jobs SET done = true WHERE id = 1"))
    list(run(one, "INSERT INTO e VALUES (1)"))
    with pytest.raises(PgError, match="could not serialize access due to concurrent update"):
        list(run(one, "SELECT * FROM jobs WHERE id = 1 FOR SHARE"))


def test_a_partition_whose_rows_are_being_referenced_is_not_detached(three: list[Session]) -> None:
    one, two, _ = three
    list(run(one, "CREATE TABLE h (id int PRIMARY KEY) PARTITION BY LIST (id)"))
    list(run(one, "CREATE TABLE h1 PARTITION OF h FOR VALUES IN (1); INSERT INTO h VALUES (1)"))
    list(run(one, "CREATE TABLE r (id int REFERENCES h)"))
    list(run(one, "BEGIN; INSERT INTO r VALUES (1)"))
    waiting = Waiting(two, "ALTER TABLE h DETACH PARTITION h1")
    list(run(one, "COMMIT"))
    assert waiting.ended() == "23503"


def test_a_period_is_locked_with_all_rows_that_cover_it(three: list[Session]) -> None:
    one, two, other = three
    for session in three:
        list(run(session, "SET pgrepl.postgres_version = 18"))
    list(run(one, "CREATE TABLE k (id int4range, v daterange, PRIMARY KEY (id, v WITHOUT OVERLAPS))"))
    list(run(one, "CREATE TABLE r (id int4range, v daterange, FOREIGN KEY (id, PERIOD v) REFERENCES k)"))
    for month in (1, 2, 3):
        period = f"[2020-0{month}-01,2020-0{month + 1}-01)"
        list(run(one, f"INSERT INTO k VALUES ('[1,2)', '{period}')"))
    list(run(one, "BEGIN; INSERT INTO r VALUES ('[1,2)', '[2020-01-10,2020-02-10)')"))
    list(run(two, "DELETE FROM k WHERE v = '[2020-03-01,2020-04-01)'"))
    waiting = Waiting(two, "DELETE FROM k WHERE v = '[2020-02-01,2020-03-01)'")
    list(run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM k"))
    list(run(one, "COMMIT"))
    assert waiting.ended() == "23503"
    list(run(two, "DELETE FROM r; DELETE FROM k WHERE v = '[2020-01-01,2020-02-01)'"))
    with pytest.raises(PgError, match="could not serialize access due to concurrent update") as raised:
        list(run(other, "INSERT INTO r VALUES ('[1,2)', '[2020-01-10,2020-02-10)')"))
    assert raised.value.report.context == (
        'SQL statement "SELECT 1 FROM (SELECT "v" AS r FROM ONLY "public"."k" x'
        ' WHERE "id"::pg_catalog.anyrange OPERATOR(pg_catalog.=) $1::pg_catalog.anyrange'
        ' AND "v"::pg_catalog.anyrange OPERATOR(pg_catalog.&&) $2::pg_catalog.anyrange FOR KEY SHARE OF x) x1'
        ' HAVING   $2::pg_catalog.anyrange OPERATOR(pg_catalog.<@) pg_catalog.range_agg(x1.r)"'
    )
