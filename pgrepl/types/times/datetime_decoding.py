"""The meaning of a date/time literal's fields: numbers judged by the fields before them, times, zones, final checks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from time import time_ns

from pgrepl.types.style import TextStyle
from pgrepl.types.times.dates import (
    UNIX_EPOCH_USECS,
    USECS_PER_DAY,
    USECS_PER_SEC,
    Fields,
    days_in_month,
    fields_of_timestamp,
    from_julian,
    julian,
    set_time,
    time_of,
)
from pgrepl.types.times.datetime_tokens import TOKENS, InputError, bad_format, field_overflow
from pgrepl.types.times.timezone import Zone, abbreviation, find_zone

YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, ZONE_PART, DOY = 1, 2, 4, 8, 16, 32, 64, 128
DSTMOD, DTZ, AMPM, ADBC, WEEKDAY, RESERVED = 256, 512, 1024, 2048, 4096, 8192
DATE_PARTS = YEAR | MONTH | DAY
TIME_PARTS = HOUR | MINUTE | SECOND

MAX_ZONE_HOUR = 15


@dataclass(slots=True)
class Decoding:
    """The fields decoded so far."""

    style: TextStyle
    fields: Fields = field(default_factory=Fields)
    parts: int = 0
    prefix: str = ""  # "julian" or "time": the word before labels the next number
    kind: str = "date"  # or infinity, -infinity, epoch
    text_month: bool = False
    is_julian: bool = False
    two_digits: bool = False
    bc: bool = False
    meridian: str = ""
    named: Zone | None = None
    dynamic: tuple[Zone, str] | None = None  # a zone, and the abbreviation it explains

    def add(self, parts: int) -> None:
        if parts & self.parts:
            raise bad_format()
        self.parts |= parts

    def has(self, parts: int) -> bool:
        return self.parts & parts == parts


def session_zone(style: TextStyle) -> Zone:
    zone = find_zone(style.timezone)
    assert zone is not None, style.timezone
    return zone


def current_usecs(style: TextStyle) -> int:
    """The start of the transaction; the present time without one."""
    if style.now is not None:
        return style.now
    return time_ns() // 1000 + UNIX_EPOCH_USECS


def current_fields(style: TextStyle) -> Fields:
    """The session's current local time."""
    now = current_usecs(style)
    offset = session_zone(style).at((now - UNIX_EPOCH_USECS) // USECS_PER_SEC)
    fields = fields_of_timestamp(now + offset.seconds * USECS_PER_SEC)
    fields.zone = -offset.seconds
    return fields


_INT = re.compile(r"[-+]?[0-9]+", re.ASCII)


def leading_int(text: str) -> tuple[int, str]:
    """The integer at the start of a text, as C's strtol reads it, and the rest."""
    match = _INT.match(text)
    if match is None:
        return 0, text
    value = int(match[0])
    if not -(2**31) <= value < 2**31:
        raise field_overflow()
    return value, text[match.end() :]


def fraction(text: str) -> float:
    """The number `.123`; `.` alone is 0."""
    if text == ".":
        return 0.0
    if not re.fullmatch(r"\.[0-9]+(?:e[-+]?[0-9]+)?", text, re.ASCII):
        raise bad_format()
    return float(text)


def fraction_usecs(text: str) -> int:
    return round(fraction(text) * 1_000_000)


def take_time_prefix(state: Decoding) -> None:
    if state.prefix not in ("", "time"):
        raise bad_format()
    state.prefix = ""


def time_with_zone(state: Decoding, word: str, parts: int) -> int:
    """Decode digits of a time with a zone behind them: `040506-08`."""
    digits, minus, zone = word.partition("-")
    if not minus:
        raise bad_format()
    state.fields.zone = decode_zone("-" + zone)
    return run_together(state, digits, parts)


def named_zone(word: str) -> Zone:
    zone = find_zone(word)
    if zone is None:
        raise InputError("zone", word)
    return zone


def number_field(state: Decoding, word: str) -> None:
    if state.prefix:
        value, rest = leading_int(word)
        if rest and rest[0] != ".":
            raise bad_format()
        if state.prefix == "julian":
            state.add(_julian_day(state, value, rest))
        elif state.prefix == "time":
            parts = run_together(state, word, state.parts | DATE_PARTS)
            if parts != TIME_PARTS:
                raise bad_format()
            state.add(parts)
        else:
            raise bad_format()
        state.prefix = ""
        state.kind = "date"
        return
    point = word.find(".")
    if point >= 0 and not state.parts & DATE_PARTS:
        state.add(decode_date(state, word))
    elif point > 2 or (len(word) >= 6 and not (state.parts & DATE_PARTS and state.parts & TIME_PARTS)):
        state.add(run_together(state, word, state.parts))
    else:
        state.add(decode_number(state, word, state.text_month, state.parts))


def _julian_day(state: Decoding, value: int, rest: str) -> int:
    if value < 0:
        raise field_overflow()
    state.fields.year, state.fields.month, state.fields.day = from_julian(value)
    state.is_julian = True
    if not rest:
        return DATE_PARTS
    set_time(state.fields, round(fraction(rest) * USECS_PER_DAY))
    return DATE_PARTS | TIME_PARTS


def plain_word(state: Decoding, kind: str, value: str) -> None:
    """A word with the same meaning in dates and in times."""
    if kind == "ampm":
        state.meridian = value
        state.add(AMPM)
    elif kind == "adbc":
        state.bc = value == "bc"
        state.add(ADBC)
    elif kind == "weekday":
        state.add(WEEKDAY)
    elif kind == "units":
        set_prefix(state, value)
    elif kind != "ignore":
        raise bad_format()


def set_prefix(state: Decoding, unit: str) -> None:
    if state.prefix:
        raise bad_format()
    state.prefix = unit


def zone_word(state: Decoding, word: str) -> bool:
    """Decode a time zone abbreviation, which takes precedence over all other words. False: the word is none."""
    known = abbreviation(word)
    if known is None:
        return False
    if known.zone is not None:
        zone = find_zone(known.zone)
        if zone is None:
            raise InputError("zone", known.zone)
        state.dynamic = (zone, word)
        state.add(ZONE_PART)
    else:
        state.fields.isdst = int(known.isdst)
        state.fields.zone = -known.seconds
        state.add(ZONE_PART | (DTZ if known.isdst else 0))
    return True


def summer_time_modifier(state: Decoding) -> None:
    """Decode DST behind a zone: `MET DST`."""
    state.add(DSTMOD | DTZ)
    state.fields.isdst = 1
    state.fields.zone -= 3600


def month_name(state: Decoding, month: int) -> None:
    """A month name after a number that was taken for the month: that number becomes the day."""
    fields = state.fields
    part = MONTH
    if state.has(MONTH) and not state.text_month and not state.parts & DAY and 1 <= fields.month <= 31:
        fields.day = fields.month
        part = DAY
    state.text_month = True
    fields.month = month
    state.add(part)


def decode_clock(word: str, fields: Fields, *, minutes_first: bool = False) -> None:
    """hh:mm, hh:mm:ss[.f], mm:ss.f; minutes_first: of two numbers the first are minutes (MINUTE TO SECOND)."""
    match = re.fullmatch(r"([0-9]+):([0-9]*)(?::([0-9]*))?(\.[0-9]*)?(.*)", word, re.ASCII)
    if match is None or match[5]:
        raise bad_format()
    hour, minute, second = int(match[1]), int(match[2] or 0), int(match[3] or 0)
    if hour >= 2**63 or minute >= 2**31 or second >= 2**31:
        raise field_overflow()
    usec = 0
    if match[4]:
        usec = fraction_usecs(match[4])
    if match[3] is None and (match[4] or minutes_first):
        if hour >= 2**31:
            raise field_overflow()
        hour, minute, second = 0, hour, minute
    if minute > 59 or second > 60 or usec > USECS_PER_SEC:
        raise field_overflow()
    fields.hour, fields.minute, fields.second, fields.usec = hour, minute, second, usec


def time_overflows(fields: Fields) -> bool:
    """Whether a time is beyond 24:00:00."""
    return fields.hour > 24 or fields.minute > 59 or fields.second > 60 or time_of(fields) > USECS_PER_DAY


def decode_zone(word: str) -> int:
    """`+05:30` → seconds west of Greenwich."""
    if word[:1] not in ("+", "-"):
        raise bad_format()
    match = re.match(r"([-+]?[0-9]*)(?::([-+]?[0-9]*)(?::([-+]?[0-9]*))?)?", word[1:], re.ASCII)
    assert match is not None
    hour, minute, second = (int(part) if (part or "").strip("+-") else 0 for part in match.groups())
    rest = word[1 + match.end() :]
    if max(abs(hour), abs(minute), abs(second)) >= 2**31:
        raise InputError("zone_displacement")
    if match[2] is None and not rest and len(word) > 3:
        hour, minute = divmod(hour, 100)
    if not 0 <= hour <= MAX_ZONE_HOUR or not 0 <= minute < 60 or not 0 <= second < 60:
        raise InputError("zone_displacement")
    if rest:
        raise bad_format()
    seconds = (hour * 60 + minute) * 60 + second
    return seconds if word[0] == "-" else -seconds


_PIECE = re.compile(r"[0-9]+|[A-Za-z]+", re.ASCII)


def decode_date(state: Decoding, word: str) -> int:
    """The parts of a date with delimiters, or with a month name."""
    known = state.parts
    parts = 0
    text_month = False
    numbers = []
    at = 0
    while at < len(word):
        match = _PIECE.search(word, at)
        if match is None:
            raise bad_format()
        piece = match[0]
        at = match.end() + 1  # any character behind a piece is a separator, even a letter
        if piece[0].isdigit():
            numbers.append(piece)
            continue
        token = TOKENS.get(piece)
        if token is not None and token.kind == "ignore":
            continue
        if token is None or token.kind != "month" or known & MONTH:
            raise bad_format()
        assert isinstance(token.value, int)
        state.fields.month = token.value
        text_month = True
        known |= MONTH
        parts |= MONTH
    for number in numbers:
        given = decode_number(state, number, text_month, known)
        if known & given:
            raise bad_format()
        known |= given
        parts |= given
    if known & ~(DOY | ZONE_PART) != DATE_PARTS:
        raise bad_format()
    return parts


def decode_number(state: Decoding, word: str, text_month: bool, known: int) -> int:
    """Decode a number by the parts known so far (DecodeNumber)."""
    fields = state.fields
    value, rest = leading_int(word)
    if rest == word:
        raise bad_format()
    if rest[:1] == ".":
        if len(word) - len(rest) > 2:
            return run_together(state, word, known | DATE_PARTS)
        fields.usec = fraction_usecs(rest)
    elif rest:
        raise bad_format()
    if len(word) == 3 and known & DATE_PARTS == YEAR and 1 <= value <= 366:
        fields.yday = value
        return DOY | MONTH | DAY
    order = state.style.date_order
    long = len(word) >= 3
    dates = known & DATE_PARTS
    if dates == DATE_PARTS:
        return run_together(state, word, known)
    if dates == 0:
        part = YEAR if long or order == "YMD" else DAY if order == "DMY" else MONTH
    elif dates == MONTH:
        part = YEAR if text_month and (long or order == "YMD") else DAY
    elif dates == YEAR | MONTH:
        part = DAY
        if text_month and long and state.two_digits:
            fields.day, fields.year = fields.year, value
            state.two_digits = False
            return DAY
    elif dates in (YEAR, DAY):
        part = MONTH
    elif dates == MONTH | DAY:
        part = YEAR
    else:
        raise bad_format()
    if part == YEAR:
        fields.year = value
        state.two_digits = len(word) <= 2
    elif part == MONTH:
        fields.month = value
    else:
        fields.day = value
    return part


def _atoi(digits: str) -> int:
    """An integer as C's atoi reads it: cut to 32 bits if it does not fit."""
    value = min(int(digits), 2**63 - 1) & 0xFFFFFFFF
    return value - (value >> 31 << 32)


def run_together(state: Decoding, word: str, known: int) -> int:
    """As DecodeNumberField does: yyyymmdd, yymmdd, hhmmss, hhmm, each with a fraction."""
    fields = state.fields
    digits, point, tail = word.partition(".")
    if point:
        fields.usec = round(float("." + tail) * 1_000_000) if tail else 0
    elif known & DATE_PARTS != DATE_PARTS and len(digits) >= 6:
        fields.day, fields.month, fields.year = int(digits[-2:]), int(digits[-4:-2]), _atoi(digits[:-4])
        if len(digits) == 6:
            state.two_digits = True
        return DATE_PARTS
    if known & TIME_PARTS != TIME_PARTS and len(digits) in (4, 6):
        fields.hour, fields.minute = int(digits[:2]), int(digits[2:4])
        fields.second = int(digits[4:] or 0)
        return TIME_PARTS
    raise bad_format()


def validate_date(state: Decoding) -> None:
    """Checks that the fields make a date, and puts it together (ValidateDate)."""
    fields = state.fields
    if state.parts & YEAR and not state.is_julian:
        if state.bc:
            if fields.year <= 0:
                raise field_overflow()
            fields.year = 1 - fields.year
        elif state.two_digits:
            fields.year += 2000 if fields.year < 70 else 1900 if fields.year < 100 else 0
        elif fields.year <= 0:
            raise field_overflow()
    if state.parts & DOY:
        first = julian(fields.year, 1, 1)
        fields.year, fields.month, fields.day = from_julian(first + fields.yday - 1)
    if state.parts & MONTH and not 1 <= fields.month <= 12:
        raise InputError("month_day")
    if state.parts & DAY and not 1 <= fields.day <= 31:
        raise InputError("month_day")
    if state.has(DATE_PARTS) and fields.day > days_in_month(fields.year, fields.month):
        raise field_overflow()


def apply_meridian(state: Decoding) -> None:
    fields = state.fields
    if state.meridian and fields.hour > 12:
        raise field_overflow()
    if state.meridian == "am" and fields.hour == 12:
        fields.hour = 0
    elif state.meridian == "pm" and fields.hour != 12:
        fields.hour += 12


def dynamic_zone(dynamic: tuple[Zone, str], fields: Fields) -> int:
    zone, word = dynamic
    west, moment = zone.resolve_local(fields)
    meant = zone.abbreviated(word, moment)
    if meant is None:
        return west
    fields.isdst = int(meant.isdst)
    return -meant.seconds
