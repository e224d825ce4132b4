"""Input and output of date, time, timetz, timestamp and timestamptz.

    >>> read_date("Jan 8, 1999", DEFAULT_STYLE), write_date(-358, DEFAULT_STYLE)
    (-358, '1999-01-08')

A date is days, the others are microseconds, all counted from 2000-01-01 (timestamptz in UTC); `INFINITY` and its
negative stand for the infinities. A timetz is its local time and its zone in seconds west of Greenwich.

Fields come in nearly any order, each interpreted by the fields before it. `decode_datetime` and `decode_time` follow
DecodeDateTime and DecodeTimeOnly: every field names the parts it gives (year, month, zone …), a part given twice is an
error, and at the end the parts must make a date (or a time).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.style import TextStyle
from pgrepl.types.times.dates import (
    DAYS,
    EPOCH_JULIAN,
    INFINITY,
    MONTHS,
    UNIX_EPOCH_DAYS,
    UNIX_EPOCH_USECS,
    USECS_PER_SEC,
    Fields,
    fields_of_date,
    fields_of_timestamp,
    from_julian,
    is_valid_date,
    is_valid_julian,
    is_valid_timestamp,
    julian,
    set_time,
    time_of,
    timestamp_of,
    weekday,
    year_bc,
)
from pgrepl.types.times.datetime_decoding import (
    DATE_PARTS,
    DAY,
    DSTMOD,
    MONTH,
    TIME_PARTS,
    ZONE_PART,
    Decoding,
    apply_meridian,
    current_fields,
    decode_clock,
    decode_date,
    decode_number,
    decode_zone,
    dynamic_zone,
    leading_int,
    month_name,
    named_zone,
    number_field,
    plain_word,
    run_together,
    session_zone,
    set_prefix,
    summer_time_modifier,
    take_time_prefix,
    time_overflows,
    time_with_zone,
    validate_date,
    zone_word,
)
from pgrepl.types.times.datetime_tokens import (
    DATE,
    NUMBER,
    TIME,
    TOKENS,
    ZONE,
    InputError,
    bad_format,
    field_overflow,
    plain_date,
    plain_timestamp,
    report,
    split_fields,
)
from pgrepl.types.times.timezone import find_zone

_DATE_ROOM = 128  # bytes of the buffers that the fields of a literal must fit in
_TIMESTAMP_ROOM = 128 + 24


class TimeTz(NamedTuple):
    usecs: int
    zone: int  # seconds west of Greenwich


def read_date(text: str, style: TextStyle) -> int:
    plain = plain_date(text)
    if plain is not None:
        return plain
    try:
        kind, fields = decode_datetime(text, style, _DATE_ROOM)
    except InputError as error:
        raise report(error, text, "date") from None
    if kind == "epoch":
        return UNIX_EPOCH_DAYS
    if kind != "date":
        return INFINITY if kind == "infinity" else -INFINITY
    if is_valid_julian(fields.year, fields.month):
        days = julian(fields.year, fields.month, fields.day) - EPOCH_JULIAN
        if is_valid_date(days):
            return days
    raise PgError("22008", f'date out of range: "{text}"')


def read_time(text: str, typmod: int, style: TextStyle) -> int:
    return fit_time(time_of(_decode_time(text, style, "time")), typmod)


def read_timetz(text: str, typmod: int, style: TextStyle) -> TimeTz:
    fields = _decode_time(text, style, "time with time zone")
    return TimeTz(fit_time(time_of(fields), typmod), fields.zone)


def _decode_time(text: str, style: TextStyle, typename: str) -> Fields:
    try:
        return decode_time(text, style, _DATE_ROOM)
    except InputError as error:
        raise report(error, text, typename) from None


def read_timestamp(text: str, typmod: int, style: TextStyle, *, zoned: bool) -> int:
    plain = plain_timestamp(text, zoned=zoned)
    if plain is not None:
        return fit_timestamp(plain, typmod)
    try:
        kind, fields = decode_datetime(text, style, _TIMESTAMP_ROOM)
    except InputError as error:
        raise report(error, text, "timestamp with time zone" if zoned else "timestamp") from None
    if kind == "epoch":
        return UNIX_EPOCH_USECS
    if kind != "date":
        return INFINITY if kind == "infinity" else -INFINITY
    if is_valid_julian(fields.year, fields.month):
        value = timestamp_of(fields) + (fields.zone * USECS_PER_SEC if zoned else 0)
        if is_valid_timestamp(value):
            return fit_timestamp(value, typmod)
    raise PgError("22008", f'timestamp out of range: "{text}"')


def fit_time(usecs: int, typmod: int) -> int:
    """A time rounded to the precision of its type modifier, half up."""
    if not 0 <= typmod < 6:
        return usecs
    unit: int = 10 ** (6 - typmod)
    return (usecs + unit // 2) // unit * unit


def fit_timestamp(value: int, typmod: int) -> int:
    """A timestamp rounded to the precision of its type modifier, half away from zero."""
    if typmod in (-1, 6) or abs(value) == INFINITY:
        return value
    if not 0 <= typmod <= 6:
        raise PgError("22023", f"timestamp({typmod}) precision must be between 0 and 6")
    unit: int = 10 ** (6 - typmod)
    rounded = (abs(value) + unit // 2) // unit * unit
    return rounded if value >= 0 else -rounded


def special(value: int) -> str | None:
    return "infinity" if value == INFINITY else "-infinity" if value == -INFINITY else None


def local_fields(value: int, style: TextStyle) -> Fields:
    """The fields of a timestamptz in the session's time zone."""
    offset = session_zone(style).at((value - UNIX_EPOCH_USECS) // USECS_PER_SEC)
    fields = fields_of_timestamp(value + offset.seconds * USECS_PER_SEC)
    fields.zone, fields.isdst, fields.abbreviation = -offset.seconds, int(offset.isdst), offset.abbreviation
    return fields


def write_date(value: int, style: TextStyle) -> str:
    word = special(value)
    if word:
        return word
    fields = fields_of_date(value)
    return _date_part(fields, style) + (" BC" if fields.year <= 0 else "")


def write_time(value: int, style: TextStyle) -> str:
    return _clock(set_time(Fields(), value))


def write_timetz(value: TimeTz, style: TextStyle) -> str:
    return _clock(set_time(Fields(), value.usecs)) + write_zone(value.zone)


def write_timestamp(value: int, style: TextStyle) -> str:
    return special(value) or encode(fields_of_timestamp(value), style, zoned=False)


def write_timestamptz(value: int, style: TextStyle) -> str:
    return special(value) or encode(local_fields(value, style), style, zoned=True)


def _date_part(fields: Fields, style: TextStyle) -> str:
    year = f"{year_bc(fields.year):04d}"
    month, day = f"{fields.month:02d}", f"{fields.day:02d}"
    if style.date_format == "ISO":
        return f"{year}-{month}-{day}"
    if style.date_format == "German":
        return f"{day}.{month}.{year}"
    first, second = (day, month) if style.date_order == "DMY" else (month, day)
    separator = "/" if style.date_format == "SQL" else "-"
    return separator.join((first, second, year))


def _clock(fields: Fields) -> str:
    fraction = f".{fields.usec:06d}".rstrip("0") if fields.usec else ""
    return f"{fields.hour:02d}:{fields.minute:02d}:{fields.second:02d}{fraction}"


def write_zone(west: int) -> str:
    """`+05:30`; minutes and seconds only when there are any."""
    sign = "+" if west <= 0 else "-"
    minutes, second = divmod(abs(west), 60)
    hour, minute = divmod(minutes, 60)
    if second:
        return f"{sign}{hour:02d}:{minute:02d}:{second:02d}"
    return f"{sign}{hour:02d}:{minute:02d}" if minute else f"{sign}{hour:02d}"


def encode(fields: Fields, style: TextStyle, *, zoned: bool) -> str:
    """A moment's text in a style (EncodeDateTime)."""
    clock = _clock(fields)
    era = " BC" if fields.year <= 0 else ""
    if style.date_format == "ISO":
        return f"{_date_part(fields, style)} {clock}{write_zone(fields.zone) if zoned else ''}{era}"
    zone = ""
    if zoned:
        zone = f" {fields.abbreviation}" if fields.abbreviation else write_zone(fields.zone)
    if style.date_format != "Postgres":
        return f"{_date_part(fields, style)} {clock}{zone}{era}"
    if zone and not fields.abbreviation:
        zone = " " + zone
    day = DAYS[weekday(julian(fields.year, fields.month, fields.day))][:3]
    parts = [f"{fields.day:02d}", MONTHS[fields.month - 1][:3]]
    if style.date_order != "DMY":
        parts.reverse()
    return f"{day} {' '.join(parts)} {clock} {year_bc(fields.year):04d}{zone}{era}"


READ: dict[int, Callable[[str, int, TextStyle], Any]] = {
    oids.DATE: lambda text, typmod, style: read_date(text, style),
    oids.TIME: read_time,
    oids.TIMETZ: read_timetz,
    oids.TIMESTAMP: lambda text, typmod, style: read_timestamp(text, typmod, style, zoned=False),
    oids.TIMESTAMPTZ: lambda text, typmod, style: read_timestamp(text, typmod, style, zoned=True),
}
WRITE: dict[int, Callable[[Any, TextStyle], str]] = {
    oids.DATE: write_date,
    oids.TIME: write_time,
    oids.TIMETZ: write_timetz,
    oids.TIMESTAMP: write_timestamp,
    oids.TIMESTAMPTZ: write_timestamptz,
}


def decode_datetime(text: str, style: TextStyle, room: int) -> tuple[str, Fields]:
    """The kind of a literal (date, infinity, -infinity or epoch) and its fields, which only a date has."""
    state = Decoding(style)
    for kind, word in split_fields(text, room):
        if kind == DATE:
            _date_field(state, word)
        elif kind == TIME:
            take_time_prefix(state)
            decode_clock(word, state.fields)
            if time_overflows(state.fields):
                raise field_overflow()
            state.add(TIME_PARTS)
        elif kind == ZONE:
            state.fields.zone = decode_zone(word)
            state.add(ZONE_PART)
        elif kind == NUMBER:
            number_field(state, word)
        else:
            _word(state, word)
    if state.prefix:
        raise bad_format()
    if state.kind == "date":
        validate_date(state)
        apply_meridian(state)
        if not state.has(DATE_PARTS):
            raise bad_format()
        _resolve_zone(state)
    return state.kind, state.fields


def _date_field(state: Decoding, word: str) -> None:
    """A date, a zone name with punctuation, or a run-together time with a zone behind it."""
    if state.prefix == "julian":
        day, rest = leading_int(word)
        state.fields.year, state.fields.month, state.fields.day = from_julian(day)
        state.is_julian = True
        state.fields.zone = decode_zone(rest)
        state.prefix = ""
        state.add(DATE_PARTS | TIME_PARTS | ZONE_PART)
    elif state.prefix or state.has(MONTH | DAY):
        if word[0].isdigit() or state.prefix:
            take_time_prefix(state)
            if state.has(TIME_PARTS):
                raise bad_format()
            state.add(time_with_zone(state, word, state.parts) | ZONE_PART)
        else:
            state.named = named_zone(word)
            state.add(ZONE_PART)
    else:
        state.add(decode_date(state, word))


def _word(state: Decoding, word: str) -> None:
    if zone_word(state, word):
        return
    token = TOKENS.get(word)
    if token is None:
        state.named = find_zone(word)
        if state.named is None:
            raise bad_format()
        state.add(ZONE_PART)
    elif token.kind == "reserved":
        _reserved(state, str(token.value))
    elif token.kind == "month":
        assert isinstance(token.value, int)
        month_name(state, token.value)
    elif token.kind == "dstmod":
        summer_time_modifier(state)
    elif token.kind == "isotime":
        if not state.has(DATE_PARTS):
            raise bad_format()
        set_prefix(state, "time")
    else:
        plain_word(state, token.kind, str(token.value))


def _reserved(state: Decoding, word: str) -> None:
    fields = state.fields
    if word == "now":
        now = current_fields(state.style)
        state.fields = now
        state.add(DATE_PARTS | TIME_PARTS | ZONE_PART)
    elif word in ("today", "tomorrow", "yesterday"):
        now = current_fields(state.style)
        shift = {"today": 0, "tomorrow": 1, "yesterday": -1}[word]
        fields.year, fields.month, fields.day = from_julian(julian(now.year, now.month, now.day) + shift)
        state.add(DATE_PARTS)
    elif word == "allballs":
        fields.hour = fields.minute = fields.second = fields.zone = 0
        state.add(TIME_PARTS | ZONE_PART)
    else:
        state.kind = word
        state.add(DATE_PARTS | TIME_PARTS | ZONE_PART)
        return
    state.kind = "date"


def _resolve_zone(state: Decoding) -> None:
    fields = state.fields
    if (state.named or state.dynamic) and state.parts & DSTMOD:
        raise bad_format()
    if state.named is not None:
        fields.zone = state.named.of_local(fields)
    if state.dynamic is not None:
        fields.zone = dynamic_zone(state.dynamic, fields)
    if not state.parts & ZONE_PART:
        if state.parts & DSTMOD:
            raise bad_format()
        fields.zone = session_zone(state.style).of_local(fields)


def decode_time(text: str, style: TextStyle, room: int) -> Fields:
    """A time of day. A date is allowed when a zone may need it."""
    state = Decoding(style)
    words = split_fields(text, room)
    kinds = [kind for kind, _ in words]
    for n, (kind, word) in enumerate(words):
        dated = n == 0 and len(words) >= 2
        if kind == DATE:
            if dated and (kinds[-1] == DATE or kinds[1] == TIME):
                state.add(decode_date(state, word))
            elif word[0].isdigit():
                if state.has(TIME_PARTS):
                    raise bad_format()
                state.add(time_with_zone(state, word, state.parts | DATE_PARTS) | ZONE_PART)
            else:
                state.named = named_zone(word)
                state.add(ZONE_PART)
                kinds[n] = ZONE
        elif kind == TIME:
            take_time_prefix(state)
            decode_clock(word, state.fields)
            if state.fields.hour >= 2**31:
                raise field_overflow()
            state.add(TIME_PARTS)
        elif kind == ZONE:
            state.fields.zone = decode_zone(word)
            state.add(ZONE_PART)
        elif kind == NUMBER:
            _time_number(state, word, dated and kinds[-1] == DATE)
        else:
            _time_word(state, word)
    if state.prefix:
        raise bad_format()
    validate_date(state)
    apply_meridian(state)
    if time_overflows(state.fields):
        raise field_overflow()
    if not state.has(TIME_PARTS):
        raise bad_format()
    _resolve_time_zone(state)
    return state.fields


def _time_number(state: Decoding, word: str, dated: bool) -> None:
    if state.prefix:
        number_field(state, word)
        return
    known = state.parts | DATE_PARTS
    point = word.find(".")
    if point >= 0 and dated:
        state.add(decode_date(state, word))
    elif point > 2 or (point < 0 and len(word) > 4):
        state.add(run_together(state, word, known))
    elif point >= 0:
        raise bad_format()
    else:
        state.add(decode_number(state, word, False, known))


def _time_word(state: Decoding, word: str) -> None:
    if zone_word(state, word):
        return
    token = TOKENS.get(word)
    fields = state.fields
    if token is None:
        state.named = find_zone(word)
        if state.named is None:
            raise bad_format()
        state.add(ZONE_PART)
    elif token.kind == "reserved" and token.value == "now":
        now = current_fields(state.style)
        fields.hour, fields.minute, fields.second, fields.usec = now.hour, now.minute, now.second, now.usec
        state.add(TIME_PARTS)
    elif token.kind == "reserved" and token.value == "allballs":
        fields.hour = fields.minute = fields.second = 0
        state.add(TIME_PARTS | ZONE_PART)
    elif token.kind == "dstmod":
        summer_time_modifier(state)
    elif token.kind == "isotime":
        set_prefix(state, "time")
    elif token.kind in ("ampm", "adbc", "units", "ignore"):
        plain_word(state, token.kind, str(token.value))
    else:
        raise bad_format()


def _resolve_time_zone(state: Decoding) -> None:
    """The offset of a zone whose offset depends on the date; without a date, today's."""
    fields = state.fields
    if (state.named or state.dynamic) and state.parts & DSTMOD:
        raise bad_format()
    if state.named is not None:
        east = state.named.fixed_offset()
        if east is not None:
            fields.zone = -east
        else:
            if not state.has(DATE_PARTS):
                raise bad_format()
            fields.zone = state.named.of_local(fields)
    if state.dynamic is not None:
        fields.zone = dynamic_zone(state.dynamic, _dated(state))
    if not state.parts & ZONE_PART:
        if state.parts & DSTMOD:
            raise bad_format()
        fields.zone = session_zone(state.style).of_local(_dated(state))


def _dated(state: Decoding) -> Fields:
    fields = state.fields
    if not state.parts & DATE_PARTS:
        today = current_fields(state.style)
        fields.year, fields.month, fields.day = today.year, today.month, today.day
    elif not state.has(DATE_PARTS):
        raise bad_format()
    return fields
