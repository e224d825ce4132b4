"""Ranges and multiranges, and assignments to elements of arrays and jsonb (`SET a[2] = 5`, `j['k'] = …`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from pgrepl.expr.functions.arrays import empty
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.ground.errors import PgError
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import range_by_oid, range_of_multirange
from pgrepl.types.input_checks import check_items
from pgrepl.types.json import Jsonb, jsonb_tree, sorted_object, to_jsonb
from pgrepl.types.ranges import PgMultirange, PgRange, lower_key, make_multirange, make_range, touches, upper_key
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


def parts(value: PgRange | PgMultirange) -> tuple[PgRange, ...]:
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
    return any(_holds(part, element) for part in parts(value))


@implements("elem_contained_by_range", "elem_contained_by_multirange")
def element_contained(element: Any, value: PgRange | PgMultirange) -> bool:
    return contains_element(value, element)


def _within(inner: PgRange, outer: PgRange) -> bool:
    return lower_key(outer) <= lower_key(inner) and upper_key(inner) <= upper_key(outer)


def contains(one: PgRange | PgMultirange, two: PgRange | PgMultirange) -> bool:
    return all(any(_within(inner, outer) for outer in parts(one)) for inner in parts(two))


def _overlap(a: PgRange, b: PgRange) -> bool:
    """Whether two ranges overlap."""
    return not _before(a, b) and not _before(b, a)


def _before(a: PgRange, b: PgRange) -> bool:
    if a.upper is None or b.lower is None:
        return False
    order = comparer(a.subtype)(a.upper, b.lower)
    return order < 0 or (order == 0 and not (a.upper_inc and b.lower_inc))


def overlaps(one: PgRange | PgMultirange, two: PgRange | PgMultirange) -> bool:
    return any(_overlap(a, b) for a in parts(one) for b in parts(two))


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


implements("range_merge_from_multirange")(lambda value: _ends(value) or PgRange(value.subtype, empty=True))


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


implements("multirange_union")(lambda a, b: make_multirange(a.subtype, [*a.ranges, *b.ranges]))


@implements("multirange_intersect")
def multirange_intersect(a: PgMultirange, b: PgMultirange) -> PgMultirange:
    return make_multirange(a.subtype, [_common(one, two) for one in a.ranges for two in b.ranges])


@implements("multirange_minus")
def multirange_minus(a: PgMultirange, b: PgMultirange) -> PgMultirange:
    left = list(a.ranges)
    for taken in b.ranges:
        left = [rest for one in left for rest in _rest(one, taken)]
    ranges = [make_range(a.subtype, r.lower, r.upper, r.lower_inc, r.upper_inc) for r in left]
    return make_multirange(a.subtype, ranges)


implements("multirange_unnest")(lambda value: value.ranges)


def joined(known: PgMultirange | None, value: PgRange | PgMultirange) -> PgMultirange:
    """The state of range_agg after one more range."""
    return make_multirange(value.subtype, [*(known.ranges if known is not None else ()), *parts(value)])


def in_common(one: PgRange | PgMultirange, two: PgRange | PgMultirange) -> PgRange | PgMultirange:
    if isinstance(one, PgMultirange) and isinstance(two, PgMultirange):
        return multirange_intersect(one, two)
    assert isinstance(one, PgRange) and isinstance(two, PgRange)
    return range_intersect(one, two)


# --- array assign -----------------------------------------------------------------------------------------------------


def _error(message: str, detail: str | None = None) -> PgError:
    return PgError("2202E", message, detail=detail)


def set_element(array: PgArray | None, elemtype: int, subscripts: Sequence[int], value: Any) -> PgArray:
    """Set an element as array_set_element does: a one-dimensional array grows, with NULLs in the gap."""
    array = array or empty(elemtype)
    if not array.dims:
        return PgArray(elemtype, (1,) * len(subscripts), tuple(subscripts), (value,))
    if len(subscripts) != len(array.dims):
        raise _error("wrong number of array subscripts")
    if len(array.dims) == 1:
        return _put(array, subscripts[0], (value,))
    index = 0
    for subscript, size, lower in zip(subscripts, array.dims, array.lbounds, strict=True):
        if not lower <= subscript < lower + size:
            raise _error("array subscript out of range")
        index = index * size + subscript - lower
    items = (*array.items[:index], value, *array.items[index + 1 :])
    return PgArray(elemtype, array.dims, array.lbounds, items)


def _put(array: PgArray, first: int, values: tuple[Any, ...]) -> PgArray:
    """Store values from an index on in a one-dimensional array."""
    lower, items = array.lbounds[0], array.items
    before, after = max(lower - first, 0), max(first + len(values) - lower - len(items), 0)
    check_items(before + len(items) + after)
    items = (None,) * before + tuple(items) + (None,) * after
    lower = min(lower, first)
    at = first - lower
    items = items[:at] + values + items[at + len(values) :]
    return PgArray(array.elemtype, (len(items),), (lower,), items)


def set_slice(
    array: PgArray | None,
    elemtype: int,
    lowers: Sequence[int | None],
    uppers: Sequence[int | None],
    source: PgArray | None,
) -> PgArray | None:
    """Set a slice as array_set_slice does; None stands for an omitted bound."""
    if source is None:
        return array
    array = array or empty(elemtype)
    if not array.dims:
        return _new_slice(elemtype, lowers, uppers, source)
    if len(lowers) > len(array.dims):
        raise _error("wrong number of array subscripts")
    bounds = []
    for number, (size, bound) in enumerate(zip(array.dims, array.lbounds, strict=True)):
        lower = lowers[number] if number < len(lowers) else None
        upper = uppers[number] if number < len(uppers) else None
        bounds.append((bound if lower is None else lower, bound + size - 1 if upper is None else upper))
    for (lower, upper), size, bound in zip(bounds, array.dims, array.lbounds, strict=True):
        if lower > upper:
            raise _error("upper bound cannot be less than lower bound")
        if len(array.dims) > 1 and (lower < bound or upper >= bound + size):
            raise _error("array subscript out of range")
    count = 1
    for lower, upper in bounds:
        count *= upper - lower + 1
    if len(source.items) < count:
        raise _error("source array too small")
    if len(array.dims) == 1:
        return _put(array, bounds[0][0], tuple(source.items[:count]))
    items, values = list(array.items), iter(source.items)
    for place in product(*(range(lower, upper + 1) for lower, upper in bounds)):
        index = 0
        for subscript, size, bound in zip(place, array.dims, array.lbounds, strict=True):
            index = index * size + subscript - bound
        items[index] = next(values)
    return PgArray(elemtype, array.dims, array.lbounds, tuple(items))


def _new_slice(elemtype: int, lowers: Sequence[int | None], uppers: Sequence[int | None], source: PgArray) -> PgArray:
    dims, count = [], 1
    for lower, upper in zip(lowers, uppers, strict=True):
        if lower is None or upper is None:
            detail = "When assigning to a slice of an empty array value, slice boundaries must be fully specified."
            raise _error("array slice subscript must provide both boundaries", detail)
        dims.append(upper - lower + 1)
        count *= max(upper - lower + 1, 0)
    if min(dims) <= 0 or len(source.items) < count:
        raise _error("source array too small" if min(dims) > 0 else "upper bound cannot be less than lower bound")
    return PgArray(elemtype, tuple(dims), tuple(lower or 0 for lower in lowers), tuple(source.items[:count]))


def set_jsonb(value: Jsonb | None, steps: Sequence[Any], new: Jsonb | None) -> Jsonb:
    """Set a member as jsonb_subscript_assign does: missing objects and arrays on the path are created, gaps in arrays
    become null."""
    tree = jsonb_tree(value) if value is not None else ([] if isinstance(steps[0], int) else {})
    if not isinstance(tree, (dict, list)):
        raise _not_a_container()
    return to_jsonb(_with(tree, list(steps), 0, jsonb_tree(new) if new is not None else None))


def _not_a_container() -> PgError:
    return PgError(
        "22023",
        "cannot replace existing key",
        detail="The path assumes key is a composite object, but it is a scalar value.",
    )


def _with(tree: Any, steps: list[Any], level: int, new: Any) -> Any:
    step, last = steps[level], level == len(steps) - 1
    if isinstance(tree, dict):
        key = str(step)
        inner = new if last else _below(tree.get(key, _ABSENT), steps, level, new)
        return sorted_object({**tree, key: inner})
    if isinstance(tree, list):
        try:
            index = int(step)
        except ValueError:
            message = f'path element at position {level + 1} is not an integer: "{step}"'
            raise PgError("22P02", message) from None
        if index < 0:
            if -index > len(tree):
                message = f"path element at position {level + 1} is out of range: {index}"
                raise PgError("22003", message)
            index += len(tree)
        filled = [*tree, *[None] * (index + 1 - len(tree))]
        below = tree[index] if index < len(tree) else _ABSENT
        filled[index] = new if last else _below(below, steps, level, new)
        return filled
    raise _not_a_container()


_ABSENT = object()


def _below(tree: Any, steps: list[Any], level: int, new: Any) -> Any:
    if tree is _ABSENT:
        tree = [] if isinstance(steps[level + 1], int) else {}
    elif not isinstance(tree, (dict, list)):
        raise _not_a_container()
    return _with(tree, steps, level + 1, new)
