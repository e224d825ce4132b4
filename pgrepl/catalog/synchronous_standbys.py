"""The standbys that `synchronous_standby_names` asks for (PostgreSQL's syncrep_scanner.l and syncrep_gram.y).

s1, s2                    one of them, the first that is there
FIRST 2 (s1, s2, s3)      two of them, by their order; FIRST may be left out
ANY 2 (s1, s2, s3)        any two of them
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pgrepl.errors import PgError
from pgrepl.frozen import frozen

_TOKEN = re.compile(
    r"""(?P<space>[ \t\n\r\f\v]+) | (?P<word>[A-Za-z\x80-\U0010ffff_][A-Za-z0-9\x80-\U0010ffff_$]*) | (?P<number>[0-9]+)
    | "(?P<quoted>[^"]*(?:""[^"]*)*)" | (?P<open>") | (?P<name>\*) | (?P<mark>[,()]) | (?P<junk>.)""",
    re.VERBOSE | re.ASCII,
)
_NAMES = ("name", "number")


@frozen
class SynchronousStandbys:
    """So many of the named standbys; `*` is any. `by_priority`: the first of the list that are there."""

    count: int
    names: tuple[str, ...]
    by_priority: bool


class _Token(NamedTuple):
    kind: str
    text: str  # what the token means
    shown: str  # what an error shows


def parse_standbys(text: str) -> SynchronousStandbys:
    """The standbys; an error with the SQLSTATE and the DETAIL of PostgreSQL's."""
    parser = _Parser(text)
    method = parser.take("first", "any")
    number = parser.take("number") if method is not None or parser.begins_count() else None
    if number is None and method is not None:
        raise parser.error()
    count = 1 if number is None else _whole_number(number.text)
    names = parser.names() if number is None else parser.names_in_parentheses()
    parser.expect("end")
    if count <= 0:
        raise PgError("22023", f"number of synchronous standbys ({count}) must be greater than zero")
    return SynchronousStandbys(count, names, method is None or method.kind == "first")


def _whole_number(text: str) -> int:
    """As C's atoi, which keeps the last 32 bits of the largest long."""
    number = min(int(text), (1 << 63) - 1) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def begins_count(self) -> bool:
        """Is the number that comes the one of standbys, and not the name of one?"""
        return self._next.kind == "number" and self._tokens[self._at + 1].kind == "("

    def take(self, *kinds: str) -> _Token | None:
        found = self._next
        if found.kind not in kinds:
            return None
        self._at += 1
        return found

    def expect(self, *kinds: str) -> _Token:
        found = self.take(*kinds)
        if found is None:
            raise self.error()
        return found

    def names(self) -> tuple[str, ...]:
        found = [self.expect(*_NAMES).text]
        while self.take(",") is not None:
            found.append(self.expect(*_NAMES).text)
        return tuple(found)

    def names_in_parentheses(self) -> tuple[str, ...]:
        self.expect("(")
        found = self.names()
        self.expect(")")
        return found

    def error(self) -> PgError:
        token = self._next
        what = "unterminated quoted identifier" if token.kind == "unterminated" else "syntax error"
        where = f'at or near "{token.shown}"' if token.shown else "at end of input"
        return PgError("42601", "", detail=f"{what} {where}")


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind, shown = str(found.lastgroup), found.group()
        if kind == "word":
            yield _Token(shown.lower() if shown.lower() in ("first", "any") else "name", shown, shown)
        elif kind == "quoted":
            yield _Token("name", found["quoted"].replace('""', '"'), '"')
        elif kind == "open":
            yield _Token("unterminated", "", "")
            return
        elif kind == "mark":
            yield _Token(shown, shown, shown)
        elif kind != "space":
            yield _Token(kind, shown, shown)
    yield _Token("end", "", "")
