"""Templates of to_char, to_date and to_number, parsed into patterns with modifiers and literal text (parse_format)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pgrepl.ground.errors import PgError

_DATE_WORDS = (
    "A.D. A.M. AD AM B.C. BC CC DAY DDD DD DY Day Dy D FF1 FF2 FF3 FF4 FF5 FF6 FX HH24 HH12 HH IDDD ID IW IYYY IYY IY "
    "I J MI MM MONTH MON MS Month Mon OF P.M. PM Q RM SSSSS SSSS SS TZH TZM TZ US WW W Y,YYY YYYY YYY YY Y"
).split()
_SMALL_DATE_WORDS = (
    "a.d. a.m. ad am b.c. bc cc day ddd dd dy d ff1 ff2 ff3 ff4 ff5 ff6 fx hh24 hh12 hh iddd id iw iyyy iyy iy i j mi "
    "mm month mon ms of p.m. pm q rm sssss ssss ss tzh tzm tz us ww w y,yyy yyyy yyy yy y"
).split()
_NUMBER_WORDS = ", . 0 9 B C D EEEE FM G L MI PL PR RN SG SP S TH V".split()
_SMALL_NUMBER_WORDS = "b c d eeee fm g l mi pl pr rn sg sp s th v".split()

# Patterns whose meaning depends on case; all others are known by their capitals.
_CASED = {"DAY", "Day", "day", "DY", "Dy", "dy", "MONTH", "Month", "month", "MON", "Mon", "mon", "RM", "rm", "RN", "rn"}
_CASED |= {"TZ", "tz", "TH", "th", "A.D.", "a.d.", "A.M.", "a.m.", "AD", "ad", "AM", "am", "B.C.", "b.c.", "BC", "bc"}
_CASED |= {"P.M.", "p.m.", "PM", "pm"}

_DIGITS = {"CC", "DDD", "DD", "D", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM"}
_DIGITS |= {"MS", "Q", "SSSSS", "SSSS", "SS", "TZM", "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y"}
_DIGITS |= {f"FF{n}" for n in range(1, 7)}

_STANDARD_SEPARATORS = "-./,':; "


@dataclass(frozen=True, slots=True)
class Node:
    """An element of a template: a pattern (word), or a character (space, separator or any other)."""

    kind: str  # pattern, space, separator, character
    text: str  # as it stands in the template
    word: str = ""
    fill: bool = False  # FM
    translate: bool = False  # TM
    ordinal: str = ""  # TH or th

    @property
    def is_digit(self) -> bool:
        return self.word in _DIGITS


def _word_at(words: list[str], text: str, at: int) -> str:
    return next((word for word in words if text.startswith(word, at)), "")


@lru_cache(maxsize=256)
def parse_template(text: str, *, numbers: bool = False, standard: bool = False) -> tuple[Node, ...]:
    """standard: only the separators of SQL's standard may stand outside of quotes."""
    words = _NUMBER_WORDS + _SMALL_NUMBER_WORDS if numbers else _DATE_WORDS + _SMALL_DATE_WORDS
    nodes: list[Node] = []
    at = 0
    while at < len(text):
        prefix = "" if numbers else _word_at(["FM", "fm", "TM", "tm"], text, at).upper()
        at += len(prefix)
        word = _word_at(words, text, at)
        if word:
            at += len(word)
            suffix = "" if numbers else _word_at(["TH", "th", "SP"], text, at)
            at += len(suffix)
            name = word if word in _CASED else word.upper()
            ordinal = suffix if suffix in ("TH", "th") else ""
            nodes.append(Node("pattern", word, name, prefix == "FM", prefix == "TM", ordinal))
        elif text[at : at + 1] == '"':
            at = _quoted(text, at + 1, nodes)
        elif standard and at < len(text):
            if text[at] not in _STANDARD_SEPARATORS:
                raise PgError("22007", f'invalid datetime format separator: "{text[at]}"')
            nodes.append(Node(_kind(text[at], numbers), text[at]))
            at += 1
        elif at < len(text):
            if text[at] == "\\" and text[at + 1 : at + 2] == '"':
                at += 1
            nodes.append(Node(_kind(text[at], numbers), text[at]))
            at += 1
    return tuple(nodes)


def _quoted(text: str, at: int, nodes: list[Node]) -> int:
    while at < len(text):
        if text[at] == '"':
            return at + 1
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
        nodes.append(Node("character", text[at]))
        at += 1
    return at


def is_separator(char: str) -> bool:
    """Whether a character is printable ASCII and neither a letter nor a digit."""
    return " " < char <= "~" and not char.isalnum()


def _kind(char: str, numbers: bool) -> str:
    if not numbers and is_separator(char):
        return "separator"
    return "space" if char in " \t\n\v\f\r" else "character"


def ordinal_suffix(digits: str, style: str) -> str:
    """The ordinal suffix as in 1st, 2nd, 3rd, 11th; style TH or th."""
    if not digits[-1:].isdigit():
        raise PgError("22P02", f'"{digits}" is not a number')
    teen = len(digits) > 1 and digits[-2] == "1"
    suffix = "th" if teen else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")
    return suffix.upper() if style == "TH" else suffix


ROMAN_MONTHS = ("XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I")
