"""How values are kept in the lake: round trips through Arrow, statistics and inlined text; DuckDB's text."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.lake import text as lake_text
from pgrepl.types.lake.foreign import Field
from pgrepl.types.lake.forms import form
from pgrepl.types.lake.structs import read_form, stored_form
from pgrepl.types.text import read_text, write_text
from pgrepl.types.times.dates import INFINITY
from tests.harness.dose import dose

INT4_ARRAY = 1007
NUMERIC_ARRAY = 1231

ARRAYS = {oids.INT4: INT4_ARRAY, oids.TEXT: oids.TEXT_ARRAY, oids.DATE: 1182, oids.BYTEA: 1001, oids.UUID: 2951}

VALUES: dict[int, st.SearchStrategy[Any]] = {
    oids.BOOL: st.booleans(),
    oids.INT2: st.integers(-(2**15), 2**15 - 1),
    oids.INT4: st.integers(-(2**31), 2**31 - 1),
    oids.INT8: st.integers(-(2**63), 2**63 - 1),
    oids.OID: st.integers(0, 2**32 - 1),
    oids.FLOAT4: st.floats(width=32),
    oids.FLOAT8: st.floats(),
    oids.NUMERIC: st.decimals(allow_nan=True)
    .filter(lambda d: not d.is_snan() and -400 < d.adjusted() < 400)
    .map(lambda d: read_text(str(d).replace("sNaN", "NaN").replace("-NaN", "NaN"), oids.NUMERIC)),
    oids.TEXT: st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")),
    oids.BYTEA: st.binary(),
    oids.UUID: st.uuids(),
    oids.DATE: st.one_of(st.integers(-2451545, 2145031948), st.sampled_from([INFINITY, -INFINITY])),
    oids.TIME: st.integers(0, 86_400_000_000),
    oids.TIMESTAMP: st.one_of(
        st.integers(-211813488000000000, 9222425352054775806), st.sampled_from([INFINITY, -INFINITY])
    ),
    oids.TIMESTAMPTZ: st.one_of(
        st.integers(-211813488000000000, 9222425352054775806), st.sampled_from([INFINITY, -INFINITY])
    ),
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, PgArray):
        return (a.dims, a.lbounds) == (b.dims, b.lbounds) and all(map(same, a.items, b.items))
    if isinstance(a, (float, Decimal)) and a != a:
        return bool(b != b)
    return bool(type(a) is type(b) and a == b and str(a).lstrip("-") == str(b).lstrip("-"))


@pytest.mark.parametrize("typoid", dose(VALUES, 4))
def test_values_come_back_as_they_were(typoid: int) -> None:
    kept = form(typoid)

    @settings(deadline=None)  # pyarrow is loaded at its first use
    @given(st.lists(st.one_of(st.none(), VALUES[typoid])))
    def check(values: list[Any]) -> None:
        back = kept.from_array(kept.to_array(values))
        assert len(back) == len(values) and all(map(same, values, back))
        for value in values:
            if value is None:
                continue
            assert same(kept.from_inlined(kept.to_inlined(value)), value)
            bound = kept.to_stat(value)
            assert bound is None if value != value and typoid != oids.NUMERIC else same(kept.from_stat(bound), value)

    check()


@pytest.mark.parametrize("typoid", dose(ARRAYS, 6))
def test_arrays_come_back_as_they_were(typoid: int) -> None:
    kept = form(ARRAYS[typoid])

    @settings(deadline=None)  # pyarrow is loaded at its first use
    @given(st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), VALUES[typoid])))))
    def check(lists: list[Any]) -> None:
        values = [None if items is None else array_of(typoid, items) for items in lists]
        back = kept.from_array(kept.to_array(values))
        assert len(back) == len(values) and all(map(same, values, back))
        sliced = kept.from_array(kept.to_array(values).slice(1))
        assert all(map(same, values[1:], sliced))
        for value in values:
            if value is not None:
                assert same(kept.from_inlined(kept.to_inlined(value)), value)

    check()


@pytest.mark.parametrize(
    ("typoid", "typmod", "lake", "spark"),
    [
        (oids.NUMERIC, 655366, "decimal(10,2)", "DECIMAL(10,2)"),
        (oids.NUMERIC, -1, "varchar", "STRING"),
        (oids.NUMERIC, (39 << 16) + 4, "varchar", "STRING"),
        (oids.NUMERIC, (2 << 16 | 3) + 4, "varchar", "STRING"),
        (oids.NUMERIC, (2 << 16 | (-3 & 0x7FF)) + 4, "varchar", "STRING"),
        (oids.REGCLASS, -1, "int64", "BIGINT"),
        (oids.TIMESTAMPTZ, -1, "timestamptz", "TIMESTAMP"),
        (oids.INTERVAL, -1, "varchar", "STRING"),
        (oids.JSONB, -1, "json", "STRING"),
        (NUMERIC_ARRAY, 655366, "list", "ARRAY<DECIMAL(10,2)>"),
    ],
)
def test_types(typoid: int, typmod: int, lake: str, spark: str) -> None:
    found = form(typoid, typmod)
    assert (found.lake, found.spark, found.typoid, found.typmod) == (lake, spark, typoid, typmod)


def test_a_decimal_has_no_nan() -> None:
    kept = form(oids.NUMERIC, 655366)
    with pytest.raises(PgError) as caught:
        kept.to_array([Decimal("NaN")])
    assert caught.value.sqlstate == "0A000"
    assert caught.value.report.hint == "Declare the column as numeric without precision and scale."


@pytest.mark.parametrize(
    ("lake", "typoid"),
    [
        ("int8", oids.INT2), ("uint8", oids.INT2), ("uint16", oids.INT4), ("uint32", oids.INT8),
        ("uint64", oids.NUMERIC), ("int128", oids.NUMERIC), ("varchar", oids.TEXT), ("timestamp_ns", oids.TIMESTAMP),
        ("timetz", oids.TIMETZ), ("interval", oids.INTERVAL), ("json", oids.JSON),
    ],
)  # fmt: skip
def test_types_that_others_have(lake: str, typoid: int) -> None:
    assert read_form(lake).typoid == typoid
    assert stored_form(lake, (), typoid, -1).lake == lake


@pytest.mark.parametrize(("lake", "value"), [("int8", 128), ("uint8", -1), ("uint32", 2**32), ("uint64", Decimal(-1))])
def test_values_that_others_types_do_not_hold(lake: str, value: Any) -> None:
    with pytest.raises(PgError) as caught:
        read_form(lake).to_array([value])
    assert caught.value.sqlstate == "22003"


def test_a_type_that_nobody_knows() -> None:
    with pytest.raises(PgError, match="a column of lake type geometry is not supported"):
        read_form("geometry")


def test_nested_types() -> None:
    inner = (Field("a", "int32"), Field("b", "list", (Field("element", "decimal(5,2)"),)))
    kept = read_form("list", (Field("element", "struct", inner),))
    assert (kept.typoid, kept.spark) == (oids.JSONB, "ARRAY<STRUCT<`a`: INT, `b`: ARRAY<DECIMAL(5,2)>>>")
    text = kept.from_inlined("[{'a': 1, 'b': [1.50, NULL]}, NULL, {'a': NULL, 'b': NULL}]")
    assert text == '[{"a": 1, "b": [1.50, null]}, null, {"a": null, "b": null}]'
    assert read_form("list", (Field("element", "int32"),)).typoid == INT4_ARRAY


@given(VALUES[oids.TIMESTAMP])
def test_timestamps_of_duckdb(value: int) -> None:
    kept = form(oids.TIMESTAMP)
    ours = write_text(value, oids.TIMESTAMP)
    theirs = kept.to_inlined(value)
    assert theirs.replace(" (BC)", "") == ours.replace(" BC", "")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1969-12-31 23:59:59.9", -100_000),
        ("1970-01-01", 0),
        ("1970-01-01 00:00:00.123456789", 123456),
        ("1970-01-01 01:00:00+01", 0),
        ("1970-01-01 00:00:00-00:30", 1_800_000_000),
        ("0001-01-01 (BC) 00:00:00", -62167219200000000),
        ("infinity", 2**63 - 1),
        ("-infinity", -(2**63 - 1)),
    ],
)
def test_reading_timestamps_of_duckdb(text: str, value: int) -> None:
    assert lake_text.read_timestamp(text) == value


@given(st.lists(st.one_of(st.none(), st.text(st.characters(blacklist_categories=["Cs"])))))
def test_lists_of_text(words: list[str | None]) -> None:
    items = ["NULL" if word is None else lake_text.quoted(word) for word in words]
    assert lake_text.read_nested(lake_text.list_text(items)) == words
    fields = [(str(n), item) for n, item in enumerate(items)]
    assert lake_text.read_nested(lake_text.struct_text(fields)) == [(str(n), word) for n, word in enumerate(words)]


def test_nested_text_as_duckdb_inlines_it() -> None:
    text = "{'u': CAST('a''\\b' AS UUID), 'b': 'it''s', 'e': '', 'l': [CAST('1' AS DECIMAL(5,2)), NULL, 'x']}"
    expected = [("u", "a'\\b"), ("b", "it's"), ("e", ""), ("l", ["1", None, "x"])]
    assert lake_text.read_nested(text) == expected


@pytest.mark.parametrize("text", ["[", "[1", "[1,,2]x", "{'a' 1}", "['a", "{'a': 1"])
def test_nested_text_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="not a nested value"):
        lake_text.read_nested(text)


@given(st.binary())
def test_binary_text(value: bytes) -> None:
    assert lake_text.read_blob(lake_text.blob_text(value)) == value


@given(st.floats(width=32, allow_nan=False))
def test_singles_have_their_own_text(value: float) -> None:
    kept = form(oids.FLOAT4)
    text = kept.to_inlined(value)
    import struct

    assert struct.pack("f", float(text)) == struct.pack("f", value) or (value == 0 and math.copysign(1, value) < 0)
