"""New rows that are kept just as they were sent: whole columns, in the order of their messages, straight into files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.replication.bulk.batch import RelationChanges

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.table import LakeTable
    from pgrepl.lake.write import NewFile

    Numbers = npt.NDArray[Any]

_MOST_BYTES = 1 << 30  # of columns that are held here; more is for Spark
_PART = 1_000_000  # rows of a file
_PORTION = 1 << 20  # rows picked at a time


def sent_columns(changes: RelationChanges, places: Sequence[int]) -> list[Any] | None:
    """The columns of new rows, an entry for every message. None: they are too large."""
    found, size = [], 0
    for place in places:
        column = changes.values(place)
        size += column.nbytes
        if size > _MOST_BYTES:
            return None
        found.append(column)
    return found


def parts_of(messages: Numbers) -> list[Numbers]:
    """In order, each for a file."""
    return [messages[start : start + _PART] for start in range(0, len(messages), _PART)]


@frozen
class Columns:
    """The rows of some messages; with `row_ids` they are new versions."""

    table: LakeTable
    arrays: Sequence[Any]
    messages: Numbers
    row_ids: Any

    def write(self) -> list[NewFile]:
        import pyarrow as pa

        from pgrepl.lake.file_writer import DataFileWriter

        writer = DataFileWriter(self.table, row_ids=self.row_ids is not None)
        for start in range(0, len(self.messages), _PORTION):
            here = slice(start, start + _PORTION)
            picked = [array.take(pa.array(self.messages[here])) for array in self.arrays]
            ids = None if self.row_ids is None else pa.array(self.row_ids[here])
            writer.write_arrays(picked, ids, len(self.messages[here]))
        return [writer.close()]
