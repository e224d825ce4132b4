"""Endless loops, endless recursion, and what a body leaves behind when it fails."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pgrepl.catalog.session.session import Session
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import user_request
from pgrepl.query import timeouts
from tests.harness.database import ask, visit
from tests.harness.dose import dose
from tests.harness.programs import PATIENCE


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with visit(tmp_path / "catalog.db") as session:
        yield session


def failure(session: Session, text: str) -> tuple[str, str, str | None]:
    with pytest.raises(PgError) as caught:
        ask(session, text)
    report = caught.value.report
    return report.sqlstate, report.message, report.context


ENDLESS = [
    ("do $$ begin loop end loop; end $$", "LOOP"),
    ("do $$ begin while true loop end loop; end $$", "WHILE"),
    ("do $$ begin for i in 1..2000000000 loop end loop; end $$", "FOR with integer loop variable"),
]


@pytest.mark.parametrize(("text", "kind"), ENDLESS)
def test_statement_timeout_ends_a_loop(session: Session, text: str, kind: str) -> None:
    ask(session, text.replace("end loop", "exit; end loop"))  # its modules are loaded: that may take as long
    ask(session, "set statement_timeout = 700")
    sqlstate, message, context = failure(session, text)
    assert (sqlstate, message) == ("57014", "canceling statement due to statement timeout")
    assert context == f"PL/pgSQL function inline_code_block line 1 at {kind}"


@pytest.mark.parametrize(("text", "kind"), ENDLESS)
def test_statement_timeout_ends_a_loop_in_another_thread(tmp_path: Path, text: str, kind: str) -> None:
    found: list[str] = []

    def work() -> None:
        with visit(tmp_path / "catalog.db") as session:
            ask(session, "set statement_timeout = 700")
            found.append(failure(session, text)[1])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE)
    assert found == ["canceling statement due to statement timeout"]


def test_ctrl_c_ends_a_loop_whose_errors_are_caught(session: Session) -> None:
    before = signal.signal(signal.SIGINT, lambda _, frame: timeouts.interrupt(user_request(), frame))
    begun = threading.Event()
    session.on_report = lambda report: begun.set()

    def interrupt() -> None:
        if begun.wait(PATIENCE):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    computed = time.thread_time()
    try:
        loop = "loop begin perform 1 / 0; exception when others then null; end; end loop"
        text = f"do $$ begin raise notice 'begun'; {loop}; end $$"
        assert failure(session, text)[:2] == ("57014", "canceling statement due to user request")
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert time.thread_time() - computed < 20


def test_an_interrupt_before_a_block_that_would_clean_up_leaves_no_context(session: Session) -> None:
    """The next routine is not taken for one that another calls."""

    def interrupted(_: object) -> None:
        session.contexts.append(lambda: "left behind")
        raise KeyboardInterrupt

    session.on_report = interrupted
    with pytest.raises(KeyboardInterrupt):
        ask(session, "drop table if exists nowhere")
    assert session.contexts == []


def test_query_canceled_can_be_caught(session: Session) -> None:
    text = "do $$ begin perform pg_sleep(5); exception when query_canceled then raise notice 'caught'; end $$"
    heard: list[str] = []
    session.on_report = lambda report: heard.append(report.message)
    ask(session, "set statement_timeout = 700", text)
    assert heard == ["caught"]


def test_endless_recursion_is_an_error_that_can_be_caught(session: Session) -> None:
    heard: list[str] = []
    session.on_report = lambda report: heard.append(report.message)
    ask(
        session,
        "create function f(n int) returns int language plpgsql as $$ begin return f(n + 1); end $$",
        "do $$ begin perform f(1); exception when statement_too_complex then raise notice '%', sqlerrm; end $$",
    )
    assert heard == ["stack depth limit exceeded"]
    assert failure(session, "select f(1)")[:2] == ("54001", "stack depth limit exceeded")
    assert session.contexts == []


DEEP = {
    "blocks": "begin " * 20_000 + "end;" * 20_000,
    "parentheses": f"begin if {'(' * 50_000}1{')' * 50_000} then end if; end",
    "operators": f"begin if {'1 + ' * 50_000}1 > 0 then end if; end",
}


@pytest.mark.parametrize("text", dose(DEEP.values(), 6, 1), ids=DEEP)
def test_deep_nesting_is_at_most_an_error(session: Session, text: str) -> None:
    with suppress(PgError):
        ask(session, f"do $$ {text} $$")
    assert ask(session, "select 1") == [("1",)]


def test_a_failed_block_leaves_nothing(session: Session) -> None:
    ask(session, "create table t (a int)")
    failure(session, "do $$ begin insert into t values (1); perform 1 / 0; end $$")
    assert (ask(session, "select count(*) from t"), session.variables, session.contexts) == ([("0",)], None, [])
