"""Values that are too large are refused with PostgreSQL's words, before memory is taken for them."""

from __future__ import annotations

import resource
from typing import Any, cast

import pytest

from pgrepl.expr.functions.aggregates import StringAgg
from pgrepl.ground.errors import PgError
from tests.expr.test_regexes import answer_to
from tests.harness.dose import dose
from tests.types.asked import error_of

LENGTH = {"sqlstate": "54000", "message": "requested length too large"}
ITEMS = {"sqlstate": "54000", "message": "array size exceeds the maximum allowed (134217727)"}


def in_function(name: str, error: dict[str, str]) -> dict[str, str]:
    return {**error, "context": f'SQL function "{name}" statement 1'}


def buffer(size: int, more: int) -> dict[str, str]:
    detail = f"Cannot enlarge string buffer containing {size} bytes by {more} more bytes."
    return {"sqlstate": "54000", "message": "out of memory", "detail": detail}


@pytest.mark.parametrize(
    ("expression", "answer"),
    dose(
        [
            ("repeat('x', 2000000000)", LENGTH),
            ("repeat('xx', 600000000)", LENGTH),
            ("repeat('x', 1073741823)", LENGTH),
            ("repeat('', 2000000000) = ''", "t"),
            ("lpad('x', 1100000000)", in_function("lpad", LENGTH)),
            ("rpad('x', 2000000000, 'ab')", LENGTH),
            ("lpad('x', 300000000, 'é')", LENGTH),
            ("format('%2000000000s', 'x')", buffer(0, 1999999999)),
            ("format('%3000000000s', 'x')", {"sqlstate": "22003", "message": "number is out of range"}),
            ("format('%1$*2$s', 'x', 1500000000)", buffer(0, 1499999999)),
            ("array_fill(1, array[200000000])", ITEMS),
            ("array_fill(1, array[134217728])", ITEMS),
            ("array_fill(1, array[20000, 20000])", ITEMS),
            ("array_fill(1, array[2147483647, 2147483647])", ITEMS),
            (
                "array_fill('x'::text, array[134217727])",
                {"sqlstate": "XX000", "message": "invalid memory alloc request size 1073741840"},
            ),
            (
                "array_to_string(array_fill(repeat('x', 100000), array[20000]), ',')",
                {"sqlstate": "54000", "message": "array size exceeds the maximum allowed (1073741823)"},
            ),
            ("replace(repeat('x', 10000000), 'x', repeat('y', 1000))", buffer(1073741000, 1000)),
            ("regexp_replace(repeat('x', 2000000), 'x', repeat('y', 1000), 'g')", buffer(1073741000, 1000)),
        ],
        3,
    ),
)
def test_too_large(expression: str, answer: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert answer_to(expression) == answer
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600_000  # kilobytes


def test_an_aggregated_text() -> None:
    collected = StringAgg(cast(Any, None))
    part = "x" * 30_000_000
    for _ in range(35):
        collected.add(part, "")
    with pytest.raises(PgError) as caught:
        collected.add(part, "")
    assert error_of(caught.value) == buffer(1050000000, 30000000)


def test_target_lists_and_rows_have_an_end() -> None:
    assert answer_to("1" + ", 1" * 1664) == {
        "sqlstate": "54011",
        "message": "target lists can have at most 1664 entries",
    }
    assert answer_to(f"ROW({'1, ' * 1664}1) IS NULL") == {
        "sqlstate": "54011",
        "message": "ROW expressions can have at most 1664 entries",
    }
