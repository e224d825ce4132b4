"""Queries over values, functions and system catalogs answer what PostgreSQL 17 answered (made by `make_queries`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from pgrepl.catalog.engine import open_catalog
from pgrepl.catalog.session import Session
from pgrepl.commands.run import run
from pgrepl.errors import PgError
from tests.commands.make_queries import FILES, SCHEMA
from tests.types.asked import load

GROUPS: dict[str, list[tuple[str, Any]]] = defaultdict(list)
for path in FILES:
    for heading, query, answer in load(path.with_suffix(".jsonl")):
        GROUPS[heading].append((query, answer))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    catalog = open_catalog(tmp_path_factory.mktemp("catalog") / "catalog.db")
    session = Session(catalog)
    list(run(session, SCHEMA.read_text("utf-8")))
    list(run(session, "SET timezone = 'GMT'; SET client_min_messages = error"))
    yield session
    session.close()
    catalog.close()


def answer_to(session: Session, query: str) -> Any:
    try:
        (result,) = run(session, query)
    except PgError as error:
        return {"sqlstate": error.report.sqlstate, "message": error.report.message}
    assert result.columns is not None
    columns = [[c.name, c.type, c.typmod] for c in result.columns]
    return {"columns": columns, "rows": [list(row) for row in result.rows]}


def comparable(query: str, answer: Any) -> Any:
    """Rows that are not asked for in any order are compared in none."""
    if "ORDER BY" in query or "rows" not in answer:
        return answer
    return {**answer, "rows": sorted(answer["rows"], key=repr)}


@pytest.mark.parametrize("heading", GROUPS)
def test_queries(heading: str, session: Session) -> None:
    wrong = []
    for query, expected in GROUPS[heading]:
        found = answer_to(session, query)
        if comparable(query, found) != comparable(query, expected):
            wrong.append((query, found, expected))
    assert wrong == []
