"""The syntax of `synchronous_standby_names` (PostgreSQL's syncrep_scanner.l and syncrep_gram.y).

s1, s2                    one of them, the first that is there
FIRST 2 (s1, s2, s3)      two of them, by their order; FIRST may be left out
ANY 2 (s1, s2, s3)        any two of them
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pgrepl.errors import PgError

_TOKEN = re.compile(
    r"""(?P<space>[ \t\n\r\f\v]+) | (?P<word>[A-Za-z\x80-\U0010ffff_][A-Za-z0-9\x80-\U0010ffff_$]*) | (?P<number>[0-9]+)
    | "(?P<quoted>[^"]*(?:""[^"]*)*)" | (?P<open>") | (?P<name>\*) | (?P<mark>[,()]) | (?P<junk>.)""",
    re.VERBOSE | re.ASCII,
)
_Token = tuple[str, str]  # kind, text


def check_standbys(text: str) -> None:
    """An error with PostgreSQL's SQLSTATE and DETAIL unless the text names standbys."""
    parser = _Parser(text)
    counts = parser.take("first", "any") is not None
    if counts or parser.begins_count():
        count = _whole_number(parser.expect("number"))
        parser.expect("(")
        parser.names()
        parser.expect(")")
    else:
        count = 1
        parser.names()
    parser.expect("end")
    if count <= 0:
        raise PgError("22023", f"number of synchronous standbys ({count}) must be greater than zero")


def _whole_number(text: str) -> int:
    """As C's atoi, which keeps the last 32 bits of the largest long."""
    number = min(int(text), (1 << 63) - 1) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def begins_count(self) -> bool:
        """Is the number that comes the one of standbys, and not the name of one?"""
        kinds = [kind for kind, _ in self._tokens[self._at : self._at + 2]]
        return kinds == ["number", "("]

    def take(self, *kinds: str) -> str | None:
        kind, text = self._tokens[self._at]
        if kind not in kinds:
            return None
        self._at += 1
        return text

    def expect(self, *kinds: str) -> str:
        found = self.take(*kinds)
        if found is None:
            kind, text = self._tokens[self._at]
            what = "unterminated quoted identifier" if kind == "unterminated" else "syntax error"
            raise PgError("42601", "", detail=f"{what} " + (f'at or near "{text}"' if text else "at end of input"))
        return found

    def names(self) -> None:
        self.expect("name", "number")
        while self.take(",") is not None:
            self.expect("name", "number")


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind, shown = str(found.lastgroup), found.group()
        if kind == "word":
            yield shown.lower() if shown.lower() in ("first", "any") else "name", shown
        elif kind == "quoted":
            yield "name", '"'  # what an error shows of it
        elif kind == "open":
            yield "unterminated", ""
            return
        elif kind == "mark":
            yield shown, shown
        elif kind != "space":
            yield kind, shown
    yield "end", ""
