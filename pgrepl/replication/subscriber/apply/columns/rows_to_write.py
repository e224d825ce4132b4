"""New rows by whole columns, in the order of their messages, into files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.replication.subscriber.apply.columns.decide import Decided
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable
from pgrepl.replication.wire.batch import RelationChanges

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.data_file import NewFile

    Numbers = npt.NDArray[Any]

_PART = 1_000_000  # rows of a file at most


@frozen
class RowsToWrite:
    """The new rows of some messages; with `row_ids` they are new versions."""

    described: DescribedTable
    changes: RelationChanges
    messages: Numbers
    row_ids: Any

    def write(self, folder: str | None = None) -> list[NewFile]:
        """`folder`: an existing one inside the table's."""
        import pyarrow as pa

        from pgrepl.lake.file_writer import DataFileWriter

        described, table = self.described, self.described.table
        arrays = described.new_rows(described.maker(), self.changes, self.messages)
        writer = DataFileWriter(table, row_ids=self.row_ids is not None, folder=folder)
        ids = None if self.row_ids is None else pa.array(self.row_ids)
        writer.write_arrays(arrays, ids, len(self.messages))
        return [writer.close()]


def rows_to_write(described: DescribedTable, decided: Decided) -> list[RowsToWrite]:
    """All new rows; those of which nothing is left are checked."""
    changes, folded = decided.changes, decided.folded
    if described.has_rules and len(folded.passing):
        maker = described.maker()
        for part in _parts_of(folded.passing):
            described.new_rows(maker, changes, part)
    found = [RowsToWrite(described, changes, part, None) for part in _parts_of(folded.inserted)]
    if len(folded.updated):
        assert decided.places is not None
        row_ids = decided.places.row_id[folded.replaced]
        for part, ids in zip(_parts_of(folded.updated), _parts_of(row_ids), strict=True):
            found.append(RowsToWrite(described, changes, part, ids))
    return found


def _parts_of(messages: Numbers) -> list[Numbers]:
    """The messages divided, in order, by file."""
    return [messages[start : start + _PART] for start in range(0, len(messages), _PART)]
