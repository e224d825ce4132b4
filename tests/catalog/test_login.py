"""Connecting: who is let in, and with which settings the session begins."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run
from tests.catalog.conftest import Connect


def play(session: Session, *texts: str) -> list[str]:
    tags = []
    for text in texts:
        tags += [str(result.tag) for result in run(session, text)]
    return tags


@pytest.mark.parametrize(
    ("user", "database", "sqlstate", "message", "detail"),
    [
        ("nosuch", "postgres", "28000", 'role "nosuch" does not exist', None),
        ("nologin", "postgres", "28000", 'role "nologin" is not permitted to log in', None),
        ("postgres", "nosuch", "3D000", 'database "nosuch" does not exist', None),
        ("postgres", "template0", "55000", 'database "template0" is not currently accepting connections', None),
        (
            "plain",
            "private",
            "42501",
            'permission denied for database "private"',
            "User does not have CONNECT privilege.",
        ),
    ],
)
def test_refusals(connect: Connect, user: str, database: str, sqlstate: str, message: str, detail: str | None) -> None:
    play(
        connect(),
        "CREATE ROLE nologin",
        "CREATE ROLE plain LOGIN",
        "CREATE DATABASE private",
        "REVOKE CONNECT ON DATABASE private FROM public",
    )
    with pytest.raises(PgError) as caught:
        connect(user, database)
    report = caught.value.report
    assert (report.severity, report.sqlstate, report.message, report.detail) == ("FATAL", sqlstate, message, detail)


def test_each_setting_comes_from_where_it_says(connect: Connect) -> None:
    play(
        connect(),
        "CREATE ROLE plain LOGIN",
        "ALTER SYSTEM SET max_replication_slots = 20",
        "ALTER SYSTEM SET work_mem = '1MB'",
        "ALTER ROLE ALL SET work_mem = '2MB'",
        "ALTER ROLE ALL SET statement_timeout = 1",
        "ALTER DATABASE postgres SET statement_timeout = 2",
        "ALTER DATABASE postgres SET lock_timeout = 3",
        "ALTER ROLE plain SET lock_timeout = 4",
        "ALTER ROLE plain SET datestyle = 'German'",
        "ALTER ROLE plain IN DATABASE postgres SET datestyle = 'SQL'",
        "ALTER ROLE plain SET application_name = 'stored'",
    )
    settings = connect("plain", application_name="given").settings
    names = ("max_replication_slots", "work_mem", "statement_timeout", "lock_timeout", "datestyle", "application_name")
    assert {name: (settings.get(name), settings.source(name)) for name in names} == {
        "max_replication_slots": ("20", "configuration file"),
        "work_mem": ("2MB", "global"),
        "statement_timeout": ("2ms", "database"),
        "lock_timeout": ("4ms", "user"),
        "datestyle": ("SQL, DMY", "database user"),
        "application_name": ("given", "client"),
    }


def test_a_stored_setting_that_went_bad_is_a_warning(connect: Connect) -> None:
    play(
        connect(), "CREATE ROLE gone", "CREATE ROLE plain LOGIN", "ALTER ROLE plain SET role = 'gone'", "DROP ROLE gone"
    )
    session = connect("plain")
    assert session.settings.get("role") == "none"


def test_a_bad_setting_of_the_client_ends_the_connection(connect: Connect) -> None:
    with pytest.raises(PgError) as caught:
        connect(work_mem="much")
    assert caught.value.report.severity == "FATAL"
    assert caught.value.message == 'invalid value for parameter "work_mem": "much"'


def test_a_setting_that_is_no_longer_one_keeps_nobody_out(connect: Connect) -> None:
    first = connect()
    play(first, "ALTER SYSTEM SET max_replication_slots = 5", "ALTER SYSTEM SET work_mem = '8MB'")
    first.transaction.begin_statement(writes=True)
    first.link.execute("UPDATE pgrepl_setting SET value = 'many' WHERE name = 'max_replication_slots'")
    first.transaction.end_statement()
    session = connect()
    assert (session.settings.get("max_replication_slots"), session.settings.get("work_mem")) == ("10", "8MB")
    assert play(session, "ALTER SYSTEM RESET max_replication_slots") == ["ALTER SYSTEM"]


@pytest.mark.parametrize("encoding", [99, -1, "7F"])
def test_a_database_with_an_encoding_that_is_none_is_not_entered(path: Path, encoding: object) -> None:
    open_catalog(path).close()
    with closing(sqlite3.connect(path)) as damaged, damaged:
        damaged.execute("UPDATE pg_database SET encoding = ? WHERE datname = 'postgres'", (encoding,))
    catalog = open_catalog(path)
    with closing(catalog), pytest.raises(PgError, match="invalid database encoding: ") as caught:
        open_session(catalog)
    assert caught.value.sqlstate == "XX001"
