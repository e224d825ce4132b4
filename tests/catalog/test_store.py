"""Rows in, rows out: versions of versioned tables, and what a session remembers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import NOT_NULL, delete, insert, insert_many, new_oid, one, rows, update
from tests.catalog.conftest import Connect


@pytest.fixture
def writing(session: Session) -> Iterator[Session]:
    session.transaction.begin_statement(writes=True)
    yield session
    session.transaction.fail_statement()


def step(session: Session) -> None:
    """End the statement and begin the next one."""
    session.transaction.end_statement()
    session.transaction.begin_statement(writes=True)


def add_schema(session: Session, name: str) -> int:
    oid = new_oid(session)
    insert(session, tables.pg_namespace, datid=5, oid=oid, nspname=name, nspowner=10, nspacl=None)
    return oid


def versions(session: Session, oid: int) -> list[tuple[object, ...]]:
    return session.link.execute(
        "SELECT nspname, begin_snapshot, end_snapshot FROM pg_namespace WHERE oid = ? ORDER BY row_version", (oid,)
    )


def test_each_statement_that_changes_a_versioned_row_ends_one_version_and_begins_another(writing: Session) -> None:
    oid = add_schema(writing, "a")
    step(writing)
    update(writing, tables.pg_namespace, {"datid": 5, "oid": oid}, nspname="b")
    step(writing)
    delete(writing, tables.pg_namespace, datid=5, oid=oid)
    assert versions(writing, oid) == [("a", 1, 2), ("b", 2, 3)]
    assert one(writing, tables.pg_namespace, datid=5, oid=oid) is None


def test_changes_within_one_statement_leave_one_version(writing: Session) -> None:
    oid = add_schema(writing, "a")
    update(writing, tables.pg_namespace, {"datid": 5, "oid": oid}, nspname="b")
    assert update(writing, tables.pg_namespace, {"datid": 5, "oid": oid}, nspname="c") == 1
    assert versions(writing, oid) == [("c", 1, None)]
    assert delete(writing, tables.pg_namespace, datid=5, oid=oid) == 1
    assert versions(writing, oid) == []


def test_a_statement_that_changes_no_versioned_table_makes_no_snapshot(writing: Session) -> None:
    insert(writing, tables.pg_shdescription, objoid=10, classoid=1260, description="x")
    step(writing)
    assert writing.transaction.numbering.last_snapshot() == 0


def test_conditions(writing: Session) -> None:
    oids = [add_schema(writing, name) for name in ("a", "b", "c")]

    def names(**eq: object) -> list[str]:
        return sorted(r.nspname for r in rows(writing, tables.pg_namespace, datid=5, **eq) if r.oid >= 16384)

    assert names(oid=oids[0]) == ["a"]
    assert names(oid=oids) == ["a", "b", "c"]
    assert names(oid={oids[1], oids[2]}) == ["b", "c"]
    assert names(oid=()) == []
    assert names(nspacl=None) == ["a", "b", "c"]
    assert names(nspacl=NOT_NULL) == []
    many = range(oids[0], oids[0] + 20000)
    assert names(oid=list(many)) == ["a", "b", "c"]


def test_lists_and_booleans_come_back_as_they_went_in(writing: Session) -> None:
    insert_many(
        writing,
        tables.pg_authid,
        [{"oid": 20000 + n, "rolname": f"r{n}", "rolsuper": bool(n), "rolinherit": None} for n in range(2)],
    )
    found = [(r.rolname, r.rolsuper, r.rolinherit) for r in rows(writing, tables.pg_authid, oid=(20000, 20001))]
    assert found == [("r0", False, None), ("r1", True, None)]
    insert(writing, tables.pg_db_role_setting, setdatabase=0, setrole=20000, setconfig=["a=1", "b=ü"])
    row = one(writing, tables.pg_db_role_setting, setrole=20000)
    assert row is not None and row.setconfig == ["a=1", "b=ü"]


def test_what_another_session_committed_is_seen_by_the_next_statement(connect: Connect) -> None:
    reader, writer = connect(), connect()

    def comment() -> object:
        reader.transaction.begin_statement()
        row = one(reader, tables.pg_shdescription, objoid=10, classoid=1260)
        reader.transaction.end_statement()
        return None if row is None else row.description

    assert comment() is None
    for text in ("one", "two"):
        writer.transaction.begin_statement(writes=True)
        delete(writer, tables.pg_shdescription, objoid=10, classoid=1260)
        insert(writer, tables.pg_shdescription, objoid=10, classoid=1260, description=text)
        writer.transaction.end_statement()
        assert comment() == text


def test_the_answer_is_the_callers_own(writing: Session) -> None:
    first = rows(writing, tables.pg_database)
    first.clear()
    assert len(rows(writing, tables.pg_database)) == 3
