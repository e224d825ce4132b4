"""Transactions over the catalog: blocks, savepoints, identifiers, waiting for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from pgrepl.catalog.session.context import Block
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import reading, require_no_block
from pgrepl.catalog.store import ducklake, tables
from pgrepl.catalog.store.connection import Catalog
from pgrepl.catalog.store.store import insert, new_oid, one, rows
from pgrepl.ground.errors import PgError
from tests.catalog.conftest import Connect
from tests.harness.programs import PATIENCE


def statement(session: Session, action: Callable[[Session], object]) -> object:
    session.transaction.begin_statement(writes=True)
    try:
        answer = action(session)
    except BaseException:
        session.transaction.fail_statement()
        raise
    session.transaction.end_statement()
    return answer


def begin(session: Session) -> None:
    session.transaction.begin_statement()
    session.transaction.begin_block()
    session.transaction.end_statement()


def make(name: str) -> Callable[[Session], object]:
    def action(session: Session) -> object:
        insert(session, tables.pg_namespace, datid=5, oid=new_oid(session), nspname=name, nspowner=10, nspacl=None)
        return name

    return action


def made(session: Session) -> list[str]:
    with reading(session):
        return sorted(r.nspname for r in rows(session, tables.pg_namespace, datid=5) if r.oid >= 16384)


def test_rollback_leaves_nothing_and_its_oids_are_not_given_again(session: Session) -> None:
    begin(session)
    first = statement(session, new_oid)
    session.transaction.rollback_block()
    assert made(session) == []
    assert statement(session, new_oid) == int(str(first)) + 1


def test_an_error_aborts_the_block_and_lets_others_write(connect: Connect) -> None:
    session, other = connect(), connect()
    begin(session)
    statement(session, make("a"))
    with pytest.raises(ZeroDivisionError):
        statement(session, lambda s: 1 / 0)
    assert session.transaction.block is Block.ABORTED
    statement(other, make("b"))
    assert session.transaction.commit_block() == "ROLLBACK"
    assert made(session) == ["b"]


def test_savepoints_nest_and_a_name_may_be_used_twice(session: Session) -> None:
    begin(session)
    transaction = session.transaction
    transaction.savepoint("before_anything")
    statement(session, make("a"))
    transaction.savepoint("x")
    statement(session, make("b"))
    transaction.savepoint("x")
    statement(session, make("c"))
    transaction.rollback_to("x")
    assert made(session) == ["a", "b"]
    transaction.release("x")
    transaction.rollback_to("x")
    assert made(session) == ["a"]
    transaction.rollback_to("before_anything")
    assert made(session) == []
    statement(session, make("d"))
    assert transaction.commit_block() == "COMMIT"
    assert made(session) == ["d"]


def test_an_error_behind_a_savepoint_is_undone_to_it(session: Session) -> None:
    begin(session)
    statement(session, make("a"))
    session.transaction.savepoint("s")
    statement(session, make("b"))
    with pytest.raises(ZeroDivisionError):
        statement(session, lambda s: 1 / 0)
    session.transaction.rollback_to("s")
    statement(session, make("c"))
    session.transaction.commit_block()
    assert made(session) == ["a", "c"]


def test_snapshots_number_the_committed_statements_without_gaps(session: Session) -> None:
    statement(session, make("a"))
    begin(session)
    statement(session, make("lost"))
    session.transaction.rollback_block()
    begin(session)
    statement(session, make("b"))
    session.transaction.savepoint("s")
    statement(session, make("undone"))
    session.transaction.rollback_to("s")
    statement(session, make("c"))
    session.transaction.commit_block()
    with reading(session):
        begins = {r.nspname: r.begin_snapshot for r in rows(session, tables.pg_namespace, datid=5) if r.oid >= 16384}
        ids = [r.snapshot_id for r in rows(session, ducklake.ducklake_snapshot)]
    assert begins == {"a": 1, "b": 2, "c": 3}
    assert ids == [0, 1, 2, 3]


def test_what_waits_for_the_commit_is_done_once_and_not_after_a_rollback(session: Session) -> None:
    done: list[str] = []
    begin(session)
    statement(session, lambda s: s.on_commit(lambda: done.append("lost")))
    session.transaction.rollback_block()
    begin(session)
    statement(session, lambda s: s.on_commit(lambda: done.append("kept")))
    session.transaction.savepoint("s")
    statement(session, lambda s: s.on_commit(lambda: done.append("undone")))
    session.transaction.rollback_to("s")
    assert done == []
    session.transaction.commit_block()
    statement(session, make("a"))
    assert done == ["kept"]


def test_some_statements_insist_on_being_alone(session: Session) -> None:
    require_no_block(session, "CREATE DATABASE")
    begin(session)
    with pytest.raises(PgError, match=r"^CREATE DATABASE cannot run inside a transaction block$"):
        require_no_block(session, "CREATE DATABASE")
    session.transaction.rollback_block()


def test_a_reader_does_not_wait_for_a_writer_and_sees_no_half_done_work(connect: Connect) -> None:
    writer, reader = connect(), connect()
    begin(writer)
    statement(writer, make("a"))
    assert made(reader) == []  # it would be told that the catalog is locked
    writer.transaction.commit_block()
    assert made(reader) == ["a"]


def test_a_writer_waits_for_another(connect: Connect) -> None:
    first, second = connect(), connect()
    begin(first)
    statement(first, make("a"))
    order: list[str] = []

    def wait() -> None:
        statement(second, make("b"))
        order.append("second")

    asked = threading.Event()
    second.link.driver.set_trace_callback(lambda text: asked.set() if text == "BEGIN IMMEDIATE" else None)
    waiting = threading.Thread(target=wait)
    waiting.start()
    assert asked.wait(PATIENCE)
    order.append("first")
    first.transaction.commit_block()
    waiting.join(PATIENCE)
    assert order == ["first", "second"]
    assert made(first) == ["a", "b"]


def test_who_waits_too_long_is_told_so(connect: Connect, catalog: Catalog) -> None:
    first, second = connect(), connect(lock_timeout="300ms")
    begin(first)
    statement(first, make("a"))
    with pytest.raises(PgError) as caught:
        statement(second, make("b"))
    report = caught.value.report
    assert (report.sqlstate, report.message) == ("55P03", f'could not lock catalog "{catalog.name}" within 0.3 s')
    first.transaction.rollback_block()
    statement(second, make("b"))


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_block_with_one_snapshot_defines_beside_what_others_have_defined(connect: Connect, level: str) -> None:
    session, other = connect(), connect()
    begin(session)
    session.settings.set("transaction_isolation", level)
    assert made(session) == []
    statement(other, make("b"))
    assert made(session) == []
    statement(session, make("a"))
    session.transaction.commit_block()
    assert made(session) == ["a", "b"]


def test_read_committed_sees_what_others_commit_in_between(connect: Connect) -> None:
    session, other = connect(), connect()
    begin(session)
    assert made(session) == []
    statement(other, make("b"))
    assert made(session) == ["b"]
    statement(session, make("a"))
    session.transaction.commit_block()
    assert made(other) == ["a", "b"]


def test_a_reading_statement_may_turn_out_to_write(session: Session) -> None:
    session.transaction.begin_statement()
    assert one(session, tables.pg_database, oid=5) is not None
    make("a")(session)
    session.transaction.end_statement()
    assert made(session) == ["a"]


def test_nothing_may_look_into_an_aborted_block(session: Session) -> None:
    begin(session)
    with pytest.raises(ZeroDivisionError):
        statement(session, lambda s: 1 / 0)
    with pytest.raises(PgError, match="current transaction is aborted"):
        made(session)
    session.transaction.rollback_block()


def test_a_commit_that_fails_ends_the_block(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in PostgreSQL: there is nothing left to roll back."""

    def full(*_: object) -> None:
        raise PgError("53100", "No space left on device")

    begin(session)
    statement(session, make("a"))
    with monkeypatch.context() as patch, pytest.raises(PgError, match="No space left"):
        patch.setattr(session.link, "commit", full)
        statement(session, lambda session: session.transaction.commit_block())
    assert session.transaction.block is Block.NONE
    assert made(session) == []
