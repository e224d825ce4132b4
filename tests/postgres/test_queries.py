"""Random SELECTs over tables of many types answer what a server answers: names and types of columns, rows, errors.

Rows are compared without order: the queries have one right answer up to it (`random_queries`).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run
from tests.postgres.play import Pair
from tests.postgres.random_queries import SCHEMA, Queries

MANY = int(os.environ.get("PGREPL_TEST_QUERIES", "20000"))


class Both:
    """A database of a server, in whose collation texts are compared by code point, and a catalog of ours."""

    def __init__(self, pair: Pair, session: Session) -> None:
        import psycopg
        from psycopg import pq

        server = f"host={pair.publisher.host} port={pair.publisher.port} user=postgres"
        with psycopg.connect(f"{server} dbname=postgres", autocommit=True) as link:
            link.execute("DROP DATABASE IF EXISTS queries")
            link.execute("CREATE DATABASE queries TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
        self.server = pq.PGconn.connect(f"{server} dbname=queries".encode())
        self.server.exec_(b"SET timezone = 'UTC'; SET jit = off; SET statement_timeout = '20s'")
        self.server.exec_(SCHEMA.encode())
        self.session = session
        list(run(session, "SET timezone = 'UTC'"))
        list(run(session, SCHEMA))

    def theirs(self, text: str) -> Any:
        from psycopg import pq

        result = self.server.exec_(text.encode())
        if result.status != pq.ExecStatus.TUPLES_OK:
            fields = (pq.DiagnosticField.SQLSTATE, pq.DiagnosticField.MESSAGE_PRIMARY)
            return tuple((result.error_field(field) or b"").decode() for field in fields)
        columns = [((result.fname(n) or b"").decode(), result.ftype(n)) for n in range(result.nfields)]
        rows = [
            tuple(None if (v := result.get_value(row, n)) is None else v.decode() for n in range(result.nfields))
            for row in range(result.ntuples)
        ]
        return columns, sorted(rows, key=repr)

    def ours(self, text: str) -> Any:
        try:
            (result,) = run(self.session, text)
        except PgError as error:
            return error.sqlstate, error.message
        assert result.columns is not None
        return [(c.name, c.type) for c in result.columns], sorted(map(tuple, result.rows), key=repr)

    def check(self, text: str) -> None:
        expected = self.theirs(text)
        if expected[0] != "57014":  # too much to do for a server
            assert self.ours(text) == expected, text


@pytest.fixture(scope="module")
def both(pair16: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    catalog = open_catalog(tmp_path_factory.mktemp("queries") / "catalog.db")
    made = Both(pair16, open_session(catalog, settings={"pgrepl.engine": "local"}))
    yield made
    made.server.finish()
    made.session.close()
    catalog.close()


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(choices=st.randoms(use_true_random=False))
def test_random_queries(both: Both, choices: random.Random) -> None:
    both.check(Queries(choices).query())


@pytest.mark.slow
def test_many_random_queries(both: Both) -> None:
    wrong = []
    for seed in range(MANY):
        text = Queries(random.Random(seed)).query()
        try:
            both.check(text)
        except AssertionError:
            wrong.append((seed, text))
    assert wrong == []


@pytest.mark.slow
def test_random_queries_on_spark(both: Both, spark: object) -> None:
    list(run(both.session, "SET pgrepl.engine = spark"))
    try:
        for seed in range(60):
            both.check(Queries(random.Random(seed)).query())
    finally:
        list(run(both.session, "RESET pgrepl.engine"))
