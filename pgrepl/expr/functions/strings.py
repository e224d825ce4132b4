"""Strings: concatenation, substrings, padding, searching, quoting. Case is mapped character by character, as in the
C.UTF-8 locale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, AnyStr

from pgrepl.expr.functions.registry import Call, Family
from pgrepl.ground.errors import PgError
from pgrepl.types import input_checks, oids
from pgrepl.types.text import write_text

implements = Family()

_LARGE = input_checks.MAX_BYTES // input_checks.CHAR_BYTES  # characters that could be too many bytes


def as_text(call: Call, value: Any, typoid: int) -> str:
    """value::text. It differs from the output function for boolean and char(n)."""
    if typoid == oids.BOOL:
        return "true" if value else "false"
    if typoid == oids.BPCHAR:
        return str(value).rstrip(" ")
    return write_text(value, typoid, call.style)


@implements("textcat", spark="concat({}, {})")
def textcat(one: str, two: str) -> str:
    if len(one) + len(two) > _LARGE:
        input_checks.check_request(input_checks.size_of(one) + input_checks.size_of(two) + input_checks.HEADER)
    return one + two


@implements("anytextcat(anynonarray,text)", context=True)
def anytextcat(call: Call, value: Any, text: str) -> str:
    return as_text(call, value, call.argtypes[0]) + text


@implements("textanycat(text,anynonarray)", context=True)
def textanycat(call: Call, text: str, value: Any) -> str:
    return text + as_text(call, value, call.argtypes[1])


def _outputs(call: Call, values: tuple[Any, ...], first: int = 0) -> Iterator[str | None]:
    """The output texts of "any" arguments from a position on, or of the elements of a VARIADIC array."""
    if call.variadic:
        array = values[first]
        for item in array.items if array is not None else ():
            yield None if item is None else write_text(item, array.elemtype, call.style)
        return
    for value, typoid in zip(values[first:], call.argtypes[first:], strict=True):
        yield None if value is None else write_text(value, typoid, call.style)


@implements("text_concat", context=True)
def text_concat(call: Call, *values: Any) -> str | None:
    if call.variadic and values[0] is None:
        return None
    return joined([text for text in _outputs(call, values) if text is not None])


@implements("text_concat_ws", context=True)
def text_concat_ws(call: Call, separator: str | None, *values: Any) -> str | None:
    if separator is None or (call.variadic and values[0] is None):
        return None
    return joined([text for text in _outputs(call, (separator, *values), 1) if text is not None], separator)


def joined(texts: list[str], separator: str = "") -> str:
    """The concatenation of texts, or an error when it exceeds PostgreSQL's limit."""
    if sum(map(len, texts)) + len(separator) * len(texts) > _LARGE:
        size = 0
        for number, text in enumerate(texts):
            for part in (separator, text) if number else (text,):
                more = input_checks.size_of(part)
                input_checks.check_enlarge(size, more)
                size += more
    return separator.join(texts)


implements("textlen", columns="utf8_length", spark="char_length({})")(len)
implements("bpcharlen", spark="char_length(rtrim({}))")(lambda text: len(text.rstrip(" ")))
implements("textoctetlen", columns="binary_length", spark="octet_length({})")(lambda text: len(text.encode()))
implements("bpcharoctetlen", spark="octet_length({})")(lambda text: len(text.encode()))


@implements("bit_length(text)", spark="bit_length({})")
def bit_length(text: str) -> int:
    size = 8 * len(text.encode())
    with in_sql_function("bit_length"):
        if size >= 1 << 31:
            raise PgError("22003", "integer out of range")
    return size


def _by_character(text: str, change: Callable[[str], str]) -> str:
    if text.isascii():
        return change(text)
    return "".join(changed if len(changed := change(char)) == 1 else char for char in text)


@implements("lower")
def lower(text: str) -> str:
    return _by_character(text.replace("İ", "i"), str.lower)


@implements("casefold", context=True)
def casefold(call: Call, text: str) -> str:
    """As lower() with the C library's collations; by Unicode's folding with the others, which is one character for one
    with pg_c_utf8."""
    collation = call.collation
    if collation in _ASCII_COLLATIONS:
        return text.encode().lower().decode()
    if collation == _UNICODE:
        return text.casefold()
    return _by_character(text, _folded) if collation == _PG_C_UTF8 else lower(text)


_PG_C_UTF8, _UNICODE = 811, 963
_ASCII_COLLATIONS = frozenset({950, 951, 962})  # C, POSIX, ucs_basic
# what Unicode folds otherwise if each character stays one
_FOLDED = {"\u1fd3": "\u0390", "\u1fe3": "\u03b0", "\ufb05": "\ufb06"}


def _folded(char: str) -> str:
    folded = char.casefold()
    return folded if len(folded) == 1 else _FOLDED.get(char) or char.lower()


@implements("upper")
def upper(text: str) -> str:
    return _by_character(text, str.upper)


@implements("initcap")
def initcap(text: str) -> str:
    out = []
    inside = False
    for char in text:
        out.append(lower(char) if inside else upper(char))
        inside = char.isalnum()
    return "".join(out)


@implements("lpad")
def lpad(text: str, length: int, fill: str) -> str:
    input_checks.check_length(length * input_checks.CHAR_BYTES)
    return _padding(text, length, fill) + text[: max(length, 0)]


@implements("rpad")
def rpad(text: str, length: int, fill: str) -> str:
    input_checks.check_length(length * input_checks.CHAR_BYTES)
    return text[: max(length, 0)] + _padding(text, length, fill)


def _padding(text: str, length: int, fill: str) -> str:
    missing = length - len(text)
    if missing <= 0 or not fill:
        return ""
    return (fill * (missing // len(fill) + 1))[:missing]


@implements("lpad(text,integer)")
def lpad_spaces(text: str, length: int) -> str:
    with in_sql_function("lpad"):
        return lpad(text, length, " ")


@implements("rpad(text,integer)")
def rpad_spaces(text: str, length: int) -> str:
    with in_sql_function("rpad"):
        return rpad(text, length, " ")


@contextmanager
def in_sql_function(name: str) -> Iterator[None]:
    """Add the CONTEXT of a function that PostgreSQL writes in SQL to its errors."""
    try:
        yield
    except PgError as error:
        raise error.with_context(f'SQL function "{name}" statement 1') from None


@implements("ltrim", spark="ltrim({1}, {0})")
def ltrim(text: AnyStr, characters: AnyStr) -> AnyStr:
    return text.lstrip(characters) if characters else text


@implements("rtrim", spark="rtrim({1}, {0})")
def rtrim(text: AnyStr, characters: AnyStr) -> AnyStr:
    return text.rstrip(characters) if characters else text


@implements("btrim", spark="btrim({}, {})")
def btrim(text: AnyStr, characters: AnyStr) -> AnyStr:
    return text.strip(characters) if characters else text


implements("ltrim1", spark="ltrim({})")(lambda text: text.lstrip(" "))
implements("btrim1", spark="trim({})")(lambda text: text.strip(" "))


@implements("text_substr_no_len")
def text_substr_no_len(text: str, start: int) -> str:
    return text[max(start, 1) - 1 :]


@implements("text_substr")
def text_substr(text: str, start: int, length: int) -> str:
    if length < 0:
        raise PgError("22011", "negative substring length not allowed")
    return text[max(start, 1) - 1 : max(start + length - 1, 0)]


@implements("textoverlay")
def textoverlay(text: str, new: str, start: int, length: int) -> str:
    if start <= 0:
        raise PgError("22011", "negative substring length not allowed")
    if start + length >= 1 << 31:
        raise PgError("22003", "integer out of range")
    return textcat(textcat(text_substr(text, 1, start - 1), new), text_substr_no_len(text, start + length))


implements("textoverlay_no_len")(lambda text, new, start: textoverlay(text, new, start, len(new)))
implements("textpos", spark="instr({}, {})")(lambda text, part: text.find(part) + 1)


@implements("translate", spark="translate({}, {}, {})")
def translate(text: str, old: str, new: str) -> str:
    if len(text) > _LARGE // input_checks.CHAR_BYTES:
        input_checks.check_length(input_checks.size_of(text) * input_checks.CHAR_BYTES)
    table: dict[int, str | None] = {}
    for position, char in enumerate(old):
        table.setdefault(ord(char), new[position] if position < len(new) else None)
    return text.translate(table)


@implements("replace_text", spark="replace({}, {}, {})")
def replace_text(text: str, old: str, new: str) -> str:
    if len(text) * (len(new) + 1) > _LARGE and old:
        count = text.count(old)
        input_checks.check_repeated(
            input_checks.size_of(text) - count * input_checks.size_of(old), input_checks.size_of(new), count
        )
    return text.replace(old, new) if old else text


implements("ascii", spark="ascii({})")(lambda text: ord(text[0]) if text else 0)


@implements("chr")
def chr_(code: int) -> str:
    if code < 0:
        raise PgError("22023", "character number must be positive")
    if code == 0:
        raise PgError("54000", "null character not permitted")
    if code > 0x10FFFF:
        raise PgError("54000", f"requested character too large for encoding: {code}")
    if 0xD800 <= code <= 0xDFFF:
        raise PgError("54000", f"requested character not valid for encoding: {code}")
    return chr(code)


@implements("repeat")
def repeat(text: str, count: int) -> str:
    if count > 0 and len(text) * count > _LARGE:
        input_checks.check_length(len(text.encode()) * count)
    return text * max(count, 0)


implements("text_left")(lambda text, count: text[:count])


@implements("text_right")
def text_right(text: str, count: int) -> str:
    if count == -(2**31):  # its negation overflows
        return text
    return text[max(len(text) - count, 0) :] if count >= 0 else text[-count:]


implements("text_reverse", columns="utf8_reverse", spark="reverse({})")(lambda text: text[::-1])
implements("text_starts_with", spark="startswith({}, {})")(lambda text, start: text.startswith(start))


@implements("split_part")
def split_part(text: str, separator: str, number: int) -> str:
    if number == 0:
        raise PgError("22023", "field position must not be zero")
    if not text:
        return ""
    parts = text.split(separator) if separator else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""
