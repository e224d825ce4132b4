"""AT TIME ZONE, and the functions that make times from parts (make_timestamptz …)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pgrepl.expr.functions.arithmetic import float_overflow
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.functions.times.datetime import (
    checked_timestamp,
    local_to_utc,
    move_timestamp,
    series,
    timestamp_to_timestamptz,
    timestamptz_timestamp,
    to_utc,
)
from pgrepl.ground.errors import PgError
from pgrepl.types.style import TextStyle
from pgrepl.types.times.dates import (
    EPOCH_JULIAN,
    INFINITY,
    UNIX_EPOCH_USECS,
    USECS_PER_DAY,
    USECS_PER_MINUTE,
    USECS_PER_SEC,
    days_in_month,
    fields_of_timestamp,
    is_valid_date,
    is_valid_julian,
    is_valid_timestamp,
    julian,
)
from pgrepl.types.times.datetime import TimeTz
from pgrepl.types.times.datetime_decoding import decode_zone
from pgrepl.types.times.datetime_tokens import InputError
from pgrepl.types.times.interval import Interval, is_finite, write_interval
from pgrepl.types.times.interval import out_of_range as interval_out_of_range
from pgrepl.types.times.timezone import Offset, Zone, abbreviation, find_zone

implements = Family()

# ---------------------------------------------------------------------------------------------------------- time zones


def _zone_not_recognized(name: str) -> PgError:
    return PgError("22023", f'time zone "{name}" not recognized')


def named_zone(name: str) -> Zone:
    """The time zone of a name; an abbreviation with a fixed offset becomes a zone with that offset."""
    abbrev = abbreviation(name)
    if abbrev is not None and abbrev.zone is None:
        return Zone(name, (), (), Offset(abbrev.seconds, abbrev.isdst, abbrev.name), None)
    zone = find_zone(abbrev.zone if abbrev is not None and abbrev.zone is not None else name)
    if zone is None:
        raise _zone_not_recognized(name)
    return zone


def _dynamic(name: str) -> bool:
    abbrev = abbreviation(name)
    return abbrev is not None and abbrev.zone is not None


@implements("timestamp_zone")
def timestamp_zone(name: str, value: int) -> int:
    """timestamp AT TIME ZONE: the moment when local clocks there show this time."""
    if abs(value) == INFINITY:
        return value
    zone = named_zone(name)
    fields = fields_of_timestamp(value)
    if _dynamic(name):
        west, moment = zone.resolve_local(fields)
        meant = zone.abbreviated(name, moment)
        return checked_timestamp(value + (west if meant is None else -meant.seconds) * USECS_PER_SEC)
    return to_utc(fields, zone)


@implements("timestamptz_zone")
def timestamptz_zone(name: str, value: int) -> int:
    """timestamptz AT TIME ZONE: the local time there at this moment."""
    if abs(value) == INFINITY:
        return value
    zone = named_zone(name)
    moment = (value - UNIX_EPOCH_USECS) // USECS_PER_SEC
    offset = (zone.abbreviated(name, moment) if _dynamic(name) else None) or zone.at(moment)
    return checked_timestamp(value + offset.seconds * USECS_PER_SEC)


def _interval_zone(zone: Interval) -> int:
    """An interval as time zone: microseconds east of Greenwich."""
    text = write_interval(zone, TextStyle())
    if not is_finite(zone):
        raise PgError("22023", "interval time zone must be finite")
    if zone.months or zone.days:
        raise PgError("22023", f'interval time zone "{text}" must not include months or days')
    return zone.usecs // USECS_PER_SEC * USECS_PER_SEC


@implements("timestamp_izone")
def timestamp_izone(zone: Interval, value: int) -> int:
    return value if abs(value) == INFINITY else checked_timestamp(value - _interval_zone(zone))


@implements("timestamptz_izone")
def timestamptz_izone(zone: Interval, value: int) -> int:
    return value if abs(value) == INFINITY else checked_timestamp(value + _interval_zone(zone))


def _shift_timetz(value: TimeTz, west: int) -> TimeTz:
    return TimeTz((value.usecs + (value.zone - west) * USECS_PER_SEC) % USECS_PER_DAY, west)


@implements("timetz_zone", context=True)
def timetz_zone(call: Call, name: str, value: TimeTz) -> TimeTz:
    zone = named_zone(name)
    moment = (call.context.now - UNIX_EPOCH_USECS) // USECS_PER_SEC
    offset = (zone.abbreviated(name, moment) if _dynamic(name) else None) or zone.at(moment)
    return _shift_timetz(value, -offset.seconds)


implements("timetz_izone")(lambda zone, value: _shift_timetz(value, -(_interval_zone(zone) // USECS_PER_SEC)))
implements("timestamp_at_local", context=True)(timestamp_to_timestamptz)
implements("timestamptz_at_local", context=True)(timestamptz_timestamp)
implements("timetz_at_local", context=True)(lambda call, value: timetz_zone(call, call.style.timezone, value))


# -------------------------------------------------------------------------------------------------------------- making


@implements("make_date")
def make_date(year: int, month: int, day: int) -> int:
    shown = f"{year}-{month:02d}-{day:02d}"
    if year == 0 or not 1 <= month <= 12 or not 1 <= day <= 31:
        raise PgError("22008", f"date field value out of range: {shown}")
    actual = year if year > 0 else year + 1
    if day > days_in_month(actual, month):
        raise PgError("22008", f"date field value out of range: {shown}")
    if is_valid_julian(actual, month):
        days = julian(actual, month, day) - EPOCH_JULIAN
        if is_valid_date(days):
            return days
    raise PgError("22008", f"date out of range: {shown}")


def _time(hour: int, minute: int, second: float) -> int:
    """A time from its parts, with the limits of float_time_overflows."""
    usecs = second * USECS_PER_SEC
    if not math.isfinite(usecs) or not 0 <= hour <= 24 or not 0 <= minute < 60:
        raise _time_field(hour, minute, second)
    if not 0 <= round(usecs) <= 60 * USECS_PER_SEC:
        raise _time_field(hour, minute, second)
    total = (hour * 60 + minute) * USECS_PER_MINUTE + round(usecs)
    if total > USECS_PER_DAY:
        raise _time_field(hour, minute, second)
    return total


def _time_field(hour: int, minute: int, second: float) -> PgError:
    return PgError("22008", f"time field value out of range: {hour}:{minute:02d}:{_two_digits(second)}")


def _two_digits(second: float) -> str:
    """A number as %02g prints it."""
    if not math.isfinite(second):
        return "NaN" if second != second else "Infinity" if second > 0 else "-Infinity"
    return f"{second:g}".rjust(2, "0")


implements("make_time")(_time)


@implements("make_timestamp")
def make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: float) -> int:
    days = make_date(year, month, day)
    value = days * USECS_PER_DAY + _time(hour, minute, second)
    if not is_valid_timestamp(value):
        shown = f"{year}-{month:02d}-{day:02d} {hour}:{minute:02d}:{_two_digits(second)}"
        raise PgError("22008", f"timestamp out of range: {shown}")
    return value


@implements("make_timestamptz", context=True)
def make_timestamptz(call: Call, *parts: Any) -> int:
    return local_to_utc(make_timestamp(*parts), call.style)


@implements("make_timestamptz_at_timezone")
def make_timestamptz_at_timezone(*parts: Any) -> int:
    *fields, zone = parts
    local = make_timestamp(*fields)
    if zone[:1].isdigit():
        raise PgError(
            "22023",
            f'invalid input syntax for type numeric time zone: "{zone}"',
            hint='Numeric time zones must have "-" or "+" as first character.',
        )
    if zone[:1] in ("+", "-"):
        try:
            return checked_timestamp(local + decode_zone(zone) * USECS_PER_SEC)
        except InputError as error:
            if error.kind == "zone_displacement":
                raise PgError("22023", f'numeric time zone "{zone}" out of range') from None
            raise _zone_not_recognized(zone) from None
    return timestamp_zone(zone, local)


@implements("make_interval")
def make_interval(years: int, months: int, weeks: int, days: int, hours: int, minutes: int, seconds: float) -> Interval:
    if not math.isfinite(seconds):
        raise interval_out_of_range()
    if math.isinf(seconds * USECS_PER_SEC):
        raise float_overflow()
    total_months, total_days = years * 12 + months, weeks * 7 + days
    usecs = hours * 3600 * USECS_PER_SEC + minutes * USECS_PER_MINUTE + round(seconds * USECS_PER_SEC)
    if max(abs(years * 12), abs(total_months), abs(weeks * 7), abs(total_days)) >= 1 << 31 or abs(usecs) >= 1 << 63:
        raise interval_out_of_range()
    result = Interval(total_months, total_days, usecs)
    if not is_finite(result):
        raise interval_out_of_range()
    return result


@implements("generate_series_timestamptz_at_zone")
def generate_series_timestamptz_at_zone(start: int, stop: int, step: Interval, name: str) -> Iterator[int]:
    zone = _plain_zone(name)
    return series(start, stop, step, lambda value: move_timestamp(value, step, 1, zone))


def _plain_zone(name: str) -> Zone:
    zone = find_zone(name)
    if zone is None:
        raise _zone_not_recognized(name)
    return zone


@implements("timestamptz_pl_interval_at_zone")
def timestamptz_pl_interval_at_zone(value: int, span: Interval, name: str) -> int:
    return move_timestamp(value, span, 1, _plain_zone(name))


@implements("timestamptz_mi_interval_at_zone")
def timestamptz_mi_interval_at_zone(value: int, span: Interval, name: str) -> int:
    return move_timestamp(value, span, -1, _plain_zone(name))
