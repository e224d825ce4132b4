"""Expressions are worth what PostgreSQL 17 said (`expressions.jsonl`, made by `make_expressions`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.walk import returns_set
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.parser import parse
from pgrepl.types.style import DEFAULT_STYLE
from pgrepl.types.text import write_text
from tests.expr.make_expressions import ANSWERS
from tests.types.asked import Answer, error_of, load

GROUPS: dict[str, list[tuple[str, Answer]]] = defaultdict(list)
for heading, expression, answer in load(ANSWERS):
    GROUPS[heading].append((expression, answer))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    catalog = open_catalog(tmp_path_factory.mktemp("catalog") / "catalog.db")
    session = open_session(catalog)
    session.transaction.begin_statement()
    yield session
    session.close()
    catalog.close()


def answer_to(session: Session, expression: str) -> Answer:
    context = Context(session, DEFAULT_STYLE)
    try:
        (raw,) = parse(f"SELECT {expression}")
        assert isinstance(raw.stmt, SelectStmt)
        expr = analyze_query(session, raw.stmt).targets[0].expr
        is_set = returns_set(expr)
        values = evaluate.compile_set(expr, context)(()) if is_set else [evaluate.evaluate(expr, (), context)]
        texts = [None if value is None else write_text(value, expr.type) for value in values]
    except PgError as error:
        return error_of(error)
    return texts[0] if len(texts) == 1 else texts


@pytest.mark.parametrize("heading", GROUPS)
def test_expressions(heading: str, session: Session) -> None:
    answers = [(expression, answer_to(session, expression)) for expression, _ in GROUPS[heading]]
    wrong = [
        (expression, found, expected)
        for (expression, found), (_, expected) in zip(answers, GROUPS[heading], strict=True)
        if found != expected
    ]
    assert wrong == []
