"""Expressions and queries that nobody thought of, asked of a real server and of pgrepl."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.statements.run import run
from tests.expr.analysis import ours
from tests.expr.analysis.answers import SCHEMA, ask, read
from tests.expr.analysis.generate import expressions, queries
from tests.postgres.play import Pair

# what 16 says otherwise than 17
ONLY_IN_17 = {"select (tz at local) as x from t", "select xml '<a/>'"}


@pytest.fixture(scope="module")
def server(pair16: Pair) -> Iterator[Any]:
    import psycopg

    with psycopg.connect(host=pair16.publisher.host, port=pair16.publisher.port, user="postgres") as connection:
        for statement in ["SET timezone TO 'GMT'", *SCHEMA]:
            connection.execute(statement.encode())
        yield connection
        connection.rollback()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    path: Path = tmp_path_factory.mktemp("analysis")
    made = open_session(open_catalog(str(path / "catalog.db")), settings={"timezone": "GMT"})
    for statement in SCHEMA:
        list(run(made, statement))
    yield made
    made.close()


def differences(server: Any, session: Session, texts: list[str]) -> list[tuple[Any, Any]]:
    found = []
    for text in texts:
        expected = ask(server, {"query": text})
        answer = {"query": text} | ours.answer(session, {"query": text})
        told = expected.get("error", {}).get("message", "")
        if told.startswith("malformed array literal"):
            expected["error"].pop("detail")  # another in 17
            answer.get("error", {}).pop("detail", None)
        if "specified more than once" in told or "pseudo-type" in told:
            continue  # the view is refused, not its query
        if answer != expected:
            found.append((expected, answer))
    return found


@pytest.mark.parametrize("about", ["expressions", "queries", "mistakes", "names"])
def test_the_recorded_answers_are_those_of_a_server(server: Any, about: str) -> None:
    recorded = [answer for answer in read(about) if answer["query"] not in ONLY_IN_17]
    assert [ask(server, answer) for answer in recorded] == recorded


def test_random_expressions(server: Any, session: Session) -> None:
    assert differences(server, session, expressions(1, 400)) == []


def test_random_queries(server: Any, session: Session) -> None:
    assert differences(server, session, queries(1, 200)) == []


@pytest.mark.slow
def test_many_random_expressions(server: Any, session: Session) -> None:
    assert differences(server, session, expressions(random.randrange(10**9), 10_000)) == []


@pytest.mark.slow
def test_many_random_queries(server: Any, session: Session) -> None:
    assert differences(server, session, queries(random.randrange(10**9), 5_000)) == []
