"""Arithmetic of intervals; distances of two times: differences, age(), OVERLAPS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.functions.times.datetime import local_to_utc, move_timestamp, time_pl_interval, timestamptz_pl_interval
from pgrepl.ground.errors import PgError
from pgrepl.types.times.dates import (
    EPOCH_JULIAN,
    INFINITY,
    SECS_PER_DAY,
    USECS_PER_DAY,
    USECS_PER_SEC,
    Fields,
    days_in_month,
    fields_of_timestamp,
    julian,
)
from pgrepl.types.times.datetime import local_fields
from pgrepl.types.times.interval import INFINITE, INT4_MAX, INT8_MAX, MINUS_INFINITE, Interval, is_finite
from pgrepl.types.times.interval import out_of_range as interval_out_of_range
from pgrepl.types.values import timetz_key

implements = Family()


def made(months: int, days: int, usecs: int) -> Interval:
    """A finite interval; raises an error when a part is out of range."""
    if max(abs(months), abs(days)) > INT4_MAX + 1 or abs(usecs) > INT8_MAX + 1:
        raise interval_out_of_range()
    value = Interval(months, days, usecs)
    fits = -INT4_MAX - 1 <= months <= INT4_MAX and -INT4_MAX - 1 <= days <= INT4_MAX
    if not fits or not -INT8_MAX - 1 <= usecs <= INT8_MAX or not is_finite(value):
        raise interval_out_of_range()
    return value


@implements("interval_um")
def interval_um(value: Interval) -> Interval:
    if not is_finite(value):
        return MINUS_INFINITE if value == INFINITE else INFINITE
    return made(-value.months, -value.days, -value.usecs)


@implements("interval_pl")
def interval_pl(a: Interval, b: Interval) -> Interval:
    if not is_finite(a) or not is_finite(b):
        if not is_finite(a) and not is_finite(b) and a != b:
            raise interval_out_of_range()
        return b if is_finite(a) else a
    return made(a.months + b.months, a.days + b.days, a.usecs + b.usecs)


@implements("interval_mi")
def interval_mi(a: Interval, b: Interval) -> Interval:
    if not is_finite(a) or not is_finite(b):
        if a == b:
            raise interval_out_of_range()
        return a if not is_finite(a) else interval_um(b)
    return made(a.months - b.months, a.days - b.days, a.usecs - b.usecs)


def _sign(value: Interval) -> int:
    total = (value.months * 30 + value.days) * USECS_PER_DAY + value.usecs
    return (total > 0) - (total < 0)


def _rounded(value: float) -> float:
    return round(value * 1e6) / 1e6


def _scaled(value: Interval, scale: Callable[[int], float]) -> Interval:
    """Each part multiplied; fractions of months and days go to the smaller parts."""
    months_exact, days_exact = scale(value.months), scale(value.days)
    if not abs(months_exact) < 2**31 or not abs(days_exact) < 2**31:
        raise interval_out_of_range()
    months, days = int(months_exact), int(days_exact)
    month_days = _rounded((months_exact - months) * 30)
    seconds = _rounded((days_exact - days + month_days - int(month_days)) * SECS_PER_DAY)
    if abs(seconds) >= SECS_PER_DAY:
        days += int(seconds / SECS_PER_DAY)
        seconds -= int(seconds / SECS_PER_DAY) * SECS_PER_DAY
    days += int(month_days)
    usecs = scale(value.usecs) + seconds * USECS_PER_SEC
    if not abs(usecs) < 2**63:
        raise interval_out_of_range()
    return made(months, days, round(usecs))


@implements("interval_mul")
def interval_mul(value: Interval, factor: float) -> Interval:
    if math.isnan(factor):
        raise interval_out_of_range()
    if not is_finite(value) or math.isinf(factor):
        sign = _sign(value) * ((factor > 0) - (factor < 0))
        if sign == 0:
            raise interval_out_of_range()
        return INFINITE if sign > 0 else MINUS_INFINITE
    return _scaled(value, lambda part: part * factor)


implements("mul_d_interval")(lambda factor, value: interval_mul(value, factor))


@implements("interval_div")
def interval_div(value: Interval, divisor: float) -> Interval:
    if divisor == 0.0:
        raise PgError("22012", "division by zero")
    if math.isnan(divisor):
        raise interval_out_of_range()
    if not is_finite(value):
        if math.isinf(divisor):
            raise interval_out_of_range()
        return value if divisor > 0 else interval_um(value)
    return _scaled(value, lambda part: part / divisor)


def _carry(small: int, big: int, unit: int) -> tuple[int, int]:
    """Move whole units from the smaller part to the larger one; both get the same sign."""
    whole = abs(small) // unit * (1 if small >= 0 else -1)
    small, big = small - whole * unit, big + whole
    if big > 0 > small:
        small, big = small + unit, big - 1
    elif big < 0 < small:
        small, big = small - unit, big + 1
    return small, big


@implements("interval_justify_hours")
def interval_justify_hours(value: Interval) -> Interval:
    if not is_finite(value):
        return value
    usecs, days = _carry(value.usecs, value.days, USECS_PER_DAY)
    return made(value.months, days, usecs)


@implements("interval_justify_days")
def interval_justify_days(value: Interval) -> Interval:
    if not is_finite(value):
        return value
    days, months = _carry(value.days, value.months, 30)
    return made(months, days, value.usecs)


@implements("interval_justify_interval")
def interval_justify_interval(value: Interval) -> Interval:
    """justify_interval: hours to days, days to months, then all parts get the same sign."""
    if not is_finite(value):
        return value
    months, days, usecs = value
    whole = abs(usecs) // USECS_PER_DAY * (1 if usecs >= 0 else -1)
    usecs, days = usecs - whole * USECS_PER_DAY, days + whole
    whole = abs(days) // 30 * (1 if days >= 0 else -1)
    days, months = days - whole * 30, months + whole
    if months > 0 and (days < 0 or (days == 0 and usecs < 0)):
        days, months = days + 30, months - 1
    elif months < 0 and (days > 0 or (days == 0 and usecs > 0)):
        days, months = days - 30, months + 1
    if days > 0 > usecs:
        usecs, days = usecs + USECS_PER_DAY, days - 1
    elif days < 0 < usecs:
        usecs, days = usecs - USECS_PER_DAY, days + 1
    return made(months, days, usecs)


# --- spans ------------------------------------------------------------------------------------------------------------


def _infinite_difference(a: int, b: int) -> Interval | None:
    if abs(a) != INFINITY and abs(b) != INFINITY:
        return None
    if a == b:
        raise interval_out_of_range()
    if abs(a) == INFINITY:
        return INFINITE if a > 0 else MINUS_INFINITE
    return MINUS_INFINITE if b > 0 else INFINITE


implements("timestamp_mi")(lambda a, b: _infinite_difference(a, b) or interval_justify_hours(made(0, 0, a - b)))


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


implements("overlaps_timestamp", "overlaps_time")(lambda s1, e1, s2, e2: overlaps(s1, e1, s2, e2, _same))
implements("overlaps_timetz")(lambda s1, e1, s2, e2: overlaps(s1, e1, s2, e2, timetz_key))


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
