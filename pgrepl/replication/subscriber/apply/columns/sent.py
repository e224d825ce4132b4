"""New rows that are kept just as they were sent: whole columns, in the order of their messages, straight into files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.replication.wire.batch import RelationChanges

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.data_file import NewFile
    from pgrepl.lake.table import LakeColumn, LakeTable

    Numbers = npt.NDArray[Any]

MOST_BYTES = 1 << 30  # of columns that are held here; more is for Spark
_PART = 1_000_000  # rows of a file
_SAMPLE = 5_000  # rows that tell whether values repeat


def parts_of(messages: Numbers) -> list[Numbers]:
    """In order, each for a file."""
    return [messages[start : start + _PART] for start in range(0, len(messages), _PART)]


@frozen
class SentColumns:
    """The new rows of some messages; with `row_ids` they are new versions."""

    table: LakeTable
    changes: RelationChanges
    places: Sequence[int]  # of the table's columns
    needed: frozenset[int]  # numbers of columns that are NOT NULL
    messages: Numbers
    row_ids: Any

    def write(self) -> list[NewFile]:
        import pyarrow as pa

        from pgrepl.lake.file_writer import DataFileWriter

        arrays = self.changes.pick(self.places, self.messages)
        check_needed(self.table, arrays, self.needed)
        writer = DataFileWriter(
            self.table, row_ids=self.row_ids is not None, repeating=_repeating(self.table.columns, arrays)
        )
        ids = None if self.row_ids is None else pa.array(self.row_ids)
        writer.write_arrays(arrays, ids, len(self.messages))
        return [writer.close()]


def check_needed(table: LakeTable, arrays: Sequence[Any], needed: frozenset[int]) -> None:
    """An error that the exact way words, once it has found the row."""
    for column, array in zip(table.columns, arrays, strict=True):
        if column.attnum in needed and array.null_count:
            raise PgError("23502", f'null value in column "{column.name}" violates not-null constraint')


def _repeating(columns: Sequence[LakeColumn], arrays: Sequence[Any]) -> list[str]:
    """The columns of which a dictionary is made: the values that are looked at are often the same."""
    found = []
    for column, array in zip(columns, arrays, strict=True):
        if column.form.element is not None:
            found.append(f"{column.name}.list.element")
        elif not column.fields and len(array[:_SAMPLE].unique()) * 4 <= len(array[:_SAMPLE]):
            found.append(column.name)
    return found
