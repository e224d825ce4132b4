"""to_char of dates, times and intervals; to_timestamp and to_date."""

from __future__ import annotations

from dataclasses import dataclass

from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.functions.times.date_fields import iso_start, iso_week, toward_zero
from pgrepl.expr.functions.times.templates import (
    ROMAN_MONTHS,
    FromCharScanner,
    Node,
    TmFromChar,
    invalid,
    ordinal_suffix,
    parse_template,
)
from pgrepl.ground.errors import PgError
from pgrepl.types.times.dates import (
    DAYS,
    EPOCH_JULIAN,
    INFINITY,
    MONTHS,
    USECS_PER_SEC,
    Fields,
    days_in_month,
    fields_of_timestamp,
    from_julian,
    is_valid_date,
    is_valid_julian,
    is_valid_timestamp,
    julian,
    timestamp_of,
    weekday,
)
from pgrepl.types.times.datetime import fit_timestamp, local_fields
from pgrepl.types.times.datetime_decoding import MAX_ZONE_HOUR, session_zone
from pgrepl.types.times.datetime_tokens import InputError, report
from pgrepl.types.times.interval import Interval, is_finite, parts_of

implements = Family()


@dataclass(slots=True)
class _Moment:
    fields: Fields
    yday: int
    wday: int
    is_interval: bool = False

    @property
    def year(self) -> int:
        """The year as printed."""
        year = self.fields.year
        return year if self.is_interval or year > 0 else 1 - year


_NOT_FOR_INTERVALS = {"TZ", "tz", "TZH", "TZM", "OF", "A.D.", "a.d.", "B.C.", "b.c.", "AD", "ad", "BC", "bc", "MONTH"}
_NOT_FOR_INTERVALS |= {"Month", "month", "MON", "Mon", "mon", "DAY", "Day", "day", "DY", "Dy", "dy", "D", "ID"}


@implements("timestamp_to_char")
def timestamp_to_char(value: int, template: str) -> str | None:
    if not template or abs(value) == INFINITY:
        return None
    return _format(_moment(fields_of_timestamp(value)), template)


@implements("timestamptz_to_char", context=True)
def timestamptz_to_char(call: Call, value: int, template: str) -> str | None:
    if not template or abs(value) == INFINITY:
        return None
    return _format(_moment(local_fields(value, call.style)), template)


def _moment(fields: Fields) -> _Moment:
    day = julian(fields.year, fields.month, fields.day)
    return _Moment(fields, day - julian(fields.year, 1, 1) + 1, weekday(day))


@implements("interval_to_char")
def interval_to_char(value: Interval, template: str) -> str | None:
    if not template or not is_finite(value):
        return None
    parts = parts_of(value)
    fields = Fields(parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second, parts.usec)
    return _format(_Moment(fields, (parts.year * 12 + parts.month) * 30 + parts.day, 0, is_interval=True), template)


def _format(moment: _Moment, template: str) -> str:
    return "".join(_shown(moment, node) for node in parse_template(template))


def _shown(moment: _Moment, node: Node) -> str:
    if node.kind != "pattern":
        return node.text
    if moment.is_interval and node.word in _NOT_FOR_INTERVALS:
        raise PgError(
            "22007",
            "invalid format specification for an interval value",
            hint="Intervals are not tied to specific calendar dates.",
        )
    text = _name(moment, node)
    if text is None:
        text = _number(moment, node)
        if text and node.ordinal and node.word not in ("OF", "TZH", "TZM"):
            text += ordinal_suffix(text, node.ordinal)
    return text


def _name(moment: _Moment, node: Node) -> str | None:
    """The text of a pattern that prints a word; None: it prints a number."""
    fields, word = moment.fields, node.word
    upper = word.upper()
    if upper in ("AM", "PM", "A.M.", "P.M."):
        half = "P" if fields.hour % 24 >= 12 else "A"
        text = f"{half}.M." if "." in word else f"{half}M"
    elif upper in ("AD", "BC", "A.D.", "B.C."):
        era = "BC" if fields.year <= 0 else "AD"
        text = f"{era[0]}.{era[1]}." if "." in word else era
    elif upper in ("MONTH", "MON", "DAY", "DY"):
        name = MONTHS[fields.month - 1] if upper.startswith("M") else DAYS[moment.wday]
        short = upper in ("MON", "DY")
        text = name[:3] if short else name if node.fill or node.translate else name.ljust(9)
        return text.upper() if word.isupper() else text.lower() if word.islower() else text
    elif upper == "RM":
        text = _roman(moment, node)
    elif upper == "TZ":
        text = fields.abbreviation or ""
    else:
        return "" if upper == "FX" else None
    return text.lower() if word.islower() else text if upper == "TZ" else text.upper()


def _roman(moment: _Moment, node: Node) -> str:
    month = moment.fields.month
    if moment.is_interval and not month and not moment.fields.year:
        return ""
    if not month:
        month = 12 if moment.fields.year >= 0 else -12
    name = ROMAN_MONTHS[12 - month if month > 0 else -month - 1]
    return name if node.fill else name.ljust(4)


def _padded(value: int, width: int, node: Node) -> str:
    """The number as C's %0*d prints it; the sign counts."""
    if node.fill:
        return str(value)
    return f"{value:0{width + (value < 0)}d}"


def _number(moment: _Moment, node: Node) -> str:
    fields, word = moment.fields, node.word
    if word.startswith("FF") or word in ("MS", "US"):
        digits = {"MS": 3, "US": 6}.get(word) or int(word[2])
        return f"{abs(fields.usec) // 10 ** (6 - digits) * (1 if fields.usec >= 0 else -1):0{digits}d}"
    if word in ("HH", "HH12"):
        hour = abs(fields.hour) % 12 * (1 if fields.hour >= 0 else -1)
        return str(hour or 12) if node.fill else f"{hour or 12:0{2 if fields.hour >= 0 else 3}d}"
    two = {"HH24": fields.hour, "MI": fields.minute, "SS": fields.second, "MM": fields.month}
    if word in two:
        return _padded(two[word], 2, node)
    if word in ("SSSS", "SSSSS"):
        return str(fields.hour * 3600 + fields.minute * 60 + fields.second)
    if word in ("TZH", "TZM", "OF"):
        return _zone(fields, node)
    return _day_or_year(moment, node)


def _zone(fields: Fields, node: Node) -> str:
    minutes = abs(fields.zone) // 60
    sign = "+" if fields.zone <= 0 else "-"
    if node.word == "TZM":
        return f"{minutes % 60:02d}"
    hours = str(minutes // 60) if node.fill and node.word == "OF" else f"{minutes // 60:02d}"
    rest = f":{minutes % 60:02d}" if node.word == "OF" and abs(fields.zone) % 3600 else ""
    return sign + hours + rest


def _day_or_year(moment: _Moment, node: Node) -> str:
    fields, word = moment.fields, node.word
    if word in ("DDD", "IDDD"):
        return _wide(moment.yday if word == "DDD" else _iso_day(moment), 3, node)
    if word == "DD":
        return _wide(fields.day, 2, node)
    if word == "D":
        return str(moment.wday + 1)
    if word == "ID":
        return str(moment.wday or 7)
    if word == "WW":
        return _wide(toward_zero(moment.yday - 1, 7) + 1, 2, node)
    if word == "IW":
        return _wide(iso_week(fields.year, fields.month, fields.day)[1], 2, node)
    if word == "W":
        return str(toward_zero(fields.day - 1, 7) + 1)
    if word == "Q":
        return str(toward_zero(fields.month - 1, 3) + 1) if fields.month else ""
    if word == "J":
        return str(julian(fields.year, fields.month, fields.day))
    if word == "CC":
        return _century(moment, node)
    return _year(moment, node)


def _wide(value: int, width: int, node: Node) -> str:
    """A number padded to a width that includes its sign."""
    return str(value) if node.fill else f"{value:0{width}d}"


def _iso_day(moment: _Moment) -> int:
    fields = moment.fields
    year, _ = iso_week(fields.year, fields.month, fields.day)
    return julian(fields.year, fields.month, fields.day) - iso_start(year) + 1


def _century(moment: _Moment, node: Node) -> str:
    year = moment.fields.year
    if moment.is_interval:
        century = toward_zero(year, 100)
    elif year > 0:
        century = (year - 1) // 100 + 1
    else:
        century = -(-year // 100) - 1
    return _padded(century, 2, node) if abs(century) <= 99 else str(century)


def _year(moment: _Moment, node: Node) -> str:
    fields, word = moment.fields, node.word
    year = shown = moment.year
    if word.startswith("I"):
        shown, _ = iso_week(fields.year, fields.month, fields.day)
        if not moment.is_interval and shown <= 0:
            shown = 1 - shown
    if word == "Y,YYY":
        thousands = toward_zero(year, 1000)
        return f"{thousands},{year - thousands * 1000:03d}"
    digits = len(word)
    if digits < 4:
        shown -= toward_zero(shown, 10**digits) * 10**digits
    return _wide(shown, digits + (year < 0), node)


# --- from char --------------------------------------------------------------------------------------------------------


def _out_of_range(text: str) -> PgError:
    return report(InputError("field"), text, "timestamp")


def parse_fields(text: str, template: str, standard: bool = False) -> tuple[Fields, TmFromChar]:
    """The date/time fields of a text, as do_to_timestamp gives them."""
    tmfc = FromCharScanner(text, parse_template(template, standard=standard), standard).run()
    fields = Fields(year=0, month=1, day=1)
    _set_clock(fields, tmfc)
    given = _set_year(fields, tmfc)
    given |= _set_days(fields, tmfc)
    fields.usec = tmfc.msec * 1000 + tmfc.usec
    if given and not _is_date(fields):
        raise _out_of_range(text)
    clock = 0 <= fields.hour < 24 and 0 <= fields.minute < 60 and 0 <= fields.second < 60
    if not clock or not 0 <= fields.usec < USECS_PER_SEC:
        raise _out_of_range(text)
    if tmfc.zone_sign and not (0 <= tmfc.zone_hour <= MAX_ZONE_HOUR and 0 <= tmfc.zone_minute < 60):
        raise report(InputError("zone_displacement"), text, "timestamp")
    return fields, tmfc


def _is_date(fields: Fields) -> bool:
    return 1 <= fields.month <= 12 and 1 <= fields.day <= days_in_month(fields.year, fields.month)


def _set_clock(fields: Fields, tmfc: TmFromChar) -> None:
    if tmfc.day_seconds:
        minutes, fields.second = divmod(tmfc.day_seconds, 60)
        fields.hour, fields.minute = divmod(minutes, 60)
    fields.second = tmfc.second or fields.second
    fields.minute = tmfc.minute or fields.minute
    fields.hour = tmfc.hour or fields.hour
    if not tmfc.twelve_hours:
        return
    if not 1 <= fields.hour <= 12:
        raise invalid(
            f'hour "{fields.hour}" is invalid for the 12-hour clock',
            hint="Use the 24-hour clock, or give an hour between 1 and 12.",
        )
    fields.hour = fields.hour % 12 + (12 if tmfc.pm else 0)


def _set_year(fields: Fields, tmfc: TmFromChar) -> bool:
    century = -tmfc.century if tmfc.bc else tmfc.century
    if tmfc.year and tmfc.century and tmfc.year_digits <= 2:
        rest = tmfc.year % 100
        if rest:
            fields.year = (century - 1) * 100 + rest if century >= 0 else (century + 1) * 100 - rest + 1
        else:
            fields.year = century * 100 + (0 if century >= 0 else 1)
    elif tmfc.year:
        year = -tmfc.year if tmfc.bc else tmfc.year
        fields.year = year + 1 if year < 0 else year
    elif tmfc.century:
        fields.year = (century - 1) * 100 + 1 if century >= 0 else century * 100 + 1
    return bool(tmfc.year or tmfc.century)


def _monday_of_week(year: int, week: int) -> int:
    fourth = julian(year, 1, 4)
    return fourth - (weekday(fourth) - 1) % 7 + (week - 1) * 7


def _set_days(fields: Fields, tmfc: TmFromChar) -> bool:
    given = False

    def set_julian(day: int) -> None:
        fields.year, fields.month, fields.day = from_julian(day)

    if tmfc.julian:
        set_julian(tmfc.julian)
        given = True
    if tmfc.week and tmfc.mode == "iso":
        monday = _monday_of_week(fields.year, tmfc.week)
        set_julian(monday + ((tmfc.weekday - 2) % 7 if tmfc.weekday else 0))
        given = True
    elif tmfc.week:
        tmfc.day_of_year = (tmfc.week - 1) * 7 + 1
    if tmfc.week_of_month:
        tmfc.day = (tmfc.week_of_month - 1) * 7 + 1
    if tmfc.day:
        fields.day = tmfc.day
    if tmfc.month:
        fields.month = tmfc.month
    given = given or bool(tmfc.day or tmfc.month)
    if tmfc.day_of_year and (fields.month <= 1 or fields.day <= 1):
        if not fields.year and not tmfc.bc:
            raise invalid("cannot calculate day of year without year information")
        if tmfc.mode == "iso":
            set_julian(_monday_of_week(fields.year, 1) - 1 + tmfc.day_of_year)
        else:
            _set_day_of_year(fields, tmfc.day_of_year)
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


def given_zone(fields: Fields, tmfc: TmFromChar) -> int | None:
    """The time zone that a text names, in seconds west of Greenwich."""
    if tmfc.zone_sign:
        return -tmfc.zone_sign * (tmfc.zone_hour * 60 + tmfc.zone_minute) * 60
    if tmfc.zone is not None:
        return -tmfc.zone
    if tmfc.dynamic is None:
        return None
    zone, word = tmfc.dynamic
    west, moment = zone.resolve_local(fields)
    meant = zone.abbreviated(word, moment)
    return west if meant is None else -meant.seconds


@implements("to_timestamp", context=True)
def to_timestamp(call: Call, text: str, template: str) -> int:
    fields, tmfc = parse_fields(text, template)
    west = given_zone(fields, tmfc)
    if west is None:
        west = session_zone(call.style).of_local(fields)
    value = timestamp_of(fields) + west * USECS_PER_SEC
    if not is_valid_julian(fields.year, fields.month) or not is_valid_timestamp(value):
        raise PgError("22008", "timestamp out of range")
    return fit_timestamp(value, tmfc.digits) if tmfc.digits else value


@implements("to_date")
def to_date(text: str, template: str) -> int:
    fields, _ = parse_fields(text, template)
    if is_valid_julian(fields.year, fields.month):
        days = julian(fields.year, fields.month, fields.day) - EPOCH_JULIAN
        if is_valid_date(days):
            return days
    raise PgError("22008", f'date out of range: "{text}"')
