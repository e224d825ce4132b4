"""Temporary relations belong to one session and go with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.connection import Catalog
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.statements import deletion
from pgrepl.statements.run import run
from tests.harness.played import Instance

SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pg\\_temp%'"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return open_catalog(tmp_path / "catalog.db")


def play(session: Session, statement: str) -> list[tuple[str | None, ...]]:
    return [row for result in run(session, statement) for row in result.rows]


def test_another_session_does_not_find_it_by_its_bare_name(catalog: Catalog) -> None:
    one, two = open_session(catalog), open_session(catalog)
    play(one, "CREATE TEMP TABLE t (a int)")
    with pytest.raises(PgError, match='relation "t" does not exist'):
        play(two, "SELECT 't'::regclass")
    play(two, "CREATE TEMP TABLE t (b text)")
    assert len(play(one, SCHEMAS)) == 2
    assert play(one, "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0") == [("a",)]
    one.close()
    two.close()


def test_it_goes_with_the_session(catalog: Catalog) -> None:
    one, two = open_session(catalog), open_session(catalog)
    play(one, "CREATE TEMP TABLE t (a serial PRIMARY KEY)")
    play(one, "CREATE VIEW v AS SELECT a FROM t")
    one.close()
    assert play(two, SCHEMAS) == []
    assert play(two, "SELECT relname FROM pg_class WHERE relname ~ '^(t|v)'  AND oid >= 16384") == []
    two.close()


def test_an_open_transaction_is_rolled_back_first(catalog: Catalog) -> None:
    one, two = open_session(catalog), open_session(catalog)
    play(one, "CREATE TEMP TABLE t (a int)")
    play(one, "BEGIN")
    play(one, "CREATE TABLE lasting (a int)")
    one.close()
    assert play(two, "SELECT count(*) FROM pg_class WHERE relname IN ('t', 'lasting')") == [("0",)]
    two.close()


def test_a_schema_whose_making_was_rolled_back_is_made_again(catalog: Catalog) -> None:
    session = open_session(catalog)
    play(session, "BEGIN")
    play(session, "CREATE TEMP TABLE t (a int)")
    play(session, "ROLLBACK")
    assert play(session, SCHEMAS) == []
    play(session, "CREATE TEMP TABLE t (a int)")
    assert play(session, "SELECT relpersistence FROM pg_class WHERE oid = 't'::regclass") == [("t",)]
    session.close()


def test_what_a_killed_process_left_is_cleared_when_its_number_comes_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "session_numbers", iter([1, 1]))
    killed = open_session(catalog)
    play(killed, "CREATE TEMP TABLE old (a int)")
    killed.at_close.clear()
    killed.close()
    session = open_session(catalog)
    assert len(play(session, SCHEMAS)) == 1
    play(session, "CREATE TEMP TABLE new (a int)")
    assert play(session, "SELECT relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()") == [("new",)]
    session.close()


def test_on_commit_delete_rows(instance: Instance) -> None:
    assert instance.play(
        "pub",
        "CREATE TEMP TABLE p (a int PRIMARY KEY) ON COMMIT DELETE ROWS",
        "CREATE TEMP TABLE c (a int REFERENCES p) ON COMMIT DELETE ROWS",
        "INSERT INTO p VALUES (1)",
        "BEGIN",
        "INSERT INTO p VALUES (1), (2)",
        "INSERT INTO c VALUES (1)",
        "SELECT (SELECT count(*) FROM p), (SELECT count(*) FROM c)",
        "COMMIT",
        "SELECT (SELECT count(*) FROM p), (SELECT count(*) FROM c)",
    )[2:] == ["INSERT 0 1", "BEGIN", "INSERT 0 2", "INSERT 0 1", "2|1", "COMMIT", "0|0"]


def test_after_a_rollback_its_oids_mean_other_objects(catalog: Catalog) -> None:
    """Another session gets the OIDs that were rolled back: the first one must not remember any of them."""
    one, two = open_session(catalog), open_session(catalog)
    play(one, "BEGIN")
    play(one, "CREATE TEMP TABLE t (a int) ON COMMIT DELETE ROWS")
    ((schema, table),) = play(one, "SELECT relnamespace, oid FROM pg_class WHERE relname = 't'")
    play(one, "ROLLBACK")
    play(two, "CREATE SCHEMA s")
    play(two, "CREATE TABLE s.u (a int)")
    assert play(two, "SELECT relnamespace, oid FROM pg_class WHERE relname = 'u'") == [(schema, table)]
    play(one, "INSERT INTO s.u VALUES (1), (2)")
    play(one, "CREATE TEMP TABLE v (a int)")
    one.close()
    assert play(two, "SELECT a::text FROM s.u ORDER BY a") == [("1",), ("2",)]
    two.close()


def test_a_rolled_back_savepoint_leaves_the_earlier_tables_on_commit_delete_rows(catalog: Catalog) -> None:
    session = open_session(catalog)
    play(session, "BEGIN")
    play(session, "CREATE TEMP TABLE kept (a int) ON COMMIT DELETE ROWS")
    play(session, "SAVEPOINT s")
    play(session, "CREATE TEMP TABLE gone (a int) ON COMMIT DELETE ROWS")
    play(session, "DROP TABLE kept")
    play(session, "ROLLBACK TO s")
    play(session, "INSERT INTO kept VALUES (1)")
    play(session, "COMMIT")
    assert play(session, "SELECT (SELECT count(*) FROM kept), to_regclass('gone')") == [("0", None)]
    session.close()
