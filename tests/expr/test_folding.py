"""Constants are computed where PostgreSQL's planner computes them, and not where it leaves them alone."""

from __future__ import annotations

import pytest

from pgrepl.expr.print.deparse import expression_text
from pgrepl.expr.rewrite.folding import folded
from pgrepl.ground.errors import PgError
from tests.expr.conftest import Place


@pytest.fixture
def table(place: Place) -> Place:
    place.run("CREATE TABLE t (a int, b text)")
    return place


@pytest.mark.parametrize(
    ("written", "computed"),
    [
        ("a = 1 + 2", "(a = 3)"),
        ("a > abs(-5) AND b = 'x' || upper('y')", "((a > 5) AND (b = 'xY'::text))"),
        ("false AND 1/0 = 1", "false"),
        ("true OR 1/0 = 1", "true"),
        ("CASE WHEN 1 = 2 THEN 1/0 ELSE a END = 3", "(a = 3)"),
        ("CASE WHEN 1 = 2 OR false THEN 1/0 ELSE a END = 3", "(a = 3)"),
        ("a = 1 OR false OR NULL", "((a = 1) OR NULL::boolean)"),
        ("a = 1 AND true", "(a = 1)"),
        ("coalesce(1, 1/0) = a", "(1 = a)"),
        ("a = length(now()::text)", "(a = length((now())::text))"),
        ("random() < 0.5", "(random() < '0.5'::double precision)"),
    ],
)
def test_what_has_no_column_is_computed(table: Place, written: str, computed: str) -> None:
    expr = folded(table.session, table.analyzed(written))
    assert expression_text(table.session, expr, table.relation("t")) == computed


@pytest.mark.parametrize("written", ["a = 1/0", "b = 'x' AND 1/0 = 1", "CASE WHEN a = 1 THEN 1/0 = 1 END"])
def test_an_error_in_constants_comes_at_once(table: Place, written: str) -> None:
    with pytest.raises(PgError, match="division by zero"):
        folded(table.session, table.analyzed(written))
