"""Output of interval in PostgreSQL's, the SQL standard's and ISO 8601's style, and its type modifier.

    >>> write_interval(Interval(months=27, days=4, usecs=18367800000), DEFAULT_STYLE)
    '2 years 3 mons 4 days 05:06:07.8'

Months, days and microseconds are kept apart, each with its own sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.names import (
    INTERVAL_DAY,
    INTERVAL_FIELDS,
    INTERVAL_FULL_PRECISION,
    INTERVAL_HOUR,
    INTERVAL_MINUTE,
    INTERVAL_SECOND,
    INTERVAL_YEAR,
    MAX_FRACTION_DIGITS,
)
from pgrepl.types.style import TextStyle
from pgrepl.types.times.dates import USECS_PER_HOUR, USECS_PER_MINUTE, USECS_PER_SEC

INT4_MAX, INT8_MAX = 2**31 - 1, 2**63 - 1


class Interval(NamedTuple):
    months: int
    days: int
    usecs: int


INFINITE = Interval(INT4_MAX, INT4_MAX, INT8_MAX)
MINUS_INFINITE = Interval(-INT4_MAX - 1, -INT4_MAX - 1, -INT8_MAX - 1)


def is_finite(value: Interval) -> bool:
    return value not in (INFINITE, MINUS_INFINITE)


def out_of_range() -> PgError:
    return PgError("22008", "interval out of range")


def _cut(value: int, unit: int) -> int:
    """A number truncated toward zero to a multiple of the unit."""
    return abs(value) // unit * unit * (1 if value >= 0 else -1)


def fit_interval(value: Interval, typmod: int) -> Interval:
    """An interval fitted to its type modifier (AdjustIntervalForTypmod): fields below the last one are cut, seconds
    rounded."""
    if typmod < 0 or not is_finite(value):
        return value
    fields, precision = typmod >> 16 & 0x7FFF, typmod & 0xFFFF
    if fields not in INTERVAL_FIELDS:
        raise PgError("XX000", f"unrecognized interval typmod: {typmod}")
    months, days, usecs = value
    if fields == INTERVAL_YEAR:
        months = _cut(months, 12)
    if not fields & (INTERVAL_DAY | INTERVAL_HOUR | INTERVAL_MINUTE | INTERVAL_SECOND):
        days = usecs = 0
    elif fields == INTERVAL_DAY:
        usecs = 0
    elif not fields & INTERVAL_SECOND:
        usecs = _cut(usecs, USECS_PER_MINUTE if fields & INTERVAL_MINUTE else USECS_PER_HOUR)
    if precision != INTERVAL_FULL_PRECISION:
        if precision > MAX_FRACTION_DIGITS:
            raise PgError("22023", f"interval({precision}) precision must be between 0 and {MAX_FRACTION_DIGITS}")
        unit = 10 ** (6 - precision)
        rounded = _cut(abs(usecs) + unit // 2, unit)
        usecs = rounded if usecs >= 0 else -rounded
        if not -INT8_MAX - 1 <= usecs <= INT8_MAX:
            raise out_of_range()
    return Interval(months, days, usecs)


class Parts(NamedTuple):
    """The fields of an interval; fields of the same component (months, days or time) have one sign."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    usec: int


def parts_of(value: Interval) -> Parts:
    """An interval's years, months, days, hours, minutes and seconds (interval2itm)."""
    sign = 1 if value.months >= 0 else -1
    year, month = divmod(abs(value.months), 12)
    clock = 1 if value.usecs >= 0 else -1
    seconds, usec = divmod(abs(value.usecs), USECS_PER_SEC)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return Parts(year * sign, month * sign, value.days, hour * clock, minute * clock, second * clock, usec * clock)


def write_interval(value: Interval, style: TextStyle) -> str:
    if not is_finite(value):
        return "infinity" if value == INFINITE else "-infinity"
    parts = parts_of(value)
    if style.intervalstyle == "sql_standard":
        return _write_sql(parts)
    if style.intervalstyle == "iso_8601":
        return _write_iso(parts)
    if style.intervalstyle == "postgres_verbose":
        return _write_verbose(parts)
    return _write_postgres(parts)


def _seconds(parts: Parts, *, padded: bool) -> str:
    whole = f"{abs(parts.second):02d}" if padded else str(abs(parts.second))
    return whole + (f".{abs(parts.usec):06d}".rstrip("0") if parts.usec else "")


def _write_postgres(parts: Parts) -> str:
    words = []
    before = False  # was the field before this one negative?
    for number, name in ((parts.year, "year"), (parts.month, "mon"), (parts.day, "day")):
        if number:
            plus = "+" if before and number > 0 else ""
            words.append(f"{plus}{number} {name}{'s' if number != 1 else ''}")
            before = number < 0
    clock = parts[3:]
    if not words or any(clock):
        sign = "-" if any(number < 0 for number in clock) else "+" if before else ""
        words.append(f"{sign}{abs(parts.hour):02d}:{abs(parts.minute):02d}:{_seconds(parts, padded=True)}")
    return " ".join(words)


def _write_sql(parts: Parts) -> str:
    negative, positive = any(n < 0 for n in parts), any(n > 0 for n in parts)
    months_given, days_given = any(parts[:2]), any(parts[2:])
    if not negative and not positive:
        return "0"
    year, month, day, hour, minute = (abs(n) for n in parts[:5])
    clock = f"{hour}:{minute:02d}:{_seconds(parts, padded=True)}"
    if (negative and positive) or (months_given and days_given):
        year_sign = "-" if parts.year < 0 or parts.month < 0 else "+"
        clock_sign = "-" if any(n < 0 for n in parts[3:]) else "+"
        return f"{year_sign}{year}-{month} {'-' if parts.day < 0 else '+'}{day} {clock_sign}{clock}"
    sign = "-" if negative else ""
    if months_given:
        return f"{sign}{year}-{month}"
    return f"{sign}{day} {clock}" if day else sign + clock


def _write_iso(parts: Parts) -> str:
    if not any(parts):
        return "PT0S"
    date = "".join(f"{n}{unit}" for n, unit in zip(parts[:3], "YMD", strict=True) if n)
    clock = "".join(f"{n}{unit}" for n, unit in zip(parts[3:5], "HM", strict=True) if n)
    if parts.second or parts.usec:
        clock += f"{'-' if parts.second < 0 or parts.usec < 0 else ''}{_seconds(parts, padded=False)}S"
    return f"P{date}{'T' + clock if clock else ''}"


def _write_verbose(parts: Parts) -> str:
    words = ["@"]
    before = False  # the first field decides whether all is "ago"
    for number, name in zip(parts[:5], ("year", "mon", "day", "hour", "min"), strict=True):
        if number:
            if len(words) == 1:
                before = number < 0
            shown = -number if before else number
            words.append(f"{shown} {name}{'' if shown == 1 else 's'}")
    if parts.second or parts.usec:
        negative = parts.second < 0 or parts.usec < 0
        if len(words) == 1:
            before = negative
        sign = "-" if negative != before else ""
        plural = "s" if abs(parts.second) != 1 or parts.usec else ""
        words.append(f"{sign}{_seconds(parts, padded=False)} sec{plural}")
    if len(words) == 1:
        words.append("0")
    return " ".join(words) + (" ago" if before else "")


WRITE: dict[int, Callable[[Any, TextStyle], str]] = {oids.INTERVAL: write_interval}
