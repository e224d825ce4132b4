"""The places of a table's rows at a snapshot, as plain data: kernels look for rows without asking the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pgrepl.frozen import frozen
from pgrepl.types.lake_arrays import plain_array

if TYPE_CHECKING:
    import pyarrow as pa

    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.data_file import DataFile
    from pgrepl.lake.inlined import InlinedRow
    from pgrepl.lake.table import LakeColumn, LakeTable

    RowsWithin = Callable[[Sequence[LakeColumn], Sequence[Bound]], "TableRows"]


@frozen
class TableRows:
    """The files and inlined rows that may have rows within some bounds. Inlined rows have the values of the columns
    `attnums`."""

    snapshot: int
    files: tuple[DataFile, ...]
    deletes: Mapping[int, Sequence[tuple[int, int]]]  # inlined deletes by file: position and snapshot
    inlined: tuple[InlinedRow, ...]
    attnums: tuple[int, ...]

    def inlined_arrays(self, columns: Sequence[LakeColumn], row_ids: Sequence[int] | None = None) -> list[pa.Array]:
        """Columns of the inlined rows, or of those with these ids, in the order of the ids."""
        rows = self.inlined
        if row_ids is not None:
            known = {row.row_id: row for row in rows}
            rows = tuple([known[row_id] for row_id in row_ids])
        places = [self.attnums.index(column.attnum) for column in columns]
        return [
            plain_array(column.form.to_array([row.values[place] for row in rows]))
            for column, place in zip(columns, places, strict=True)
        ]


def table_rows(
    session: Session, table: LakeTable, snapshot: int, columns: Sequence[LakeColumn], bounds: Sequence[Bound] = ()
) -> TableRows:
    """The places of rows within the bounds. Inlined rows get the values of `columns`."""
    from pgrepl.lake import inlined
    from pgrepl.lake.files import data_files

    files = tuple(data_files(session, table, snapshot, bounds))
    here = {file.data_file_id for file in files}
    found = inlined.deletes(session, table, snapshot) if files else {}
    deletes = {file_id: positions for file_id, positions in found.items() if file_id in here}
    in_catalog = tuple(inlined.rows(session, table, columns, snapshot, bounds))
    return TableRows(snapshot, files, deletes, in_catalog, tuple([column.attnum for column in columns]))


def rows_within(session: Session, table: LakeTable, snapshot: int) -> RowsWithin:
    return lambda columns, bounds: table_rows(session, table, snapshot, columns, bounds)


def are_within(rows: TableRows) -> RowsWithin:
    """The RowsWithin of a kernel, whose `rows` already include all that it may ask for."""
    return lambda columns, bounds: rows


__all__ = ["TableRows", "are_within", "rows_within", "table_rows"]
