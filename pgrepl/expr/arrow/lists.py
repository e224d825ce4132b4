"""Arrays by columns: comparisons of two arrays, and a value beside ANY or ALL of a column of arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[Any]

Compare = Callable[[Any, Any], Any]
_SIGNS: dict[str, Compare] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_SHORT = 4  # elements of a list, of which all are compared with one value sooner than the first ones are taken


@frozen
class _Lists:
    """`values`: those of all lists; each has so many (`counts`) from a place (`starts`) on. `one`: all rows have the
    same list."""

    values: Any
    starts: Numbers
    counts: Numbers
    one: bool

    def items(self, at: Numbers, place: int) -> Any:
        """The elements of some lists that stand at a place."""
        import pyarrow as pa

        return self.values[place] if self.one else self.values.take(pa.array(self.starts[at] + place))


def compared_lists(sign: str, a: Any, b: Any, equal: Compare, less: Compare) -> Any:
    """Compare lists as array_cmp does: by the first elements that differ, NULL behind all others, then by their
    lengths. `equal` and `less` compare elements. Either may be a scalar for all rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(a, pa.Scalar) and isinstance(b, pa.Scalar):
        return compared_lists(sign, pa.array([a.as_py()], a.type), b, equal, less)[0]
    count = len(b) if isinstance(a, pa.Scalar) else len(a)
    valid = pc.and_(pc.is_valid(a), pc.is_valid(b))
    if isinstance(valid, pa.Scalar):
        valid = pa.repeat(valid, count)
    at = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
    order = np.zeros(count, np.int8)
    if len(at):
        ours, theirs = _lists(a, count), _lists(b, count)
        order = np.sign(ours.counts - theirs.counts).astype(np.int8)
        if sign in ("=", "<>"):
            at = at[order[at] == 0]
        _compare(ours, theirs, at, order, equal, less if sign not in ("=", "<>") else None)
    return pc.if_else(valid, pa.array(_SIGNS[sign](order, 0)), None)


def _lists(found: Any, count: int) -> _Lists:
    import numpy as np
    import pyarrow as pa

    if isinstance(found, pa.Scalar):
        return _Lists(found.values, np.zeros(count, np.int64), np.full(count, len(found.values), np.int64), True)
    offsets = found.offsets.to_numpy().astype(np.int64)
    first = offsets[0]
    values = found.values.slice(first, offsets[-1] - first)
    return _Lists(values, offsets[:-1] - first, np.diff(offsets), False)


def _compare(a: _Lists, b: _Lists, at: Numbers, order: Numbers, equal: Compare, less: Compare | None) -> None:
    """Write into `order` how the rows `at` compare that do not only differ in length. Without `less` any number tells
    that they differ."""
    import numpy as np
    import pyarrow.compute as pc

    shorter = np.minimum(a.counts, b.counts)
    place = 0
    while True:
        at = at[shorter[at] > place]
        if not len(at):
            return
        same = _same_items(a, b, at, place, equal)
        differ = at[~same]
        if less is None:
            order[differ] = 1
        elif len(differ):
            ours, theirs = a.items(differ, place), b.items(differ, place)
            below = pc.coalesce(less(ours, theirs), pc.is_null(theirs)).to_numpy(zero_copy_only=False)
            order[differ] = np.where(below, -1, 1)
        at = at[same]
        place += 1


def _same_items(a: _Lists, b: _Lists, at: Numbers, place: int, equal: Compare) -> Numbers:
    found: Numbers
    for lists, other in ((a, b), (b, a)):
        if other.one and not lists.one and len(lists.values) <= _SHORT * len(at):
            found = _alike(lists.values, other.values[place], equal)
            found = found[lists.starts[at] + place]
            return found
    return _alike(a.items(at, place), b.items(at, place), equal)


def _alike(a: Any, b: Any, equal: Compare) -> Numbers:
    import pyarrow.compute as pc

    both = pc.and_(pc.is_null(a), pc.is_null(b))
    found: Numbers = pc.coalesce(equal(a, b), both).to_numpy(zero_copy_only=False)
    return found


def among(value: Any, lists: Any, compare: Compare, *, use_or: bool) -> Any:
    """`value compare ANY (lists)`, or ALL: NULL where only a NULL could decide, and for a NULL array."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    parents = pc.list_parent_indices(lists)
    one = value if isinstance(value, pa.Scalar) else value.take(parents)
    found = compare(lists.flatten(), one)
    row = parents.to_numpy(zero_copy_only=False).astype(np.int64)
    unknown = np.bincount(row[found.is_null().to_numpy(zero_copy_only=False)], minlength=len(lists)) > 0
    decided = pc.fill_null(found if use_or else pc.invert(found), False).to_numpy(zero_copy_only=False)
    decided = np.bincount(row[decided], minlength=len(lists)) > 0
    known = pa.array(decided | ~unknown)
    answer = pa.array(decided if use_or else ~decided)
    return pc.if_else(pc.and_(known, pc.is_valid(lists)), answer, None)
