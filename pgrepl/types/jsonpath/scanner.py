"""The scanner of jsonpath (jsonpath_scan.l), and the items of a path (JsonPathParseItem)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from pgrepl.ground.errors import PgError

LAST_LEVEL = 0xFFFFFFFF  # `last` among the levels of `**{…}`

COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
BOOLEANS = frozenset({"&&", "||", "!", "is unknown", "exists", "starts with", "like_regex", *COMPARISONS})


@dataclass(slots=True, eq=False)
class Item:
    """One step of a path, and the step behind it.

    kind is a literal ("null", "string", "numeric", "bool"), "$", "@", "last", "variable", "key", ".*", "[*]",
    "[…]" (value: pairs of items), "**" (value: the first and the last level), "?", "method" (value: its name),
    "u+", "u-" (signs), an operator, or one of BOOLEANS. A like_regex has its pattern and flags as its value.
    """

    kind: str
    value: Any = None
    args: tuple[Item | None, ...] = ()
    next: Item | None = None

    @property
    def is_boolean(self) -> bool:
        return self.kind in BOOLEANS


class Path(NamedTuple):
    """A whole path."""

    lax: bool
    first: Item


def operation_name(item: Item) -> str:
    """The name of an operator or method in messages (jspOperationName)."""
    if item.kind == "method":
        name: str = item.value
        return name
    return item.kind[1:] if item.kind in ("u+", "u-") else item.kind


def chained(item: Item, following: Item) -> None:
    """Put an item behind the last step of a path (makeItemList)."""
    while item.next is not None:
        item = item.next
    item.next = following


def steps(item: Item | None) -> Iterator[Item]:
    while item is not None:
        yield item
        item = item.next


def parts(item: Item) -> Iterator[Item]:
    """The items inside one step."""
    yield from (arg for arg in item.args if arg is not None)
    if item.kind == "[…]":
        for pair in item.value:
            yield from (bound for bound in pair if bound is not None)


# --- scanner ----------------------------------------------------------------------------------------------------------


_OTHER = r'[^?%$.\[\]{}()|&!=<>@#,*:\-+/\\" \t\n\r\f]'
_INTEGER = r"(?:0|[1-9](?:_?[0-9])*)"
_DIGITS = r"[0-9](?:_?[0-9])*"
_DECIMAL = rf"(?:{_INTEGER}\.(?:{_DIGITS})?|\.{_DIGITS})"
_REAL = rf"(?:{_INTEGER}|{_DECIMAL})[Ee][-+]?{_DIGITS}"

_JUNK = "trailing junk after numeric literal"
# the rules of the scanner's initial state, in its order: of the longest matches the first one counts
_RULES = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("operator", r"&&|\|\||!=|\*\*|<=|==|<>|>=|[!<>]"),
        ("variable", rf"\${_OTHER}+"),
        ("quoted variable", r'\$"'),
        ("special", r"[?%$.\[\]{}()|&!=<>@#,*:\-+/]"),
        ("blank", r"[ \t\n\r\f]+"),
        ("comment", r"/\*"),
        ("numeric", _REAL),
        ("numeric", _DECIMAL),
        ("integer", _INTEGER),
        ("integer", r"0[xX][0-9A-Fa-f](?:_?[0-9A-Fa-f])*"),
        ("integer", r"0[oO][0-7](?:_?[0-7])*"),
        ("integer", r"0[bB][01](?:_?[01])*"),
        ("invalid numeric literal", rf"(?:{_INTEGER}|{_DECIMAL})[Ee][-+]"),
        (_JUNK, rf"{_INTEGER}{_OTHER}"),
        (_JUNK, rf"{_DECIMAL}{_OTHER}"),
        (_JUNK, rf"{_REAL}{_OTHER}"),
        ("string", '"'),
        ("word", rf"{_OTHER}+|\\"),
    )
)
_FAULTS = frozenset({_JUNK, "invalid numeric literal"})

_HEX = "[0-9A-Fa-f]"
_UNICODE = rf"(?:\\u(?:{_HEX}{{4}}|\{{{_HEX}{{1,6}}\}}))"
_ESCAPES = tuple(
    (kind, re.compile(pattern, re.DOTALL))
    for kind, pattern in (
        ("unicode", rf"{_UNICODE}+"),
        ("hex", rf"\\x{_HEX}{{2}}"),
        ("invalid Unicode escape sequence", rf"{_UNICODE}*\\u(?:{_HEX}{{0,3}}|\{{{_HEX}{{0,6}})"),
        ("invalid hexadecimal character sequence", rf"\\x{_HEX}?"),
        ("character", r"\\."),
        ("unexpected end after backslash", r"\\"),
    )
)
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WORD_PART = re.compile(_OTHER + "+")
_STRING_PART = re.compile(r'[^\\"]+')
_CODE = re.compile(rf"\\u(?:\{{({_HEX}+)\}}|({_HEX}{{4}}))")

# key words; those that are true must be in lower case
KEYWORDS = dict.fromkeys(
    (
        "is", "to", "abs", "lax", "date", "flag", "last", "size", "time", "type", "with", "floor", "bigint", "double",
        "exists", "number", "starts", "strict", "string", "boolean", "ceiling", "decimal", "integer", "time_tz",
        "unknown", "datetime", "keyvalue", "timestamp", "like_regex", "timestamp_tz",
    ),
    False,
) | {"null": True, "true": True, "false": True}  # fmt: skip


class Token(NamedTuple):
    """kind is a key word or an operator itself, or one of string, variable, word, integer, numeric, end."""

    kind: str
    text: str  # the value of a string, a number or a name
    shown: str  # the text that an error at this token shows


class JsonPathScanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def next(self) -> Token:
        while self.at < len(self.text):
            kind, word = self._longest(_RULES)
            if kind in _FAULTS:
                fail(kind, word)
            if kind == "string" or kind == "quoted variable":
                return self._quoted("string" if kind == "string" else "variable")
            if kind == "word":
                self.at -= len(word)
                token = self._word()
                if token is not None:
                    return token
            elif kind == "comment":
                self._comment()
            elif kind == "variable":
                return Token(kind, word[1:], word)
            elif kind in ("operator", "special"):
                return Token("!=" if word == "<>" else word, word, word)
            elif kind != "blank":
                return Token(kind, word, word)
        return Token("end", "", "")

    def _longest(self, rules: tuple[tuple[str, re.Pattern[str]], ...]) -> tuple[str, str]:
        best, word = "", ""
        for kind, pattern in rules:
            match = pattern.match(self.text, self.at)
            if match is not None and match.end() - self.at > len(word):
                best, word = kind, match[0]
        self.at += len(word)
        return best, word

    def _comment(self) -> None:
        end = self.text.find("*/", self.at)
        if end < 0:
            self.at = len(self.text)
            fail("unexpected end of comment", "")
        self.at = end + 2

    def _word(self) -> Token | None:
        """An unquoted name or key word. One that a comment ends is lost, as in PostgreSQL."""
        out: list[str] = []
        while self.at < len(self.text):
            match = _WORD_PART.match(self.text, self.at)
            if match is not None:
                out.append(match[0])
                self.at = match.end()
            elif self.text[self.at] == "\\":
                out.append(self._escape())
            elif self.text.startswith("/*", self.at):
                self.at += 2
                self._comment()
                return None
            else:
                break
        name = "".join(out)
        blank = re.compile(r"[ \t\n\r\f]*").match(self.text, self.at)
        assert blank is not None
        self.at = blank.end()
        key = name.lower()
        is_keyword = key in KEYWORDS and (not KEYWORDS[key] or key == name)
        return Token(key if is_keyword else "word", name, blank[0])

    def _quoted(self, kind: str) -> Token:
        out: list[str] = []
        while True:
            match = _STRING_PART.match(self.text, self.at)
            if match is not None:
                out.append(match[0])
                self.at = match.end()
            elif self.at >= len(self.text):
                fail("unterminated quoted string", "")
            elif self.text[self.at] == '"':
                self.at += 1
                return Token(kind, "".join(out), '"')
            else:
                out.append(self._escape())

    def _escape(self) -> str:
        kind, word = self._longest(_ESCAPES)
        if kind == "unicode":
            return _unicode(word)
        if kind == "hex":
            return _character(int(word[2:], 16))
        if kind != "character":
            fail(kind, word)
        return _CONTROLS.get(word[1], word[1])


def fail(message: str, shown: str) -> NoReturn:
    """The syntax error of a jsonpath (jsonpath_yyerror)."""
    where = f'at or near "{shown}"' if shown else "at end"
    raise PgError("42601", f"{message} {where} of jsonpath input")


def _invalid(detail: str) -> PgError:
    return PgError("22P02", "invalid input syntax for type jsonpath", detail=detail)


def _unicode(escapes: str) -> str:
    """Escapes side by side, in which surrogates make pairs (parseUnicode)."""
    out: list[str] = []
    high = 0
    for braced, plain in _CODE.findall(escapes):
        code = int(braced or plain, 16)
        if 0xD800 <= code <= 0xDBFF:
            if high:
                raise _invalid("Unicode high surrogate must not follow a high surrogate.")
            high = code
            continue
        if (0xDC00 <= code <= 0xDFFF) != bool(high):
            raise _invalid("Unicode low surrogate must follow a high surrogate.")
        if high:
            code, high = 0x10000 + ((high & 0x3FF) << 10) + (code & 0x3FF), 0
        out.append(_character(code))
    if high:
        raise _invalid("Unicode low surrogate must follow a high surrogate.")
    return "".join(out)


def _character(code: int) -> str:
    if code == 0:
        detail = "\\u0000 cannot be converted to text."
        raise PgError("22P05", "unsupported Unicode escape sequence", detail=detail)
    if code > 0x10FFFF:
        raise PgError("42601", "invalid Unicode code point")
    return chr(code)
