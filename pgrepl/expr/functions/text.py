"""Strings: joining, cutting, padding, searching, quoting. Case changes character by character, as the C.UTF-8 locale
does."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.functions import implements
from pgrepl.sql import quote
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.text import write_text

_MAX_BYTES = 0x3FFFFFFF


def as_text(call: Call, value: Any, typoid: int) -> str:
    """value::text, which differs from the output function for booleans and char(n)."""
    if typoid == oids.BOOL:
        return "true" if value else "false"
    if typoid == oids.BPCHAR:
        return str(value).rstrip(" ")
    return write_text(value, typoid, call.style)


@implements("textcat")
def textcat(one: str, two: str) -> str:
    return one + two


@implements("anytextcat(anynonarray,text)", context=True)
def anytextcat(call: Call, value: Any, text: str) -> str:
    return as_text(call, value, call.argtypes[0]) + text


@implements("textanycat(text,anynonarray)", context=True)
def textanycat(call: Call, text: str, value: Any) -> str:
    return text + as_text(call, value, call.argtypes[1])


def _outputs(call: Call, values: tuple[Any, ...], first: int = 0) -> Iterator[str | None]:
    """The output texts of "any" arguments from a position on, or of the elements of the VARIADIC array there."""
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
    return "".join(text for text in _outputs(call, values) if text is not None)


@implements("text_concat_ws", context=True)
def text_concat_ws(call: Call, separator: str | None, *values: Any) -> str | None:
    if separator is None or (call.variadic and values[0] is None):
        return None
    return separator.join(text for text in _outputs(call, (separator, *values), 1) if text is not None)


@implements("textlen")
def textlen(text: str) -> int:
    return len(text)


@implements("bpcharlen")
def bpcharlen(text: str) -> int:
    return len(text.rstrip(" "))


@implements("textoctetlen")
def textoctetlen(text: str) -> int:
    return len(text.encode())


@implements("bpcharoctetlen")
def bpcharoctetlen(text: str) -> int:
    return len(text.encode())


@implements("bit_length(text)")
def bit_length(text: str) -> int:
    return 8 * len(text.encode())


def _by_character(text: str, change: Callable[[str], str]) -> str:
    if text.isascii():
        return change(text)
    return "".join(changed if len(changed := change(char)) == 1 else char for char in text)


@implements("lower")
def lower(text: str) -> str:
    return _by_character(text.replace("İ", "i"), str.lower)


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
    return _padding(text, length, fill) + text[: max(length, 0)]


@implements("rpad")
def rpad(text: str, length: int, fill: str) -> str:
    return text[: max(length, 0)] + _padding(text, length, fill)


def _padding(text: str, length: int, fill: str) -> str:
    missing = length - len(text)
    if missing <= 0 or not fill:
        return ""
    if missing > _MAX_BYTES:
        raise PgError("54000", "requested length too large")
    return (fill * (missing // len(fill) + 1))[:missing]


@implements("lpad(text,integer)")
def lpad_spaces(text: str, length: int) -> str:
    return lpad(text, length, " ")


@implements("rpad(text,integer)")
def rpad_spaces(text: str, length: int) -> str:
    return rpad(text, length, " ")


@implements("ltrim")
def ltrim(text: str, characters: str) -> str:
    return text.lstrip(characters) if characters else text


@implements("rtrim")
def rtrim(text: str, characters: str) -> str:
    return text.rstrip(characters) if characters else text


@implements("btrim")
def btrim(text: str, characters: str) -> str:
    return text.strip(characters) if characters else text


@implements("ltrim1")
def ltrim1(text: str) -> str:
    return text.lstrip(" ")


@implements("btrim1")
def btrim1(text: str) -> str:
    return text.strip(" ")


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
    return text_substr(text, 1, start - 1) + new + text_substr_no_len(text, start + length)


@implements("textoverlay_no_len")
def textoverlay_no_len(text: str, new: str, start: int) -> str:
    return textoverlay(text, new, start, len(new))


@implements("textpos")
def textpos(text: str, part: str) -> int:
    return text.find(part) + 1


@implements("translate")
def translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for position, char in enumerate(old):
        table.setdefault(ord(char), new[position] if position < len(new) else None)
    return text.translate(table)


@implements("replace_text")
def replace_text(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


@implements("ascii")
def ascii_(text: str) -> int:
    return ord(text[0]) if text else 0


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
    if count > 0 and len(text.encode()) * count > _MAX_BYTES:
        raise PgError("54000", "requested length too large")
    return text * max(count, 0)


@implements("text_left")
def text_left(text: str, count: int) -> str:
    return text[:count]


@implements("text_right")
def text_right(text: str, count: int) -> str:
    return text[max(len(text) - count, 0) :] if count >= 0 else text[-count:]


@implements("text_reverse")
def text_reverse(text: str) -> str:
    return text[::-1]


@implements("text_starts_with")
def text_starts_with(text: str, start: str) -> bool:
    return text.startswith(start)


@implements("split_part", "split_text")
def split_part(text: str, separator: str, number: int) -> str:
    if number == 0:
        raise PgError("22023", "field position must not be zero")
    if not text:
        return ""
    parts = text.split(separator) if separator else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


# ------------------------------------------------------------------------------------------------------------- quoting


@implements("quote_ident")
def quote_ident(name: str) -> str:
    return quote.quote_identifier(name)


@implements("quote_literal")
def quote_literal(text: str) -> str:
    return quote.quote_literal(text)


@implements("quote_nullable")
def quote_nullable(text: str | None) -> str:
    return "NULL" if text is None else quote.quote_literal(text)


@implements("quote_literal(anyelement)", context=True)
def quote_literal_any(call: Call, value: Any) -> str:
    return quote.quote_literal(as_text(call, value, call.argtypes[0]))


@implements("quote_nullable(anyelement)", context=True)
def quote_nullable_any(call: Call, value: Any) -> str:
    return "NULL" if value is None else quote.quote_literal(as_text(call, value, call.argtypes[0]))


@implements("parse_ident")
def parse_ident(text: str, strict: bool) -> PgArray:
    def invalid(detail: str | None = None) -> PgError:
        return PgError("22023", f'string is not a valid identifier: "{text}"', detail=detail)

    def skip(at: int) -> int:
        while at < len(text) and text[at] in " \t\n\r\v\f":
            at += 1
        return at

    names: list[str] = []
    at = skip(0)
    while True:
        char = text[at : at + 1]
        if char == '"':
            end = at + 1
            while text[end : end + 1] != '"' or text[end + 1 : end + 2] == '"':
                if end >= len(text):
                    raise invalid("String has unclosed double quotes.")
                end += 2 if text[end] == '"' else 1
            name = text[at + 1 : end].replace('""', '"')
            if not name:
                raise invalid("Quoted identifier must not be empty.")
            at = end + 1
        elif char and (char.isalpha() or char == "_" or char > "\x7f"):
            end = at + 1
            while end < len(text) and (text[end].isalnum() or text[end] in "_$" or text[end] > "\x7f"):
                end += 1
            name = "".join(c.lower() if c.isascii() else c for c in text[at:end])
            at = end
        elif char == ".":
            raise invalid('No valid identifier before ".".')
        else:
            raise invalid('No valid identifier after ".".' if names else None)
        names.append(name)
        at = skip(at)
        if text[at : at + 1] != ".":
            break
        at = skip(at + 1)
    if at < len(text) and strict:
        raise invalid()
    return array_of(oids.TEXT, names)


# -------------------------------------------------------------------------------------------------------------- format


@implements("text_format", "text_format_nv", context=True)
def text_format(call: Call, template: str | None, *values: Any) -> str | None:
    """format(): %s, %I, %L with positions, widths and flags."""
    if template is None:
        return None
    arguments = _Arguments(call, values)
    out: list[str] = []
    at = 0
    while at < len(template):
        char = template[at]
        at += 1
        if char != "%":
            out.append(char)
            continue
        if at >= len(template):
            raise _unterminated()
        if template[at] == "%":
            out.append("%")
            at += 1
            continue
        at = _Specifier(template, at).format(arguments, out)
    return "".join(out)


def _unterminated() -> PgError:
    return PgError("22023", "unterminated format() type specifier", hint='For a single "%" use "%%".')


class _Arguments:
    """The values to format; `next` counts on."""

    def __init__(self, call: Call, values: tuple[Any, ...]) -> None:
        self.style = call.style
        if call.variadic:
            array = values[0]
            items = array.items if array is not None else ()
            self.values = [(item, array.elemtype) for item in items]
        else:
            self.values = list(zip(values, call.argtypes[1:], strict=False))
        self.position = 1

    def take(self, position: int) -> tuple[Any, int]:
        """The argument of that number; 0 or less: the next one."""
        if position > 0:
            self.position = position
        if self.position > len(self.values):
            raise PgError("22023", "too few arguments for format()")
        self.position += 1
        return self.values[self.position - 2]


class _Specifier:
    """One %-specifier: `[position$][-][width | *[position$]]type`."""

    def __init__(self, template: str, at: int) -> None:
        self.template = template
        self.at = at

    def peek(self) -> str:
        if self.at >= len(self.template):
            raise _unterminated()
        return self.template[self.at]

    def digits(self) -> int | None:
        start = self.at
        while self.peek() in "0123456789":
            self.at += 1
        if self.at == start:
            return None
        value = int(self.template[start : self.at])
        if value >= 1 << 31:
            raise PgError("22003", "number is out of range")
        return value

    def format(self, arguments: _Arguments, out: list[str]) -> int:
        position, width, left = 0, 0, False
        width_position: int | None = None
        number = self.digits()
        if number is not None and self.peek() != "$":
            width = number
        else:
            if number is not None:
                position = self.nonzero(number)
                self.at += 1
            while self.peek() == "-":
                left = True
                self.at += 1
            if self.peek() == "*":
                self.at += 1
                width_position = 0
                number = self.digits()
                if number is not None:
                    if self.peek() != "$":
                        raise PgError("22023", 'width argument position must be ended by "$"')
                    width_position = self.nonzero(number)
                    self.at += 1
            else:
                width = self.digits() or 0
        kind = self.peek()
        if kind not in "sIL":
            raise PgError(
                "22023",
                f'unrecognized format() type specifier "{kind}"',
                hint='For a single "%" use "%%".',
            )
        if width_position is not None:
            width = _width(arguments, width_position)
        text = _converted(kind, *arguments.take(position), arguments.style)
        if width < 0:
            left, width = True, -width
        out.append(text.ljust(width) if left else text.rjust(width))
        return self.at + 1

    def nonzero(self, number: int) -> int:
        if number == 0:
            raise PgError("22023", "format specifies argument 0, but arguments are numbered from 1")
        return number


def _width(arguments: _Arguments, position: int) -> int:
    from pgrepl.types.numbers import read_int4

    value, typoid = arguments.take(position)
    if value is None:
        return 0
    width = read_int4(write_text(value, typoid, arguments.style))
    if width == -(1 << 31):
        raise PgError("22003", "number is out of range")
    return width


def _converted(kind: str, value: Any, typoid: int, style: Any) -> str:
    if value is None:
        if kind == "I":
            raise PgError("22004", "null values cannot be formatted as an SQL identifier")
        return "NULL" if kind == "L" else ""
    text = write_text(value, typoid, style)
    if kind == "I":
        return quote.quote_identifier(text)
    return quote.quote_literal(text) if kind == "L" else text


# ------------------------------------------------------------------------------------------------------------- Unicode

_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


def _form(name: str) -> Any:
    if name.upper() not in _FORMS:
        raise PgError("22023", f"invalid normalization form: {name}")
    return name.upper()


@implements("unicode_normalize_func")
def unicode_normalize(text: str, form: str) -> str:
    return unicodedata.normalize(_form(form), text)


@implements("unicode_is_normalized")
def unicode_is_normalized(text: str, form: str) -> bool:
    return unicodedata.is_normalized(_form(form), text)


@implements("unistr")
def unistr(text: str) -> str:
    """Unicode escapes: \\XXXX, \\+XXXXXX, \\uXXXX, \\UXXXXXXXX; pairs of surrogates are joined."""
    out: list[str] = []
    high = 0
    at = 0
    while at < len(text):
        char = text[at]
        if char != "\\" or text[at + 1 : at + 2] == "\\":
            if high:
                raise _invalid_pair()
            out.append(char)
            at += 2 if char == "\\" else 1
            continue
        skip, size = {"+": (2, 6), "u": (2, 4), "U": (2, 8)}.get(text[at + 1 : at + 2], (1, 4))
        digits = text[at + skip : at + skip + size]
        if len(digits) != size or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise PgError(
                "42601",
                "invalid Unicode escape",
                hint="Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.",
            )
        at += skip + size
        code = int(digits, 16)
        if not 0 < code <= 0x10FFFF:
            raise PgError("22023", f"invalid Unicode code point: {code:04X}")
        if (0xDC00 <= code <= 0xDFFF) != bool(high):
            raise _invalid_pair()
        if high:
            code, high = 0x10000 + ((high & 0x3FF) << 10) + (code & 0x3FF), 0
        if 0xD800 <= code <= 0xDBFF:
            high = code
        else:
            out.append(chr(code))
    if high:
        raise _invalid_pair()
    return "".join(out)


def _invalid_pair() -> PgError:
    return PgError("42601", "invalid Unicode surrogate pair")
