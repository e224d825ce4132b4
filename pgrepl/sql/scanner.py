"""The scanner, with PostgreSQL's lexical rules: text becomes tokens, one at a time as the parser needs them.

`scan` gives the tokens of scan.l; `tokens` adds base_yylex's one token of look-ahead. PostgreSQL's errors are raised
when their token is reached, never before. Every character beyond ASCII belongs to names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import (
    NAMEDATALEN,
    STANDARD,
    TOKENS,
    OnNotice,
    StringRules,
    escape_string,
    fold,
    near,
    quoted,
    quoted_name,
    truncate,
    unescape_unicode,
)
from pgrepl.types.input_checks import LETTER, LETTER_OR_DIGIT, NAME_PART

Token = tuple[str, Any, int, int]
"""(terminal, value, start, end). The value of a key word is the word in lower case, of a name or string its content."""


_MOST_PARAMETERS = (2**30 - 1) // 4  # MaxAllocSize / sizeof(Oid)
_NAME = LETTER + NAME_PART + "*"
_DECIMAL = "[0-9](?:_?[0-9])*"
_NUMERIC = rf"(?:{_DECIMAL}\.(?:{_DECIMAL})?|\.{_DECIMAL})"
_REAL = rf"(?:{_NUMERIC}|{_DECIMAL})[Ee][-+]?{_DECIMAL}"

# Python takes the first alternative that matches, flex the longest: the order makes them agree, except for numbers
_TOKEN = re.compile(
    rf"""(?P<space>(?:[ \t\n\r\f\v]+|--[^\n\r]*)+)
      | (?P<comment>/\*)
      | (?P<prefixed>[bBxXnNeE]'|[uU]&['"])
      | (?P<word>{_NAME})
      | (?P<string>')
      | (?P<quoted>")
      | (?P<dollar>\$(?:{LETTER}{LETTER_OR_DIGIT}*)?\$)
      | (?P<dots>\.\.)
      | (?P<integer>[0-9]{{1,9}}(?![._]|{NAME_PART}))
      | (?P<number>\.?[0-9])
      | (?P<param>\$[0-9]+)
      | (?P<colons>::|:=)
      | (?P<operator>[~!@\#^&|`?+\-*/%<>=]+)
      | (?P<other>.)
    """,
    re.X | re.S,
)


@cache
def _numbers() -> re.Pattern[str]:
    """All numbers but short integers: the pattern takes longer to compile than the others together."""
    return re.compile(
        rf"""(?P<dotted>{_DECIMAL}(?=\.\.)) | (?P<real>{_REAL}) | (?P<badreal>(?:{_NUMERIC}|{_DECIMAL})[Ee][-+])
      | (?P<based>0[xX](?:_?[0-9A-Fa-f])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+) | (?P<badbased>0[xXoObB]_?)
      | (?P<numeric>{_NUMERIC}) | (?P<decimal>{_DECIMAL})""",
        re.X,
    )


_NUMBER_PREFIX = re.compile(rf"{_REAL}|{_NUMERIC}|{_DECIMAL}")
_WORD = re.compile(_NAME)
_NAME_GOES_ON = re.compile(NAME_PART)
_COMMENT_EDGE = re.compile(r"/\*|\*/")

SINGLE = {
    ",": "COMMA", "(": "LPAR", ")": "RPAR", "[": "LSQB", "]": "RSQB", ".": "DOT", ";": "SEMICOLON", ":": "COLON",
    "+": "PLUS", "-": "MINUS", "*": "STAR", "/": "SLASH", "%": "PERCENT", "^": "CIRCUMFLEX", "<": "LESSTHAN",
    ">": "MORETHAN", "=": "EQUAL",
}  # fmt: skip
DOUBLE = {"=>": "EQUALS_GREATER", "<=": "LESS_EQUALS", ">=": "GREATER_EQUALS", "<>": "NOT_EQUALS", "!=": "NOT_EQUALS"}
_NOT_STANDARD = frozenset("~!@#^&|`?%")
_INT4_MAX = 0x7FFFFFFF
_BASES = {"x": "hexadecimal", "o": "octal", "b": "binary"}

_LOOK_AHEAD = {
    "NOT": ("NOT_LA", frozenset({"BETWEEN", "IN", "LIKE", "ILIKE", "SIMILAR"})),
    "NULLS": ("NULLS_LA", frozenset({"FIRST", "LAST"})),
    "WITH": ("WITH_LA", frozenset({"TIME", "ORDINALITY"})),
    "WITHOUT": ("WITHOUT_LA", frozenset({"TIME"})),
    "FORMAT": ("FORMAT_LA", frozenset({"JSON"})),
}


def error_at(token: Token, message: str, text: str) -> PgError:
    """A syntax error: `message at or near "token"`, or `at end of input`."""
    return near(message, text, token[2], token[3])


def scan(text: str, on_notice: OnNotice | None = None, rules: StringRules = STANDARD) -> Iterator[Token]:
    """The tokens of scan.l. U&'' and U&"" come as USCONST and UIDENT, still escaped; at the end comes `$END`."""
    index, length, match, keywords = 0, len(text), _TOKEN.match, TOKENS
    while index < length:
        lexeme = match(text, index)
        assert lexeme is not None
        start, index, kind = index, lexeme.end(), lexeme.lastgroup
        if kind == "space":
            continue
        if kind == "word":
            word = lexeme[0]
            name = word.lower() if word.isascii() else fold(word)
            terminal = keywords.get(name)
            if terminal is None:
                yield "IDENT", (name if len(name) < 16 else truncate(name, on_notice)), start, index
            else:
                yield terminal, name, start, index
        elif kind == "other":
            character = lexeme[0]
            yield SINGLE.get(character, character), character, start, index
        elif kind == "operator":
            operator = _operator(lexeme[0])
            index = start + len(operator)
            terminal = SINGLE.get(operator) or DOUBLE.get(operator, "OP")
            if len(operator) >= NAMEDATALEN:
                raise near("operator too long", text, start, index)
            yield terminal, ("<>" if operator == "!=" else operator), start, index
        elif kind == "string":
            if rules.conforming:
                value, index = quoted(text, index, start)
            else:
                value, index = escape_string(text, index, start, rules, on_notice if rules.warning else None)
            yield "SCONST", value, start, index
        elif kind == "integer":
            yield "ICONST", int(lexeme[0]), start, index
        elif kind == "number":
            token = _number(text, start)
            index = token[3]
            yield token
        elif kind == "quoted":
            name, index = quoted_name(text, index, start)
            yield "IDENT", truncate(name, on_notice), start, index
        elif kind == "colons":
            yield ("TYPECAST" if lexeme[0] == "::" else "COLON_EQUALS"), lexeme[0], start, index
        elif kind == "prefixed":
            token = _prefixed(text, start, index, rules)
            index = token[3]
            yield token
        elif kind == "comment":
            index = _comment_end(text, start)
        elif kind == "dollar":
            end = text.find(lexeme[0], index)
            if end < 0:
                raise near("unterminated dollar-quoted string", text, start, length)
            value, index = text[index:end], end + len(lexeme[0])
            yield "SCONST", value, start, index
        elif kind == "param":
            if junk := _WORD.match(text, index):
                raise near("trailing junk after parameter", text, start, junk.end())
            yield "PARAM", int(lexeme[0][1:]), start, index
        else:
            yield "DOT_DOT", "..", start, index
    while True:
        yield "$END", None, length, length


def _operator(run: str) -> str:
    """The operator at the start of a run of operator characters: without a comment, and without a + or - at its end
    unless another character allows it."""
    if len(run) == 1:
        return run
    for comment in ("/*", "--"):
        run = run.partition(comment)[0] if run.find(comment) > 0 else run
    if run[-1] in "+-" and not _NOT_STANDARD.intersection(run[:-1]):
        return run.rstrip("+-") or run[0]
    return run


def _number(text: str, start: int) -> Token:
    match = _numbers().match(text, start)
    assert match is not None
    kind, end, digits = match.lastgroup, match.end(), match[0]
    junk = _junk_end(text, start, end) if kind == "badbased" or _NAME_GOES_ON.match(text, end) else 0
    if junk > end or kind == "badreal":
        raise near("trailing junk after numeric literal", text, start, max(junk, end))
    if kind == "badbased":
        raise near(f"invalid {_BASES[digits[1].lower()]} integer", text, start, end)
    plain = digits.replace("_", "")
    if kind in ("real", "numeric"):
        return "FCONST", plain, start, end
    if kind == "based":
        value = int(plain, 0)
        plain = plain if value <= _INT4_MAX else str(Decimal(value))
    elif len(plain.lstrip("0")) > 10:
        return "FCONST", plain, start, end
    else:
        value = int(plain)
    return ("ICONST", value, start, end) if value <= _INT4_MAX else ("FCONST", plain, start, end)


def _junk_end(text: str, start: int, end: int) -> int:
    """The end of a number that runs into a word: `1_0$`, `1e5$$`, `0b12`."""
    longest = 0
    for split in range(start + 1, end + 1):
        word = _WORD.match(text, split)
        if word and _NUMBER_PREFIX.fullmatch(text, start, split):
            longest = max(longest, word.end())
    return longest


def _prefixed(text: str, start: int, index: int, rules: StringRules) -> Token:
    """A literal with a letter before the quote."""
    letter = text[start].lower()
    if letter == "n":  # NCHAR, and the string follows as a token of its own
        return "NCHAR", "nchar", start, start + 1
    if letter == "e":
        value, index = escape_string(text, index, start, rules)
        return "SCONST", value, start, index
    if letter == "b":
        value, index = quoted(text, index, start, "bit string literal")
        return "BCONST", "b" + value, start, index
    if letter == "x":
        value, index = quoted(text, index, start, "hexadecimal string literal")
        return "XCONST", "x" + value, start, index
    if text[index - 1] == "'":
        if not rules.conforming:
            raise PgError(
                "0A000",
                "unsafe use of string constant with Unicode escapes",
                detail="String constants with Unicode escapes cannot be used when "
                '"standard_conforming_strings" is off.',
                location=start,
            )
        value, index = quoted(text, index, start)
        return "USCONST", value, start, index
    value, index = quoted_name(text, index, start)
    return "UIDENT", value, start, index


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    raise near("unterminated /* comment", text, start, len(text))


def tokens(text: str, on_notice: OnNotice | None = None, rules: StringRules = STANDARD) -> Iterator[Token]:
    """The tokens as the grammar expects them: NOT before IN is NOT_LA, U&'' is an SCONST, and so on (base_yylex)."""
    source = scan(text, on_notice, rules)
    for token in source:
        while True:
            terminal = token[0]
            if terminal in _LOOK_AHEAD:
                following = next(source)
                name, before = _LOOK_AHEAD[terminal]
                yield (name, *token[1:]) if following[0] in before else token
                token = following
            elif terminal == "UIDENT" or terminal == "USCONST":
                following = next(source)
                if following[0] == "UESCAPE":
                    yield _unicode(token, next(source), text, on_notice)
                    break
                yield _unicode(token, None, text, on_notice)
                token = following
            else:
                yield token
                break


def _unicode(token: Token, uescape: Token | None, text: str, on_notice: OnNotice | None) -> Token:
    """A U& token with its escapes replaced; `uescape` is the token after UESCAPE."""
    terminal, body, start, end = token
    escape = "\\"
    if uescape is not None:
        if uescape[0] != "SCONST":
            raise error_at(uescape, "UESCAPE must be followed by a simple string literal", text)
        escape, end = uescape[1], uescape[3]
        if len(escape) != 1 or not escape.isascii() or escape in "0123456789abcdefABCDEF+'\" \t\n\r\f\v":
            raise error_at(uescape, "invalid Unicode escape character", text)
    value = unescape_unicode(body, escape, start)
    return ("IDENT", truncate(value, on_notice), start, end) if terminal == "UIDENT" else ("SCONST", value, start, end)


def parameter_count(text: str) -> int:
    """The highest number of a parameter in a text, of those for which there may be a type (variable_paramref_hook)."""
    return max((number for number in parameter_numbers(text) if number <= _MOST_PARAMETERS), default=0)


def parameter_numbers(text: str) -> set[int]:
    """The numbers of the parameters `$1`, `$2`, … in a text."""
    numbers = set()
    for kind, value, *_ in scan(text):
        if kind == "$END":
            break
        if kind == "PARAM":
            numbers.add(int(value))
    return numbers
