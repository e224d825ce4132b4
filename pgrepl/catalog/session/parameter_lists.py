"""Lists in settings: identifiers (`"$user", public`), and synchronous_standby_names (syncrep_gram.y).

s1, s2                    one of them, the first that is there
FIRST 2 (s1, s2, s3)      two of them, by their order; FIRST may be left out
ANY 2 (s1, s2, s3)        any two of them
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.keywords import fold, truncate

_SPACE = " \t\n\r\f\v"


def split_identifiers(text: str, separator: str = ",") -> list[str] | None:
    """The names of a list, unquoted ones in lower case; None if the list is not well formed."""
    names = _split(text, separator)
    return None if names is None else [*names]


@lru_cache(1024)
def _split(text: str, separator: str) -> list[str] | None:
    names: list[str] = []
    position = _skip(text, 0)
    if position == len(text):
        return names
    while True:
        if position < len(text) and text[position] == '"':
            name, position = _quoted(text, position + 1)
            if name is None:
                return None
        else:
            start = position
            while position < len(text) and text[position] not in _SPACE and text[position] != separator:
                position += 1
            if position == start:
                return None
            name = fold(text[start:position])
        names.append(truncate(name))
        position = _skip(text, position)
        if position == len(text):
            return names
        if text[position] != separator:
            return None
        position = _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def _quoted(text: str, position: int) -> tuple[str | None, int]:
    out = ""
    while True:
        end = text.find('"', position)
        if end < 0:
            return None, position
        out += text[position:end]
        position = end + 1
        if position < len(text) and text[position] == '"':
            out += '"'
            position += 1
            continue
        return out, position


_SLOT_NAME_LENGTH = 64
_OF_SLOT_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")


def check_slot_name(name: str) -> None:
    """Raises if a text cannot be the name of a slot (ReplicationSlotValidateName)."""
    if not name:
        raise PgError("42602", f'replication slot name "{name}" is too short')
    if len(name.encode()) >= _SLOT_NAME_LENGTH:
        raise PgError("42622", f'replication slot name "{name}" is too long')
    if not _OF_SLOT_NAMES.issuperset(name):
        raise PgError(
            "42602",
            f'replication slot name "{name}" contains invalid character',
            hint="Replication slot names may only contain lower case letters, numbers, and the underscore character.",
        )


# --- synchronous standbys ---------------------------------------------------------------------------------------------


_TOKEN = re.compile(
    r"""(?P<space>[ \t\n\r\f\v]+) | (?P<word>[A-Za-z\x80-\U0010ffff_][A-Za-z0-9\x80-\U0010ffff_$]*) | (?P<number>[0-9]+)
    | "(?P<quoted>[^"]*(?:""[^"]*)*)" | (?P<open>") | (?P<name>\*) | (?P<mark>[,()]) | (?P<junk>.)""",
    re.VERBOSE | re.ASCII,
)


class _Token(NamedTuple):
    kind: str
    text: str  # what an error shows of it
    name: str = ""


@frozen
class Standbys:
    """The standbys that commits wait for (SyncRepConfigData)."""

    is_quorum: bool
    count: int  # of those that must have a commit
    names: tuple[str, ...]

    def priority(self, name: str) -> int:
        """1 for the first; of ANY all have 1. 0: the standby is none of them (SyncRepGetStandbyPriority)."""
        for number, each in enumerate(self.names, 1):
            if each == "*" or _lower(each) == _lower(name):
                return 1 if self.is_quorum else number
        return 0


def _lower(text: str) -> str:
    """In lower case as pg_strcasecmp compares: letters of ASCII."""
    return text.encode().lower().decode()


def parse(text: str) -> Standbys | None:
    """The standbys that the text names, None if it is empty; an error with PostgreSQL's SQLSTATE and DETAIL."""
    if not text:
        return None
    parser = _Parser(text)
    method = parser.take("first", "any")
    if method is not None or parser.begins_count():
        count = _whole_number(parser.expect("number"))
        parser.expect("(")
        names = parser.names()
        parser.expect(")")
    else:
        count = 1
        names = parser.names()
    parser.expect("end")
    if count <= 0:
        raise PgError("22023", f"number of synchronous standbys ({count}) must be greater than zero")
    return Standbys((method or "").lower() == "any", count, tuple(names))


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
        kinds = [each.kind for each in self._tokens[self._at : self._at + 2]]
        return kinds == ["number", "("]

    def take(self, *kinds: str) -> str | None:
        token = self._tokens[self._at]
        if token.kind not in kinds:
            return None
        self._at += 1
        return token.text

    def expect(self, *kinds: str) -> str:
        found = self.take(*kinds)
        if found is None:
            kind, text, _ = self._tokens[self._at]
            what = "unterminated quoted identifier" if kind == "unterminated" else "syntax error"
            raise PgError("42601", "", detail=f"{what} " + (f'at or near "{text}"' if text else "at end of input"))
        return found

    def names(self) -> list[str]:
        found = [self._name()]
        while self.take(",") is not None:
            found.append(self._name())
        return found

    def _name(self) -> str:
        self.expect("name", "number")
        return self._tokens[self._at - 1].name


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind, shown = str(found.lastgroup), found.group()
        if kind == "word":
            yield _Token(shown.lower() if shown.lower() in ("first", "any") else "name", shown, shown)
        elif kind == "quoted":
            yield _Token("name", '"', found["quoted"].replace('""', '"'))
        elif kind == "open":
            yield _Token("unterminated", "")
            return
        elif kind == "mark":
            yield _Token(shown, shown)
        elif kind != "space":
            yield _Token(kind, shown, shown)
    yield _Token("end", "")
