"""A catalog in a PostgreSQL database: `--catalog postgresql://…`, shared by several machines."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.catalog.engine import Catalog, open_catalog
from pgrepl.catalog.session import Session
from pgrepl.commands.run import run
from pgrepl.errors import PgError
from tests.postgres.play import Pair


@pytest.fixture
def url(pair16: Pair) -> Iterator[str]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    server = pair16.publisher
    pair16.ask(server, "postgres", "CREATE DATABASE shared;\n", "-q")
    yield f"postgresql://postgres@/shared?host={server.host}&port={server.port}"
    pair16.ask(server, "postgres", "DROP DATABASE shared WITH (FORCE);\n", "-q")


@pytest.fixture
def catalog(url: str, tmp_path: Path) -> Iterator[Catalog]:
    opened = open_catalog(url, data_path=str(tmp_path))
    yield opened
    opened.close()


def play(session: Session, *texts: str) -> list[object]:
    answers: list[object] = []
    for text in texts:
        try:
            for result in run(session, text):
                answers.append(list(result.rows) if result.columns else result.tag)
        except PgError as error:
            answers.append(error.message)
    return answers


SCHEMAS = "SELECT nspname FROM pg_namespace WHERE oid >= 16384 ORDER BY 1"


def test_statements_transactions_and_savepoints(catalog: Catalog) -> None:
    session = Session(catalog)
    assert play(
        session,
        "CREATE SCHEMA a",
        "CREATE SCHEMA a",
        "BEGIN",
        "CREATE SCHEMA b",
        "SAVEPOINT s",
        "CREATE SCHEMA c",
        "CREATE SCHEMA c",
        "ROLLBACK TO s",
        "CREATE ROLE reader",
        "COMMIT",
        "CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT 'x')",
        "CREATE PUBLICATION p FOR TABLE t WHERE (a > 5)",
        "GRANT SELECT ON t TO reader",
        "SELECT relacl FROM pg_class WHERE relname = 't'",
        "SELECT rowfilter FROM pg_publication_tables",
        SCHEMAS,
        "DROP TABLE t",
    ) == [
        "CREATE SCHEMA",
        'schema "a" already exists',
        "BEGIN",
        "CREATE SCHEMA",
        "SAVEPOINT",
        "CREATE SCHEMA",
        'schema "c" already exists',
        "ROLLBACK",
        "CREATE ROLE",
        "COMMIT",
        "CREATE TABLE",
        "CREATE PUBLICATION",
        "GRANT",
        [("{postgres=arwdDxtm/postgres,reader=r/postgres}",)],
        [("(a > 5)",)],
        [("a",), ("b",)],
        "DROP TABLE",
    ]
    session.close()


def test_sessions_see_each_other_and_take_turns(catalog: Catalog) -> None:
    first, second = Session(catalog), Session(catalog)
    assert play(second, SCHEMAS) == [[]]
    play(first, "CREATE SCHEMA a")
    assert play(second, SCHEMAS) == [[("a",)]]
    play(first, "BEGIN", "CREATE SCHEMA b")
    assert play(second, SCHEMAS) == [[("a",)]]
    waiting = threading.Thread(target=play, args=(second, "CREATE SCHEMA c"))
    waiting.start()
    time.sleep(0.2)
    play(first, "CREATE SCHEMA d", "COMMIT")
    waiting.join(10)
    assert play(first, SCHEMAS) == play(second, SCHEMAS) == [[("a",), ("b",), ("c",), ("d",)]]
    first.close()
    second.close()


def test_who_waits_too_long_is_told_so(catalog: Catalog) -> None:
    first, second = Session(catalog), Session(catalog)
    play(first, "BEGIN", "CREATE SCHEMA a")
    answer = play(second, "SET lock_timeout = '100ms'", "CREATE SCHEMA b")
    assert answer == ["SET", f'could not lock catalog "{catalog.name}" within 0.1 s']
    first.close()
    second.close()


def test_a_block_with_one_snapshot_cannot_write_over_what_came_after(catalog: Catalog) -> None:
    first, second = Session(catalog), Session(catalog)
    play(first, "BEGIN ISOLATION LEVEL REPEATABLE READ", SCHEMAS)
    play(second, "CREATE SCHEMA b")
    assert play(first, SCHEMAS, "CREATE SCHEMA a", "COMMIT") == [
        [],
        "could not serialize access due to concurrent update",
        "ROLLBACK",
    ]
    first.close()
    second.close()


def test_all_who_come_first_at_once_find_one_catalog(url: str, tmp_path: Path) -> None:
    identifiers: list[object] = []

    def arrive() -> None:
        catalog = open_catalog(url, data_path=str(tmp_path))
        link = catalog.connect()
        identifiers.append(link.execute("SELECT system_identifier FROM pgrepl_instance"))
        link.close()
        catalog.close()

    threads = [threading.Thread(target=arrive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(identifiers) == 4
    assert len({str(identifier) for identifier in identifiers}) == 1


def test_a_schema_of_that_name_that_is_not_ours_is_left_alone(url: str, pair16: Pair) -> None:
    pair16.ask(pair16.publisher, "shared", "CREATE SCHEMA pgrepl CREATE TABLE mine (a int);\n", "-q")
    with pytest.raises(PgError) as caught:
        open_catalog(url)
    assert caught.value.report.severity == "FATAL"
    assert caught.value.message.endswith('has a schema "pgrepl" that is not a pgrepl catalog')
    listed = pair16.ask(
        pair16.publisher, "shared", "SELECT relname FROM pg_class WHERE relnamespace = 'pgrepl'::regnamespace;\n", "-At"
    )
    assert listed == "mine\n"


def test_a_newer_catalog_is_refused(catalog: Catalog, url: str, pair16: Pair) -> None:
    pair16.ask(pair16.publisher, "shared", "UPDATE pgrepl.pgrepl_instance SET format_version = 9;\n", "-q")
    with pytest.raises(PgError, match="was made by a newer pgrepl: it has format 9"):
        open_catalog(url)
