"""Arrays by columns: = and <> of two arrays, and a value beside ANY or ALL of a column of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

Compare = Callable[[Any, Any], Any]


def equal_lists(a: Any, b: Any, equal: Compare) -> Any:
    """Whether lists are equal, NULL beside NULL; `equal` compares elements. Either may be a scalar for all rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(a, pa.Scalar):
        if isinstance(b, pa.Scalar):
            a = pa.array([a.as_py()], a.type)
            return equal_lists(a, b, equal)[0]
        a, b = b, a
    if isinstance(b, pa.Scalar) and not b.is_valid:
        return pa.nulls(len(a), pa.bool_())
    lengths = pc.list_value_length(a)
    theirs = len(b.values) if isinstance(b, pa.Scalar) else pc.list_value_length(b)
    same = pc.equal(lengths, theirs)
    at = np.flatnonzero(same.fill_null(False).to_numpy(zero_copy_only=False))
    chosen = pa.array(at)
    ours = a.take(chosen)
    counts = lengths.take(chosen).to_numpy(zero_copy_only=False).astype(np.int64)
    if isinstance(b, pa.Scalar):
        items = b.values.take(pa.array(np.tile(np.arange(theirs), len(at))))
    else:
        items = b.take(chosen).flatten()
    own = ours.flatten()
    both = pc.and_(pc.is_null(own), pc.is_null(items))
    alike = pc.coalesce(equal(own, items), both).to_numpy(zero_copy_only=False)
    found = np.zeros(len(a), np.bool_)
    found[at] = _all_of(alike, counts)
    return pc.if_else(pc.is_valid(same), pa.array(found), None)


def _all_of(flags: npt.NDArray[Any], counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    import numpy as np

    wrong = np.concatenate([[0], np.cumsum(~flags)])
    ends = np.cumsum(counts)
    found: npt.NDArray[Any] = wrong[ends] == wrong[ends - counts]
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
