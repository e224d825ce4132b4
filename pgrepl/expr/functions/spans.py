"""Distances of two times: differences, age(), OVERLAPS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgrepl.expr.context import Call
from pgrepl.expr.functions.date_arithmetic import move_timestamp, time_pl_interval, timestamptz_pl_interval
from pgrepl.expr.functions.intervals import interval_justify_hours, made
from pgrepl.expr.functions.registry import Family
from pgrepl.types.dates import (
    EPOCH_JULIAN,
    INFINITY,
    USECS_PER_DAY,
    USECS_PER_SEC,
    Fields,
    days_in_month,
    fields_of_timestamp,
    julian,
)
from pgrepl.types.datetime import local_fields
from pgrepl.types.interval import INFINITE, MINUS_INFINITE, Interval
from pgrepl.types.interval import out_of_range as interval_out_of_range

implements = Family()


def _infinite_difference(a: int, b: int) -> Interval | None:
    if abs(a) != INFINITY and abs(b) != INFINITY:
        return None
    if a == b:
        raise interval_out_of_range()
    if abs(a) == INFINITY:
        return INFINITE if a > 0 else MINUS_INFINITE
    return MINUS_INFINITE if b > 0 else INFINITE


@implements("timestamp_mi")
def timestamp_mi(a: int, b: int) -> Interval:
    return _infinite_difference(a, b) or interval_justify_hours(made(0, 0, a - b))


def _age(a: int, b: int, one: Fields, two: Fields) -> Interval:
    """The difference field by field as timestamp_age does, borrowing from the next larger field."""
    parts = [getattr(one, name) - getattr(two, name) for name in _FIELDS]
    if a < b:
        parts = [-part for part in parts]
    year, month, day, hour, minute, second, usec = parts
    while usec < 0:
        usec, second = usec + USECS_PER_SEC, second - 1
    while second < 0:
        second, minute = second + 60, minute - 1
    while minute < 0:
        minute, hour = minute + 60, hour - 1
    while hour < 0:
        hour, day = hour + 24, day - 1
    borrowed = one if a < b else two
    while day < 0:
        day, month = day + days_in_month(borrowed.year, borrowed.month), month - 1
    while month < 0:
        month, year = month + 12, year - 1
    usecs = ((hour * 60 + minute) * 60 + second) * USECS_PER_SEC + usec
    sign = -1 if a < b else 1
    return Interval((year * 12 + month) * sign, day * sign, usecs * sign)


_FIELDS = ("year", "month", "day", "hour", "minute", "second", "usec")


@implements("timestamp_age")
def timestamp_age(a: int, b: int) -> Interval:
    return _infinite_difference(a, b) or _age(a, b, fields_of_timestamp(a), fields_of_timestamp(b))


@implements("timestamptz_age", context=True)
def timestamptz_age(call: Call, a: int, b: int) -> Interval:
    return _infinite_difference(a, b) or _age(a, b, local_fields(a, call.style), local_fields(b, call.style))


def _today(call: Call) -> int:
    """Local midnight, as a timestamp."""
    now = local_fields(call.context.now, call.style)
    return (julian(now.year, now.month, now.day) - EPOCH_JULIAN) * USECS_PER_DAY


@implements("age(timestamp without time zone)", context=True)
def age_today(call: Call, value: int) -> Interval:
    return timestamp_age(_today(call), value)


@implements("age(timestamp with time zone)", context=True)
def age_today_zoned(call: Call, value: int) -> Interval:
    from pgrepl.expr.functions.datetime import local_to_utc

    return timestamptz_age(call, local_to_utc(_today(call), call.style), value)


# ------------------------------------------------------------------------------------------------------------ overlaps


def overlaps(s1: Any, e1: Any, s2: Any, e2: Any, key: Callable[[Any], Any]) -> bool | None:
    """OVERLAPS: a NULL end is unknown, and the ends may be given in either order."""

    def order(start: Any, end: Any) -> tuple[Any, Any]:
        if start is None:
            return (end, None)
        if end is not None and key(start) > key(end):
            return end, start
        return start, end

    if (s1 is None and e1 is None) or (s2 is None and e2 is None):
        return None
    s1, e1 = order(s1, e1)
    s2, e2 = order(s2, e2)
    if key(s1) == key(s2):
        return None if e1 is None or e2 is None else True
    if key(s1) > key(s2):
        s1, e1, s2, e2 = s2, e2, s1, e1
    if e1 is None:
        return None
    if key(s2) < key(e1):
        return True
    return None if e2 is None else False


def _same(value: Any) -> Any:
    return value


@implements("overlaps_timestamp", "overlaps_time")
def overlaps_plain(s1: Any, e1: Any, s2: Any, e2: Any) -> bool | None:
    return overlaps(s1, e1, s2, e2, _same)


@implements("overlaps_timetz")
def overlaps_timetz(s1: Any, e1: Any, s2: Any, e2: Any) -> bool | None:
    from pgrepl.types.values import timetz_key

    return overlaps(s1, e1, s2, e2, timetz_key)


def _overlaps_by_interval(typename: str, move: Callable[[Call, Any, Interval], Any]) -> None:
    """OVERLAPS whose second end is given as an interval."""

    def end(call: Call, start: Any, length: Any, given: bool) -> Any:
        if not given:
            return length
        return None if start is None or length is None else move(call, start, length)

    for first, second in ((True, True), (True, False), (False, True)):
        ends = ["interval" if given else typename for given in (first, second)]

        def compute(
            call: Call, s1: Any, e1: Any, s2: Any, e2: Any, first: bool = first, second: bool = second
        ) -> bool | None:
            return overlaps(s1, end(call, s1, e1, first), s2, end(call, s2, e2, second), _same)

        implements(f"overlaps({typename},{ends[0]},{typename},{ends[1]})", context=True)(compute)


_overlaps_by_interval("timestamp without time zone", lambda call, start, span: move_timestamp(start, span, 1))
_overlaps_by_interval("timestamp with time zone", timestamptz_pl_interval)
_overlaps_by_interval("time without time zone", lambda call, start, span: time_pl_interval(start, span))
