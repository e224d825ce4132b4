"""Dates and times: the current time, casts between the types, their construction from parts, and + - * / of dates,
times and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from time import time_ns
from typing import Any

from pgrepl.expr.functions.registry import Call, Context, Family
from pgrepl.ground.errors import PgError
from pgrepl.types.style import TextStyle
from pgrepl.types.times.dates import (
    EPOCH_JULIAN,
    INFINITY,
    UNIX_EPOCH_USECS,
    USECS_PER_DAY,
    USECS_PER_SEC,
    Fields,
    days_in_month,
    fields_of_timestamp,
    from_julian,
    is_valid_date,
    is_valid_timestamp,
    julian,
    time_of,
    timestamp_of,
)
from pgrepl.types.times.datetime import TimeTz, fit_time, fit_timestamp, local_fields
from pgrepl.types.times.datetime_decoding import current_fields, session_zone
from pgrepl.types.times.interval import INFINITE, Interval, is_finite
from pgrepl.types.times.timezone import Zone

implements = Family()

# -------------------------------------------------------------------------------------------------- the current moment


def _clock() -> int:
    return time_ns() // 1000 + UNIX_EPOCH_USECS


@implements("now", context=True)
def now(call: Call) -> int:
    return call.context.now


implements("statement_timestamp", context=True)(lambda call: call.context.statement_now)
implements("clock_timestamp")(lambda: _clock())


@implements("timeofday", context=True)
def timeofday(call: Call) -> str:
    """`Wed Feb 26 14:05:33.123456 2020 EST`."""
    fields = local_fields(_clock(), call.style)
    day = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")[(julian(fields.year, fields.month, fields.day) + 1) % 7]
    month = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()[fields.month - 1]
    clock = f"{fields.hour:02d}:{fields.minute:02d}:{fields.second:02d}.{fields.usec:06d}"
    return f"{day} {month} {fields.day:02d} {clock} {fields.year:04d} {fields.abbreviation}"


def sql_value(context: Context, name: str, typmod: int) -> Any:
    """The value of CURRENT_DATE and its like (SQLValueFunction)."""
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
    return checked_timestamp(timestamp_of(fields) + west * USECS_PER_SEC)


def local_to_utc(value: int, style: TextStyle) -> int:
    """A timestamp, taken as local time of the session's time zone and converted to UTC."""
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


implements("time_interval")(lambda usecs: Interval(0, 0, usecs))


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
    return checked_timestamp(value + usecs)


@implements("datetimetz_timestamptz")
def datetimetz_timestamptz(days: int, time: TimeTz) -> int:
    if abs(days) == INFINITY:
        return days
    return checked_timestamp(days * USECS_PER_DAY + time.usecs + time.zone * USECS_PER_SEC)


implements("timedate_pl(time without time zone,date)")(lambda usecs, days: datetime_timestamp(days, usecs))
implements("timetzdate_pl(time with time zone,date)")(lambda time, days: datetimetz_timestamptz(days, time))


@implements("timestamptz(date,time without time zone)", context=True)
def timestamptz_of(call: Call, days: int, usecs: int) -> int:
    return local_to_utc(datetime_timestamp(days, usecs), call.style)


@implements("date_finite", "timestamp_finite")
def finite(value: int) -> bool:
    return abs(value) != INFINITY


implements("interval_finite")(is_finite)


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


# -------------------------------------------------------------------------------------------------------------- series


def series(start: int, stop: int, step: Interval, move: Any) -> Iterator[int]:
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
    return series(start, stop, step, lambda value: move_timestamp(value, step, 1))


@implements("generate_series_timestamptz", context=True)
def generate_series_timestamptz(call: Call, start: int, stop: int, step: Interval) -> Iterator[int]:
    zone = session_zone(call.style)
    return series(start, stop, step, lambda value: move_timestamp(value, step, 1, zone))


def timestamp_out_of_range() -> PgError:
    return PgError("22008", "timestamp out of range")


def checked_timestamp(value: int) -> int:
    if not is_valid_timestamp(value):
        raise timestamp_out_of_range()
    return value


def date_out_of_range() -> PgError:
    return PgError("22008", "date out of range")


def date_as_timestamp(days: int) -> int:
    if abs(days) == INFINITY:
        return days
    value = days * USECS_PER_DAY
    if not is_valid_timestamp(value):
        raise PgError("22008", "date out of range for timestamp")
    return value


# --------------------------------------------------------------------------------------------------------------- dates


@implements("date_pli")
def date_pli(days: int, number: int) -> int:
    if abs(days) == INFINITY:
        return days
    if not is_valid_date(days + number):
        raise date_out_of_range()
    return days + number


implements("date_mii")(lambda days, number: date_pli(days, -number))
implements("integer_pl_date(integer,date)")(lambda number, days: date_pli(days, number))


@implements("date_mi")
def date_mi(a: int, b: int) -> int:
    if abs(a) == INFINITY or abs(b) == INFINITY:
        raise PgError("22008", "cannot subtract infinite dates")
    return a - b


@implements("date_pl_interval")
def date_pl_interval(days: int, span: Interval) -> int:
    return move_timestamp(date_as_timestamp(days), span, 1)


implements("date_mi_interval")(lambda days, span: move_timestamp(date_as_timestamp(days), span, -1))
implements("interval_pl_date(interval,date)")(lambda span, days: date_pl_interval(days, span))


# ---------------------------------------------------------------------------------------------------------- timestamps


def _to_infinity(value: int, span: Interval, sign: int) -> int:
    """The result when an operand is infinite; an error for infinities of opposite signs."""
    toward = 0
    if not is_finite(span):
        toward = sign if span == INFINITE else -sign
    if abs(value) == INFINITY:
        if toward and (value > 0) != (toward > 0):
            raise timestamp_out_of_range()
        return value
    return INFINITY if toward > 0 else -INFINITY


def _move_months(fields: Fields, months: int) -> None:
    year, month = divmod(fields.year * 12 + fields.month - 1 + months, 12)
    fields.year, fields.month = year, month + 1
    fields.day = min(fields.day, days_in_month(fields.year, fields.month))


def _move_days(fields: Fields, days: int) -> None:
    day = julian(fields.year, fields.month, fields.day) + days
    if day < 0:
        raise timestamp_out_of_range()
    fields.year, fields.month, fields.day = from_julian(day)


def move_timestamp(value: int, span: Interval, sign: int, zone: Zone | None = None) -> int:
    """timestamp ± interval: months first, then days, then the rest. To a timestamptz months and days are added in local
    time of a time zone."""
    if abs(value) == INFINITY or not is_finite(span):
        return _to_infinity(value, span, sign)
    for by, move in ((span.months, _move_months), (span.days, _move_days)):
        if by:
            fields = fields_of_timestamp(value) if zone is None else zoned_fields(value, zone)
            move(fields, sign * by)
            west = 0 if zone is None else zone.of_local(fields)
            value = checked_timestamp(timestamp_of(fields) + west * USECS_PER_SEC)
    return checked_timestamp(value + sign * span.usecs)


def zoned_fields(value: int, zone: Zone) -> Fields:
    offset = zone.at((value - UNIX_EPOCH_USECS) // USECS_PER_SEC)
    fields = fields_of_timestamp(value + offset.seconds * USECS_PER_SEC)
    fields.zone = -offset.seconds
    return fields


@implements("timestamp_pl_interval")
def timestamp_pl_interval(value: int, span: Interval) -> int:
    return move_timestamp(value, span, 1)


@implements("timestamp_mi_interval")
def timestamp_mi_interval(value: int, span: Interval) -> int:
    return move_timestamp(value, span, -1)


@implements("timestamptz_pl_interval", context=True)
def timestamptz_pl_interval(call: Call, value: int, span: Interval) -> int:
    return move_timestamp(value, span, 1, session_zone(call.style))


@implements("timestamptz_mi_interval", context=True)
def timestamptz_mi_interval(call: Call, value: int, span: Interval) -> int:
    return move_timestamp(value, span, -1, session_zone(call.style))


implements("interval_pl_timestamp(interval,timestamp without time zone)")(
    lambda span, value: move_timestamp(value, span, 1)
)


@implements("interval_pl_timestamptz(interval,timestamp with time zone)", context=True)
def interval_pl_timestamptz(call: Call, span: Interval, value: int) -> int:
    return timestamptz_pl_interval(call, value, span)


# --------------------------------------------------------------------------------------------------------------- times


def _move_time(usecs: int, span: Interval, sign: int, verb: str) -> int:
    if not is_finite(span):
        raise PgError("22008", f"cannot {verb} infinite interval {'to' if sign > 0 else 'from'} time")
    return (usecs + sign * span.usecs) % USECS_PER_DAY


@implements("time_pl_interval")
def time_pl_interval(usecs: int, span: Interval) -> int:
    return _move_time(usecs, span, 1, "add")


implements("time_mi_interval")(lambda usecs, span: _move_time(usecs, span, -1, "subtract"))
implements("interval_pl_time(interval,time without time zone)")(lambda span, usecs: time_pl_interval(usecs, span))
implements("time_mi_time")(lambda a, b: Interval(0, 0, a - b))


@implements("timetz_pl_interval")
def timetz_pl_interval(value: TimeTz, span: Interval) -> TimeTz:
    return TimeTz(_move_time(value.usecs, span, 1, "add"), value.zone)


@implements("timetz_mi_interval")
def timetz_mi_interval(value: TimeTz, span: Interval) -> TimeTz:
    return TimeTz(_move_time(value.usecs, span, -1, "subtract"), value.zone)


implements("interval_pl_timetz(interval,time with time zone)")(lambda span, value: timetz_pl_interval(value, span))
