"""The input of interval: units in words, the SQL standard's years-months and days-time, ISO 8601 durations.

>>> read_interval("1 year 2-3 4 days 05:06:07.8", -1, DEFAULT_STYLE)
Interval(months=27, days=4, usecs=18367800000)
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pgrepl.types import oids
from pgrepl.types.names import (
    INTERVAL_DAY,
    INTERVAL_FULL_RANGE,
    INTERVAL_HOUR,
    INTERVAL_MINUTE,
    INTERVAL_MONTH,
    INTERVAL_SECOND,
    INTERVAL_YEAR,
)
from pgrepl.types.style import TextStyle
from pgrepl.types.times.dates import USECS_PER_DAY, USECS_PER_HOUR, USECS_PER_MINUTE, USECS_PER_SEC, Fields, time_of
from pgrepl.types.times.datetime_decoding import decode_clock, fraction
from pgrepl.types.times.datetime_tokens import (
    DATE,
    NUMBER,
    TIME,
    TOKENS,
    ZONE,
    DateTimeToken,
    InputError,
    bad_format,
    field_overflow,
    report,
    split_fields,
)
from pgrepl.types.times.interval import (
    INFINITE,
    INT4_MAX,
    INT8_MAX,
    MINUS_INFINITE,
    Interval,
    fit_interval,
    out_of_range,
)

_WORDS = {
    "microsecond": "us usec usecs useconds microsecon",
    "millisecond": "ms msec msecs mseconds millisecon",
    "second": "s sec secs second seconds",
    "minute": "m min mins minute minutes",
    "hour": "h hr hrs hour hours",
    "day": "d day days",
    "week": "w week weeks",
    "month": "mon mons month months",
    "quarter": "qtr quarter",
    "year": "y yr yrs year years",
    "decade": "dec decs decade decades",
    "century": "c cent century centuries",
    "millennium": "mil mils millennia millennium",
    "timezone": "timezone",
    "timezone_hour": "timezone_h",
    "timezone_minute": "timezone_m",
}
UNITS = {word: unit for unit, words in _WORDS.items() for word in words.split()}
_TOKENS = {word: DateTimeToken("units", unit) for word, unit in UNITS.items()}
_TOKENS |= {"ago": DateTimeToken("ago", None), "@": DateTimeToken("ignore", None)}
_TOKEN_LENGTH = 10  # characters of a word that are compared (TOKMAXLEN)

_USECS = {"microsecond": 1, "millisecond": 1000, "second": USECS_PER_SEC}
_USECS |= {"minute": USECS_PER_MINUTE, "hour": USECS_PER_HOUR}
_YEARS = {"year": 1, "decade": 10, "century": 100, "millennium": 1000}

# The unit of a bare number at the end, by the fields that the type is limited to.
_LAST_FIELD = [
    (INTERVAL_SECOND, "second"),
    (INTERVAL_MINUTE, "minute"),
    (INTERVAL_HOUR, "hour"),
    (INTERVAL_DAY, "day"),
    (INTERVAL_MONTH, "month"),
    (INTERVAL_YEAR, "year"),
]


class _Sum:
    """An interval being added up; each component must stay in its integer type's range."""

    def __init__(self) -> None:
        self.years = self.months = self.days = self.usecs = 0

    def check(self) -> None:
        small = (self.years, self.months, self.days)
        if any(not -INT4_MAX - 1 <= part <= INT4_MAX for part in small) or not -INT8_MAX - 1 <= self.usecs <= INT8_MAX:
            raise field_overflow()

    def add(self, unit: str, value: int, part: float) -> None:
        """Add a value and a fraction of a unit; the fraction goes to smaller units."""
        if unit in _USECS:
            self.usecs += value * _USECS[unit]
            self.check()
            self.add_fraction(part, _USECS[unit])
        else:
            if not -INT4_MAX - 1 <= value <= INT4_MAX:
                raise field_overflow()
            if unit == "day":
                self.days += value
                self.add_fraction(part, USECS_PER_DAY)
            elif unit == "week":
                self.check_product(value, 7)
                self.days += value * 7
                self.add_days(part, 7)
            elif unit == "month":
                self.months += value
                self.add_days(part, 30)
            elif unit in _YEARS:
                self.check_product(value, _YEARS[unit])
                self.years += value * _YEARS[unit]
                self.months += round(part * _YEARS[unit] * 12)
            else:
                raise bad_format()
        self.check()

    def check_product(self, value: int, scale: int) -> None:
        if not -INT4_MAX - 1 <= value * scale <= INT4_MAX:
            raise field_overflow()

    def add_days(self, part: float, scale: int) -> None:
        part *= scale
        whole = int(part)
        self.days += whole
        self.add_fraction(part - whole, USECS_PER_DAY)

    def add_fraction(self, part: float, scale: int) -> None:
        part *= scale
        usecs = int(part)
        part -= usecs
        self.usecs += usecs + (1 if part > 0.5 else -1 if part < -0.5 else 0)
        self.check()

    def negate(self) -> None:
        self.years, self.months, self.days, self.usecs = -self.years, -self.months, -self.days, -self.usecs
        self.check()


def read_interval(text: str, typmod: int, style: TextStyle) -> Interval:
    fields = typmod >> 16 & 0x7FFF if typmod >= 0 else INTERVAL_FULL_RANGE
    try:
        try:
            value = _decode(text, fields, style)
        except InputError as error:
            if error.kind != "format":
                raise
            value = _decode_iso(text)
    except InputError as error:
        raise report(InputError("interval") if error.kind == "field" else error, text, "interval") from None
    return fit_interval(value, typmod)


def _finish(total: _Sum) -> Interval:
    months = total.years * 12 + total.months
    if not -INT4_MAX - 1 <= months <= INT4_MAX:
        raise out_of_range()
    return Interval(months, total.days, total.usecs)


def _decode(text: str, fields: int, style: TextStyle) -> Interval:
    """Decode fields as DecodeInterval does: from the right, so that a unit is known before its number."""
    words = split_fields(text, 255)
    total = _Sum()
    seen: set[str] = set()
    unit = ""
    unit_waits = False
    ago = False
    special: Interval | None = None
    signs = [word for _, word in words if word[0] in "+-"]
    negative = style.intervalstyle == "sql_standard" and bool(words) and words[0][1][0] == "-" and len(signs) == 1

    def take(*parts: str) -> None:
        if seen.intersection(parts):
            raise bad_format()
        seen.update(parts)

    for index in range(len(words) - 1, -1, -1):
        kind, word = words[index]
        if kind == TIME or (kind == ZONE and _is_clock(word[1:], fields)):
            total.usecs = _clock_usecs(word.lstrip("+-"), fields)
            if word[0] == "-" or (negative and total.usecs > 0):
                total.usecs = -total.usecs
            total.check()
            unit, unit_waits = "day", False
            take("hour", "minute", "second", "millisecond", "microsecond")
        elif kind in (ZONE, DATE, NUMBER):
            value, part, months_given = _number(word)
            unit = "month" if months_given else unit or _last_field(fields)
            if negative:
                value, part = -abs(value), -abs(part)
            total.add(unit, value, part)
            if unit == "second" and part:
                take("second", "millisecond", "microsecond")
            else:
                take(unit)
            if unit == "hour":
                unit = "day"
            unit_waits = False
        else:
            if unit_waits:
                raise bad_format()
            token = _TOKENS.get(word[:_TOKEN_LENGTH]) or TOKENS.get(word)
            last = index == len(words) - 1
            if token is None:
                raise bad_format()
            if token.kind == "ignore":
                continue
            if token.kind == "units":
                unit, unit_waits = str(token.value), True
            elif token.kind == "ago" and last:
                ago = True
            elif token.kind == "reserved" and token.value in ("infinity", "-infinity") and last:
                special = INFINITE if token.value == "infinity" else MINUS_INFINITE
                take("year", "month", "day", "hour", "minute", "second", "millisecond", "microsecond")
            else:
                raise bad_format()
    if not seen or unit_waits:
        raise bad_format()
    if ago:
        total.negate()
    return special or _finish(total)


def _is_clock(word: str, fields: int) -> bool:
    if ":" not in word:
        return False
    try:
        _clock_usecs(word, fields)
    except InputError:
        return False
    return True


def _clock_usecs(word: str, fields: int) -> int:
    clock = Fields()
    decode_clock(word, clock, minutes_first=fields == INTERVAL_MINUTE | INTERVAL_SECOND)
    usecs = time_of(clock)
    if usecs > INT8_MAX:
        raise field_overflow()
    return usecs


def _last_field(fields: int) -> str:
    return next((unit for mask, unit in _LAST_FIELD if fields & mask), "second")


_NUMBER = re.compile(r"([-+]?[0-9]*)(?:(-)((?:[-+]?[0-9]+)?))?(.*)", re.ASCII)


def _number(word: str) -> tuple[int, float, bool]:
    """A number with its fraction, or years-months as months."""
    match = _NUMBER.fullmatch(word)
    if match is None:
        raise bad_format()
    value = int(match[1]) if match[1].strip("+-") else 0
    if not -INT8_MAX - 1 <= value <= INT8_MAX:
        raise field_overflow()
    if match[2]:
        months = int(match[3]) if match[3].strip("+-") else 0
        if not 0 <= months < 12:
            raise field_overflow()
        if match[4]:
            raise bad_format()
        total = value * 12 + (-months if word[0] == "-" else months)
        if not -INT8_MAX - 1 <= total <= INT8_MAX:
            raise field_overflow()
        return total, 0.0, True
    if not match[4]:
        return value, 0.0, False
    if match[4][0] != ".":
        raise bad_format()
    part = fraction(match[4])
    return value, -part if word[0] == "-" else part, False


_ISO_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_ISO_DATE = {"Y": "year", "M": "month", "W": "week", "D": "day"}
_ISO_TIME = {"H": "hour", "M": "minute", "S": "second"}


class _Iso:
    """A cursor over an ISO 8601 duration."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 1
        self.start = 1

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def number(self) -> tuple[int, float]:
        match = _ISO_NUMBER.match(self.text, self.at)
        if match is None or match[0][0] == "+":
            raise bad_format()
        value = float(match[0])
        if value in (float("inf"), float("-inf")):
            raise bad_format()
        if abs(value) > 1.0e15:
            raise field_overflow()
        self.start, self.at = self.at, match.end()
        return int(value), value - int(value)

    def width(self) -> int:
        """Digits of the number just read."""
        digits = self.text[self.start :].removeprefix("-")
        return len(digits) - len(digits.lstrip("0123456789"))


def _decode_iso(text: str) -> Interval:
    """As DecodeISO8601Interval does: P1Y2M3DT4H5M6.7S, P0001-02-03T04:05:06, P00010203T040506."""
    if len(text) < 2 or text[0] != "P":
        raise bad_format()
    total = _Sum()
    iso = _Iso(text)
    in_date = True
    fields_seen = False
    while iso.peek():
        if iso.peek() == "T":
            in_date, fields_seen = False, False
            iso.at += 1
            continue
        value, part = iso.number()
        unit = iso.peek()
        units = _ISO_DATE if in_date else _ISO_TIME
        if unit in units:
            iso.at += 1
            total.add(units[unit], value, part)
            fields_seen = True
            continue
        if fields_seen or unit not in (("", "T", "-") if in_date else ("", ":")):
            raise bad_format()
        (_alternative_date if in_date else _alternative_time)(iso, total, value, part)
        if not iso.peek():
            break
    return _finish(total)


def _alternative_date(iso: _Iso, total: _Sum, value: int, part: float) -> None:
    if iso.width() == 8 and iso.peek() != "-":
        total.add("year", value // 10000 if value >= 0 else -(-value // 10000), 0)
        total.add("month", abs(value) // 100 % 100 * (1 if value >= 0 else -1), 0)
        total.add("day", abs(value) % 100 * (1 if value >= 0 else -1), part)
        return
    total.add("year", value, part)
    for unit in ("month", "day"):
        if iso.peek() != "-":
            break
        iso.at += 1
        total.add(unit, *iso.number())
    if iso.peek() not in ("", "T"):
        raise bad_format()


def _alternative_time(iso: _Iso, total: _Sum, value: int, part: float) -> None:
    if iso.width() == 6 and iso.peek() == "":
        sign = 1 if value >= 0 else -1
        total.add("hour", abs(value) // 10000 * sign, 0)
        total.add("minute", abs(value) // 100 % 100 * sign, 0)
        total.add("second", abs(value) % 100 * sign, 0)
        total.add_fraction(part, 1)
        return
    total.add("hour", value, part)
    for unit in ("minute", "second"):
        if iso.peek() != ":":
            break
        iso.at += 1
        total.add(unit, *iso.number())
    if iso.peek():
        raise bad_format()


READ: dict[int, Callable[[str, int, TextStyle], Interval]] = {oids.INTERVAL: read_interval}
