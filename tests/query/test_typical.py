"""Queries over user tables answer what PostgreSQL 17 answered (made by `make_typical`), on either engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from pgrepl.catalog.session.session import Session
from pgrepl.statements.run import run
from tests.harness.dose import dose
from tests.query.answers import answer_to, session_after
from tests.query.make_typical import QUERIES, TABLES
from tests.types.asked import load

Case = tuple[str, Any]

GROUPS: dict[str, list[Case]] = defaultdict(list)
for heading, query, answer in load(QUERIES.with_suffix(".jsonl")):
    GROUPS[heading].append((query, answer))

# what Spark has no way for is played in this process, engine or not
PLAYED_HERE = 18


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with session_after(TABLES, tmp_path_factory.mktemp("catalog")) as session:
        yield session


def comparable(query: str, answer: Any) -> Any:
    """Types of users have OIDs of their own in each database; rows nobody asked to have in order have none."""
    if "rows" not in answer:
        return answer
    columns = [[name, min(kind, 16384), typmod] for name, kind, typmod in answer["columns"]]
    rows = answer["rows"] if "ORDER BY" in query else sorted(answer["rows"], key=repr)
    return {"columns": columns, "rows": rows}


def wrong(session: Session, cases: list[Case]) -> list[tuple[str, Any, Any]]:
    found = []
    for query, expected in cases:
        answer = comparable(query, answer_to(session, query))
        if answer != comparable(query, expected):
            found.append((query, answer, expected))
    return found


@pytest.mark.parametrize("heading", dose(GROUPS, 3))
def test_in_this_process(heading: str, session: Session) -> None:
    list(run(session, "SET pgrepl.engine = local"))
    assert wrong(session, GROUPS[heading]) == []
    list(run(session, "SET pgrepl.local_rows = 0"))  # by whole columns where that is a way
    try:
        assert wrong(session, [case for case in GROUPS[heading] if " FROM " in case[0]]) == []
    finally:
        list(run(session, "RESET pgrepl.local_rows"))


@pytest.mark.parametrize("heading", dose(GROUPS, 8))
def test_on_spark(heading: str, session: Session, spark: object) -> None:
    list(run(session, "SET pgrepl.engine = spark"))
    assert wrong(session, GROUPS[heading][::15]) == []


@pytest.mark.slow
@pytest.mark.parametrize("heading", GROUPS)
def test_all_on_spark(heading: str, session: Session, spark: object) -> None:
    list(run(session, "SET pgrepl.engine = spark"))
    assert wrong(session, GROUPS[heading]) == []


@pytest.mark.slow
def test_spark_carries_nearly_all_of_them_out(session: Session, spark: object) -> None:
    from pgrepl.expr.analyse.analyze import analyze_query
    from pgrepl.query.rowset import PassingRows, passing_rows
    from pgrepl.sql.parser import parse

    list(run(session, "SET pgrepl.engine = spark"))
    here = []
    for query, answer in (case for cases in GROUPS.values() for case in cases):
        if "rows" in answer and any(name in query for name in ("emp", "dept", "nums", "reading", "city")):
            (statement,) = parse(query)
            rows = passing_rows(session, analyze_query(session, statement.stmt))  # type: ignore[arg-type]
            if isinstance(rows, PassingRows):
                here.append(query)
    assert len(here) <= PLAYED_HERE, here
