"""= <> < <= > >= of all types, btree support functions, the larger or smaller of two values, and functions of enums."""

from __future__ import annotations

import operator
from collections.abc import Callable
from struct import pack, unpack
from typing import Any

from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.functions.times.datetime import timestamp_to_timestamptz
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.builtin import base_type
from pgrepl.types.names import format_type
from pgrepl.types.ranges import compare_multiranges, compare_ranges
from pgrepl.types.text import read_text
from pgrepl.types.times.dates import END_TIMESTAMP, INFINITY, USECS_PER_DAY
from pgrepl.types.user_types import described
from pgrepl.types.values import (
    Compare,
    bpchar_key,
    compare_arrays,
    compare_fields,
    compare_records,
    comparer,
    equal_arrays,
    float_key,
    hashable,
    interval_key,
    numeric_key,
    order_key,
    timetz_key,
)

implements = Family()

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _order(a: Any, b: Any) -> int:
    return -1 if a < b else 1 if a > b else 0


def _natural(*names: str, joint: str = "") -> None:
    """Register comparisons of types whose Python values compare as PostgreSQL compares them."""
    for name in names:
        for word, function in _OPERATORS.items():
            implements(f"{name}{joint}{word}")(function)


def _keyed(name: str, key: Callable[[Any], Any], joint: str = "") -> None:
    def make(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
        return lambda a, b: function(key(a), key(b))

    for word, function in _OPERATORS.items():
        implements(f"{name}{joint}{word}")(make(function))


_natural("int2", "int4", "int8", "int24", "int28", "int42", "int48", "int82", "int84", "oid", "bool", "char", "name")
_natural("bytea", "bit", "tid", "xid8")
_natural("text", "date", "time", "timestamp", "pg_lsn", "uuid", "macaddr", "macaddr8", joint="_")
for _word, _function in _OPERATORS.items():
    implements(f"text{_word}name", f"name{_word}text")(_function)
implements("texteq", "xideq", "cideq", "aclitem_eq")(operator.eq)
implements("textne", "xidneq")(operator.ne)
for _name in ("float4", "float8", "float48", "float84"):
    _keyed(_name, float_key)
_keyed("numeric", numeric_key, "_")
_keyed("interval", interval_key, "_")
_keyed("timetz", timetz_key, "_")
_keyed("bpchar", bpchar_key)
_keyed("jsonb", order_key(oids.JSONB) or hashable, "_")
_keyed("network", order_key(oids.INET) or hashable, "_")
_keyed("oidvector", order_key(oids.OIDVECTOR) or hashable)

for _word in ("lt", "le", "gt", "ge"):
    implements(f"text_pattern_{_word}")(_OPERATORS[_word])
    implements(f"bpchar_pattern_{_word}")(lambda a, b, f=_OPERATORS[_word]: f(bpchar_key(a), bpchar_key(b)))


def _compared(name: str, compare: Compare) -> None:
    def make(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
        return lambda a, b: function(compare(a, b), 0)

    for word, function in _OPERATORS.items():
        implements(f"{name}_{word}")(make(function))


def _compare_images(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    """As record_image_cmp does: 1.0 and 1.00 are stored as different bytes. The order is PostgreSQL's for numbers
    passed by value and for texts; for other types it is an order of no meaning, as there."""
    return compare_fields(a, b, lambda typoid: lambda x, y: _order(_image(x, typoid), _image(y, typoid)))


def _image(value: Any, typoid: int) -> Any:
    if isinstance(value, float):
        (value,) = unpack("<i", pack("<f", value)) if typoid == oids.FLOAT4 else unpack("<q", pack("<d", value))
    if isinstance(value, int):
        return value & 0xFFFFFFFFFFFFFFFF  # a Datum is unsigned
    return value if isinstance(value, (str, bytes)) else repr(value)


_compared("array", compare_arrays)
_compared("record", compare_records)
_compared("record_image", _compare_images)
_compared("range", compare_ranges)
_compared("multirange", compare_multiranges)
implements("array_eq")(equal_arrays)
implements("array_ne")(lambda a, b: not equal_arrays(a, b))

# Support functions of operator classes: -1, 0, 1.
for _name in "int2 int4 int8 int24 int28 int42 int48 int82 int84 oid bool char name".split():
    implements(f"bt{_name}cmp")(_order)
for _name in ("bttextcmp", "btnametextcmp", "bttextnamecmp", "bttidcmp", "byteacmp", "bitcmp", "xid8cmp"):
    implements(_name)(_order)
for _name in ("date_cmp", "time_cmp", "timestamp_cmp", "uuid_cmp", "pg_lsn_cmp", "macaddr_cmp", "macaddr8_cmp"):
    implements(_name)(_order)
implements("bttext_pattern_cmp")(_order)
for _name, _typoid in (
    ("btfloat4cmp", oids.FLOAT4),
    ("btfloat8cmp", oids.FLOAT8),
    ("btfloat48cmp", oids.FLOAT8),
    ("btfloat84cmp", oids.FLOAT8),
    ("numeric_cmp", oids.NUMERIC),
    ("interval_cmp", oids.INTERVAL),
    ("timetz_cmp", oids.TIMETZ),
    ("bpcharcmp", oids.BPCHAR),
    ("btbpchar_pattern_cmp", oids.BPCHAR),
    ("jsonb_cmp", oids.JSONB),
    ("network_cmp", oids.INET),
    ("btoidvectorcmp", oids.OIDVECTOR),
):
    implements(_name)(comparer(_typoid))
implements("btarraycmp")(compare_arrays)
implements("btrecordcmp")(compare_records)
implements("btrecordimagecmp")(_compare_images)
implements("range_cmp")(compare_ranges)
implements("multirange_cmp")(compare_multiranges)


_BEYOND = INFINITY - 1  # days that no timestamp reaches are above all timestamps but infinity


def _date_as_timestamp(days: int) -> int:
    if abs(days) == INFINITY:
        return days
    value = days * USECS_PER_DAY
    return value if value < END_TIMESTAMP else _BEYOND


def _utc(call: Call, local: int) -> int:
    """A timestamp, taken as local time of the session's time zone and converted to UTC."""
    return local if abs(local) >= _BEYOND else timestamp_to_timestamptz(call, local)


_TIMES: dict[str, Callable[[Call, int], int]] = {
    "date": lambda call, days: _date_as_timestamp(days),
    "timestamp": lambda call, value: value,
    "timestamptz": lambda call, value: value,
}


def _cross(left: str, right: str) -> None:
    """Register comparisons between date, timestamp and timestamptz; the less specific side is converted."""
    zoned = "timestamptz" in (left, right)

    def side(kind: str) -> Callable[[Call, int], int]:
        convert = _TIMES[kind]
        if zoned and kind != "timestamptz":
            return lambda call, value: _utc(call, convert(call, value))
        return convert

    one, two = side(left), side(right)

    def make(function: Callable[[Any, Any], Any]) -> Callable[[Call, int, int], Any]:
        return lambda call, a, b: function(one(call, a), two(call, b))

    for word, function in {**_OPERATORS, "cmp": _order}.items():
        implements(f"{left}_{word}_{right}", context=True)(make(function))


for _left, _right in (
    ("date", "timestamp"),
    ("date", "timestamptz"),
    ("timestamp", "date"),
    ("timestamp", "timestamptz"),
    ("timestamptz", "date"),
    ("timestamptz", "timestamp"),
):
    _cross(_left, _right)


def _extremes(name: str, key: Callable[[Any], Any] | None, joint: str = "_") -> None:
    if key is None:
        implements(f"{name}{joint}larger")(lambda a, b: a if a > b else b)
        implements(f"{name}{joint}smaller")(lambda a, b: a if a < b else b)
    else:
        implements(f"{name}{joint}larger")(lambda a, b: a if key(a) > key(b) else b)
        implements(f"{name}{joint}smaller")(lambda a, b: a if key(a) < key(b) else b)


for _name in ("int2", "int4", "int8", "oid", "tid"):
    _extremes(_name, None, "")
_extremes("xid8", None)
for _name in ("text", "bytea", "date", "time", "timestamp", "pg_lsn"):
    _extremes(_name, None)
for _name in ("float4", "float8"):
    _extremes(_name, float_key, "")
_extremes("numeric", numeric_key)
_extremes("interval", interval_key)
_extremes("timetz", timetz_key)
_extremes("bpchar", bpchar_key)
_extremes("network", order_key(oids.INET))
_extremes("array", order_key(oids.ANYARRAY))
_extremes("record", order_key(oids.RECORD))


def _enums(source: str, decide: Callable[[int], Any]) -> None:
    """Register a comparison of two values of an enum by the order of its labels."""

    @implements(source, context=True)
    def compare(call: Call, a: str, b: str) -> Any:
        return decide(comparer(call.argtypes[0])(a, b))


implements("enum_eq")(operator.eq)
implements("enum_ne")(operator.ne)
for _word in ("lt", "le", "gt", "ge"):
    _enums(f"enum_{_word}", lambda order, function=_OPERATORS[_word]: function(order, 0))  # type: ignore[misc]
_enums("enum_cmp", lambda order: order)


implements("enum_larger", context=True)(lambda call, a, b: a if comparer(call.argtypes[0])(a, b) > 0 else b)
implements("enum_smaller", context=True)(lambda call, a, b: a if comparer(call.argtypes[0])(a, b) < 0 else b)


# --- enums ------------------------------------------------------------------------------------------------------------


def _labels(call: Call) -> tuple[int, list[str]]:
    """The enum of the first argument, whose value does not count, and its labels in order."""
    enum = base_type(call.argtypes[0])
    known = described(enum)
    if known is None:
        raise PgError("0A000", "could not determine actual enum type")
    return enum, [label.name for label in known.labels]


def _end(call: Call, place: int) -> str:
    enum, labels = _labels(call)
    if not labels:
        raise PgError("55000", f"enum {format_type(enum)} contains no values")
    text: str = read_text(labels[place], enum)  # refuses a new label that is not committed
    return text


implements("enum_first", context=True)(lambda call, value: _end(call, 0))
implements("enum_last", context=True)(lambda call, value: _end(call, -1))


@implements("enum_range_bounds", context=True)
def enum_range_bounds(call: Call, lower: str | None, upper: str | None) -> PgArray:
    """The labels from one to another; NULL stands for the first or the last."""
    enum, labels = _labels(call)
    first = 0 if lower is None else labels.index(lower)
    last = len(labels) - 1 if upper is None else labels.index(upper)
    return array_of(enum, [read_text(label, enum) for label in labels[first : last + 1]])


implements("enum_range_all", context=True)(lambda call, value: enum_range_bounds(call, None, None))
