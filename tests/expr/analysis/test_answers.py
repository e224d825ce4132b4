from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.statements.run import run
from tests.expr.analysis import ours
from tests.expr.analysis.answers import SCHEMA, read
from tests.harness.dose import dose


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    path: Path = tmp_path_factory.mktemp("analysis")
    made = open_session(open_catalog(str(path / "catalog.db")), settings={"timezone": "GMT"})
    for statement in SCHEMA:
        list(run(made, statement))
    yield made
    made.close()


@pytest.mark.parametrize(
    "about",
    dose(
        ["expressions", "queries", "mistakes", "clauses", "views", "names", "random_expressions", "random_queries"], 4
    ),
)
def test_postgresql_17_says_the_same(session: Session, about: str) -> None:
    differences = []
    for expected in read(about):
        question = {key: part for key, part in expected.items() if key in ("query", "statement", "shows")}
        found = question | ours.answer(session, question)
        if found != expected:
            differences.append((expected, found))
    assert differences == []
