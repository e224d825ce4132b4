"""Keys of texts are in the order of the values, or the texts are refused."""

from __future__ import annotations

from itertools import combinations, product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrepl.expr.arrow.sort_keys import sort_key
from pgrepl.types import oids
from pgrepl.types.builtin import type_by_name
from pgrepl.types.style import STORED_STYLE
from pgrepl.types.text import read_text
from pgrepl.types.values import comparer

CLOCK = r"[0-2][0-9]:[05][0-9]:[0-6]0(\.[0-9]{1,3})?"
DAY = r"2[0-9]0[0-9]-[01][0-9]-[0-3][0-9]"


def oid(name: str) -> int:
    found = type_by_name(name)
    assert found is not None
    return found.oid


def ranges(bound: str) -> str:
    return rf"([\[(]({bound})?,({bound})?[\])]|empty)"


TEXTS = {
    oids.TIMETZ: rf"{CLOCK}[+-][01][0-5](:[0-6][0-9])?",
    oids.INTERVAL: rf"(1 year|1?[0-9] years)?( 1 mon| 1?[0-9] mons)?( 1 day| [0-9]?[0-9] days)?( [0-9]?{CLOCK})?",
    oids.INT4RANGE: ranges(r"-?[01]?[0-9]"),
    oid("int8range"): ranges(r"-?[0-9]{1,3}"),
    oid("numrange"): ranges(r"-?[0-9][0-9]?(\.[0-9]{1,3})?"),
    oid("daterange"): ranges(DAY),
    oid("tsrange"): ranges(rf'"{DAY} {CLOCK}"'),
    oid("tstzrange"): ranges(rf'"{DAY} {CLOCK}\+0[01]"'),
}


@pytest.mark.parametrize("typoid", TEXTS)
def test_keys_of_texts(typoid: int) -> None:
    key, compare = sort_key(typoid), comparer(typoid)
    assert key is not None and key.order is not None
    of, equal = key.order, key.equal
    taken = 0

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.from_regex(TEXTS[typoid], fullmatch=True).map(str.strip), min_size=2, max_size=4))
    def check(texts: list[str]) -> None:
        nonlocal taken
        good = []
        for text in texts:
            try:
                of(pa.array([text]))
            except pa.ArrowInvalid:
                continue
            good.append(text)
        taken += len(good)
        values = [read_text(text, typoid, -1, STORED_STYLE) for text in good]
        keys = of(pa.array(["x", *good, None], pa.string()).slice(1)).to_pylist()
        assert keys.pop() is None
        same = equal(pa.array(good, pa.string())).to_pylist()
        for (one, a, first), (other, b, second) in combinations(list(zip(keys, same, values, strict=True)), 2):
            wanted = compare(first, second)
            assert ((one > other) - (one < other), a == b) == (wanted, wanted == 0), texts

    check()
    assert taken > 15


def test_layouts_that_are_too_many_are_refused() -> None:
    key = sort_key(oids.INTERVAL)
    assert key is not None
    years, months, days = (
        ("", "2 years ", "10 years ", "100 years "),
        ("", "1 mon ", "2 mons "),
        ("", "1 day ", "2 days "),
    )
    words = [f"{a}{b}{c}00:00:{d}" for a, b, c, d in product(years, months, days, ("01", "01.1", "01.01", "01.001"))]
    assert len(key.equal(pa.array(words * 8, pa.string()))) == len(words) * 8
    with pytest.raises(pa.ArrowInvalid):
        key.equal(pa.array(words, pa.string()))
