"""Aggregates, and functions that give rows, inside queries: as PostgreSQL 17 answered (`queries.jsonl`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run
from tests.expr.make_queries import ANSWERS
from tests.types.asked import Answer, error_of, load


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    catalog = open_catalog(tmp_path_factory.mktemp("catalog") / "catalog.db")
    session = open_session(catalog)
    yield session
    session.close()
    catalog.close()


def answer_to(session: Session, query: str) -> Answer:
    try:
        (result,) = run(session, query)
    except PgError as error:
        return error_of(error)
    return [list(row) for row in result.rows]


@pytest.mark.parametrize(("query", "expected"), load(ANSWERS))
def test_query(session: Session, query: str, expected: Answer) -> None:
    assert answer_to(session, query) == expected
