"""Timeouts: a statement that takes too long is cancelled, wherever it is and in whichever thread."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError
from tests.harness.played import Instance
from tests.harness.programs import environment

CANCELLED = "ERROR:  canceling statement due to statement timeout"


@pytest.mark.slow
def test_a_statement_is_cancelled_and_undone(instance: Instance) -> None:
    answers = instance.play(
        "pub",
        "CREATE TABLE t (a int)",
        "INSERT INTO t VALUES (1)",
        "SET statement_timeout = '1500ms'",
        "INSERT INTO t SELECT 1 FROM pg_sleep(5000)",
        "SELECT count(*) FROM generate_series(1, 1000000000000000)",  # too long for Spark, too
        "SET statement_timeout = 0",
        "BEGIN; INSERT INTO t VALUES (2); SET LOCAL statement_timeout = '300ms'; SELECT pg_sleep(5000); COMMIT",
        "SELECT 'aborted'",
        "ROLLBACK",
        "SELECT count(*) FROM t",
    )
    assert answers == [
        *("CREATE TABLE", "INSERT 0 1", "SET", CANCELLED, CANCELLED, "SET", "BEGIN", "INSERT 0 1", "SET", CANCELLED),
        "ERROR:  current transaction is aborted, commands ignored until end of transaction block",
        *("ROLLBACK", "1"),
    ]


def test_each_statement_of_a_string_has_the_whole_time(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    moments: dict[float, None] = {}  # until which each may take
    set_deadline = interrupts.set_deadline

    def noted(moment: float, error: PgError) -> None:
        moments.setdefault(moment)
        set_deadline(moment, error)

    monkeypatch.setattr(interrupts, "set_deadline", noted)
    answers = instance.play(
        "pub",
        "SET statement_timeout = '1h'",
        "SELECT pg_sleep(0.3); SELECT 1; SET statement_timeout = '300ms'; SELECT pg_sleep(5000)",
    )
    assert answers == ["SET", "", "1", "SET", CANCELLED]
    first, second, third, fourth = moments
    assert second - first >= 0.3
    assert first < second < third
    assert fourth < third - 3000


def test_a_wait_for_anothers_lock_ends(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", "BEGIN", "ALTER TABLE t ADD b int")
    answers = instance.play("sub", "SET statement_timeout = '300ms'", "CREATE TABLE u (a int)")
    assert answers == ["SET", CANCELLED]


def test_a_statement_of_another_thread_is_cancelled_where_it_waits(instance: Instance) -> None:
    answers: list[str] = []

    def work() -> None:
        answers.extend(instance.play("pub", "SET statement_timeout = '1s'", "SELECT pg_sleep(5000)", "SELECT 1"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == ["SET", CANCELLED, "1"]


def test_the_transaction_that_takes_too_long_ends_its_session(instance: Instance) -> None:
    answers = instance.play("pub", "SET transaction_timeout = '1s'", "BEGIN; SELECT pg_sleep(5000)")
    assert answers == ["SET", "BEGIN", "FATAL:  terminating connection due to transaction timeout"]


def test_the_longer_timeout_is_ignored(instance: Instance) -> None:
    answers = instance.play(
        "pub", "SET transaction_timeout = '10min'; SET statement_timeout = '300ms'", "SELECT pg_sleep(5000)"
    )
    assert answers == ["SET", "SET", CANCELLED]


def test_an_interrupt_waits_while_it_is_held_and_stays_until_the_statement_has_ended() -> None:
    interrupts.begin()
    with interrupts.hold_interrupts():
        interrupts.interrupt(interrupts.user_request())
        interrupts.check_for_interrupts()
    for _ in range(2):
        with pytest.raises(PgError, match="canceling statement due to user request"):
            interrupts.check_for_interrupts()
    interrupts.begin()
    interrupts.check_for_interrupts()


def test_an_interrupt_while_a_transaction_commits_does_not_undo_it(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", "BEGIN", "INSERT INTO t VALUES (1)")
    instance.session("pub").transaction.callbacks.append(lambda: interrupts.note(interrupts.user_request()))
    assert instance.play("pub", "COMMIT", "SELECT count(*) FROM t") == ["COMMIT", "1"]


def test_an_interrupt_before_rows_are_fetched_ends_their_statement(instance: Instance) -> None:
    session = instance.session("pub")
    session.streams = True
    session.transaction.callbacks.append(lambda: interrupts.note(interrupts.user_request()))
    answers = instance.play("pub", "SELECT g FROM generate_series(1, 3) g", "SELECT 1")
    assert answers == ["ERROR:  canceling statement due to user request", "1"]


def test_the_alarm_leaves_an_error_alone_that_a_check_has_raised_at_that_moment() -> None:
    late = interrupts.statement_timeout()
    interrupts.set_deadline(0, late)
    try:
        with pytest.raises(PgError):
            interrupts.check_for_interrupts()
        interrupts.interrupt(late)
        with pytest.raises(PgError):  # it rings again, in case the error was swallowed
            interrupts.interrupt(late)
    finally:
        interrupts.begin()


def test_a_statement_that_nobody_ended_does_not_kill_the_program_at_its_end(tmp_path: Path) -> None:
    program = """
import time
import pgrepl
from pgrepl.query import timeouts

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.5)

slow = Slow()
con = pgrepl.connect("catalog.db", autocommit=True)
con.execute("SET statement_timeout = '300ms'")
timeouts.start(con.session)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_thread_that_an_interrupt_left_alone_still_runs() -> None:
    """`threading.Thread.join` would mark it as ended."""
    go_on = threading.Event()
    thread = interrupts.JoinedThread(go_on.wait, "waits")
    thread.start()

    def ring(*_: object) -> None:
        raise PgError("57014", CANCELLED)

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(PgError):
            thread.join()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert thread.is_alive()
    go_on.set()
    thread.join()
    assert not thread.is_alive()
