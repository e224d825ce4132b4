"""The division of the rows of tables into parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.lake import footers, inlined
from pgrepl.lake.files import data_files
from pgrepl.lake.kernels.part import CatalogRows, FileRows, ForeignRows, PartRows
from pgrepl.types.lake_arrays import plain_array

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.table import LakeColumn, LakeTable

_SMALL_FILE = 250_000  # rows
_MOST_ROWS = 5_000_000  # in a part
_MOST_BYTES = 256 << 20  # of files


def rows_of(
    session: Session, table: LakeTable, snapshot: int, attnums: Sequence[int], bounds: Sequence[Bound] = ()
) -> list[tuple[PartRows, int, int]]:
    """The rows of a table at a snapshot, in their order, as (rows, number of rows at most, bytes). Rows outside the
    bounds may be among them."""
    files = data_files(session, table, snapshot, bounds)
    deletes = inlined.deletes(session, table, snapshot) if files else {}
    columns = [table.column(attnum) for attnum in attnums]
    in_catalog = inlined.rows(session, table, columns, snapshot)
    found: list[tuple[PartRows, int, int]] = []
    for rows, file in inlined.among_files(files, in_catalog):
        if rows:
            found.append((_catalog_rows(columns, rows), len(rows), 0))
        if file is not None:
            own = tuple(deletes.get(file.data_file_id, ()))
            found += _divided(FileRows(table, snapshot, file, own, None, tuple(bounds)))
    return found


def _catalog_rows(columns: Sequence[LakeColumn], rows: Sequence[inlined.InlinedRow]) -> CatalogRows:
    import numpy as np

    arrays = [
        (column.attnum, plain_array(column.form.to_array([row.values[n] for row in rows])))
        for n, column in enumerate(columns)
    ]
    return CatalogRows(tuple(arrays), len(rows), np.array([row.row_id for row in rows], np.int64))


def _divided(rows: FileRows) -> list[tuple[PartRows, int, int]]:
    """A large file is divided into its row groups."""
    file = rows.file
    if file.record_count <= _SMALL_FILE:
        return [(rows, file.record_count, file.file_size_bytes)]
    footer = footers.of(file)
    found: list[tuple[PartRows, int, int]] = []
    for group in footer.row_groups:
        count = footer.starts[group + 1] - footer.starts[group]
        size = file.file_size_bytes * count // max(file.record_count, 1)
        found.append((replace(rows, groups=(group,)), count, size))
    return found


def divide(found: Sequence[tuple[PartRows, int, int]], slots: int) -> list[list[PartRows]]:
    """Parts of neighbouring rows, of about one size; about as many as `slots`, or a multiple, so that no slot idles."""
    total = sum(count for _, count, _ in found)
    size = sum(size for _, _, size in found)
    wanted = max(-(-total // _MOST_ROWS), -(-size // _MOST_BYTES), 1)
    wanted = -(-wanted // slots) * slots
    limits = iter([total * n // wanted for n in range(1, wanted)])
    parts: list[list[PartRows]] = [[]]
    limit, done = next(limits, total), 0
    for rows, count, _ in found:
        if parts[-1] and done + count // 2 >= limit:
            parts.append([])
            while done + count // 2 >= limit and limit < total:
                limit = next(limits, total)
        parts[-1].append(rows)
        done += count
    return [_merged(part) for part in parts if part]


def _merged(part: Sequence[PartRows]) -> list[PartRows]:
    """Neighbouring row groups of one file become one piece, so that the file is opened once."""
    found: list[PartRows] = []
    for rows in part:
        last = found[-1] if found else None
        if isinstance(rows, FileRows) and isinstance(last, FileRows) and last.file is rows.file:
            found[-1] = replace(last, groups=(*(last.groups or ()), *(rows.groups or ())))
        elif isinstance(rows, ForeignRows) and isinstance(last, ForeignRows) and last.path == rows.path:
            found[-1] = replace(last, groups=last.groups + rows.groups)
        else:
            found.append(rows)
    return found
