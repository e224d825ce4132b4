"""Questions of drivers, ORMs and tools to the catalog, of a server and of pgrepl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.played import Instance
from tests.postgres.play import Pair
from tests.query.catalog_queries import queries, schema

DATABASE = "asked"


@pytest.fixture(scope="module")
def server(pair16: Pair) -> Iterator[Any]:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    place = {"host": pair16.publisher.host, "port": pair16.publisher.port, "user": "postgres"}
    with psycopg.connect(**place, dbname="postgres", autocommit=True) as root:
        root.execute(f"CREATE DATABASE {DATABASE}")
        with psycopg.connect(**place, dbname=DATABASE, autocommit=True) as connection:
            for statement in schema():
                connection.execute(statement)
            yield connection
        root.execute(f"DROP DATABASE {DATABASE}")


def answered(server: Any, query: str) -> list[str]:
    with server.cursor().copy(f"COPY ({query}) TO STDOUT WITH (DELIMITER '|', NULL '')") as copy:
        return b"".join(map(bytes, copy)).decode().splitlines()


def test_catalog_queries_are_answered_as_by_a_server(server: Any, tmp_path: Path) -> None:
    instance = Instance(tmp_path / "asked")
    instance.play("pub", *schema())
    asked = {**queries("clients"), **queries("merged")}
    ours = {name: instance.play("pub", query) for name, query in asked.items()}
    instance.catalog.close()
    assert ours == {name: answered(server, query) for name, query in asked.items()}
