"""New rows by whole columns, in the order of their messages, into files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.replication.subscriber.apply.columns.decide import Decided
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable
from pgrepl.replication.wire.batch import RelationChanges

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.data_file import NewFile
    from pgrepl.lake.table import LakeColumn

    Numbers = npt.NDArray[Any]

_PART = 1_000_000  # rows of a file at most
_SAMPLE = 5_000  # so many rows are looked at to judge whether values repeat


@frozen
class SentColumns:
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
        repeating = _repeating(table.columns, arrays)
        writer = DataFileWriter(table, row_ids=self.row_ids is not None, repeating=repeating, folder=folder)
        ids = None if self.row_ids is None else pa.array(self.row_ids)
        writer.write_arrays(arrays, ids, len(self.messages))
        return [writer.close()]


def sent_columns(described: DescribedTable, decided: Decided) -> list[SentColumns]:
    """All new rows; those of which nothing is left are checked."""
    changes, folded = decided.changes, decided.folded
    if described.has_rules and len(folded.passing):
        maker = described.maker()
        for part in _parts_of(folded.passing):
            described.new_rows(maker, changes, part)
    found = [SentColumns(described, changes, part, None) for part in _parts_of(folded.inserted)]
    if len(folded.updated):
        assert decided.places is not None
        row_ids = decided.places.row_id[folded.replaced]
        for part, ids in zip(_parts_of(folded.updated), _parts_of(row_ids), strict=True):
            found.append(SentColumns(described, changes, part, ids))
    return found


def _parts_of(messages: Numbers) -> list[Numbers]:
    """The messages divided, in order, by file."""
    return [messages[start : start + _PART] for start in range(0, len(messages), _PART)]


def _repeating(columns: Sequence[LakeColumn], arrays: Sequence[Any]) -> list[str]:
    """The columns to write with a dictionary: in a sample of rows their values repeat."""
    found = []
    for column, array in zip(columns, arrays, strict=True):
        if column.form.element is not None:
            found.append(f"{column.name}.list.element")
        elif not column.fields and len(array[:_SAMPLE].unique()) * 4 <= len(array[:_SAMPLE]):
            found.append(column.name)
    return found
