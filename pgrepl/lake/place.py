"""Where a row version stands: what UPDATE and DELETE carry from the rows they found to the rows they end.

A place is good as long as the snapshot it was read at is the one that the statement changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class RowPlace(NamedTuple):
    """`file` is None for a row inlined in the catalog, whose row id alone finds it; `pos` is the row's number in its
    file, counted from 0."""

    file: int | None
    pos: int | None
    row: int


def once(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Each number once, ascending. np.unique hashes them, which takes many times as long."""
    import numpy as np

    steps = np.diff(numbers)
    if bool((steps > 0).all()):
        return numbers
    if not bool((steps >= 0).all()):
        numbers = np.sort(numbers)
    first = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=first[1:])
    return numbers[first]


def row_ids(first: int | None, positions: npt.NDArray[np.int64], own: Any = None) -> npt.NDArray[np.int64]:
    """The ids of rows of a file: their own, an Arrow array; those without one have the file's first id and their
    position."""
    import numpy as np

    by_position = (first or 0) + positions
    if own is None:
        return by_position
    return np.where(own.is_valid().to_numpy(zero_copy_only=False), own.fill_null(0).to_numpy(), by_position)
