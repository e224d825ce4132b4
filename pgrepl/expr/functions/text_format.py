"""Quoting for SQL, parse_ident, format(), Unicode escapes, normal forms and assigned characters."""

from __future__ import annotations

import unicodedata
from typing import Any

from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.functions.strings import as_text, joined
from pgrepl.ground.errors import PgError
from pgrepl.sql import keywords
from pgrepl.types import input_checks, oids, unicode
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.numbers import read_int4
from pgrepl.types.text import write_text

implements = Family()

# ------------------------------------------------------------------------------------------------------------- quoting


implements("quote_ident")(lambda name: keywords.quote_identifier(name))


@implements("quote_literal")
def quote_literal(text: str) -> str:
    if len(text) > input_checks.MAX_BYTES >> 3:
        input_checks.check_request(2 * input_checks.size_of(text) + 3 + input_checks.HEADER)
    return keywords.quote_literal(text)


implements("quote_nullable")(lambda text: "NULL" if text is None else keywords.quote_literal(text))


@implements("quote_literal(anyelement)", context=True)
def quote_literal_any(call: Call, value: Any) -> str:
    return keywords.quote_literal(as_text(call, value, call.argtypes[0]))


@implements("quote_nullable(anyelement)", context=True)
def quote_nullable_any(call: Call, value: Any) -> str:
    return "NULL" if value is None else keywords.quote_literal(as_text(call, value, call.argtypes[0]))


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
    while (end := template.find("%", at)) >= 0:
        out.append(template[at:end])
        at = end + 1
        if at >= len(template):
            raise _unterminated()
        if template[at] == "%":
            out.append("%")
            at += 1
        elif template[at] in "sIL":
            out.append(_converted(template[at], *arguments.take(0), arguments.style))
            at += 1
        else:
            at = _Specifier(template, at).format(arguments, out)
    out.append(template[at:])
    return joined(out)


def _unterminated() -> PgError:
    return PgError("22023", "unterminated format() type specifier", hint='For a single "%" use "%%".')


class _Arguments:
    """The arguments of format(); `next` is the next one's number."""

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
        """The argument with that number; 0 or less: the next one."""
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
            raise PgError("22023", f'unrecognized format() type specifier "{kind}"', hint='For a single "%" use "%%".')
        if width_position is not None:
            width = _width(arguments, width_position)
        text = _converted(kind, *arguments.take(position), arguments.style)
        if width < 0:
            left, width = True, -width
        if width > input_checks.MAX_BYTES >> 1:
            input_checks.check_enlarge(sum(map(input_checks.size_of, out)), width - len(text))
        out.append(text.ljust(width) if left else text.rjust(width))
        return self.at + 1

    def nonzero(self, number: int) -> int:
        if number == 0:
            raise PgError("22023", "format specifies argument 0, but arguments are numbered from 1")
        return number


def _width(arguments: _Arguments, position: int) -> int:
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
        return keywords.quote_identifier(text)
    return keywords.quote_literal(text) if kind == "L" else text


# ------------------------------------------------------------------------------------------------------------- Unicode

_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


def _form(name: str) -> Any:
    if name.upper() not in _FORMS:
        raise PgError("22023", f"invalid normalization form: {name}")
    return name.upper()


implements("unicode_normalize_func")(lambda text, form: unicodedata.normalize(_form(form), text))
implements("unicode_is_normalized")(lambda text, form: unicodedata.is_normalized(_form(form), text))
implements("unicode_version", context=True)(lambda call: unicode.version(call.context.release))


@implements("unicode_assigned", context=True)
def unicode_assigned(call: Call, text: str) -> bool:
    return unicode.is_assigned(text, call.context.release)


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
