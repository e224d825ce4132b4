"""Quoted literals: continued strings, E'' escapes, U&'' escapes; and the length limits of numbers and names.

Functions take the whole text and an index and give the value and the index behind it, or raise PostgreSQL's error.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pgrepl.errors import PgError, Report
from pgrepl.frozen import frozen
from pgrepl.types.encoding import invalid_bytes

NAMEDATALEN = 64
OnNotice = Callable[[Report], None]


@frozen
class StringRules:
    """The settings for backslashes in strings: standard_conforming_strings, escape_string_warning and
    backslash_quote."""

    conforming: bool = True
    warning: bool = True
    quote: bool = True  # \\' may stand for a quote


STANDARD = StringRules()
_UNSAFE_QUOTE = "Use '' to write quotes in strings. \\' is insecure in client-only encodings."
_WARNINGS = {
    "'": ("\\'", "Use '' to write quotes in strings, or use the escape string syntax (E'...')."),
    "\\": ("\\\\", "Use the escape string syntax for backslashes, e.g., E'\\\\'."),
}
_ESCAPE_WARNING = ("escape", "Use the escape string syntax for escapes, e.g., E'\\r\\n'.")

CONTINUATION = re.compile(r"[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*'")
"""Whitespace with a newline in it, and a quote: the literal before it goes on."""
_ESCAPE_PART = re.compile(
    r"""(?P<plain>[^\\']+) | (?P<doubled>'') | (?P<quote>')
      | \\x(?P<hex>[0-9A-Fa-f]{1,2}) | \\(?P<octal>[0-7]{1,3})
      | \\(?:u(?P<u4>[0-9A-Fa-f]{4}) | U(?P<u8>[0-9A-Fa-f]{8}))
      | (?P<badunicode>\\(?:u[0-9A-Fa-f]{0,3}|U[0-9A-Fa-f]{0,7}))
      | \\(?P<single>.)""",
    re.X | re.S,
)
_SINGLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_UNICODE = re.compile(r"([0-9A-Fa-f]{4})|\+([0-9A-Fa-f]{6})")


def near(message: str, text: str, start: int, end: int) -> PgError:
    """A syntax error at a slice of the text (scanner_yyerror)."""
    if start >= len(text):
        return PgError("42601", f"{message} at end of input", location=len(text))
    return PgError("42601", f'{message} at or near "{text[start:end]}"', location=start)


def quoted(text: str, index: int, start: int, what: str = "quoted string") -> tuple[str, int]:
    """A literal without escapes, read from behind its opening quote. Only in strings a doubled quote stands for one."""
    end = text.find("'", index)
    if end >= 0 and text[end + 1 : end + 2] not in _MAY_GO_ON:
        return text[index:end], end + 1
    parts = []
    while end >= 0:
        parts.append(text[index:end])
        if what == "quoted string" and text.startswith("'", end + 1):
            parts.append("'")
            index = end + 2
        elif more := CONTINUATION.match(text, end + 1):
            index = more.end()
        else:
            return "".join(parts), end + 1
        end = text.find("'", index)
    raise near(f"unterminated {what}", text, start, len(text))


_MAY_GO_ON = frozenset("' \t\n\r\f\v-")


def quoted_name(text: str, index: int, start: int) -> tuple[str, int]:
    """A name from behind its opening double quote."""
    parts = []
    while True:
        end = text.find('"', index)
        if end < 0:
            raise near("unterminated quoted identifier", text, start, len(text))
        parts.append(text[index:end])
        index = end + 1
        if not text.startswith('"', index):
            break
        parts.append('"')
        index += 1
    name = "".join(parts)
    if not name:
        raise near("zero-length delimited identifier", text, start, index)
    return name, index


def escape_string(
    text: str, index: int, start: int, rules: StringRules = STANDARD, warn: OnNotice | None = None
) -> tuple[str, int]:
    """An E'' literal from behind its opening quote. Octal and hexadecimal escapes are bytes, so the whole is put
    together as bytes and must be UTF-8 in the end. `warn` is told of the first escape."""
    raw = bytearray()
    first_half = 0  # of a surrogate pair
    while True:
        part = _ESCAPE_PART.match(text, index)
        kind = part.lastgroup if part else None
        if first_half and kind not in ("u4", "u8", "badunicode"):
            raise near("invalid Unicode surrogate pair", text, index, index + 1)
        if part is None:
            raise near("unterminated quoted string", text, start, len(text))
        at, index = index, part.end()
        if kind == "single" and part["single"] == "'" and not rules.quote:
            raise PgError("22P06", "unsafe use of \\' in a string literal", hint=_UNSAFE_QUOTE, location=start)
        if warn is not None and kind in ("single", "octal", "hex"):
            what, hint = _WARNINGS.get(part["single"] or "", _ESCAPE_WARNING)
            message = f"nonstandard use of {what} in a string literal"
            warn(Report("WARNING", "22P06", message, hint=hint, position=start + 1))
            warn = None
        if kind == "plain":
            raw += part[0].encode("utf-8", "surrogatepass")
        elif kind == "doubled":
            raw += b"'"
        elif kind == "quote":
            more = CONTINUATION.match(text, index)
            if more is None:
                return _decoded(raw), index
            index = more.end()
        elif kind == "hex":
            raw.append(int(part["hex"], 16))
        elif kind == "octal":
            raw.append(int(part["octal"], 8) & 255)
        elif kind == "single":
            raw += _SINGLE.get(part["single"], part["single"]).encode("utf-8", "surrogatepass")
        elif kind == "badunicode":
            raise PgError(
                "22025", "invalid Unicode escape", hint="Unicode escapes must be \\uXXXX or \\UXXXXXXXX.", location=at
            )
        else:
            code = int(part["u4"] or part["u8"], 16)
            if is_second_half(code) != bool(first_half):
                raise near("invalid Unicode surrogate pair", text, at, index)
            if is_first_half(code):
                first_half = code
                continue
            if first_half:
                code, first_half = joined(first_half, code), 0
            if not 0 < code <= 0x10FFFF:
                raise near("invalid Unicode escape value", text, at, index)
            raw += chr(code).encode("utf-8")


def _decoded(raw: bytearray) -> str:
    try:
        value = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = error.start
    else:
        if 0 not in raw:
            return value
        bad = len(raw)
    if 0 in raw:
        bad = min(bad, raw.index(0))
    raise invalid_bytes(raw, bad)


def is_first_half(code: int) -> bool:
    return 0xD800 <= code <= 0xDBFF


def is_second_half(code: int) -> bool:
    return 0xDC00 <= code <= 0xDFFF


def joined(first: int, second: int) -> int:
    return 0x10000 + ((first & 0x3FF) << 10) + (second & 0x3FF)


def unescape_unicode(body: str, escape: str, start: int) -> str:
    """The value of a U&'' or U&"" whose text between the quotes is `body` (str_udeescape)."""
    parts: list[str] = []
    first_half = index = 0

    def broken_pair() -> PgError:
        return PgError("42601", "invalid Unicode surrogate pair", location=start + 3 + index)

    while index < len(body):
        if body[index] != escape or body.startswith(escape, index + 1):
            if first_half:
                raise broken_pair()
            parts.append(body[index])
            index += 2 if body[index] == escape else 1
            continue
        match = _UNICODE.match(body, index + 1)
        if match is None:
            hint = "Unicode escapes must be \\XXXX or \\+XXXXXX."
            raise PgError("42601", "invalid Unicode escape", hint=hint, location=start + 3 + index)
        code = int(match[1] or match[2], 16)
        if not 0 < code <= 0x10FFFF:
            raise PgError("42601", "invalid Unicode escape value", location=start + 3 + index)
        if is_second_half(code) != bool(first_half):
            raise broken_pair()
        if is_first_half(code):
            first_half = code
        else:
            parts.append(chr(joined(first_half, code) if first_half else code))
            first_half = 0
        index = match.end()
    if first_half:
        raise broken_pair()
    return "".join(parts)
