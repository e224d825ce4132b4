"""+ - * / of dates, times and intervals."""

from __future__ import annotations

from pgrepl.expr.functions.registry import Call, Family
from pgrepl.ground.errors import PgError
from pgrepl.types.times.dates import (
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
    timestamp_of,
)
from pgrepl.types.times.datetime import TimeTz
from pgrepl.types.times.datetime_decoding import session_zone
from pgrepl.types.times.interval import INFINITE, Interval, is_finite
from pgrepl.types.times.timezone import Zone

implements = Family()


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


@implements("date_mii")
def date_mii(days: int, number: int) -> int:
    return date_pli(days, -number)


implements("integer_pl_date(integer,date)")(lambda number, days: date_pli(days, number))


@implements("date_mi")
def date_mi(a: int, b: int) -> int:
    if abs(a) == INFINITY or abs(b) == INFINITY:
        raise PgError("22008", "cannot subtract infinite dates")
    return a - b


@implements("date_pl_interval")
def date_pl_interval(days: int, span: Interval) -> int:
    return move_timestamp(date_as_timestamp(days), span, 1)


@implements("date_mi_interval")
def date_mi_interval(days: int, span: Interval) -> int:
    return move_timestamp(date_as_timestamp(days), span, -1)


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


@implements("time_mi_interval")
def time_mi_interval(usecs: int, span: Interval) -> int:
    return _move_time(usecs, span, -1, "subtract")


implements("interval_pl_time(interval,time without time zone)")(lambda span, usecs: time_pl_interval(usecs, span))


@implements("time_mi_time")
def time_mi_time(a: int, b: int) -> Interval:
    return Interval(0, 0, a - b)


@implements("timetz_pl_interval")
def timetz_pl_interval(value: TimeTz, span: Interval) -> TimeTz:
    return TimeTz(_move_time(value.usecs, span, 1, "add"), value.zone)


@implements("timetz_mi_interval")
def timetz_mi_interval(value: TimeTz, span: Interval) -> TimeTz:
    return TimeTz(_move_time(value.usecs, span, -1, "subtract"), value.zone)


implements("interval_pl_timetz(interval,time with time zone)")(lambda span, value: timetz_pl_interval(value, span))
