"""Declarations that 16 does not know, and plans that follow their definitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.catalog.session.session import Session
from pgrepl.ground.errors import PgError
from tests.harness.database import ask, visit


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with visit(tmp_path / "catalog.db") as session:
        yield session


@pytest.fixture
def heard(session: Session) -> list[str]:
    messages: list[str] = []
    session.on_report = lambda report: messages.append(report.message)
    return messages


def test_arrays_of_a_type_like_another(session: Session, heard: list[str]) -> None:
    ask(
        session,
        "create table t (a int, b text)",
        "do $$ declare x t.a%type[]; y x%type array; r t; s r%type;"
        " begin x := array[1, 2]; y := x || 3; s.b := 'q'; raise notice '% % %', x, y, s; end $$",
    )
    assert heard == ["{1,2} {1,2,3} (,q)"]


def test_a_missing_variable_of_a_type(session: Session) -> None:
    with pytest.raises(PgError, match='variable "nosuch" does not exist'):
        ask(session, "do $$ declare x nosuch%type; begin end $$")


def test_a_function_sees_a_table_that_was_altered(session: Session) -> None:
    ask(
        session,
        "create table t (a int)",
        "insert into t values (1)",
        "create function f() returns text language plpgsql as"
        " $$ declare r t; begin select * into r from t; return r; end $$",
    )
    assert ask(session, "select f()") == [("(1)",)]
    ask(session, "alter table t add b text default 'x'")
    assert ask(session, "select f()") == [("(1,x)",)]


def test_a_record_may_take_another_row_type(session: Session, heard: list[str]) -> None:
    ask(
        session,
        "do $$ declare r record; begin for i in 1..2 loop"
        " if i = 1 then select 1 as a, 2 as b into r; else select 'x' as a into r; end if;"
        " raise notice '%', r.a; end loop; end $$",
    )
    assert heard == ["1", "x"]


def test_settings_that_a_body_changes_count_at_once(session: Session, heard: list[str]) -> None:
    ask(
        session,
        "do $$ declare d date := '2020-02-01'; begin for i in 1..2 loop"
        " raise notice '%', d; set local datestyle = 'German'; end loop; end $$",
    )
    assert heard == ["2020-02-01", "01.02.2020"]


def test_cursors_are_closed_when_the_transaction_ends(session: Session) -> None:
    text = "create function f() returns refcursor language plpgsql as"
    ask(session, f"{text} $$ declare c refcursor := 'c'; begin open c for select 1; return c; end $$")
    ask(session, "select f()", "select f()")
    ask(session, "begin", "select f()")
    with pytest.raises(PgError, match='cursor "c" already in use'):
        ask(session, "select f()")
