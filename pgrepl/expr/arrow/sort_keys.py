"""Types whose stored form Arrow does not compare as PostgreSQL does, as columns that it does: enums, intervals, ranges,
timetz.

Texts that the output function has not written raise Arrow's error: then rows are evaluated one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.types import oids
from pgrepl.types.builtin import range_by_oid
from pgrepl.types.lake.arrays import content, records
from pgrepl.types.lake.column_text import written
from pgrepl.types.style import STORED_STYLE
from pgrepl.types.user_types import is_enum, labels_of_stored, order_of_labels

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[Any]

_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_ZERO = ord("0")
_MANY = 64  # layouts, beside one for each eighth text, with which texts are looked at one by one


@frozen
class Layout:
    """Texts of one layout, which stand in the column's `rows`."""

    text: str
    rows: Any  # of numpy, to index with
    data: Numbers
    starts: Numbers

    def number(self, start: int, stop: int) -> Numbers:
        """The numbers whose digits are between two places of the texts."""
        kind = np.int32 if stop - start < 7 else np.int64
        value = self.data[start:][self.starts].astype(kind)
        for place in range(start + 1, stop):
            value *= 10
            value += self.data[place:][self.starts]
        value -= _ZERO * int("1" * (stop - start))
        return value.astype(np.int64, copy=False)

    def fraction(self, match: re.Match[str], group: str, *, zeros: bool = False) -> Any:
        """Up to six digits behind a point, as millionths. `zeros`: the last one may be 0."""
        start, stop = match.span(group)
        if start < 0:
            return 0
        value = self.number(start, stop)
        if not zeros:
            require(value % 10 != 0)
        return value * 10 ** (6 - stop + start)

    def counted(self, match: re.Match[str], group: str) -> Any:
        """A number without zeros before it; 0 where the group is not there."""
        start, stop = match.span(group)
        if start < 0:
            return 0
        value = self.number(start, stop)
        if stop - start > 1:
            require(value >= 10 ** (stop - start - 1))
        return value


def layouts(array: pa.Array) -> Iterator[Layout]:
    """The layouts of a column of strings; NULLs have none."""
    texts = array.fill_null("").cast(pa.large_string())
    count, raw = len(texts), content(texts)
    if not count:
        return
    ends = np.frombuffer(texts.buffers()[1], np.int64, count + 1, texts.offset * 8)
    ends = ends - ends[0]
    data = np.frombuffer(raw, np.uint8)
    zeros = pa.py_buffer(bytes(raw).translate(_AS_ZERO))
    encoded = pa.LargeStringArray.from_buffers(count, pa.py_buffer(ends), zeros).dictionary_encode()
    names = encoded.dictionary.to_pylist()
    require(len(names) <= _MANY + count // 8)
    for name, rows in zip(names, _divided(encoded.indices.to_numpy(), len(names)), strict=True):
        starts = ends[:-1][rows]
        if name:
            yield Layout(name, rows, data, starts)
        else:
            require(len(starts) == array.null_count)


def _divided(codes: Numbers, count: int) -> list[Any]:
    """The rows of each code."""
    if count == 1:
        return [slice(None)]
    order = np.argsort(codes.astype(np.uint16) if count < 1 << 16 else codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes))[:-1])


def require(test: Any) -> None:
    """Raise Arrow's error unless the test is true, of all texts if it is an array."""
    if not np.all(test):
        raise pa.ArrowInvalid("a text that the output function does not write")


# --- sort keys --------------------------------------------------------------------------------------------------------


@frozen
class SortKey:
    """Keys of an array of the type in storage form, which are equal as the values are. `order`: those of which < is
    < of the values, too; None: there are none."""

    equal: Callable[[pa.Array], pa.Array]
    order: Callable[[pa.Array], pa.Array] | None

    def of(self, sign: str) -> Callable[[pa.Array], pa.Array] | None:
        """The keys that a comparison operator needs."""
        return self.equal if sign in ("=", "<>") else self.order


def _key(order: Callable[[pa.Array], pa.Array]) -> SortKey:
    return SortKey(order, order)


@cache
def sort_key(typoid: int) -> SortKey | None:
    """The key of a type; None: its values are compared one by one."""
    if is_enum(typoid):
        return _key(partial(_places, typoid))
    ranges = range_by_oid(typoid)
    if ranges is not None and typoid < oids.FIRST_USER_OID and ranges.subtype in _BOUNDS and written(typoid):
        order = partial(_ranges, ranges.subtype)
        return SortKey(order if ranges.subtype == oids.NUMERIC else partial(_range_texts, ranges.subtype), order)
    return _KEYS.get(typoid)


def _checked(array: pa.Array, right: pa.Array) -> None:
    if pc.all(pc.or_kleene(right, pc.is_null(array))).as_py() is False:
        raise pa.ArrowInvalid("a text that the output function does not write")


def _texts(typoid: int, array: pa.Array) -> pa.Array:
    test = written(typoid)
    assert test is not None
    _checked(array, test(array, -1, STORED_STYLE))
    return array


def _places(enum: int, array: pa.Array) -> pa.Array:
    labels, names = order_of_labels(enum), labels_of_stored(enum)
    stored = list(names) or list(labels)
    places = pa.array([labels[names.get(label, label)] for label in stored], pa.int32())
    at = pc.index_in(array, value_set=pa.array(stored, pa.string()))
    if at.null_count != array.null_count:
        raise pa.ArrowInvalid("no label of the enum")
    return places.take(at)


_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_MOST_YEARS = 99_999  # in microseconds they are still within 64 bits
_SECONDS = r"(?P<{0}second>00)(?:\.(?P<{0}fraction>0{{1,6}}))?"
_CLOCK = "(?P<{0}hour>00):(?P<{0}minute>00):" + _SECONDS
_SPAN = re.compile(
    r"(?:(?P<year>0{1,7}) (?P<years>years?)(?: (?!$)|$))?(?:(?P<mon>0{1,2}) (?P<mons>mons?)(?: (?!$)|$))?"
    r"(?:(?P<day>0{1,7}) (?P<days>days?)(?: (?!$)|$))?(?P<clock>(?P<hour>0{2,7}):(?P<minute>00):"
    + _SECONDS.format("")
    + ")?"
)
_MOMENT = re.compile(_CLOCK.format("") + "(?P<sign>[+-])(?P<zone>00)(?::(?P<minutes>00))?")


def _clock(layout: Layout, match: re.Match[str], prefix: str = "") -> Numbers:
    """Microseconds of hours, minutes and seconds."""
    hour, minute, second = [layout.number(*match.span(prefix + part)) for part in ("hour", "minute", "second")]
    require((minute < 60) & (second < 60))
    usecs: Numbers = ((hour * 60 + minute) * 60 + second) * _SECOND + layout.fraction(match, prefix + "fraction")
    return usecs


def _spans(array: pa.Array) -> pa.Array:
    """An interval as microseconds, a month as 30 days (interval_cmp_value)."""
    return _numbers(array, _SPAN, _span)


def _span(layout: Layout, match: re.Match[str]) -> Numbers:
    words: dict[str, Any] = {}
    for unit in ("year", "mon", "day"):
        words[unit] = value = layout.counted(match, unit)
        if match[unit] is not None:
            require(value == 1 if match[unit + "s"] == unit else value > 1)
    require((words["year"] <= _MOST_YEARS) & (words["mon"] < 12))
    days: Numbers = ((words["year"] * 12 + words["mon"]) * 30 + words["day"]) * _DAY
    if match["clock"] is None:
        return days
    clock = _clock(layout, match)
    if len(match["hour"]) > 2:
        layout.counted(match, "hour")
    if match["clock"] != layout.text:
        require(clock > 0)
    return days + clock


def _moments(array: pa.Array) -> pa.Array:
    """A timetz as its moment, and behind it the zone (timetz_cmp_internal)."""
    return _numbers(array, _MOMENT, _moment)


def _moment(layout: Layout, match: re.Match[str]) -> Numbers:
    clock, hours = _clock(layout, match), layout.number(*match.span("zone"))
    require((clock < _DAY) & (hours <= 14))
    minutes: Any = 0 if match["minutes"] is None else layout.number(*match.span("minutes"))
    if match["minutes"] is not None:
        require((minutes > 0) & (minutes < 60))
    elif match["sign"] == "-":
        require(hours > 0)
    west = (hours * 60 + minutes) * (60 if match["sign"] == "-" else -60)
    key: Numbers = ((clock + west * _SECOND) << 18) + west + (1 << 17)
    return key


def _numbers(array: pa.Array, pattern: re.Pattern[str], read: Callable[[Layout, re.Match[str]], Numbers]) -> pa.Array:
    """The texts as numbers, which `read` makes of those of one layout."""
    values = np.zeros(len(array), np.int64)
    for layout in layouts(array):
        values[layout.rows] = read(layout, _matched(pattern, layout))
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(values, pa.int64(), mask=mask)


def _matched(pattern: re.Pattern[str], layout: Layout) -> re.Match[str]:
    match = pattern.fullmatch(layout.text)
    require(match is not None)
    assert match is not None
    return match


# --- ranges -----------------------------------------------------------------------------------------------------------

_DATE = "(?P<{0}year>0000)-(?P<{0}month>00)-(?P<{0}day>00)"
_WHOLE = "(?P<{0}sign>-?)(?P<{0}whole>0{{1,%s}})"
_BOUNDS = {
    oids.INT4: _WHOLE % 9,
    oids.INT8: _WHOLE % 18,
    oids.NUMERIC: _WHOLE % 12 + r"(?:\.(?P<{0}fraction>0{{1,6}}))?",
    oids.DATE: _DATE,
    oids.TIMESTAMP: f'"{_DATE} {_CLOCK}"',
    oids.TIMESTAMPTZ: rf'"{_DATE} {_CLOCK}\+(?P<{{0}}zone>00)"',
}
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # of months
_DISCRETE = (oids.INT4, oids.INT8, oids.DATE)
_ORDER = [("begin", "u1"), ("lower", ">u8"), ("behind", "u1"), ("end", "u1"), ("upper", ">u8"), ("with", "u1")]


@cache
def _range_pattern(subtype: int) -> re.Pattern[str]:
    lower, upper = [_BOUNDS[subtype].format(prefix) for prefix in ("l_", "u_")]
    return re.compile(rf"(?P<opening>[\[(])(?P<lower>{lower})?,(?P<upper>{upper})?(?P<closing>[\])])")


def _ranges(subtype: int, array: pa.Array) -> pa.Array:
    """Ranges as bytes in their order (range_cmp): the empty one first, then by the lower and the upper bound."""
    bounds = np.zeros(len(array), _ORDER)
    for layout, parts in _parts(subtype, array):
        for name, value in parts.items():
            if value is not False:
                bounds[name][layout.rows] = value
    keys = records(bounds)
    return pc.if_else(array.is_valid(), keys, None) if array.null_count else keys


def _range_texts(subtype: int, array: pa.Array) -> pa.Array:
    """The ranges as they are, after a look at them: equal ones have equal texts."""
    for _ in _parts(subtype, array):
        pass
    return array


def _parts(subtype: int, array: pa.Array) -> Iterator[tuple[Layout, dict[str, Any]]]:
    """The parts of the keys of each layout, but that of empty ranges."""
    for layout in layouts(array):
        if layout.text != "empty":
            yield layout, _of_bounds(subtype, layout, _matched(_range_pattern(subtype), layout))


def _of_bounds(subtype: int, layout: Layout, match: re.Match[str]) -> dict[str, Any]:
    lowest, highest = match["lower"] is None, match["upper"] is None
    begins, ends = match["opening"] == "[", match["closing"] == "]"
    if subtype in _DISCRETE:
        require(begins is not lowest and not ends)
    require(not (lowest and begins) and not (highest and ends))
    values: dict[str, Any] = {"begin": 2 - lowest, "behind": not (begins or lowest), "end": 1 + highest, "with": ends}
    bounds = {}
    for name, is_endless in (("lower", lowest), ("upper", highest)):
        if not is_endless:
            bounds[name] = _bound(subtype, layout, match, name[0] + "_")
            values[name] = bounds[name].view(np.uint64) ^ np.uint64(1 << 63)
    if len(bounds) == 2:
        apart = bounds["lower"] < bounds["upper"]
        require(apart | (bounds["lower"] == bounds["upper"]) if begins and ends else apart)
    return values


def _bound(subtype: int, layout: Layout, match: re.Match[str], prefix: str) -> Numbers:
    """Bounds as numbers in their order."""
    value: Numbers
    if subtype in (oids.INT4, oids.INT8, oids.NUMERIC):
        value = layout.counted(match, prefix + "whole")
        if subtype == oids.NUMERIC:
            value = value * _SECOND + layout.fraction(match, prefix + "fraction", zeros=True)
        if match[prefix + "sign"]:
            require(value > 0)
            return -value
        return value
    value = _days(*[layout.number(*match.span(prefix + part)) for part in ("year", "month", "day")])
    if subtype == oids.DATE:
        return value
    clock = _clock(layout, match, prefix)
    require(clock < _DAY)
    if subtype == oids.TIMESTAMPTZ:
        require(layout.number(*match.span(prefix + "zone")) == 0)
    return value * _DAY + clock


def _days(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """The numbers of days, as if all months had 31."""
    require((year >= 1000) & (month >= 1) & (month <= 12) & (day >= 1))
    leap = (month == 2) & (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    require(day <= np.array(_LENGTHS)[month] + leap)
    return (year * 12 + month) * 31 + day


_KEYS = {
    **{typoid: _key(partial(_texts, typoid)) for typoid in (oids.BIT, oids.VARBIT, oids.MACADDR, oids.MACADDR8)},
    **{typoid: SortKey(partial(_texts, typoid), None) for typoid in (oids.INET, oids.CIDR)},
    oids.INTERVAL: _key(_spans),
    oids.TIMETZ: _key(_moments),
}
