"""to_timestamp and to_date: parsing a text by a template."""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.functions.from_char_scanner import FromCharScanner, TmFromChar, invalid
from pgrepl.expr.functions.registry import Family
from pgrepl.expr.functions.templates import parse_template
from pgrepl.types.dates import (
    EPOCH_JULIAN,
    USECS_PER_SEC,
    Fields,
    days_in_month,
    from_julian,
    is_valid_date,
    is_valid_julian,
    is_valid_timestamp,
    julian,
    timestamp_of,
    weekday,
)
from pgrepl.types.datetime import fit_timestamp
from pgrepl.types.datetime_decoding import MAX_ZONE_HOUR, session_zone
from pgrepl.types.datetime_tokens import InputError, report

implements = Family()


def _out_of_range(text: str) -> PgError:
    return report(InputError("field"), text, "timestamp")


def parse_fields(text: str, template: str, standard: bool = False) -> tuple[Fields, TmFromChar]:
    """The date/time fields of a text, as do_to_timestamp gives them."""
    found = FromCharScanner(text, parse_template(template, standard=standard), standard).run()
    fields = Fields(year=0, month=1, day=1)
    _set_clock(fields, found)
    given = _set_year(fields, found)
    given |= _set_days(fields, found)
    fields.usec = found.msec * 1000 + found.usec
    if given and not _is_date(fields):
        raise _out_of_range(text)
    clock = 0 <= fields.hour < 24 and 0 <= fields.minute < 60 and 0 <= fields.second < 60
    if not clock or not 0 <= fields.usec < USECS_PER_SEC:
        raise _out_of_range(text)
    if found.zone_sign and not (0 <= found.zone_hour <= MAX_ZONE_HOUR and 0 <= found.zone_minute < 60):
        raise report(InputError("zone_displacement"), text, "timestamp")
    return fields, found


def _is_date(fields: Fields) -> bool:
    return 1 <= fields.month <= 12 and 1 <= fields.day <= days_in_month(fields.year, fields.month)


def _set_clock(fields: Fields, found: TmFromChar) -> None:
    if found.day_seconds:
        minutes, fields.second = divmod(found.day_seconds, 60)
        fields.hour, fields.minute = divmod(minutes, 60)
    fields.second = found.second or fields.second
    fields.minute = found.minute or fields.minute
    fields.hour = found.hour or fields.hour
    if not found.twelve_hours:
        return
    if not 1 <= fields.hour <= 12:
        raise invalid(
            f'hour "{fields.hour}" is invalid for the 12-hour clock',
            hint="Use the 24-hour clock, or give an hour between 1 and 12.",
        )
    fields.hour = fields.hour % 12 + (12 if found.pm else 0)


def _set_year(fields: Fields, found: TmFromChar) -> bool:
    century = -found.century if found.bc else found.century
    if found.year and found.century and found.year_digits <= 2:
        rest = found.year % 100
        if rest:
            fields.year = (century - 1) * 100 + rest if century >= 0 else (century + 1) * 100 - rest + 1
        else:
            fields.year = century * 100 + (0 if century >= 0 else 1)
    elif found.year:
        year = -found.year if found.bc else found.year
        fields.year = year + 1 if year < 0 else year
    elif found.century:
        fields.year = (century - 1) * 100 + 1 if century >= 0 else century * 100 + 1
    return bool(found.year or found.century)


def _monday_of_week(year: int, week: int) -> int:
    fourth = julian(year, 1, 4)
    return fourth - (weekday(fourth) - 1) % 7 + (week - 1) * 7


def _set_days(fields: Fields, found: TmFromChar) -> bool:
    given = False

    def set_julian(day: int) -> None:
        fields.year, fields.month, fields.day = from_julian(day)

    if found.julian:
        set_julian(found.julian)
        given = True
    if found.week and found.mode == "iso":
        monday = _monday_of_week(fields.year, found.week)
        set_julian(monday + ((found.weekday - 2) % 7 if found.weekday else 0))
        given = True
    elif found.week:
        found.day_of_year = (found.week - 1) * 7 + 1
    if found.week_of_month:
        found.day = (found.week_of_month - 1) * 7 + 1
    if found.day:
        fields.day = found.day
    if found.month:
        fields.month = found.month
    given = given or bool(found.day or found.month)
    if found.day_of_year and (fields.month <= 1 or fields.day <= 1):
        if not fields.year and not found.bc:
            raise invalid("cannot calculate day of year without year information")
        if found.mode == "iso":
            set_julian(_monday_of_week(fields.year, 1) - 1 + found.day_of_year)
        else:
            _set_day_of_year(fields, found.day_of_year)
        given = True
    return given


def _set_day_of_year(fields: Fields, day: int) -> None:
    month, before = 1, 0
    while month <= 12 and day > before + days_in_month(fields.year, month):
        before += days_in_month(fields.year, month)
        month += 1
    if fields.month <= 1:
        fields.month = month
    if fields.day <= 1:
        fields.day = day - before


def given_zone(fields: Fields, found: TmFromChar) -> int | None:
    """The time zone that a text names, in seconds west of Greenwich."""
    if found.zone_sign:
        return -found.zone_sign * (found.zone_hour * 60 + found.zone_minute) * 60
    if found.zone is not None:
        return -found.zone
    if found.dynamic is None:
        return None
    zone, word = found.dynamic
    west, moment = zone.resolve_local(fields)
    meant = zone.abbreviated(word, moment)
    return west if meant is None else -meant.seconds


@implements("to_timestamp", context=True)
def to_timestamp(call: Call, text: str, template: str) -> int:
    fields, found = parse_fields(text, template)
    west = given_zone(fields, found)
    if west is None:
        west = session_zone(call.style).of_local(fields)
    value = timestamp_of(fields) + west * USECS_PER_SEC
    if not is_valid_julian(fields.year, fields.month) or not is_valid_timestamp(value):
        raise PgError("22008", "timestamp out of range")
    return fit_timestamp(value, found.digits) if found.digits else value


@implements("to_date")
def to_date(text: str, template: str) -> int:
    fields, _ = parse_fields(text, template)
    if is_valid_julian(fields.year, fields.month):
        days = julian(fields.year, fields.month, fields.day) - EPOCH_JULIAN
        if is_valid_date(days):
            return days
    raise PgError("22008", f'date out of range: "{text}"')
