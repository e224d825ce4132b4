"""The words of date/time input and the splitting of a literal into fields (ParseDateTime); a fast reader of plain ISO
forms.

Texts that are no `2024-02-29 12:30:00.5` or like it are left to datetime_input.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from pgrepl.ground.errors import PgError

MAX_FIELDS = 25

# The kinds of fields.
DATE, TIME, ZONE, NUMBER, STRING, SPECIAL = "date", "time", "zone", "number", "string", "special"


class InputError(Exception):
    """The reason why a literal is refused (PostgreSQL's DTERR_ codes); the message is made where literal and type are
    known."""

    def __init__(self, kind: str, zone: str = "") -> None:
        super().__init__(kind)
        self.kind = kind  # format, field, month_day, zone_displacement, zone, interval
        self.zone = zone


def bad_format() -> InputError:
    return InputError("format")


def field_overflow() -> InputError:
    return InputError("field")


def report(error: InputError, text: str, typename: str) -> PgError:
    """PostgreSQL's error for an input that is no date or time (DateTimeParseError)."""
    if error.kind in ("field", "month_day"):
        hint = 'Perhaps you need a different "datestyle" setting.' if error.kind == "month_day" else None
        return PgError("22008", f'date/time field value out of range: "{text}"', hint=hint)
    if error.kind == "interval":
        return PgError("22015", f'interval field value out of range: "{text}"')
    if error.kind == "zone_displacement":
        return PgError("22009", f'time zone displacement out of range: "{text}"')
    if error.kind == "zone":
        return PgError("22023", f'time zone "{error.zone}" not recognized')
    return PgError("22007", f'invalid input syntax for type {typename}: "{text}"')


@dataclass(frozen=True, slots=True)
class DateTimeToken:
    kind: str  # reserved, month, weekday, units, ampm, adbc, ignore, dstmod, isotime, ago
    value: object


def _tokens() -> dict[str, DateTimeToken]:
    table: dict[str, DateTimeToken] = {}
    months = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
    rest = ("uary", "ruary", "ch", "il", "", "e", "y", "ust", "tember", "ober", "ember", "ember")
    for number, (short, tail) in enumerate(zip(months, rest, strict=True), 1):
        table[short] = table[short + tail] = DateTimeToken("month", number)
    table["sept"] = DateTimeToken("month", 9)
    days = ("sun sunday", "mon monday", "tue tues tuesday", "wed weds wednesday", "thu thur thurs thursday")
    for number, words in enumerate((*days, "fri friday", "sat saturday")):
        table.update(dict.fromkeys(words.split(), DateTimeToken("weekday", number)))
    for word in ("infinity", "+infinity"):
        table[word] = DateTimeToken("reserved", "infinity")
    for word in ("-infinity", "allballs", "epoch", "now", "today", "tomorrow", "yesterday"):
        table[word] = DateTimeToken("reserved", word)
    table.update({"ad": DateTimeToken("adbc", "ad"), "bc": DateTimeToken("adbc", "bc")})
    table.update({"am": DateTimeToken("ampm", "am"), "pm": DateTimeToken("ampm", "pm")})
    table.update({"at": DateTimeToken("ignore", None), "on": DateTimeToken("ignore", None)})
    units = {"d": "day", "dow": "dow", "doy": "doy", "h": "hour", "isodow": "isodow", "isoyear": "isoyear"}
    units |= {"j": "julian", "jd": "julian", "julian": "julian", "m": "month", "mm": "minute", "s": "second"}
    table.update({word: DateTimeToken("units", unit) for word, unit in (units | {"y": "year"}).items()})
    table["dst"] = DateTimeToken("dstmod", 3600)
    table["t"] = DateTimeToken("isotime", "time")
    return table


TOKENS = _tokens()


def _is_alpha(char: str) -> bool:
    return char.isascii() and char.isalpha()


def _is_digit(char: str) -> bool:
    return char.isascii() and char.isdigit()


def _is_alnum(char: str) -> bool:
    return char.isascii() and char.isalnum()


def split_fields(text: str, room: int) -> list[tuple[str, str]]:
    """A literal as (kind, lower-case text) fields, as ParseDateTime does. room: bytes of its work buffer."""
    fields: list[tuple[str, str]] = []
    used = 0
    at = 0
    end = len(text)
    while at < end:
        char = text[at]
        if char in " \t\n\v\f\r":
            at += 1
            continue
        if len(fields) >= MAX_FIELDS:
            raise bad_format()
        start = at
        sign = ""
        if _is_digit(char):
            kind, at = _number_field(text, at)
        elif char == ".":
            at = _run(text, at + 1, _is_digit)
            kind = NUMBER
        elif _is_alpha(char):
            kind, at = _word_field(text, at)
        elif char in "+-":
            sign = char
            at += 1
            while at < end and text[at] in " \t\n\v\f\r":
                at += 1
            start = at
            if at < end and _is_digit(text[at]):
                kind = ZONE
                at = _run(text, at + 1, lambda c: _is_digit(c) or c in ":.-")
            elif at < end and _is_alpha(text[at]):
                kind = SPECIAL
                at = _run(text, at + 1, _is_alpha)
            else:
                raise bad_format()
        elif char.isascii() and char.isprintable():
            at += 1
            continue
        else:
            raise bad_format()
        word = sign + text[start:at].lower()
        used += len(word) + 1
        if used > room:
            raise bad_format()
        fields.append((kind, word))
    return fields


def _run(text: str, at: int, accepts: Callable[[str], bool]) -> int:
    while at < len(text) and accepts(text[at]):
        at += 1
    return at


def _number_field(text: str, at: int) -> tuple[str, int]:
    """A time, a date with its delimiters, or a bare number."""
    at = _run(text, at + 1, _is_digit)
    delimiter = text[at : at + 1]
    if delimiter == ":":
        return TIME, _run(text, at + 1, lambda c: _is_digit(c) or c in ":.")
    if delimiter not in ("-", "/", "."):
        return NUMBER, at
    at += 1
    if not _is_digit(text[at : at + 1] or " "):
        return DATE, _run(text, at, lambda c: _is_alnum(c) or c == delimiter)
    at = _run(text, at, _is_digit)
    if text[at : at + 1] == delimiter:
        return DATE, _run(text, at + 1, lambda c: _is_digit(c) or c == delimiter)
    return (NUMBER if delimiter == "." else DATE), at


def _word_field(text: str, at: int) -> tuple[str, int]:
    """A word, or a date or zone name that starts with letters."""
    start = at
    at = _run(text, at + 1, _is_alpha)
    following = text[at : at + 1]
    dated = following in ("-", "/", ".") and following != ""
    if not dated and following and (following == "+" or _is_digit(following)):
        dated = text[start:at].lower() not in TOKENS
    if not dated:
        return STRING, at
    return DATE, _run(text, at + 1, lambda c: _is_alnum(c) or c in "+-/_.:")


# --- datetime plain ---------------------------------------------------------------------------------------------------


_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    _DATE.pattern + r"[ T]([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?"
    r"(?:([+-])(0[0-9]|1[0-4])(?::?([0-5][0-9]))?)?"
)
_EPOCH = date(2000, 1, 1).toordinal()


def plain_date(text: str) -> int | None:
    """Days since 2000-01-01; None: the text is not in plain form, or not a valid date."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2]), int(match[3])).toordinal() - _EPOCH
    except ValueError:
        return None


def plain_timestamp(text: str, *, zoned: bool) -> int | None:
    """Microseconds since 2000-01-01; None: not in plain form, or not valid. `zoned`: the text must have a UTC
    offset."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = match.groups()
    if zoned and sign is None:
        return None
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None
    seconds = days * 86400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    if zoned:
        offset = int(hours) * 3600 + int(minutes or 0) * 60
        seconds -= offset if sign == "+" else -offset
    return seconds * 1_000_000 + (int(fraction.ljust(6, "0")) if fraction else 0)
