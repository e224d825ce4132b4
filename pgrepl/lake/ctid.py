"""Places of row versions (PostgreSQL's ctid), by which UPDATE and DELETE end the rows that they have found.

A place is valid while the snapshot at which it was read is the one that the statement changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class RowPlace(NamedTuple):
    """The place of a row: its file (None: it is inlined, and its row id finds it), its position in the file, counted
    from 0, and its row id."""

    file: int | None
    pos: int | None
    row: int


def once(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The distinct numbers, ascending. np.unique hashes them, which takes many times as long."""
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
    """The ids of rows of a file: their `own` ids, an Arrow array, else the file's first id and their position."""
    import numpy as np

    by_position = (first or 0) + positions
    if own is None:
        return by_position
    return np.where(own.is_valid().to_numpy(zero_copy_only=False), own.fill_null(0).to_numpy(), by_position)
