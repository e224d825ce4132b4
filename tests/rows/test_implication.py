"""Which WHERE of ON CONFLICT makes sure that the predicate of a partial index holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgrepl.rows.arbiters import implies
from tests.expr.conftest import Place, place

__all__ = ["place"]


@pytest.fixture
def table(place: Place) -> Iterator[Place]:
    place.run("CREATE TABLE t (a int, b text, c bool)")
    yield place


@pytest.mark.parametrize(
    ("given", "predicate", "answer"),
    [
        ("a > 5", "a > 5", True),
        ("a > 5 AND b = 'x'", "b = 'x'", True),
        ("a > 5", "a > 3", True),
        ("a > 5", "a >= 6", False),
        ("a = 5", "a BETWEEN 1 AND 9", True),
        ("a = 5", "a <> 6", True),
        ("a < 5", "a <> 5", True),
        ("a <= 5", "a <> 5", False),
        ("a = 5", "a IS NOT NULL", True),
        ("a IS NULL", "a IS NOT NULL", False),
        ("a = 1 OR a = 2", "a < 3", True),
        ("a = 1 OR a = 7", "a < 3", False),
        ("a = 1", "a = 1 OR b = 'x'", True),
        ("b = 'y'", "b > 'x'", True),
        ("c", "c", True),
        ("NOT c", "c", False),
    ],
)
def test_a_condition_implies_another(table: Place, given: str, predicate: str, answer: bool) -> None:
    assert implies(table.analyzed(given), table.analyzed(predicate)) is answer


def test_nothing_implies_nothing_but_what_is_given(table: Place) -> None:
    assert implies(None, table.analyzed("a > 5")) is False
