"""DuckDB's text form of values, used in DuckLake's statistics and in inlined rows.

It differs from PostgreSQL's in dates before Christ (`0044-03-15 (BC)`), in trailing zeros of seconds, in binary strings
and in nested values (`[1, NULL]`, `{'a': 1}`, `{k=1}`). Times count as Parquet's do: days and microseconds from 1970.

>>> date_text(0), timestamp_text(1_500_000), read_nested("[1, 'a\\\\'b', NULL]")
('1970-01-01', '1970-01-01 00:00:01.5', ['1', "a'b", None])
"""

from __future__ import annotations

import re
from typing import Any

from pgrepl.types.times.dates import UNIX_EPOCH_JULIAN, USECS_PER_DAY, from_julian, julian

DATE_INFINITY = 2**31 - 1
TIMESTAMP_INFINITY = 2**63 - 1

_SPECIAL = {"infinity": 1, "-infinity": -1}


def date_text(days: int) -> str:
    if abs(days) == DATE_INFINITY:
        return "infinity" if days > 0 else "-infinity"
    year, month, day = from_julian(days + UNIX_EPOCH_JULIAN)
    if year > 0:
        return f"{year:04}-{month:02}-{day:02}"
    return f"{1 - year:04}-{month:02}-{day:02} (BC)"


def time_text(usecs: int) -> str:
    seconds, fraction = divmod(usecs, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def timestamp_text(usecs: int) -> str:
    if abs(usecs) == TIMESTAMP_INFINITY:
        return "infinity" if usecs > 0 else "-infinity"
    days, rest = divmod(usecs, USECS_PER_DAY)
    return f"{date_text(days)} {time_text(rest)}"


def timestamptz_text(usecs: int) -> str:
    text = timestamp_text(usecs)
    return text if text.endswith("infinity") else text + "+00"


_DATE = r"(\d+)-(\d+)-(\d+)( \(BC\))?"
_TIME = r"(\d+):(\d+)(?::(\d+)(?:\.(\d+))?)?"
_ZONE = r"(?:([-+])(\d\d)(?::?(\d\d)(?::?(\d\d))?)?|Z)?"
_DATE_ONLY = re.compile(_DATE, re.ASCII)
_TIME_ONLY = re.compile(_TIME + _ZONE, re.ASCII)
_TIMESTAMP = re.compile(f"{_DATE}(?:[ T]{_TIME}{_ZONE})?", re.ASCII)


def read_date(text: str) -> int:
    if text in _SPECIAL:
        return _SPECIAL[text] * DATE_INFINITY
    match = _matched(_DATE_ONLY, text, "date")
    return _days(match)


def read_time(text: str) -> int:
    return _usecs(_matched(_TIME_ONLY, text, "time"), 1)


def read_timetz(text: str) -> tuple[int, int]:
    """Local time, and the zone in seconds east of Greenwich."""
    match = _matched(_TIME_ONLY, text, "time with time zone")
    return _usecs(match, 1), _offset(match, 5)


def read_timestamp(text: str) -> int:
    """With or without a zone; digits behind microseconds are cut off."""
    if text in _SPECIAL:
        return _SPECIAL[text] * TIMESTAMP_INFINITY
    match = _matched(_TIMESTAMP, text, "timestamp")
    if match[5] is None:
        return _days(match) * USECS_PER_DAY
    return _days(match) * USECS_PER_DAY + _usecs(match, 5) - _offset(match, 9) * 1_000_000


def _matched(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"not a {what}: {text!r}")
    return match


def _days(match: re.Match[str]) -> int:
    year = int(match[1])
    return julian(1 - year if match[4] else year, int(match[2]), int(match[3])) - UNIX_EPOCH_JULIAN


def _usecs(match: re.Match[str], at: int) -> int:
    seconds = int(match[at]) * 3600 + int(match[at + 1]) * 60 + int(match[at + 2] or 0)
    return seconds * 1_000_000 + int((match[at + 3] or "")[:6].ljust(6, "0"))


def _offset(match: re.Match[str], at: int) -> int:
    if match[at] is None:
        return 0
    seconds = int(match[at + 1]) * 3600 + int(match[at + 2] or 0) * 60 + int(match[at + 3] or 0)
    return -seconds if match[at] == "-" else seconds


# --- binary strings -----------------------------------------------------------------------------------------------

_ESCAPE = re.compile(r"\\x([0-9A-Fa-f]{2})")


def blob_text(value: bytes) -> str:
    r"""A BLOB as DuckDB prints it."""
    return "".join(chr(b) if 32 <= b < 127 and b not in b"\\'\"" else f"\\x{b:02X}" for b in value)


def read_blob(text: str) -> bytes:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text).encode("latin-1")


# --- nested values ------------------------------------------------------------------------------------------------


def list_text(items: list[str]) -> str:
    """DuckDB's text of a list, from those of its elements as they stand in nested values."""
    return "[" + ", ".join(items) + "]"


def struct_text(fields: list[tuple[str, str]]) -> str:
    """DuckDB's text of a struct, from the names of its fields and their texts as they stand in nested values."""
    return "{" + ", ".join([f"{in_quotes(name)}: {item}" for name, item in fields]) + "}"


_BARE = re.compile(r"[A-Za-z0-9_.+-]+\Z", re.ASCII)


def quoted(word: str) -> str:
    """The text of a scalar inside a nested value."""
    return word if _BARE.match(word) and word.upper() != "NULL" else in_quotes(word)


def in_quotes(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"


def read_nested(text: str) -> Any:
    """A nested value from DuckDB's text: lists are lists, structs and maps are `Pairs`; scalars stay text, NULL is
    None."""
    reader = _Nested(text)
    value = reader.value("")
    reader.space()
    if reader.at < len(text):
        raise ValueError(f"not a nested value: {text!r}")
    return value


# DuckDB writes nested values that it inlines as SQL, though it reads them as it casts text
_LITERAL = re.compile(r"CAST\('((?:[^']|'')*)' AS [A-Z ]+(?:\([0-9, ]+\))?\)")


class Pairs(list[tuple[Any, Any]]):
    """The fields of a struct, or the entries of a map."""


class _Nested:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def space(self) -> None:
        while self.peek().isspace():
            self.at += 1

    def value(self, stops: str) -> Any:
        self.space()
        if self.peek() == "[":
            return self.items()
        if self.peek() == "{" and not self.looks_like_json():
            return self.pairs()
        return self.word(stops)

    def looks_like_json(self) -> bool:
        """Whether a JSON object begins here: its keys have double quotes, the keys of a struct single quotes."""
        rest = self.text[self.at + 1 :].lstrip()
        return rest[:1] == '"'

    def items(self) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        self.space()
        while self.peek() != "]":
            items.append(self.value(",]"))
            self.next("]")
        self.at += 1
        return items

    def pairs(self) -> Pairs:
        self.at += 1
        pairs = Pairs()
        self.space()
        while self.peek() != "}":
            key = self.value(":=}")
            self.space()
            if self.peek() not in (":", "="):
                raise ValueError(f"not a nested value: {self.text!r}")
            self.at += 1
            pairs.append((key, self.value(",}")))
            self.next("}")
        self.at += 1
        return pairs

    def next(self, closing: str) -> None:
        self.space()
        if self.peek() == ",":
            self.at += 1
            self.space()
        elif self.peek() != closing:
            raise ValueError(f"not a nested value: {self.text!r}")

    def word(self, stops: str) -> str | None:
        if self.peek() == "'":
            return self.quoted()
        if literal := _LITERAL.match(self.text, self.at):
            self.at = literal.end()
            return literal[1].replace("''", "'")
        start, depth = self.at, 0
        in_string = False
        while self.at < len(self.text):
            char = self.text[self.at]
            if in_string:
                self.at += 1 if char == "\\" else 0
                in_string = char != '"'
            elif char == '"' and (depth or self.at == start):
                in_string = True
            elif depth == 0 and char in stops:
                break
            elif char in "{[(":
                depth += 1
            elif char in "}])":
                depth -= 1
            self.at += 1
        word = self.text[start : self.at].strip()
        return None if word.upper() == "NULL" else word

    def quoted(self) -> str:
        out = []
        self.at += 1
        while (char := self.peek()) != "'" or self.text.startswith("''", self.at):
            if char in ("\\", "'"):
                self.at += 1
                char = self.peek()
            if not char:
                raise ValueError(f"not a nested value: {self.text!r}")
            out.append(char)
            self.at += 1
        self.at += 1
        return "".join(out)
