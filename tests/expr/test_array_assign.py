"""Putting values into arrays of every shape, as PostgreSQL 17 does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pgrepl.expr.functions.containers import set_element, set_slice
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.text import read_text, write_text

INT4_ARRAY = 1007


def array(text: str | None) -> object:
    return None if text is None else read_text(text, INT4_ARRAY)


def shown(value: object) -> str:
    return write_text(value, INT4_ARRAY)


@pytest.mark.parametrize(
    ("before", "subscripts", "after"),
    [
        (None, [3], "[3:3]={9}"),
        ("{}", [2, 1], "[2:2][1:1]={{9}}"),
        ("{1,2,3}", [2], "{1,9,3}"),
        ("{1,2,3}", [6], "{1,2,3,NULL,NULL,9}"),
        ("{1,2,3}", [-1], "[-1:3]={9,NULL,1,2,3}"),
        ("[5:6]={1,2}", [4], "[4:6]={9,1,2}"),
        ("{{1,2},{3,4}}", [2, 1], "{{1,2},{9,4}}"),
    ],
)
def test_an_element_is_put(before: str | None, subscripts: list[int], after: str) -> None:
    assert shown(set_element(array(before), oids.INT4, subscripts, 9)) == after  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "lower", "upper", "source", "after"),
    [
        (None, [2], [3], "{7,8}", "[2:3]={7,8}"),
        ("{1,2,3}", [2], [3], "{7,8,9}", "{1,7,8}"),
        ("{1,2,3}", [None], [2], "{7,8}", "{7,8,3}"),
        ("{1,2,3}", [5], [6], "{7,8}", "{1,2,3,NULL,7,8}"),
        ("{{1,2},{3,4}}", [1, 2], [2, 2], "{7,8}", "{{1,7},{3,8}}"),
        ("{1,2,3}", [1], [2], None, "{1,2,3}"),
    ],
)
def test_a_slice_is_put(
    before: str | None, lower: Sequence[int | None], upper: Sequence[int | None], source: str | None, after: str
) -> None:
    assert shown(set_slice(array(before), oids.INT4, lower, upper, array(source))) == after  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "subscripts", "message"),
    [
        ("{{1,2},{3,4}}", [3, 1], "array subscript out of range"),
        ("{{1,2},{3,4}}", [1], "wrong number of array subscripts"),
        ("{1,2}", [1, 1], "wrong number of array subscripts"),
        ("{1}", [2**31 - 1], "array size exceeds the maximum allowed (134217727)"),
    ],
)
def test_an_element_that_has_no_place(before: str, subscripts: list[int], message: str) -> None:
    with pytest.raises(PgError) as refused:
        set_element(array(before), oids.INT4, subscripts, 9)  # type: ignore[arg-type]
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("before", "lower", "upper", "source", "message"),
    [
        (None, [None], [2], "{1,2}", "array slice subscript must provide both boundaries"),
        ("{1,2,3}", [3], [2], "{1}", "upper bound cannot be less than lower bound"),
        ("{1,2,3}", [1], [3], "{1}", "source array too small"),
        ("{{1,2},{3,4}}", [1, 1], [3, 1], "{1,2,3}", "array subscript out of range"),
    ],
)
def test_a_slice_that_does_not_fit(
    before: str | None, lower: Sequence[int | None], upper: Sequence[int | None], source: str, message: str
) -> None:
    with pytest.raises(PgError) as refused:
        set_slice(array(before), oids.INT4, lower, upper, array(source))  # type: ignore[arg-type]
    assert refused.value.message == message
