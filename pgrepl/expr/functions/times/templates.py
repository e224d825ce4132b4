"""Templates of to_char, to_date and to_number, parsed into patterns with modifiers and literal text (parse_format); and
the scanner of to_timestamp and to_date, which reads a text by the nodes of a template (DCH_from_char).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from pgrepl.ground.errors import PgError
from pgrepl.types.times.dates import DAYS, MONTHS
from pgrepl.types.times.timezone import Zone, abbreviation, find_zone

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


_SPACE = " \t\n\v\f\r"

_GREGORIAN = {"DDD", "DD", "D", "MM", "MONTH", "Month", "month", "MON", "Mon", "mon", "RM", "rm", "WW", "W", "Y,YYY"}
_GREGORIAN |= {"YYYY", "YYY", "YY", "Y"}
_ISO = {"IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I"}


@dataclass(slots=True)
class TmFromChar:
    """The fields read from the text; 0 is "not given" (TmFromChar)."""

    mode: str = ""
    hour: int = 0
    minute: int = 0
    second: int = 0
    day_seconds: int = 0
    msec: int = 0
    usec: int = 0
    digits: int = 0  # of FF1 … FF6
    pm: int = 0
    twelve_hours: bool = False
    year: int = 0
    year_digits: int = 0
    century: int = 0
    bc: int = 0
    month: int = 0
    day: int = 0
    day_of_year: int = 0
    weekday: int = 0
    week: int = 0
    week_of_month: int = 0
    julian: int = 0
    zone_sign: int = 0
    zone_hour: int = 0
    zone_minute: int = 0
    zone: int | None = None  # seconds east, of a fixed abbreviation
    dynamic: tuple[Zone, str] | None = None


def invalid(message: str, detail: str | None = None, hint: str | None = None) -> PgError:
    return PgError("22007", message, detail=detail, hint=hint)


_NUMBER = re.compile(r"[ \t\n\v\f\r]*([-+]?[0-9]+)", re.ASCII)
_WIDTH_HINT = 'If your source string is not fixed-width, try using the "FM" modifier.'


class FromCharScanner:
    """The scanner: each template node consumes its part of the text (DCH_from_char)."""

    def __init__(self, text: str, nodes: tuple[Node, ...], standard: bool = False) -> None:
        """standard: the text must match the template in all its characters, as SQL's standard wants."""
        self.text = text
        self.nodes = nodes
        self.at = 0
        self.position = 0
        self.tmfc = TmFromChar()
        self.exact = self.standard = standard  # exact: FX
        self.extra = 0  # white space skipped beyond what the template has

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip_space(self) -> None:
        while self.peek() and self.peek() in _SPACE:
            self.at += 1
            self.extra += 1

    def run(self) -> TmFromChar:
        for position, node in enumerate(self.nodes):
            self.position = position
            if not self.peek():
                if self.standard:
                    raise invalid("input string is too short for datetime format")
                break
            is_pattern = node.kind == "pattern"
            if not self.exact and node.word != "FX" and (is_pattern or self.position == 0):
                self.skip_space()
            if not is_pattern:
                self.literal(node)
                continue
            self.set_mode(node)
            self.pattern(node)
            if not self.exact:
                self.extra = 0
                self.skip_space()
        if self.standard and self.text[self.at :].strip(_SPACE):
            raise invalid("trailing characters remain in input string after datetime format")
        return self.tmfc

    def literal(self, node: Node) -> None:
        if self.standard and self.peek() != node.text:
            what = "character" if node.kind == "character" else "separator"
            raise invalid(f'unmatched format {what} "{node.text}"')
        if node.kind in ("space", "separator"):
            if self.exact:
                self.at += 1
                return
            self.extra -= 1
            if self.peek() and (self.peek() in _SPACE or is_separator(self.peek())):
                self.at += 1
                self.extra += 1
        elif not self.exact and self.extra > 0:
            self.extra -= 1
        else:
            self.at += 1

    def set_mode(self, node: Node) -> None:
        mode = "gregorian" if node.word in _GREGORIAN else "iso" if node.word in _ISO else ""
        if mode and self.tmfc.mode and self.tmfc.mode != mode:
            raise invalid(
                "invalid combination of date conventions",
                hint="Do not mix Gregorian and ISO week date conventions in a formatting template.",
            )
        self.tmfc.mode = self.tmfc.mode or mode

    # --- reading ----------------------------------------------------------------------------------------------------

    def next_is_separator(self, node: Node) -> bool:
        if node.ordinal:
            return True
        if self.position + 1 >= len(self.nodes):
            return True
        following = self.nodes[self.position + 1]
        if following.kind == "pattern":
            return not following.is_digit
        return not following.text.isdigit()

    def integer(self, node: Node, width: int) -> tuple[int, int]:
        """Read an integer of at most so many characters, or of any length where no digits follow in the template."""
        start = self.at
        body = self.at
        while self.text[body : body + 1] and self.text[body] in _SPACE:
            body += 1
        taken = self.text[body : body + width]
        if node.fill or self.next_is_separator(node):
            match = _NUMBER.match(self.text, start)
            value = int(match[1]) if match else 0
            end = match.end() if match else start
        else:
            if len(taken) < width:
                raise invalid(
                    f'source string too short for "{node.text}" formatting field',
                    f"Field requires {width} characters, but only {len(taken)} remain.",
                    _WIDTH_HINT,
                )
            match = _NUMBER.match(taken)
            used = match.end() if match else 0
            if 0 < used < width:
                raise invalid(
                    f'invalid value "{taken}" for "{node.text}"',
                    f"Field requires {width} characters, but only {used} could be parsed.",
                    _WIDTH_HINT,
                )
            value = int(match[1]) if match else 0
            end = body + used
        if end == start:
            raise invalid(f'invalid value "{taken}" for "{node.text}"', "Value must be an integer.")
        if not -(1 << 31) <= value < 1 << 31:
            raise PgError(
                "22008",
                f'value for "{node.text}" in source string is out of range',
                detail="Value must be in the range -2147483648 to 2147483647.",
            )
        self.at = end
        return value, end - start

    def store(self, node: Node, name: str, width: int) -> int:
        """Read a number into a field. Returns the number of characters read."""
        value, length = self.integer(node, width)
        self.put(node, name, value)
        if node.ordinal:
            self.at += 2
        return length

    def put(self, node: Node, name: str, value: int) -> None:
        known = getattr(self.tmfc, name)
        if known not in (0, value):
            raise invalid(
                f'conflicting values for "{node.text}" field in formatting string',
                "This value contradicts a previous setting for the same field type.",
            )
        setattr(self.tmfc, name, value)

    def choice(self, node: Node, words: tuple[str, ...]) -> int:
        """Read one of the words, ignoring case. Returns its index."""
        rest = self.text[self.at :].lower()
        for number, word in enumerate(words):
            if rest.startswith(word.lower()):
                self.at += len(word)
                return number
        shown = re.split(r"[ \t\n\r\v\f]", self.text[self.at :], maxsplit=1)[0]
        raise invalid(
            f'invalid value "{shown}" for "{node.text}"',
            "The given value did not match any of the allowed values for this field.",
        )

    # --- patterns ---------------------------------------------------------------------------------------------------

    def pattern(self, node: Node) -> None:
        word = node.word
        if word == "FX":
            self.exact = True
        elif word in _NUMBERS:
            name, width = _NUMBERS[word]
            self.store(node, name, width)
            if word in ("HH", "HH12"):
                self.tmfc.twelve_hours = True
        elif word == "MS":
            length = self.store(node, "msec", 3)
            self.tmfc.msec *= {1: 100, 2: 10}.get(length, 1)
        elif word == "US" or word.startswith("FF"):
            self.tmfc.digits = int(word[2]) if word != "US" else self.tmfc.digits
            length = self.store(node, "usec", 6 if word == "US" else self.tmfc.digits)
            self.tmfc.usec *= 10 ** max(6 - length, 0)
        elif word in ("TZ", "tz", "OF", "TZH", "TZM"):
            self.zone(node)
        elif word == "ID":
            self.store(node, "weekday", 1)
            self.tmfc.weekday = self.tmfc.weekday % 7 + 1
        elif word == "Q":
            self.integer(node, 1)
            if node.ordinal:
                self.at += 2
        elif word in _YEARS:
            self.year(node)
        else:
            self.name(node)

    def name(self, node: Node) -> None:
        upper = node.word.upper()
        if upper in ("AM", "PM", "A.M.", "P.M."):
            words = ("a.m.", "p.m.") if "." in upper else ("am", "pm")
            self.put(node, "pm", self.choice(node, (*words, *map(str.upper, words))) % 2)
            self.tmfc.twelve_hours = True
        elif upper in ("AD", "BC", "A.D.", "B.C."):
            words = ("a.d.", "b.c.") if "." in upper else ("ad", "bc")
            self.put(node, "bc", self.choice(node, words))
        elif upper == "RM":
            self.put(node, "month", 12 - self.choice(node, ROMAN_MONTHS))
        elif upper in ("MONTH", "MON"):
            names = MONTHS if upper == "MONTH" else tuple(month[:3] for month in MONTHS)
            self.put(node, "month", self.choice(node, names) + 1)
        else:
            names = DAYS if upper == "DAY" else tuple(day[:3] for day in DAYS)
            number = self.choice(node, names)
            self.put(node, "weekday", number)
            self.tmfc.weekday += 1

    def year(self, node: Node) -> None:
        word = node.word
        if word == "Y,YYY":
            match = re.compile(r"\s*([-+]?[0-9]+),([0-9]{1,3})", re.ASCII).match(self.text, self.at)
            if match is None:
                raise invalid('invalid input string for "Y,YYY"')
            self.put(node, "year", int(match[1]) * 1000 + int(match[2]))
            self.at = match.end() + (2 if node.ordinal else 0)
            self.tmfc.year_digits = 4
            return
        digits = len(word)
        length = self.store(node, "year", digits)
        if digits < 4 and length < 4:
            self.tmfc.year = _toward_2020(self.tmfc.year)
        self.tmfc.year_digits = digits

    def zone(self, node: Node) -> None:
        tmfc = self.tmfc
        if node.word in ("TZ", "tz"):
            if self.abbreviation():
                return
            if self.peek().isascii() and self.peek().isalpha():
                raise invalid(
                    f'invalid value "{self.text[self.at :]}" for "{node.text}"',
                    "Time zone abbreviation is not recognized.",
                )
        if node.word == "TZM":
            tmfc.zone_sign = tmfc.zone_sign or 1
            self.put(node, "zone_minute", self.integer(node, 2)[0])
            return
        if self.peek() and self.peek() in "+- ":
            tmfc.zone_sign = -1 if self.peek() == "-" else 1
            self.at += 1
        else:
            swallowed = self.extra > 0 and self.text[self.at - 1 : self.at] == "-"
            tmfc.zone_sign = -1 if swallowed else 1
        self.put(node, "zone_hour", self.integer(node, 2)[0])
        if node.word != "TZH" and self.peek() == ":":
            self.at += 1
            self.put(node, "zone_minute", self.integer(node, 2)[0])

    def abbreviation(self) -> bool:
        """Read the longest matching time zone abbreviation."""
        letters = re.compile("[A-Za-z]{0,10}").match(self.text, self.at)
        word = letters[0] if letters else ""
        while word:
            known = abbreviation(word)
            if known is not None:
                zone = find_zone(known.zone) if known.zone is not None else None
                if known.zone is None:
                    self.tmfc.zone, self.tmfc.dynamic = known.seconds, None
                elif zone is not None:
                    self.tmfc.zone, self.tmfc.dynamic = None, (zone, word)
                self.tmfc.zone_sign = 0
                self.at += len(word)
                return True
            word = word[:-1]
        return False


_NUMBERS = {
    "HH": ("hour", 2),
    "HH12": ("hour", 2),
    "HH24": ("hour", 2),
    "MI": ("minute", 2),
    "SS": ("second", 2),
    "SSSS": ("day_seconds", 5),
    "SSSSS": ("day_seconds", 5),
    "MM": ("month", 2),
    "DDD": ("day_of_year", 3),
    "IDDD": ("day_of_year", 3),
    "DD": ("day", 2),
    "D": ("weekday", 1),
    "WW": ("week", 2),
    "IW": ("week", 2),
    "W": ("week_of_month", 1),
    "CC": ("century", 2),
    "J": ("julian", 1),
}
_YEARS = {"Y,YYY", "YYYY", "YYY", "YY", "Y", "IYYY", "IYY", "IY", "I"}


def _toward_2020(year: int) -> int:
    """A year of fewer than four digits as the year nearest to 2020: 70 is 1970, 69 is 2069, 520 is 1520, 519 is
    2519."""
    if year < 70:
        return year + 2000
    if year < 100:
        return year + 1900
    if year < 520:
        return year + 2000
    return year + 1000 if year < 1000 else year
