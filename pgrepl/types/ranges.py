"""Ranges and multiranges: `[1,5)`, `{[1,3),[5,7)}`; text, canonical form and order.

>>> read_range("[1,5]", oids.INT4, int)
PgRange(subtype=23, lower=1, upper=6, lower_inc=True, upper_inc=False, empty=False)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.numbers import SPACE
from pgrepl.types.style import quote_field
from pgrepl.types.times.dates import INFINITY, is_valid_date


@dataclass(frozen=True, slots=True)
class PgRange:
    """A range. A bound of None is infinite; an infinite bound is never inclusive."""

    subtype: int
    lower: Any = None
    upper: Any = None
    lower_inc: bool = False
    upper_inc: bool = False
    empty: bool = False


@dataclass(frozen=True, slots=True)
class PgMultirange:
    """A multirange: ranges in order, none of them empty, which neither touch nor overlap."""

    subtype: int
    ranges: tuple[PgRange, ...]


_SPECIAL = re.compile(r'[\s"\\(),[\]]', re.ASCII)  # in a bound (range_bound_escape)


class Continuous(int):
    """The subtype of a user's range: integers and dates have no canonical form there."""


def _natural(value: Any) -> Any:
    """The sort key of numbers, dates and moments; NaN above all."""
    return (True, 0) if value != value else (False, value)


_NATURAL = frozenset({oids.INT4, oids.INT8, oids.NUMERIC, oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ})
# values.order_key, which needs this module
order_keys: list[Callable[[int], Callable[[Any], Any] | None]] = []


@cache
def _key_of(subtype: int) -> Callable[[Any], Any]:
    """The sort key function of a range's bounds."""
    if subtype in _NATURAL:
        return _natural
    return order_keys[0](subtype) or _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def make_range(subtype: int, lower: Any, upper: Any, lower_inc: bool, upper_inc: bool) -> PgRange:
    """As make_range does: bounds in order, discrete types in the form [ )."""
    lower_inc, upper_inc = lower_inc and lower is not None, upper_inc and upper is not None
    if lower is not None and upper is not None:
        key = _key_of(subtype)
        if key(lower) > key(upper):
            raise PgError("22000", "range lower bound must be less than or equal to range upper bound")
        if key(lower) == key(upper) and not (lower_inc and upper_inc):
            return PgRange(subtype, empty=True)
    value = PgRange(subtype, lower, upper, lower_inc, upper_inc)
    return _canonical(value) if subtype in _LIMITS and not isinstance(subtype, Continuous) else value


_LIMITS = {oids.INT4: 2**31 - 1, oids.INT8: 2**63 - 1, oids.DATE: 0}


def _next(subtype: int, value: int) -> int:
    if subtype == oids.DATE:
        if not is_valid_date(value + 1):
            raise PgError("22008", "date out of range")
    elif value >= _LIMITS[subtype]:
        raise PgError("22003", f"{'integer' if subtype == oids.INT4 else 'bigint'} out of range")
    return value + 1


def _canonical(value: PgRange) -> PgRange:
    subtype, lower, upper = value.subtype, value.lower, value.upper
    finite = (
        (lambda bound: bound is not None and abs(bound) != INFINITY)
        if subtype == oids.DATE
        else (lambda bound: bound is not None)
    )
    if finite(lower) and not value.lower_inc:
        value = replace(value, lower=_next(subtype, lower), lower_inc=True)
    if finite(upper) and value.upper_inc:
        value = replace(value, upper=_next(subtype, upper), upper_inc=False)
    if value.lower is not None and value.lower == value.upper and not value.upper_inc:
        return PgRange(subtype, empty=True)
    return value


def read_range(text: str, subtype: int, read_bound: Callable[[str], Any]) -> PgRange:
    return _made(subtype, _parse(text), read_bound)


_Bounds = tuple[str, "str | None", "str | None", str]


def _made(subtype: int, bounds: _Bounds | None, read_bound: Callable[[str], Any]) -> PgRange:
    if bounds is None:
        return PgRange(subtype, empty=True)
    opening, lower, upper, closing = bounds
    values = [None if bound is None else read_bound(bound) for bound in (lower, upper)]
    return make_range(subtype, values[0], values[1], opening == "[", closing == "]")


def _fail(text: str, detail: str, kind: str = "range") -> PgError:
    return PgError("22P02", f'malformed {kind} literal: "{text}"', detail=detail)


def _parse(text: str) -> _Bounds | None:
    """The bounds in a range's text; None: empty (range_parse)."""
    body = text.strip(SPACE)
    if body[:5].lower() == "empty":
        if body[5:]:
            raise _fail(text, 'Junk after "empty" key word.')
        return None
    opening = body[:1]
    if opening not in ("[", "("):
        raise _fail(text, "Missing left parenthesis or bracket.")
    lower, at = _bound(text, body, 1)
    if body[at : at + 1] != ",":
        raise _fail(text, "Missing comma after lower bound.")
    upper, at = _bound(text, body, at + 1)
    closing = body[at : at + 1]
    if closing == ",":
        raise _fail(text, "Too many commas.")
    if body[at + 1 :]:
        raise _fail(text, "Junk after right parenthesis or bracket.")
    return opening, lower, upper, closing


def _range_end(body: str, at: int) -> int | None:
    """The index behind the range that begins at `at`: behind the first bracket outside quotes, as in multirange_in."""
    if body[at] not in "([":
        return at + 5
    quoted = False
    at += 1
    while at < len(body):
        char = body[at]
        if char == "\\":
            at += 1
        elif char == '"':
            quoted = not quoted
        elif char in ")]" and not quoted:
            return at + 1
        at += 1
    return None


def _bound(text: str, body: str, at: int) -> tuple[str | None, int]:
    if body[at : at + 1] in (",", ")", "]") and at < len(body):
        return None, at
    word = []
    quoted = False
    while quoted or body[at : at + 1] not in (",", ")", "]") or at >= len(body):
        char = body[at : at + 1]
        at += 1
        if char == "\\":
            char = body[at : at + 1]
            at += 1
        elif char == '"':
            if quoted and body[at : at + 1] == '"':
                word.append('"')
                at += 1
            else:
                quoted = not quoted
            continue
        if not char:
            raise _fail(text, "Unexpected end of input.")
        word.append(char)
    return "".join(word), at


def write_range(value: PgRange, write_bound: Callable[[Any], str]) -> str:
    if value.empty:
        return "empty"
    lower = "" if value.lower is None else quote_field(write_bound(value.lower), _SPECIAL)
    upper = "" if value.upper is None else quote_field(write_bound(value.upper), _SPECIAL)
    return f"{'[' if value.lower_inc else '('}{lower},{upper}{']' if value.upper_inc else ')'}"


def lower_key(value: PgRange) -> tuple[Any, ...]:
    """Orders lower bounds: infinite first, inclusive before exclusive."""
    return (0,) if value.lower is None else (1, _key_of(value.subtype)(value.lower), not value.lower_inc)


def upper_key(value: PgRange) -> tuple[Any, ...]:
    """Orders upper bounds: infinite last, exclusive before inclusive."""
    return (2,) if value.upper is None else (1, _key_of(value.subtype)(value.upper), value.upper_inc)


def compare_ranges(a: PgRange, b: PgRange) -> int:
    """As range_cmp does: empty first, then by lower and upper bound."""
    one = (0,) if a.empty else (1, lower_key(a), upper_key(a))
    two = (0,) if b.empty else (1, lower_key(b), upper_key(b))
    return (one > two) - (one < two)


def touches(a: PgRange, b: PgRange) -> bool:
    """Whether b, which does not begin before a, overlaps it or begins where it ends."""
    if a.upper is None or b.lower is None:
        return True
    key = _key_of(a.subtype)
    if key(a.upper) != key(b.lower):
        return bool(key(a.upper) > key(b.lower))
    return a.upper_inc or b.lower_inc


def make_multirange(subtype: int, ranges: list[PgRange]) -> PgMultirange:
    """As make_multirange does: sorted, joined where they touch."""
    kept: list[PgRange] = []
    for one in sorted((r for r in ranges if not r.empty), key=lambda r: (lower_key(r), upper_key(r))):
        if kept and touches(kept[-1], one):
            last = kept[-1]
            if upper_key(one) > upper_key(last):
                kept[-1] = replace(last, upper=one.upper, upper_inc=one.upper_inc)
        else:
            kept.append(one)
    return PgMultirange(subtype, tuple(kept))


def compare_multiranges(a: PgMultirange, b: PgMultirange) -> int:
    for one, two in zip(a.ranges, b.ranges, strict=False):
        order = compare_ranges(one, two)
        if order:
            return order
    return (len(a.ranges) > len(b.ranges)) - (len(a.ranges) < len(b.ranges))


def read_multirange(text: str, subtype: int, read_bound: Callable[[str], Any]) -> PgMultirange:
    def fail(detail: str) -> PgError:
        return _fail(text, detail, "multirange")

    body = text.strip(SPACE)
    if not body.startswith("{"):
        raise fail("Missing left brace.")
    ranges: list[PgRange] = []
    at = _skip(body, 1)
    if body[at : at + 1] == "}":
        at += 1
    else:
        while True:
            if not body[at:]:
                raise fail("Unexpected end of input.")
            if body[at] not in "([" and body[at : at + 5].lower() != "empty":
                raise fail("Expected range start.")
            end = _range_end(body, at)
            if end is None:
                raise fail("Unexpected end of input.")
            ranges.append(_made(subtype, _parse(body[at:end]), read_bound))
            at = _skip(body, end)
            char = body[at : at + 1]
            at += 1
            if char == "}":
                break
            if not char:
                raise fail("Unexpected end of input.")
            if char != ",":
                raise fail("Expected comma or end of multirange.")
            at = _skip(body, at)
    if body[at:]:
        raise fail("Junk after closing right brace.")
    return make_multirange(subtype, ranges)


def _skip(body: str, at: int) -> int:
    while at < len(body) and body[at] in SPACE:
        at += 1
    return at


def write_multirange(value: PgMultirange, write_bound: Callable[[Any], str]) -> str:
    return "{" + ",".join(write_range(one, write_bound) for one in value.ranges) + "}"
