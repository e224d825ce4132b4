"""Fields of dates and times: extract, date_part, date_trunc, date_bin."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pgrepl.expr.functions.numeric import numeric_add, numeric_div
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.functions.times.datetime import checked_timestamp, date_as_timestamp, zoned_fields
from pgrepl.expr.functions.times.intervals import made
from pgrepl.expr.functions.times.zones import named_zone
from pgrepl.ground.errors import PgError
from pgrepl.types.times.dates import (
    EPOCH_JULIAN,
    INFINITY,
    UNIX_EPOCH_DAYS,
    UNIX_EPOCH_USECS,
    USECS_PER_DAY,
    USECS_PER_HOUR,
    USECS_PER_MINUTE,
    USECS_PER_SEC,
    Fields,
    fields_of_date,
    fields_of_timestamp,
    from_julian,
    julian,
    set_time,
    time_of,
    timestamp_of,
    weekday,
)
from pgrepl.types.times.datetime import TimeTz
from pgrepl.types.times.datetime_decoding import session_zone
from pgrepl.types.times.datetime_tokens import TOKENS
from pgrepl.types.times.interval import Interval, is_finite, parts_of
from pgrepl.types.times.interval_input import UNITS
from pgrepl.types.times.timezone import Zone

implements = Family()

DATE_UNITS = {"day", "week", "month", "quarter", "year", "decade", "century", "millennium"}
DATE_UNITS |= {"julian", "isoyear", "dow", "isodow", "doy", "epoch"}
TIME_UNITS = {"microsecond", "millisecond", "second", "minute", "hour", "epoch"}
_ZONE_UNITS = {"timezone", "timezone_hour", "timezone_minute"}
_INTERVAL_UNITS = {"day", "month", "quarter", "year", "decade", "century", "millennium"} | TIME_UNITS
# units that grow without limit: those of an infinite moment are infinite
MONOTONIC = {"year", "decade", "century", "millennium", "julian", "isoyear", "epoch"}


def _lower(word: str) -> str:
    return "".join(char.lower() if char.isascii() else char for char in word)


def unit_of(word: str, allowed: set[str], typename: str, *, date_words: bool = True) -> str:
    """The unit that a word names. date_words: also units of dates only (dow, doy, epoch …)."""
    lower = _lower(word)
    unit = UNITS.get(lower[:10])
    token = TOKENS.get(lower)
    if unit is None and date_words and token is not None and (token.kind == "units" or token.value == "epoch"):
        unit = str(token.value)
    if unit is None:
        raise PgError("22023", f'unit "{lower}" not recognized for type {typename}')
    if unit not in allowed:
        raise PgError("0A000", f'unit "{lower}" not supported for type {typename}')
    return unit


def scaled(value: int, scale: int) -> Decimal:
    return Decimal(value).scaleb(-scale)


def iso_week(year: int, month: int, day: int) -> tuple[int, int]:
    """ISO year and week of a date, as date2isoweek computes them; months and days may exceed their range."""
    this = julian(year, month, day)
    start = iso_start(year)
    if this < start:
        year -= 1
        start = iso_start(year)
    week = toward_zero(this - start, 7) + 1
    if week >= 52 and this >= iso_start(year + 1):
        return year + 1, toward_zero(this - iso_start(year + 1), 7) + 1
    return year, week


def iso_start(year: int) -> int:
    """The Monday of the first week of an ISO year."""
    fourth = julian(year, 1, 4)
    return fourth - (weekday(fourth) - 1) % 7


def toward_zero(a: int, b: int) -> int:
    """The quotient as in C, truncated toward zero."""
    return abs(a) // b * (1 if a >= 0 else -1)


def _year_units(year: int) -> dict[str, int]:
    return {
        "year": year if year > 0 else year - 1,
        "decade": year // 10 if year >= 0 else -((8 - (year - 1)) // 10),
        "century": (year + 99) // 100 if year > 0 else -((99 - (year - 1)) // 100),
        "millennium": (year + 999) // 1000 if year > 0 else -((999 - (year - 1)) // 1000),
    }


def _time_field(unit: str, fields: Fields) -> Decimal:
    seconds = fields.second * USECS_PER_SEC + fields.usec
    if unit == "microsecond":
        return Decimal(seconds)
    if unit == "millisecond":
        return scaled(seconds, 3)
    if unit == "second":
        return scaled(seconds, 6)
    return Decimal(fields.minute if unit == "minute" else fields.hour)


def _date_field(unit: str, fields: Fields) -> Decimal:
    day = julian(fields.year, fields.month, fields.day)
    if unit in ("day", "month"):
        return Decimal(fields.day if unit == "day" else fields.month)
    if unit == "quarter":
        return Decimal((fields.month - 1) // 3 + 1)
    if unit in ("week", "isoyear"):
        year, week = iso_week(fields.year, fields.month, fields.day)
        return Decimal(week if unit == "week" else year if year > 0 else year - 1)
    if unit in ("dow", "isodow"):
        dow = weekday(day)
        return Decimal(7 if unit == "isodow" and dow == 0 else dow)
    if unit == "doy":
        return Decimal(day - julian(fields.year, 1, 1) + 1)
    return Decimal(_year_units(fields.year)[unit])


def _infinite_field(unit: str, positive: bool) -> Decimal | None:
    if unit not in MONOTONIC:
        return None
    return Decimal("Infinity") if positive else Decimal("-Infinity")


def _julian_of(fields: Fields) -> Decimal:
    day = Decimal(julian(fields.year, fields.month, fields.day))
    return numeric_add(day, numeric_div(Decimal(time_of(fields)), Decimal(USECS_PER_DAY)))


def _zone_field(unit: str, west: int) -> Decimal:
    if unit == "timezone":
        return Decimal(-west)
    minutes = abs(west) // 60
    value = minutes // 60 if unit == "timezone_hour" else minutes % 60
    return Decimal(-value if west > 0 else value)


def _of_moment(unit: str, fields: Fields, epoch: int, zoned: bool) -> Decimal:
    if unit == "epoch":
        return scaled(epoch, 6)
    if unit == "julian":
        return _julian_of(fields)
    if unit in TIME_UNITS:
        return _time_field(unit, fields)
    if zoned and unit in _ZONE_UNITS:
        return _zone_field(unit, fields.zone)
    return _date_field(unit, fields)


@implements("extract_timestamp")
def extract_timestamp(word: str, value: int) -> Decimal | None:
    name = "timestamp without time zone"
    if abs(value) == INFINITY:
        return _infinite_field(unit_of(word, DATE_UNITS | TIME_UNITS | _ZONE_UNITS, name), value > 0)
    unit = unit_of(word, DATE_UNITS | TIME_UNITS, name)
    return _of_moment(unit, fields_of_timestamp(value), value - UNIX_EPOCH_USECS, False)


@implements("extract_timestamptz", context=True)
def extract_timestamptz(call: Call, word: str, value: int) -> Decimal | None:
    unit = unit_of(word, DATE_UNITS | TIME_UNITS | _ZONE_UNITS, "timestamp with time zone")
    if abs(value) == INFINITY:
        return _infinite_field(unit, value > 0)
    fields = zoned_fields(value, session_zone(call.style))
    return _of_moment(unit, fields, value - UNIX_EPOCH_USECS, True)


@implements("extract_date")
def extract_date(word: str, days: int) -> Decimal | None:
    unit = unit_of(word, DATE_UNITS, "date")
    if abs(days) == INFINITY:
        return _infinite_field(unit, days > 0)
    if unit == "epoch":
        return Decimal((days - UNIX_EPOCH_DAYS) * 86400)
    fields = fields_of_date(days)
    if unit == "julian":
        return Decimal(days + EPOCH_JULIAN)
    return _date_field(unit, fields)


@implements("extract_time")
def extract_time(word: str, usecs: int) -> Decimal:
    unit = unit_of(word, TIME_UNITS, "time without time zone")
    return scaled(usecs, 6) if unit == "epoch" else _time_field(unit, set_time(Fields(), usecs))


@implements("extract_timetz")
def extract_timetz(word: str, value: TimeTz) -> Decimal:
    unit = unit_of(word, TIME_UNITS | _ZONE_UNITS, "time with time zone")
    if unit == "epoch":
        return scaled(value.usecs + value.zone * USECS_PER_SEC, 6)
    if unit in _ZONE_UNITS:
        return _zone_field(unit, value.zone)
    return _time_field(unit, set_time(Fields(), value.usecs))


@implements("extract_interval", context=True)
def extract_interval(call: Call, word: str, value: Interval) -> Decimal | None:
    of_18 = call.context.release >= 18
    unit = unit_of(word, _INTERVAL_UNITS | {"week"} if of_18 else _INTERVAL_UNITS, "interval")
    if not is_finite(value):
        if unit not in {"hour", "day", "year", "decade", "century", "millennium", "epoch"}:
            return None
        return Decimal("Infinity") if value.months > 0 else Decimal("-Infinity")
    if unit == "epoch":
        months = value.months
        years, rest = toward_zero(months, 12), months - toward_zero(months, 12) * 12
        quarter_days = 1461 * years + 4 * (30 * rest + value.days)  # a year has 365.25 days
        return scaled(quarter_days * 21600 * USECS_PER_SEC + value.usecs, 6)
    parts = parts_of(value)
    if unit in ("microsecond", "millisecond", "second"):
        seconds = parts.second * USECS_PER_SEC + parts.usec
        return scaled(seconds, {"microsecond": 0, "millisecond": 3, "second": 6}[unit])
    if unit == "week":
        return Decimal(toward_zero(parts.day, 7))
    if unit == "quarter":
        return Decimal(toward_zero(parts.month, 3) + 1)
    if unit in ("decade", "century", "millennium"):
        return Decimal(toward_zero(parts.year, {"decade": 10, "century": 100, "millennium": 1000}[unit]))
    return Decimal(getattr(parts, unit))


def _as_float(extract: Callable[..., Decimal | None]) -> Callable[..., float | None]:
    def part(*args: Any) -> float | None:
        value = extract(*args)
        return None if value is None else float(value)

    return part


implements("timestamp_part")(_as_float(extract_timestamp))
implements("timestamptz_part", context=True)(_as_float(extract_timestamptz))
implements("time_part")(_as_float(extract_time))
implements("timetz_part")(_as_float(extract_timetz))
implements("interval_part", context=True)(_as_float(extract_interval))


@implements("date_part(text,date)")
def date_part(word: str, days: int) -> float | None:
    value = extract_timestamp(word, date_as_timestamp(days))
    return None if value is None else float(value)


# ---------------------------------------------------------------------------------------------------------- date_trunc

_TRUNCATED = ["microsecond", "millisecond", "second", "minute", "hour", "day", "month", "quarter", "year"]
_LONG = ["decade", "century", "millennium"]


def _truncate(unit: str, fields: Fields) -> None:
    """Set all fields smaller than a unit to their first value."""
    if unit == "week":
        year, week = iso_week(fields.year, fields.month, fields.day)
        fields.year, fields.month, fields.day = from_julian(iso_start(year) + (week - 1) * 7)
        level = _TRUNCATED.index("day")
    else:
        level = len(_TRUNCATED) if unit in _LONG else _TRUNCATED.index(unit)
    if unit == "millennium":
        fields.year = (
            _year_units(fields.year)["millennium"] * 1000 - 999 if fields.year > 0 else _before(fields.year, 999)
        )
    elif unit == "century":
        fields.year = _year_units(fields.year)["century"] * 100 - 99 if fields.year > 0 else _before(fields.year, 99)
    elif unit == "decade":
        fields.year = fields.year // 10 * 10 if fields.year > 0 else -((8 - (fields.year - 1)) // 10) * 10
    if level >= _TRUNCATED.index("year"):
        fields.month = 1
    if level >= _TRUNCATED.index("quarter"):
        fields.month = (fields.month - 1) // 3 * 3 + 1
    if level >= _TRUNCATED.index("month"):
        fields.day = 1
    if level >= _TRUNCATED.index("day"):
        fields.hour = 0
    if level >= _TRUNCATED.index("hour"):
        fields.minute = 0
    if level >= _TRUNCATED.index("minute"):
        fields.second = 0
    if level >= _TRUNCATED.index("second"):
        fields.usec = 0
    elif level == _TRUNCATED.index("millisecond"):
        fields.usec = fields.usec // 1000 * 1000


def _before(year: int, rest: int) -> int:
    """The first year of a century or millennium BC."""
    return -((rest - (year - 1)) // (rest + 1)) * (rest + 1) + 1


_MOMENT_UNITS = {*_TRUNCATED, *_LONG, "week"}


def moment_unit(word: str) -> str:
    """The unit of date_trunc on timestamps, or the error for a unit that it does not have."""
    return unit_of(word, _MOMENT_UNITS, "timestamp without time zone", date_words=False)


@implements("timestamp_trunc")
def timestamp_trunc(word: str, value: int) -> int:
    if abs(value) == INFINITY:
        return value
    unit = moment_unit(word)
    fields = fields_of_timestamp(value)
    _truncate(unit, fields)
    return checked_timestamp(timestamp_of(fields))


def _trunc_in_zone(word: str, value: int, zone: Zone) -> int:
    if abs(value) == INFINITY:
        return value
    unit = unit_of(word, _MOMENT_UNITS, "timestamp with time zone", date_words=False)
    fields = zoned_fields(value, zone)
    _truncate(unit, fields)
    if unit not in ("microsecond", "millisecond", "second", "minute", "hour"):
        fields.zone = zone.of_local(fields)
    return checked_timestamp(timestamp_of(fields) + fields.zone * USECS_PER_SEC)


@implements("timestamptz_trunc", context=True)
def timestamptz_trunc(call: Call, word: str, value: int) -> int:
    return _trunc_in_zone(word, value, session_zone(call.style))


@implements("timestamptz_trunc_zone")
def timestamptz_trunc_zone(word: str, value: int, name: str) -> int:
    if abs(value) == INFINITY:
        return value
    return _trunc_in_zone(word, value, named_zone(name))


@implements("interval_trunc")
def interval_trunc(word: str, value: Interval) -> Interval:
    if not is_finite(value):
        return value
    lower = _lower(word)
    if UNITS.get(lower) == "week":
        raise PgError(
            "0A000", f'unit "{lower}" not supported for type interval', detail="Months usually have fractional weeks."
        )
    unit = unit_of(word, {*_TRUNCATED, *_LONG}, "interval", date_words=False)
    months, days, usecs = value
    clock = {"day": USECS_PER_DAY, "hour": USECS_PER_HOUR, "minute": USECS_PER_MINUTE, "second": USECS_PER_SEC}
    clock |= {"millisecond": 1000, "microsecond": 1}
    if unit in clock:
        return made(months, days, toward_zero(usecs, clock[unit]) * clock[unit] if unit != "day" else 0)
    span = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}[unit]
    return made(toward_zero(months, span) * span, 0, 0)


@implements("timestamp_bin", "timestamptz_bin")
def timestamp_bin(stride: Interval, value: int, origin: int) -> int:
    if abs(value) == INFINITY:
        return value
    if abs(origin) == INFINITY:
        raise PgError("22008", "origin out of range")
    if not is_finite(stride):
        raise PgError("22008", "timestamps cannot be binned into infinite intervals")
    if stride.months:
        raise PgError("0A000", "timestamps cannot be binned into intervals containing months or years")
    usecs = stride.days * USECS_PER_DAY + stride.usecs
    if usecs <= 0:
        raise PgError("22008", "stride must be greater than zero")
    return checked_timestamp(origin + (value - origin) // usecs * usecs)
