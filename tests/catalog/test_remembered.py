"""What a session remembers of definitions outlives what others write, and not what others define."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.connection import Catalog
from pgrepl.catalog.store.declarative import SystemRow, VersionedRow
from pgrepl.catalog.store.store import rows
from pgrepl.ground.errors import PgError
from pgrepl.lake.table import inlined_tables, lake_table
from pgrepl.statements.run import run

ROOT = Path(__file__).resolve().parents[2]

# runs what it is told, a string of statements a line, and says so when that is done
OTHER = """
import sys
from pgrepl.backend import open_session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.statements.run import run

session = open_session(open_catalog(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    try:
        list(run(session, line))
        print("done", flush=True)
    except Exception as problem:
        print(problem, flush=True)
"""

BEFORE = """
CREATE ROLE r; CREATE SCHEMA s; CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE u (a int);
CREATE TABLE p (a int) PARTITION BY RANGE (a); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (10);
CREATE PUBLICATION pub FOR TABLE t; CREATE VIEW v AS SELECT a FROM t; CREATE SEQUENCE q; INSERT INTO t VALUES (1, 'x')
"""
DEFINITIONS = (
    "ALTER TABLE t ADD COLUMN c int DEFAULT 7",
    "ALTER TABLE t RENAME COLUMN b TO d",
    "ALTER TABLE t DROP COLUMN c",
    "ALTER TABLE t ADD CHECK (a > 0)",
    "CREATE UNIQUE INDEX ON t (d)",
    "ALTER TABLE u REPLICA IDENTITY FULL",
    "ALTER TABLE u RENAME TO w",
    "ALTER TABLE w SET SCHEMA s",
    "ALTER SCHEMA s RENAME TO z",
    "ALTER TABLE z.w OWNER TO r",
    "GRANT SELECT ON t TO r",
    "GRANT pg_read_all_data TO r",
    "ALTER ROLE r SUPERUSER",
    "ALTER ROLE r SET work_mem = '8MB'",
    "ALTER ROLE r RENAME TO rr",
    "ALTER TABLE p DETACH PARTITION p1",
    "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
    "ALTER PUBLICATION pub SET (publish = 'insert')",
    "ALTER PUBLICATION pub ADD TABLES IN SCHEMA z",
    "ALTER PUBLICATION pub SET TABLE t WHERE (a > 1)",
    "CREATE SUBSCRIPTION sub CONNECTION 'dbname=postgres' PUBLICATION pub WITH (connect = false)",
    "ALTER SUBSCRIPTION sub SET (slot_name = NONE)",
    "ALTER SUBSCRIPTION sub RENAME TO sub2",
    "DROP SUBSCRIPTION sub2",
    "COMMENT ON TABLE t IS 'about t'",
    "CREATE OR REPLACE VIEW v AS SELECT a, d FROM t",
    "BEGIN; SAVEPOINT x; CREATE TABLE lost (a int); ROLLBACK TO x; CREATE TABLE kept (a int); COMMIT",
    "CREATE DATABASE d",
    "ALTER DATABASE d RENAME TO dd",
    "ALTER SYSTEM SET max_wal_senders = 3",
    "TRUNCATE t",
    "DROP TABLE t CASCADE",
)


@pytest.fixture
def other(path: Path, session: Session) -> Iterator[subprocess.Popen[str]]:
    """Another process at the same catalog."""
    list(run(session, BEFORE))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", OTHER, str(path)]
    made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert made.stdout is not None
    assert made.stdout.readline() == "ready\n"
    yield made
    assert made.stdin is not None
    made.stdin.close()
    assert made.wait() == 0
    made.stdout.close()


def tell(other: subprocess.Popen[str], text: str) -> None:
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write(text + "\n")
    other.stdin.flush()
    assert other.stdout.readline() == "done\n", text


def _all() -> list[type[SystemRow]]:
    made = [value for value in vars(tables).values() if isinstance(value, type) and issubclass(value, SystemRow)]
    return [table for table in made if table not in (SystemRow, VersionedRow)]


def seen(session: Session) -> dict[str, object]:
    """What is asked of every table, and what is derived from some of them."""
    with reading(session):
        found: dict[str, object] = {table.__name__: [tuple(r) for r in rows(session, table)] for table in _all()}
        for row in rows(session, tables.pg_class, relkind="r"):
            found[f"lake {row.oid}"] = lake_table(session, row.oid), inlined_tables(session, row.table_id or 0)
        return found


def test_what_another_process_defines_is_seen_at_once(
    session: Session, catalog: Catalog, other: subprocess.Popen[str]
) -> None:
    seen(session)
    for text in DEFINITIONS:
        tell(other, text)
        warm = seen(session)
        fresh = open_session(catalog)
        assert warm == seen(fresh), text
        fresh.close()


def test_what_another_process_writes_is_seen_at_once(
    session: Session, catalog: Catalog, other: subprocess.Popen[str]
) -> None:
    seen(session)
    for text in ("INSERT INTO t VALUES (2, 'y')", "SELECT nextval('q')", "UPDATE t SET b = 'z'", "DELETE FROM t",
                 "SELECT pg_create_logical_replication_slot('k', 'pgoutput')",
                 "SELECT pg_replication_origin_create('o')"):  # fmt: skip
        tell(other, text)
        warm = seen(session)
        fresh = open_session(catalog)
        assert warm == seen(fresh), text
        fresh.close()
        assert list(next(iter(run(session, "SELECT count(*) FROM t"))).rows) == list(
            next(iter(run(open_session(catalog), "SELECT count(*) FROM t"))).rows
        )


def test_what_is_rolled_back_is_not_remembered(session: Session, catalog: Catalog) -> None:
    list(run(session, BEFORE))
    before = seen(session)
    list(run(session, "BEGIN; ALTER TABLE t ADD COLUMN c int; CREATE TABLE n (a int)"))
    seen(session)
    list(run(session, "ROLLBACK"))
    there = open_session(catalog)
    list(run(there, "INSERT INTO t VALUES (2, 'y')"))
    work = {table.__name__ for table in _all() if tables.is_work(table.__name__)}
    assert {k: v for k, v in seen(session).items() if k not in work} == {
        k: v for k, v in before.items() if k not in work
    }
    there.close()


def test_definitions_are_read_once_though_others_write(session: Session, catalog: Catalog) -> None:
    list(run(session, BEFORE))
    there = open_session(catalog)
    select = "SELECT a FROM t"
    list(run(session, select))
    list(run(there, "INSERT INTO t VALUES (2, 'y')"))
    list(run(session, select))  # the first look after its own definitions
    list(run(there, "INSERT INTO t VALUES (3, 'z')"))
    asked: list[str] = []
    driver = session.link.driver
    driver.set_trace_callback(asked.append)
    list(run(session, select))
    driver.set_trace_callback(None)
    assert not [text for text in asked if " FROM pg_" in text]
    there.close()


def test_a_sequence_that_was_rolled_back_leaves_no_currval_to_the_next_one_with_its_oid(
    session: Session, catalog: Catalog
) -> None:
    list(run(session, "BEGIN; CREATE SEQUENCE lost; SELECT nextval('lost'), nextval('lost'); ROLLBACK"))
    there = open_session(catalog)
    list(run(there, "CREATE SEQUENCE q"))
    there.close()
    for asked, message in (
        ("currval('q')", 'currval of sequence "q" is not yet defined in this session'),
        ("lastval()", "lastval is not yet defined in this session"),
    ):
        with pytest.raises(PgError, match=message):
            list(run(session, f"SELECT {asked}"))
    assert [row for result in run(session, "SELECT nextval('q')") for row in result.rows] == [("1",)]
