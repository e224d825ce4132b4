"""Arithmetic of intervals."""

from __future__ import annotations

import math
from collections.abc import Callable

from pgrepl.errors import PgError
from pgrepl.expr.functions.registry import Family
from pgrepl.types.dates import (
    SECS_PER_DAY,
    USECS_PER_DAY,
    USECS_PER_SEC,
)
from pgrepl.types.interval import INFINITE, INT4_MAX, INT8_MAX, MINUS_INFINITE, Interval, is_finite
from pgrepl.types.interval import out_of_range as interval_out_of_range

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


@implements("mul_d_interval")
def mul_d_interval(factor: float, value: Interval) -> Interval:
    return interval_mul(value, factor)


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
