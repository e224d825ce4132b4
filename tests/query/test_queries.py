"""Queries over values, functions and system catalogs answer what PostgreSQL 17 answered (made by `make_queries`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from pgrepl.catalog.session.session import Session
from tests.harness.dose import dose
from tests.query.answers import answer_to, session_after
from tests.query.make_queries import FILES, SCHEMA
from tests.types.asked import load

GROUPS: dict[str, list[tuple[str, Any]]] = defaultdict(list)
for path in FILES:
    for heading, query, answer in load(path.with_suffix(".jsonl")):
        GROUPS[heading].append((query, answer))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with session_after(SCHEMA, tmp_path_factory.mktemp("catalog")) as session:
        yield session


def comparable(query: str, answer: Any) -> Any:
    """Rows that are not asked for in any order are compared in none."""
    if "ORDER BY" in query or "rows" not in answer:
        return answer
    return {**answer, "rows": sorted(answer["rows"], key=repr)}


@pytest.mark.parametrize("heading", dose(GROUPS, 2))
def test_queries(heading: str, session: Session) -> None:
    wrong = []
    for query, expected in GROUPS[heading]:
        found = answer_to(session, query)
        if comparable(query, found) != comparable(query, expected):
            wrong.append((query, found, expected))
    assert wrong == []
