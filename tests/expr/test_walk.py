"""Walking trees: which columns they use, what they call, what they are over other columns."""

from __future__ import annotations

import pytest

from pgrepl.expr.print.deparse import expression_text
from pgrepl.expr.tree import Const, Expr, OpExpr, Var
from pgrepl.expr.walk import children, contains_mutable_functions, map_attnums, rewrite, var_attnums, walk, walk_deep
from tests.expr.conftest import Place


@pytest.fixture
def table(place: Place) -> Place:
    place.run("CREATE TABLE t (a int, b text, c int[], d timestamptz)")
    return place


def test_children_come_in_the_order_of_postgresql(table: Place) -> None:
    expr = table.analyzed("CASE a WHEN 1 THEN b WHEN 2 THEN 'x' ELSE c[a]::text END")
    constants = [node.value for node in walk(expr) if isinstance(node, Const)]
    assert constants == [1, 2, "x"]
    assert [node.attnum for node in walk(expr) if isinstance(node, Var)] == [1, 2, 1, 3]  # subscripts come first


def test_a_subquery_is_no_child(table: Place) -> None:
    expr = table.analyzed("a IN (SELECT o.a FROM t o WHERE o.b = t.b)")
    assert [node.attnum for node in walk(expr) if isinstance(node, Var)] == [1]
    deep = [(node.attnum, level, node.levelsup) for node, level in walk_deep(expr) if isinstance(node, Var)]
    assert deep == [(1, 0, 0), (1, 1, 0), (2, 1, 0), (2, 1, 1)]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("a = 1", {1}),
        ("t IS NULL", {0}),
        ("ctid = '(0,1)' AND b = 'x'", {-1, 2}),
        ("EXISTS (SELECT FROM t o WHERE o.a = t.c[1])", {3}),
        ("true", set()),
    ],
)
def test_columns_used(table: Place, text: str, used: set[int]) -> None:
    assert var_attnums(table.analyzed(text)) == used


@pytest.mark.parametrize(
    ("text", "mutable"),
    [
        ("a + 1 > 2", False),
        ("b = upper('x')", False),
        ("d = now()", True),
        ("random() > 0.5", True),
        ("d::text = ''", True),
        ("d::date = '2020-01-01'", True),
        ("current_date > '2020-01-01'", True),
        ("current_user = b", True),
        ("b || a = ''", False),
        ("b || d = ''", True),
        ("a = ANY (c)", False),
        ("a::text = ''", False),
        ("EXISTS (SELECT random())", True),
    ],
)
def test_what_is_not_immutable(table: Place, text: str, mutable: bool) -> None:
    assert contains_mutable_functions(table.analyzed(text)) is mutable


def test_columns_get_other_numbers(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b text)", "CREATE TABLE u (b text, x int, a int)")
    expr = place.analyzed("a > 0 AND length(b) = 3 AND t.ctid IS NOT NULL")
    moved = map_attnums(expr, {1: 3, 2: 1})
    assert var_attnums(moved) == {3, 1, -1}
    text = expression_text(place.session, moved, place.relation("u"))
    assert text == "((a > 0) AND (length(b) = 3) AND (ctid IS NOT NULL))"
    assert map_attnums(moved, lambda number: {3: 1, 1: 2}[number]) == expr


def test_what_does_not_change_stays_itself(table: Place) -> None:
    expr = table.analyzed("a = 1 AND b = 'x' AND a = ANY (c)")
    assert rewrite(expr, lambda node: None) is expr

    def other(node: Expr) -> Expr | None:
        return Const(23, value=7) if isinstance(node, Const) and node.value == 1 else None

    changed = rewrite(expr, other)
    before, after = list(children(expr)), list(children(changed))
    assert before[1] is after[1] and before[2] is after[2]
    assert isinstance(after[0], OpExpr) and isinstance(after[0].args[1], Const) and after[0].args[1].value == 7
