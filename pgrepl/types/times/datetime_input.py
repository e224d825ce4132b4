"""PostgreSQL's date/time input: fields in nearly any order, each interpreted by the fields before it.

`decode_datetime` and `decode_time` follow DecodeDateTime and DecodeTimeOnly: every field names the parts it gives
(year, month, zone …), a part given twice is an error, and at the end the parts must make a date (or a time).
"""

from __future__ import annotations

from pgrepl.types.style import TextStyle
from pgrepl.types.times.dates import Fields, from_julian, julian
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
    bad_format,
    field_overflow,
    split_fields,
)
from pgrepl.types.times.timezone import find_zone


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
