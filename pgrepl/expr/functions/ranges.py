"""Ranges and multiranges: construction, bounds, containment, union and difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.types.builtin import range_by_oid, range_of_multirange
from pgrepl.types.ranges import (
    PgMultirange,
    PgRange,
    lower_key,
    make_multirange,
    make_range,
    touches,
    upper_key,
)
from pgrepl.types.values import comparer

implements = Family()


def _subtype(typoid: int) -> int:
    row = range_by_oid(typoid) or range_of_multirange(typoid)
    assert row is not None
    return row.subtype


@implements("range_constructor2", context=True)
def range_constructor2(call: Call, lower: Any, upper: Any) -> PgRange:
    return make_range(_subtype(call.type), lower, upper, True, False)


@implements("range_constructor3", context=True)
def range_constructor3(call: Call, lower: Any, upper: Any, bounds: str | None) -> PgRange:
    if bounds is None:
        raise PgError("22000", "range constructor flags argument must not be null")
    if bounds not in ("[]", "[)", "(]", "()"):
        raise PgError("42601", "invalid range bound flags", hint='Valid values are "[]", "[)", "(]", and "()".')
    return make_range(_subtype(call.type), lower, upper, bounds[0] == "[", bounds[1] == "]")


def _ends(value: PgRange | PgMultirange) -> PgRange | None:
    """The range from the lowest to the highest bound; None when it is empty."""
    if isinstance(value, PgRange):
        return None if value.empty else value
    if not value.ranges:
        return None
    first, last = value.ranges[0], value.ranges[-1]
    return replace(first, upper=last.upper, upper_inc=last.upper_inc)


def _asked(names: tuple[str, str], question: Callable[[PgRange], Any], otherwise: Any) -> None:
    def ask(value: PgRange | PgMultirange) -> Any:
        ends = _ends(value)
        return otherwise if ends is None else question(ends)

    implements(*names)(ask)


_asked(("range_lower", "multirange_lower"), lambda r: r.lower, None)
_asked(("range_upper", "multirange_upper"), lambda r: r.upper, None)
_asked(("range_lower_inc", "multirange_lower_inc"), lambda r: r.lower_inc, False)
_asked(("range_upper_inc", "multirange_upper_inc"), lambda r: r.upper_inc, False)
_asked(("range_lower_inf", "multirange_lower_inf"), lambda r: r.lower is None, False)
_asked(("range_upper_inf", "multirange_upper_inf"), lambda r: r.upper is None, False)
_asked(("range_empty", "multirange_empty"), lambda r: False, True)


def _parts(value: PgRange | PgMultirange) -> tuple[PgRange, ...]:
    if isinstance(value, PgMultirange):
        return value.ranges
    return () if value.empty else (value,)


def _holds(part: PgRange, element: Any) -> bool:
    compare = comparer(part.subtype)
    if part.lower is not None:
        order = compare(part.lower, element)
        if order > 0 or (order == 0 and not part.lower_inc):
            return False
    if part.upper is not None:
        order = compare(part.upper, element)
        if order < 0 or (order == 0 and not part.upper_inc):
            return False
    return True


@implements("range_contains_elem", "multirange_contains_elem")
def contains_element(value: PgRange | PgMultirange, element: Any) -> bool:
    return any(_holds(part, element) for part in _parts(value))


@implements("elem_contained_by_range", "elem_contained_by_multirange")
def element_contained(element: Any, value: PgRange | PgMultirange) -> bool:
    return contains_element(value, element)


def _within(inner: PgRange, outer: PgRange) -> bool:
    return lower_key(outer) <= lower_key(inner) and upper_key(inner) <= upper_key(outer)


def contains(one: PgRange | PgMultirange, two: PgRange | PgMultirange) -> bool:
    return all(any(_within(inner, outer) for outer in _parts(one)) for inner in _parts(two))


def _overlap(a: PgRange, b: PgRange) -> bool:
    """Whether two ranges overlap."""
    return not _before(a, b) and not _before(b, a)


def _before(a: PgRange, b: PgRange) -> bool:
    if a.upper is None or b.lower is None:
        return False
    order = comparer(a.subtype)(a.upper, b.lower)
    return order < 0 or (order == 0 and not (a.upper_inc and b.lower_inc))


def overlaps(one: PgRange | PgMultirange, two: PgRange | PgMultirange) -> bool:
    return any(_overlap(a, b) for a in _parts(one) for b in _parts(two))


def _of_ends(question: Callable[[PgRange, PgRange], bool]) -> Callable[[Any, Any], bool]:
    def ask(one: PgRange | PgMultirange, two: PgRange | PgMultirange) -> bool:
        a, b = _ends(one), _ends(two)
        return a is not None and b is not None and question(a, b)

    return ask


def _adjacent(a: PgRange, b: PgRange) -> bool:
    return (touches(a, b) and _before(a, b)) or (touches(b, a) and _before(b, a))


_PAIRS = ("range_{}", "range_{}_range", "range_{}_multirange", "multirange_{}_range", "multirange_{}_multirange")
for _word, _function in {
    "contains": contains,
    "contained_by": lambda one, two: contains(two, one),
    "overlaps": overlaps,
    "before": _of_ends(_before),
    "after": _of_ends(lambda a, b: _before(b, a)),
    "overleft": _of_ends(lambda a, b: upper_key(a) <= upper_key(b)),
    "overright": _of_ends(lambda a, b: lower_key(a) >= lower_key(b)),
    "adjacent": _of_ends(_adjacent),
}.items():
    implements(*(pair.format(_word) for pair in _PAIRS))(_function)


def _common(a: PgRange, b: PgRange) -> PgRange:
    if not _overlap(a, b):
        return PgRange(a.subtype, empty=True)
    lower = max(a, b, key=lower_key)
    upper = min(a, b, key=upper_key)
    return replace(lower, upper=upper.upper, upper_inc=upper.upper_inc)


@implements("range_intersect")
def range_intersect(a: PgRange, b: PgRange) -> PgRange:
    return PgRange(a.subtype, empty=True) if a.empty or b.empty else _common(a, b)


def _joined(a: PgRange, b: PgRange) -> PgRange:
    lower, upper = min(a, b, key=lower_key), max(a, b, key=upper_key)
    return replace(lower, upper=upper.upper, upper_inc=upper.upper_inc)


@implements("range_union")
def range_union(a: PgRange, b: PgRange) -> PgRange:
    if a.empty or b.empty:
        return b if a.empty else a
    if not _overlap(a, b) and not _adjacent(a, b):
        raise PgError("22000", "result of range union would not be contiguous")
    return _joined(a, b)


@implements("range_merge")
def range_merge(a: PgRange, b: PgRange) -> PgRange:
    if a.empty or b.empty:
        return b if a.empty else a
    return _joined(a, b)


@implements("range_merge_from_multirange")
def range_merge_from_multirange(value: PgMultirange) -> PgRange:
    return _ends(value) or PgRange(value.subtype, empty=True)


def _rest(a: PgRange, b: PgRange) -> list[PgRange]:
    """The parts of a that are outside b."""
    if not _overlap(a, b):
        return [a]
    left = []
    if lower_key(a) < lower_key(b):
        left.append(replace(a, upper=b.lower, upper_inc=not b.lower_inc))
    if upper_key(b) < upper_key(a):
        left.append(replace(a, lower=b.upper, lower_inc=not b.upper_inc))
    return left


@implements("range_minus")
def range_minus(a: PgRange, b: PgRange) -> PgRange:
    if a.empty or b.empty:
        return a
    left = _rest(a, b)
    if len(left) > 1:
        raise PgError("22000", "result of range difference would not be contiguous")
    if not left:
        return PgRange(a.subtype, empty=True)
    return make_range(a.subtype, left[0].lower, left[0].upper, left[0].lower_inc, left[0].upper_inc)


@implements("multirange_constructor0", "multirange_constructor1", "multirange_constructor2", context=True)
def multirange_constructor(call: Call, ranges: Any = None) -> PgMultirange:
    members = [ranges] if isinstance(ranges, PgRange) else list(ranges.items) if ranges is not None else []
    if None in members:
        raise PgError("22004", "multirange values cannot contain null members")
    return make_multirange(_subtype(call.type), members)


@implements("multirange_union")
def multirange_union(a: PgMultirange, b: PgMultirange) -> PgMultirange:
    return make_multirange(a.subtype, [*a.ranges, *b.ranges])


@implements("multirange_intersect")
def multirange_intersect(a: PgMultirange, b: PgMultirange) -> PgMultirange:
    return make_multirange(a.subtype, [_common(one, two) for one in a.ranges for two in b.ranges])


@implements("multirange_minus")
def multirange_minus(a: PgMultirange, b: PgMultirange) -> PgMultirange:
    left = list(a.ranges)
    for taken in b.ranges:
        left = [rest for one in left for rest in _rest(one, taken)]
    made = [make_range(a.subtype, r.lower, r.upper, r.lower_inc, r.upper_inc) for r in left]
    return make_multirange(a.subtype, made)


@implements("multirange_unnest")
def multirange_unnest(value: PgMultirange) -> tuple[PgRange, ...]:
    return value.ranges


def joined(known: PgMultirange | None, value: PgRange | PgMultirange) -> PgMultirange:
    """The state of range_agg after one more range."""
    return make_multirange(value.subtype, [*(known.ranges if known is not None else ()), *_parts(value)])


def in_common(one: PgRange | PgMultirange, two: PgRange | PgMultirange) -> PgRange | PgMultirange:
    if isinstance(one, PgMultirange) and isinstance(two, PgMultirange):
        return multirange_intersect(one, two)
    assert isinstance(one, PgRange) and isinstance(two, PgRange)
    return range_intersect(one, two)
