"""What is written reads back as the same value, in every style."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.json import Jsonb, jsonb_tree, to_jsonb
from pgrepl.types.ranges import PgRange, make_range
from pgrepl.types.style import TextStyle
from pgrepl.types.text import read_text, write_text
from pgrepl.types.times.dates import END_TIMESTAMP, EPOCH_JULIAN, INFINITY, MIN_TIMESTAMP, USECS_PER_DAY
from pgrepl.types.times.datetime import TimeTz
from pgrepl.types.times.interval import Interval

INT4RANGE = 3904
INT4_ARRAY = 1007

STYLES = st.builds(
    TextStyle,
    datestyle=st.sampled_from(
        ["ISO, MDY", "ISO, DMY", "SQL, MDY", "SQL, DMY", "Postgres, MDY", "Postgres, DMY", "German"]
    ),
    timezone=st.sampled_from(["GMT", "America/New_York", "Asia/Kolkata", "<+03>-3"]),
    intervalstyle=st.sampled_from(["postgres", "postgres_verbose", "iso_8601", "sql_standard"]),
    bytea_output=st.sampled_from(["hex", "escape"]),
)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
INT4 = st.integers(-(2**31), 2**31 - 1)
INT8 = st.integers(-(2**63), 2**63 - 1)


def comes_back(value: object, typoid: int, style: TextStyle = TextStyle()) -> None:
    assert read_text(write_text(value, typoid, style), typoid, -1, style) == value


@given(INT8)
def test_bigint(value: int) -> None:
    comes_back(value, oids.INT8)


@given(st.floats(allow_nan=False))
def test_double_precision(value: float) -> None:
    comes_back(value, oids.FLOAT8)


@given(st.floats(width=32, allow_nan=False))
def test_real(value: float) -> None:
    comes_back(value, oids.FLOAT4)


def test_a_real_prints_with_the_fewest_digits_that_read_back() -> None:
    (value,) = struct.unpack("f", struct.pack("f", 0.1))
    assert write_text(value, oids.FLOAT4) == "0.1"


@given(st.decimals(allow_nan=False, allow_infinity=True, places=5))
def test_numeric(value: Decimal) -> None:
    value = value if value else abs(value)
    read = read_text(write_text(value, oids.NUMERIC), oids.NUMERIC)
    assert (read, read.as_tuple().exponent) == (value, value.as_tuple().exponent)


@given(TEXT)
def test_text(value: str) -> None:
    comes_back(value, oids.TEXT)


@given(st.binary(), STYLES)
def test_bytea(value: bytes, style: TextStyle) -> None:
    comes_back(value, oids.BYTEA, style)


@given(st.uuids())
def test_uuid(value: UUID) -> None:
    comes_back(value, oids.UUID)


@given(st.integers(0, 2**64 - 1))
def test_pg_lsn(value: int) -> None:
    comes_back(value, oids.PG_LSN)


@given(st.integers(-EPOCH_JULIAN, 2_000_000) | st.sampled_from([INFINITY, -INFINITY]), STYLES)
def test_date(value: int, style: TextStyle) -> None:
    comes_back(value, oids.DATE, style)


@given(st.integers(0, USECS_PER_DAY))
def test_time(value: int) -> None:
    comes_back(value, oids.TIME)


@given(st.integers(0, USECS_PER_DAY), st.integers(-57599, 57599))
def test_timetz(usecs: int, zone: int) -> None:
    comes_back(TimeTz(usecs, zone), oids.TIMETZ)


@given(st.integers(MIN_TIMESTAMP, END_TIMESTAMP - 1) | st.sampled_from([INFINITY, -INFINITY]), STYLES)
def test_timestamp(value: int, style: TextStyle) -> None:
    comes_back(value, oids.TIMESTAMP, style)


@given(st.integers(MIN_TIMESTAMP + USECS_PER_DAY, END_TIMESTAMP - USECS_PER_DAY))
def test_timestamptz(value: int) -> None:
    for zone in ("GMT", "America/New_York", "Asia/Kolkata"):
        comes_back(value, oids.TIMESTAMPTZ, TextStyle(timezone=zone))


@given(
    st.integers(-(2**31) + 1, 2**31 - 1),
    st.integers(-(2**31) + 1, 2**31 - 1),
    st.integers(-(10**17), 10**17),
    st.sampled_from(["postgres", "postgres_verbose", "iso_8601"]),
)
def test_interval(months: int, days: int, usecs: int, intervalstyle: str) -> None:
    comes_back(Interval(months, days, usecs), oids.INTERVAL, TextStyle(intervalstyle=intervalstyle))


@given(st.lists(st.none() | TEXT))
def test_text_array(items: list[str | None]) -> None:
    comes_back(array_of(oids.TEXT, items), oids.TEXT_ARRAY)


@given(st.lists(st.tuples(INT4, INT4), min_size=1), st.integers(-5, 5), st.integers(-5, 5))
def test_array_of_two_dimensions(rows: list[tuple[int, int]], first: int, second: int) -> None:
    items = tuple(item for row in rows for item in row)
    comes_back(PgArray(oids.INT4, (len(rows), 2), (first, second), items), INT4_ARRAY)


JSON = st.recursive(
    st.none() | st.booleans() | TEXT | st.integers().map(Decimal),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


@given(JSON)
def test_jsonb(tree: object) -> None:
    value = to_jsonb(tree)
    read = read_text(value, oids.JSONB)
    assert isinstance(read, Jsonb)
    assert jsonb_tree(read) == tree
    comes_back(read, oids.JSONB)


@given(st.none() | INT4, st.none() | st.integers(-(2**31), 2**31 - 2), st.booleans(), st.booleans())
def test_int4range(lower: int | None, upper: int | None, lower_inc: bool, upper_inc: bool) -> None:
    if lower is not None and ((upper is not None and lower > upper) or lower == 2**31 - 1):
        return
    value = make_range(oids.INT4, lower, upper, lower_inc, upper_inc)
    assert isinstance(value, PgRange)
    comes_back(value, INT4RANGE)


def test_nan_comes_back_as_nan() -> None:
    assert math.isnan(read_text(write_text(math.nan, oids.FLOAT8), oids.FLOAT8))
    assert read_text(write_text(Decimal("NaN"), oids.NUMERIC), oids.NUMERIC).is_nan()
