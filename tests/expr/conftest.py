"""An instance with tables to talk about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.facts.relation import Relation, find_relation
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.expr.analyse.analyze import analyze_expr
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import scope_of_relation
from pgrepl.expr.tree import Expr
from pgrepl.sql.nodes import RangeVar
from pgrepl.sql.parser import parse_expression
from pgrepl.statements.run import run


class Place:
    """A session of a fresh instance."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self, *statements: str) -> None:
        for statement in statements:
            list(run(self.session, statement))

    def relation(self, name: str) -> Relation:
        return find_relation(self.session, RangeVar(name))

    def analyzed(self, text: str) -> Expr:
        """A condition over the table t."""
        scope = scope_of_relation(self.session, self.relation("t"))
        return analyze_expr(parse_expression(text), scope, ExprKind.WHERE)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    session = open_session(open_catalog(str(tmp_path / "catalog.db")), settings={"timezone": "GMT"})
    yield Place(session)
    session.close()
