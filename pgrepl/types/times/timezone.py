"""Time zones as PostgreSQL reads them: names from the IANA database in any case, POSIX strings, abbreviations.

A zone is a list of transitions and a POSIX rule for the time after the last one, as in a TZif file. From them `Zone`
finds the offset at a moment, at a local time, or of an abbreviation, for any year and with PostgreSQL's results.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from pgrepl.types.builtin import read_data
from pgrepl.types.times.dates import (
    SECS_PER_DAY,
    UNIX_EPOCH_JULIAN,
    Fields,
    days_in_month,
    from_julian,
    is_leap,
    is_valid_julian,
    julian,
    weekday,
)

_FIXED_NAMES = {
    "GMT": "GMT",
    "UTC": "UTC",
    "UCT": "UTC",
    "ZULU": "UTC",
    "UNIVERSAL": "UTC",
    "ETC/UTC": "UTC",
    "ETC/UCT": "UTC",
    "ETC/ZULU": "UTC",
    "ETC/UNIVERSAL": "UTC",
    "ETC/GMT": "GMT",
    "GREENWICH": "GMT",
    "ETC/GREENWICH": "GMT",
}


@dataclass(frozen=True, slots=True)
class Offset:
    """A zone's local time between two transitions: seconds east of Greenwich, whether it is daylight saving time, and
    its abbreviation."""

    seconds: int
    isdst: bool
    abbreviation: str


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """A rule for the day and time of a transition: M3.2.0/2, J60, 59."""

    kind: str  # M, J or 0
    month: int
    week: int
    day: int
    seconds: int

    def in_year(self, year: int) -> int:
        """The Unix time of the transition, with local time taken as UTC."""
        first = julian(year, 1, 1)
        if self.kind == "J":
            day = first + self.day - 1 + (1 if is_leap(year) and self.day >= 60 else 0)
        elif self.kind == "0":
            day = first + self.day
        else:
            first = julian(year, self.month, 1)
            day = first + (self.day - weekday(first)) % 7
            for _ in range(1, self.week):
                if day + 7 - first >= days_in_month(year, self.month):
                    break
                day += 7
        return (day - UNIX_EPOCH_JULIAN) * SECS_PER_DAY + self.seconds


@dataclass(frozen=True, slots=True)
class PosixZone:
    """A POSIX time zone: standard time, and daylight saving time between two transitions."""

    standard: Offset
    summer: Offset | None = None
    begin: TransitionRule | None = None
    end: TransitionRule | None = None

    def transitions(self, year: int) -> list[tuple[int, Offset]]:
        if self.summer is None or self.begin is None or self.end is None:
            return []
        begin = self.begin.in_year(year) - self.standard.seconds
        end = self.end.in_year(year) - self.summer.seconds
        return sorted([(begin, self.summer), (end, self.standard)], key=lambda pair: pair[0])


@dataclass(frozen=True)
class Zone:
    name: str
    times: tuple[int, ...]
    offsets: tuple[Offset, ...]  # in effect from each of `times` on
    first: Offset  # in effect before the first of `times`
    rule: PosixZone | None

    def at(self, moment: int) -> Offset:
        """The offset at a Unix time."""
        return self._around(moment)[0]

    def _around(self, moment: int) -> tuple[Offset, int | None, Offset]:
        """The offset at a moment, the next transition after it (None: none), and the offset from then on."""
        if self.rule is not None and self.rule.summer is not None and (not self.times or moment >= self.times[-1]):
            year = from_julian(moment // SECS_PER_DAY + UNIX_EPOCH_JULIAN)[0]
            known = [t for y in (year - 1, year, year + 1) for t in self.rule.transitions(y)]
            known = [pair for pair in known if not self.times or pair[0] > self.times[-1]]
            times = [pair[0] for pair in known]
            at = bisect_right(times, moment)
            before = known[at - 1][1] if at else self.offsets[-1]
            return before, times[at], known[at][1]
        at = bisect_right(self.times, moment)
        before = self.offsets[at - 1] if at else self.first
        if at < len(self.times):
            return before, self.times[at], self.offsets[at]
        return before, None, before

    def of_local(self, fields: Fields) -> int:
        """Seconds west of Greenwich for a local time; sets isdst. As DetermineTimeZoneOffset does: in the gap in
        spring the offset before it counts, in the doubled hour in autumn the one after.
        """
        return self.resolve_local(fields)[0]

    def resolve_local(self, fields: Fields) -> tuple[int, int]:
        """Seconds west of Greenwich for a local time, and its Unix time."""
        if not is_valid_julian(fields.year, fields.month):
            fields.isdst = 0
            return 0, 0
        days = julian(fields.year, fields.month, fields.day) - UNIX_EPOCH_JULIAN
        local = days * SECS_PER_DAY + (fields.hour * 60 + fields.minute) * 60 + fields.second
        before, boundary, after = self._around(local - SECS_PER_DAY)
        chosen = before
        if boundary is not None:
            early, late = local - before.seconds, local - after.seconds
            if early < boundary and late < boundary:
                chosen = before
            elif early > boundary and late >= boundary:
                chosen = after
            else:
                chosen = before if early > late else after
        fields.isdst = int(chosen.isdst)
        return -chosen.seconds, local - chosen.seconds

    def abbreviated(self, abbreviation: str, moment: int) -> Offset | None:
        """The offset that an abbreviation had in this zone: its last use before a moment, or the first after it."""
        wanted = abbreviation.upper()
        at = bisect_right(self.times, moment)
        if at == len(self.times) and self.rule is not None:
            for offset in (self.rule.standard, self.rule.summer):
                if offset is not None and offset.abbreviation == wanted:
                    return offset
        for offset in (*reversed(self.offsets[:at]), *self.offsets[at:]):
            if offset.abbreviation == wanted:
                return offset
        return None

    def fixed_offset(self) -> int | None:
        """Seconds east, when the zone has always had the same offset."""
        offsets = {self.first.seconds, *(offset.seconds for offset in self.offsets)}
        if self.rule is not None:
            offsets.add(self.rule.standard.seconds)
            if self.rule.summer is not None:
                offsets.add(self.rule.summer.seconds)
        return offsets.pop() if len(offsets) == 1 else None


def find_zone(name: str) -> Zone | None:
    """As pg_tzset does: a name of the database in any case, else a POSIX string. None: there is no such zone."""
    return _find_zone(name.upper())


@lru_cache(maxsize=256)
def _find_zone(upper: str) -> Zone | None:
    if upper in _FIXED_NAMES:
        offset = Offset(0, False, _FIXED_NAMES[upper])
        return Zone(canonical_name(upper) or upper, (), (), offset, PosixZone(offset))
    path = _zone_file(upper)
    if path is not None:
        return _read_tzif(path[0], path[1].read_bytes())
    if upper.startswith(":"):
        return None
    rule = parse_posix(upper)
    return None if rule is None else Zone(upper, (), (), rule.standard, rule)


def canonical_name(name: str) -> str | None:
    """The zone's name as the database spells it."""
    upper = name.upper()
    if upper == "GMT":
        return "GMT"
    path = _zone_file(upper)
    if path is not None:
        return path[0]
    return {"UTC": "UTC", "ETC/UTC": "Etc/UTC", "ETC/GMT": "Etc/GMT"}.get(upper)


@cache
def _roots() -> tuple[Path, ...]:
    from importlib.util import find_spec
    from zoneinfo import TZPATH

    roots = [Path(root) for root in TZPATH]
    spec = find_spec("tzdata")
    if spec is not None and spec.origin is not None:
        roots.append(Path(spec.origin).with_name("zoneinfo"))
    return tuple(root for root in roots if root.is_dir())


def _zone_file(upper: str) -> tuple[str, Path] | None:
    """Canonical name and file of a zone; the case of the name is ignored."""
    parts = upper.split("/")
    if not all(re.fullmatch(r"[A-Z0-9_+\-]+", part) for part in parts):
        return None
    for root in _roots():
        path = root
        canonical: list[str] = []
        for part in parts:
            names = [entry.name for entry in path.iterdir()] if path.is_dir() else []
            match = next((name for name in names if name.upper() == part), None)
            if match is None:
                break
            path, canonical = path / match, [*canonical, match]
        else:
            if path.is_file() and path.open("rb").read(4) == b"TZif":
                return "/".join(canonical), path
    return None


def _read_tzif(name: str, data: bytes) -> Zone:
    """A TZif file of version 2 or later (RFC 8536): the 64-bit block and the footer."""
    header = struct.Struct(">4sc15x6l")
    _, _, isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt = header.unpack_from(data)
    skip = timecnt * 5 + typecnt * 6 + charcnt + leapcnt * 8 + isstdcnt + isutcnt
    at = header.size + skip
    _, _, isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt = header.unpack_from(data, at)
    at += header.size
    times = struct.unpack_from(f">{timecnt}q", data, at)
    at += timecnt * 8
    indexes = data[at : at + timecnt]
    at += timecnt
    types = [struct.unpack_from(">lBB", data, at + 6 * n) for n in range(typecnt)]
    at += typecnt * 6
    names = data[at : at + charcnt]
    at += charcnt + leapcnt * 12 + isstdcnt + isutcnt
    footer = data[at:].strip(b"\n").decode("ascii")
    offsets = [Offset(sec, bool(dst), names[n : names.index(b"\0", n)].decode("ascii")) for sec, dst, n in types]
    first = next((offset for offset in offsets if not offset.isdst), offsets[0])
    return Zone(name, times, tuple(offsets[n] for n in indexes), first, parse_posix(footer) if footer else None)


_OFFSET = r"[-+]?[0-9]+(?::[0-9]+(?::[0-9]+)?)?"
_RULE = rf"(?:J[0-9]+|M[0-9]+\.[0-9]+\.[0-9]+|[0-9]+)(?:/{_OFFSET})?"
_POSIX = re.compile(
    rf"(?:<(?P<quoted>[^>]*)>|(?P<std>[^0-9,+\-<]*))(?P<offset>{_OFFSET})(?!:)"
    rf"(?:(?:<(?P<dquoted>[^>]+)>|(?P<dst>[^0-9,+\-<]+))(?P<doffset>{_OFFSET})?(?:[,;](?P<begin>{_RULE}),(?P<end>{_RULE}))?)?",
    re.ASCII,
)
_AMERICAN = ("M3.2.0", "M11.1.0")  # PostgreSQL's rules for a zone that gives none (TZDEFRULESTRING)


@lru_cache(maxsize=64)
def parse_posix(text: str) -> PosixZone | None:
    """As tzparse does: `EST5EDT`, `<+07>-7`, `CET-1CEST,M3.5.0,M10.5.0/3`. None: not a POSIX zone."""
    match = _POSIX.fullmatch(text)
    if match is None:
        return None
    west = _seconds(match["offset"], 24 * 7 - 1)
    if west is None:
        return None
    standard = Offset(-west, False, match["quoted"] if match["quoted"] is not None else match["std"])
    name = match["dquoted"] or match["dst"]
    if name is None:
        return PosixZone(standard)
    summer_west = west - 3600 if match["doffset"] is None else _seconds(match["doffset"], 24 * 7 - 1)
    begin, end = (_change(match["begin"] or _AMERICAN[0]), _change(match["end"] or _AMERICAN[1]))
    if summer_west is None or begin is None or end is None:
        return None
    return PosixZone(standard, Offset(-summer_west, True, name), begin, end)


def _seconds(text: str, hours: int) -> int | None:
    sign = -1 if text[0] == "-" else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    parts += [0] * (3 - len(parts))
    if parts[0] > hours or parts[1] > 59 or parts[2] > 60:
        return None
    return sign * (parts[0] * 3600 + parts[1] * 60 + parts[2])


def _change(text: str) -> TransitionRule | None:
    day, _, time = text.partition("/")
    seconds = _seconds(time, 24 * 7 - 1) if time else 7200
    if seconds is None:
        return None
    if day[0] == "M":
        month, week, dow = (int(part) for part in day[1:].split("."))
        ok = 1 <= month <= 12 and 1 <= week <= 5 and dow <= 6
        return TransitionRule("M", month, week, dow, seconds) if ok else None
    if day[0] == "J":
        return TransitionRule("J", 0, 0, int(day[1:]), seconds) if 1 <= int(day[1:]) <= 365 else None
    return TransitionRule("0", 0, 0, int(day), seconds) if int(day) <= 365 else None


@dataclass(frozen=True, slots=True)
class Abbreviation:
    """A word of the Default abbreviation set: a fixed offset, or the offset it had in a zone at the time."""

    name: str
    seconds: int  # east of Greenwich
    isdst: bool
    zone: str | None


def abbreviation(word: str) -> Abbreviation | None:
    return _abbreviations().get(word.lower())


@cache
def _abbreviations() -> dict[str, Abbreviation]:
    text = read_data("timezone_abbreviations.tsv")
    abbreviations = {}
    for line in text.splitlines()[1:]:
        name, seconds, isdst, zone = line.split("\t")
        abbreviations[name.lower()] = Abbreviation(name, int(seconds or 0), isdst == "t", zone or None)
    return abbreviations
