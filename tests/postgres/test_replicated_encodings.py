"""A publisher and a subscriber whose databases have different encodings: names, labels and values in both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.harness.database import Database, Errors
from tests.harness.dose import dose
from tests.harness.programs import eventually
from tests.harness.serving import serving
from tests.postgres.served import PublishingServer
from tests.postgres.server import new_server

WAYS = [("UTF8", "LATIN1"), ("LATIN1", "UTF8")]
TABLE = """
CREATE TYPE farbe AS ENUM ('grün', 'blau');
CREATE TABLE "tü" (a int PRIMARY KEY, "é" text, f farbe, x text[], c char(5));
ALTER TABLE "tü" REPLICA IDENTITY FULL; CREATE TABLE many (a text PRIMARY KEY, b text)
"""
PUBLISHED = (
    "INSERT INTO tü VALUES (1, 'é', 'grün', '{à,ü}', 'ñ')",
    "INSERT INTO many SELECT 'ö' || g, 'x' FROM generate_series(1, 1200) g",
    "CREATE PUBLICATION p FOR TABLE tü WHERE (\"é\" <> 'ÿ'), many",
)
CHANGES = (
    "INSERT INTO tü VALUES (2, 'ß', 'blau', NULL, NULL), (3, 'ÿ', NULL, NULL, NULL)",
    "UPDATE tü SET \"é\" = 'çÿ', x = '{ô}' WHERE a = 1",
    "UPDATE many SET b = 'é' || a; DELETE FROM many WHERE a = 'ö17'; UPDATE many SET a = 'ü' WHERE a = 'ö18'",
)
ROWS = 'SELECT a::text, "é", f::text, x::text, c::text FROM tü ORDER BY a'
MANY = "SELECT count(*)::text, min(b), sum(length(a || b))::text, count(*) FILTER (WHERE a = 'ü')::text FROM many"
COPIED = [("1", "é", "grün", "{à,ü}", "ñ")]
CHANGED = [("1", "çÿ", "grün", "{ô}", "ñ"), ("2", "ß", "blau", None, None)]
MANY_CHANGED = [("1199", "éö1", "10977", "1")]
NONE = 'character with byte sequence 0xe2 0x82 0xac in encoding "UTF8" has no equivalent in encoding "LATIN1"'


def created(name: str, encoding: str) -> str:
    return f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"


def lake_database(folder: Path, name: str, encoding: str) -> Database:
    with Database(folder) as first:
        first(created(name, encoding))
    return Database(folder, name)


def server_database(server: PublishingServer, encoding: str) -> tuple[str, Any]:
    """The connection string of a new database, and a connection."""
    name = f"in_{encoding}".lower()
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as link:
        link.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        link.execute(created(name, encoding).encode())
    where = server.conninfo(name)
    return where, psycopg.connect(where, autocommit=True, client_encoding="UTF8")


def stops(errors: Errors) -> None:
    assert [message for message, _, _ in errors] == [NONE]


@pytest.mark.parametrize(("there", "here"), dose(WAYS, 2))
def test_from_a_server(publishing: PublishingServer, tmp_path: Path, there: str, here: str) -> None:
    where, server = server_database(publishing, there)
    sub = lake_database(tmp_path, "sub", here)
    for each in (server.execute, sub):
        each(TABLE)
    for statement in PUBLISHED:
        server.execute(statement)
    sub.subscribe("p", where, f"WITH (slot_name = in_{there.lower()})")
    assert (sub.catch_up(), sub(ROWS)) == ([], COPIED)
    for statement in CHANGES:
        server.execute(statement)
    assert (sub.catch_up(), sub(ROWS), sub(MANY)) == ([], CHANGED, MANY_CHANGED)
    if here == "LATIN1":
        server.execute("INSERT INTO many VALUES ('€')")
        stops(sub.catch_up())
    sub.leave()
    sub("DROP SUBSCRIPTION s")
    server.close()
    sub.close()


@pytest.mark.parametrize(("there", "here"), WAYS)
def test_from_lake_to_lake(tmp_path: Path, there: str, here: str) -> None:
    pub, sub = lake_database(tmp_path, "pub", there), lake_database(tmp_path, "sub", here)
    for each in (pub, sub):
        each(TABLE)
    pub(*PUBLISHED)
    sub.subscribe("p", "dbname=pub")
    assert (sub.catch_up(), sub(ROWS)) == ([], COPIED)
    pub(*CHANGES)
    assert (sub.catch_up(), sub(ROWS), sub(MANY)) == ([], CHANGED, MANY_CHANGED)
    if here == "LATIN1":
        pub("INSERT INTO many SELECT '€' || g FROM generate_series(1, 1200) g")
        assert [message.replace("b0", "ac") for message, _, _ in sub.catch_up()] == [NONE]
    pub.close()
    sub.close()


@pytest.fixture(scope="module")
def subscriber() -> Iterator[PublishingServer]:
    made = PublishingServer(
        18, new_server(18, "max_logical_replication_workers = 8\nwal_retrieve_retry_interval = 200\n")
    )
    yield made
    made.server.stop()


@pytest.mark.parametrize(("there", "here"), dose(WAYS, 2))
def test_a_server_subscribes_to_a_lake(subscriber: PublishingServer, tmp_path: Path, there: str, here: str) -> None:
    _, server = server_database(subscriber, here)
    with serving(tmp_path) as lake:
        lake.ask(created("pub", there))
        with lake.connect(dbname="pub", client_encoding="UTF8") as pub:
            for each in (pub, server):
                each.execute(TABLE)
            for statement in PUBLISHED:
                pub.execute(statement)
            where = f"host=127.0.0.1 port={lake.port} user=postgres dbname=pub"
            binary = here == "LATIN1"
            server.execute(f"CREATE SUBSCRIPTION s CONNECTION '{where}' PUBLICATION p WITH (binary = {binary})")
            try:
                eventually(
                    lambda: server.execute("SELECT DISTINCT srsubstate FROM pg_subscription_rel").fetchall() == [("r",)]
                )
                assert server.execute(ROWS).fetchall() == COPIED
                for statement in CHANGES:
                    pub.execute(statement)
                eventually(lambda: server.execute(MANY).fetchall() == MANY_CHANGED)
                assert server.execute(ROWS).fetchall() == CHANGED
            finally:
                server.execute("DROP SUBSCRIPTION s")
    server.close()
