"""Dates and times: the current moment, conversions between the types, time zones, making values of their parts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.context import Call, Context
from pgrepl.expr.functions import implements
from pgrepl.expr.functions.date_arithmetic import (
    date_as_timestamp,
    interval_div,
    interval_pl,
    move_timestamp,
    move_timestamptz,
    timestamp_out_of_range,
)
from pgrepl.types.dates import (
    EPOCH_JULIAN,
    INFINITY,
    UNIX_EPOCH_USECS,
    USECS_PER_DAY,
    USECS_PER_MINUTE,
    USECS_PER_SEC,
    Fields,
    days_in_month,
    fields_of_timestamp,
    is_valid_date,
    is_valid_julian,
    is_valid_timestamp,
    julian,
    time_of,
    timestamp_of,
)
from pgrepl.types.datetime import TimeTz, fit_time, fit_timestamp, local_fields
from pgrepl.types.datetime_input import current_fields, session_zone
from pgrepl.types.interval import Interval, is_finite, write_interval
from pgrepl.types.interval import out_of_range as interval_out_of_range
from pgrepl.types.style import TextStyle
from pgrepl.types.timezone import Zone, abbreviation, find_zone

__all__ = ["interval_div", "interval_pl", "sql_value", "timestamp_to_timestamptz"]


# -------------------------------------------------------------------------------------------------- the current moment


def _clock() -> int:
    from time import time_ns

    return time_ns() // 1000 + UNIX_EPOCH_USECS


@implements("now", context=True)
def now(call: Call) -> int:
    return call.context.now


@implements("statement_timestamp", context=True)
def statement_timestamp(call: Call) -> int:
    return call.context.now


@implements("clock_timestamp")
def clock_timestamp() -> int:
    return _clock()


@implements("timeofday", context=True)
def timeofday(call: Call) -> str:
    """`Wed Feb 26 14:05:33.123456 2020 EST`."""
    fields = local_fields(_clock(), call.style)
    day = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")[(julian(fields.year, fields.month, fields.day) + 1) % 7]
    month = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()[fields.month - 1]
    clock = f"{fields.hour:02d}:{fields.minute:02d}:{fields.second:02d}.{fields.usec:06d}"
    return f"{day} {month} {fields.day:02d} {clock} {fields.year:04d} {fields.abbreviation}"


def sql_value(context: Context, name: str, typmod: int) -> Any:
    """CURRENT_DATE and its kin."""
    fields = current_fields(context.style)
    if name == "current_date":
        return julian(fields.year, fields.month, fields.day) - EPOCH_JULIAN
    if name == "current_time":
        return TimeTz(fit_time(time_of(fields), typmod), fields.zone)
    if name == "localtime":
        return fit_time(time_of(fields), typmod)
    if name == "current_timestamp":
        return fit_timestamp(context.now, typmod)
    if name == "localtimestamp":
        return fit_timestamp(timestamp_of(fields), typmod)
    raise AssertionError(name)


# --------------------------------------------------------------------------------------------------------- conversions


def to_utc(fields: Fields, zone: Zone) -> int:
    west = zone.of_local(fields)
    value = timestamp_of(fields) + west * USECS_PER_SEC
    if not is_valid_timestamp(value):
        raise timestamp_out_of_range()
    return value


def local_to_utc(value: int, style: TextStyle) -> int:
    """A timestamp read in the session's time zone."""
    if abs(value) == INFINITY:
        return value
    return to_utc(fields_of_timestamp(value), session_zone(style))


@implements("timestamp_timestamptz", context=True)
def timestamp_to_timestamptz(call: Call, value: int) -> int:
    return local_to_utc(value, call.style)


@implements("timestamptz_timestamp", context=True)
def timestamptz_timestamp(call: Call, value: int) -> int:
    return value if abs(value) == INFINITY else timestamp_of(local_fields(value, call.style))


@implements("date_timestamp")
def date_timestamp(days: int) -> int:
    return date_as_timestamp(days)


@implements("date_timestamptz", context=True)
def date_timestamptz(call: Call, days: int) -> int:
    return local_to_utc(date_as_timestamp(days), call.style)


@implements("timestamp_date")
def timestamp_date(value: int) -> int:
    return value if abs(value) == INFINITY else value // USECS_PER_DAY


@implements("timestamptz_date", context=True)
def timestamptz_date(call: Call, value: int) -> int:
    if abs(value) == INFINITY:
        return value
    fields = local_fields(value, call.style)
    return julian(fields.year, fields.month, fields.day) - EPOCH_JULIAN


@implements("timestamp_time")
def timestamp_time(value: int) -> int | None:
    return None if abs(value) == INFINITY else value % USECS_PER_DAY


@implements("timestamptz_time", context=True)
def timestamptz_time(call: Call, value: int) -> int | None:
    return None if abs(value) == INFINITY else time_of(local_fields(value, call.style))


@implements("timestamptz_timetz", context=True)
def timestamptz_timetz(call: Call, value: int) -> TimeTz | None:
    if abs(value) == INFINITY:
        return None
    fields = local_fields(value, call.style)
    return TimeTz(time_of(fields), fields.zone)


@implements("time_timetz", context=True)
def time_timetz(call: Call, usecs: int) -> TimeTz:
    fields = current_fields(call.style)
    seconds, fields.usec = divmod(usecs, USECS_PER_SEC)
    minutes, fields.second = divmod(seconds, 60)
    fields.hour, fields.minute = divmod(minutes, 60)
    return TimeTz(usecs, session_zone(call.style).of_local(fields))


@implements("timetz_time")
def timetz_time(value: TimeTz) -> int:
    return value.usecs


@implements("time_interval")
def time_interval(usecs: int) -> Interval:
    return Interval(0, 0, usecs)


@implements("interval_time")
def interval_time(value: Interval) -> int:
    if not is_finite(value):
        raise PgError("22008", "cannot convert infinite interval to time")
    return value.usecs % USECS_PER_DAY


@implements("datetime_timestamp")
def datetime_timestamp(days: int, usecs: int) -> int:
    value = date_as_timestamp(days)
    if abs(value) == INFINITY:
        return value
    if not is_valid_timestamp(value + usecs):
        raise timestamp_out_of_range()
    return value + usecs


@implements("datetimetz_timestamptz")
def datetimetz_timestamptz(days: int, time: TimeTz) -> int:
    if abs(days) == INFINITY:
        return days
    value = days * USECS_PER_DAY + time.usecs + time.zone * USECS_PER_SEC
    if not is_valid_timestamp(value):
        raise timestamp_out_of_range()
    return value


implements("timedate_pl(time without time zone,date)")(lambda usecs, days: datetime_timestamp(days, usecs))
implements("timetzdate_pl(time with time zone,date)")(lambda time, days: datetimetz_timestamptz(days, time))


@implements("timestamptz(date,time without time zone)", context=True)
def timestamptz_of(call: Call, days: int, usecs: int) -> int:
    return local_to_utc(datetime_timestamp(days, usecs), call.style)


@implements("date_finite", "timestamp_finite")
def finite(value: int) -> bool:
    return abs(value) != INFINITY


@implements("interval_finite")
def interval_finite(value: Interval) -> bool:
    return is_finite(value)


@implements("float8_timestamptz")
def float8_timestamptz(seconds: float) -> int:
    if math.isnan(seconds):
        raise PgError("22008", "timestamp cannot be NaN")
    if math.isinf(seconds):
        return INFINITY if seconds > 0 else -INFINITY
    usecs = (seconds - 946684800.0) * USECS_PER_SEC
    if abs(usecs) < 2**63 and is_valid_timestamp(round(usecs)):
        return round(usecs)
    raise PgError("22008", f'timestamp out of range: "{seconds:g}"')


# ---------------------------------------------------------------------------------------------------------- time zones


def _zone_not_recognized(name: str) -> PgError:
    return PgError("22023", f'time zone "{name}" not recognized')


def named_zone(name: str) -> Zone:
    """A zone for local times; abbreviations of a fixed offset become zones of it."""
    from pgrepl.types.timezone import Offset

    found = abbreviation(name)
    if found is not None and found.zone is None:
        return Zone(name, (), (), Offset(found.seconds, found.isdst, found.name), None)
    zone = find_zone(found.zone if found is not None and found.zone is not None else name)
    if zone is None:
        raise _zone_not_recognized(name)
    return zone


def _dynamic(name: str) -> bool:
    found = abbreviation(name)
    return found is not None and found.zone is not None


@implements("timestamp_zone")
def timestamp_zone(name: str, value: int) -> int:
    """timestamp AT TIME ZONE: that local time."""
    if abs(value) == INFINITY:
        return value
    zone = named_zone(name)
    fields = fields_of_timestamp(value)
    if _dynamic(name):
        west, moment = zone.resolve_local(fields)
        meant = zone.abbreviated(name, moment)
        return _checked(value + (west if meant is None else -meant.seconds) * USECS_PER_SEC)
    return to_utc(fields, zone)


def _checked(value: int) -> int:
    if not is_valid_timestamp(value):
        raise timestamp_out_of_range()
    return value


@implements("timestamptz_zone")
def timestamptz_zone(name: str, value: int) -> int:
    """timestamptz AT TIME ZONE: what clocks show there."""
    if abs(value) == INFINITY:
        return value
    zone = named_zone(name)
    moment = (value - UNIX_EPOCH_USECS) // USECS_PER_SEC
    offset = (zone.abbreviated(name, moment) if _dynamic(name) else None) or zone.at(moment)
    return _checked(value + offset.seconds * USECS_PER_SEC)


def _interval_zone(zone: Interval) -> int:
    """Microseconds east of Greenwich."""
    text = write_interval(zone, TextStyle())
    if not is_finite(zone):
        raise PgError("22023", "interval time zone must be finite")
    if zone.months or zone.days:
        raise PgError("22023", f'interval time zone "{text}" must not include months or days')
    return zone.usecs // USECS_PER_SEC * USECS_PER_SEC


@implements("timestamp_izone")
def timestamp_izone(zone: Interval, value: int) -> int:
    return value if abs(value) == INFINITY else _checked(value - _interval_zone(zone))


@implements("timestamptz_izone")
def timestamptz_izone(zone: Interval, value: int) -> int:
    return value if abs(value) == INFINITY else _checked(value + _interval_zone(zone))


def _shift_timetz(value: TimeTz, west: int) -> TimeTz:
    return TimeTz((value.usecs + (value.zone - west) * USECS_PER_SEC) % USECS_PER_DAY, west)


@implements("timetz_zone", context=True)
def timetz_zone(call: Call, name: str, value: TimeTz) -> TimeTz:
    zone = named_zone(name)
    moment = (call.context.now - UNIX_EPOCH_USECS) // USECS_PER_SEC
    offset = (zone.abbreviated(name, moment) if _dynamic(name) else None) or zone.at(moment)
    return _shift_timetz(value, -offset.seconds)


@implements("timetz_izone")
def timetz_izone(zone: Interval, value: TimeTz) -> TimeTz:
    return _shift_timetz(value, -(_interval_zone(zone) // USECS_PER_SEC))


implements("timestamp_at_local", context=True)(timestamp_to_timestamptz)
implements("timestamptz_at_local", context=True)(timestamptz_timestamp)


@implements("timetz_at_local", context=True)
def timetz_at_local(call: Call, value: TimeTz) -> TimeTz:
    return timetz_zone(call, call.style.timezone, value)


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
    """As float_time_overflows judges."""
    usecs = second * USECS_PER_SEC
    if math.isnan(second) or not 0 <= hour <= 24 or not 0 <= minute < 60 or not 0 <= round(usecs) <= 60 * USECS_PER_SEC:
        raise _time_field(hour, minute, second)
    total = (hour * 60 + minute) * USECS_PER_MINUTE + round(usecs)
    if total > USECS_PER_DAY:
        raise _time_field(hour, minute, second)
    return total


def _time_field(hour: int, minute: int, second: float) -> PgError:
    return PgError("22008", f"time field value out of range: {hour}:{minute:02d}:{_two_digits(second)}")


def _two_digits(second: float) -> str:
    """C's %02g."""
    return f"{second:g}".rjust(2, "0")


@implements("make_time")
def make_time(hour: int, minute: int, second: float) -> int:
    return _time(hour, minute, second)


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
    from pgrepl.types.datetime_input import decode_zone
    from pgrepl.types.datetime_tokens import InputError

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
            return _checked(local + decode_zone(zone) * USECS_PER_SEC)
        except InputError as error:
            if error.kind == "zone_displacement":
                raise PgError("22023", f'numeric time zone "{zone}" out of range') from None
            raise _zone_not_recognized(zone) from None
    return timestamp_zone(zone, local)


@implements("make_interval")
def make_interval(years: int, months: int, weeks: int, days: int, hours: int, minutes: int, seconds: float) -> Interval:
    if not math.isfinite(seconds):
        raise interval_out_of_range()
    total_months, total_days = years * 12 + months, weeks * 7 + days
    usecs = hours * 3600 * USECS_PER_SEC + minutes * USECS_PER_MINUTE + round(seconds * USECS_PER_SEC)
    if max(abs(years * 12), abs(total_months), abs(weeks * 7), abs(total_days)) >= 1 << 31 or abs(usecs) >= 1 << 63:
        raise interval_out_of_range()
    result = Interval(total_months, total_days, usecs)
    if not is_finite(result):
        raise interval_out_of_range()
    return result


# -------------------------------------------------------------------------------------------------------------- series


def _series(start: int, stop: int, step: Interval, move: Any) -> Iterator[int]:
    if not is_finite(step):
        raise PgError("22023", "step size cannot be infinite")
    sign = (step.months * 30 + step.days) * USECS_PER_DAY + step.usecs
    if sign == 0:
        raise PgError("22023", "step size cannot equal zero")
    value = start
    while value <= stop if sign > 0 else value >= stop:
        yield value
        value = move(value)


@implements("generate_series_timestamp")
def generate_series_timestamp(start: int, stop: int, step: Interval) -> Iterator[int]:
    return _series(start, stop, step, lambda value: move_timestamp(value, step, 1))


@implements("generate_series_timestamptz", context=True)
def generate_series_timestamptz(call: Call, start: int, stop: int, step: Interval) -> Iterator[int]:
    zone = session_zone(call.style)
    return _series(start, stop, step, lambda value: move_timestamptz(value, step, 1, zone))


@implements("generate_series_timestamptz_at_zone")
def generate_series_timestamptz_at_zone(start: int, stop: int, step: Interval, name: str) -> Iterator[int]:
    zone = _plain_zone(name)
    return _series(start, stop, step, lambda value: move_timestamptz(value, step, 1, zone))


def _plain_zone(name: str) -> Zone:
    zone = find_zone(name)
    if zone is None:
        raise _zone_not_recognized(name)
    return zone


@implements("timestamptz_pl_interval_at_zone")
def timestamptz_pl_interval_at_zone(value: int, span: Interval, name: str) -> int:
    return move_timestamptz(value, span, 1, _plain_zone(name))


@implements("timestamptz_mi_interval_at_zone")
def timestamptz_mi_interval_at_zone(value: int, span: Interval, name: str) -> int:
    return move_timestamptz(value, span, -1, _plain_zone(name))
