"""Changes that others have made to a table while a compaction staged its new files (compact.py).

Inserted rows are in other files, and inlined rows, than those of the compaction. Deleted rows, and old versions of
updated ones, are deleted at their places in the new files. Any other change of the table makes the compaction Stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.frozen import frozen
from pgrepl.lake import deleted_rows, inlined
from pgrepl.lake.commit import Stale, check_only_rows_changed
from pgrepl.lake.files import data_file, last_snapshot

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pgrepl.catalog.session import Session
    from pgrepl.lake.data_file import DataFile, NewFile
    from pgrepl.lake.inlined import InlinedRow
    from pgrepl.lake.table import LakeTable

_MOST = 10_000  # deleted rows; with more the compaction is Stale


@frozen
class ConcurrentDeletes:
    """The rows of the new files that others have deleted, and the inlined rows that are left."""

    rows: tuple[int, ...]  # by their numbers in all of the new files, ascending
    flushed: tuple[int, ...]  # the ids of the inlined rows that are still there


def gone_since(
    session: Session, table: LakeTable, files: Sequence[DataFile], rows: Sequence[InlinedRow], snapshot: int
) -> ConcurrentDeletes:
    """The rows that others have deleted since the snapshot of the new files, which have the rows of `files` and
    `rows`. The caller holds the write lock."""
    if last_snapshot(session) == snapshot:
        return ConcurrentDeletes((), tuple([row.row_id for row in rows]))
    check_only_rows_changed(session, table.table_id, snapshot)
    alive = {(row.row_id, row.begin_snapshot) for row in inlined.rows(session, table, (), last_snapshot(session))}
    gone: list[int] = []
    flushed: list[int] = []
    first = 0
    for some, file in inlined.among_files(files, rows):
        for number, row in enumerate(some, first):
            if (row.row_id, row.begin_snapshot) in alive:
                flushed.append(row.row_id)
            else:
                gone.append(number)
        first += len(some)
        if file is not None:
            before = deleted_rows.deleted_positions(session, table, file, snapshot)
            gone += _gone_from(session, table, file, before, first)
            first += file.record_count - len(before)
        if len(gone) > _MOST:
            raise Stale
    if len(gone) == first:
        raise Stale  # no row is left to write
    return ConcurrentDeletes(tuple(gone), tuple(flushed))


def _gone_from(
    session: Session, table: LakeTable, file: DataFile, before: npt.NDArray[np.int64], first: int
) -> list[int]:
    """`before`: the positions that were deleted already, which the new files leave out."""
    import numpy as np

    there = data_file(session, table, file.data_file_id)
    if there is None:
        raise Stale
    now = deleted_rows.deleted_positions(session, table, there)
    new = np.setdiff1d(now, before, assume_unique=True)
    found: list[int] = (first + new - np.searchsorted(before, new)).tolist()
    return found


def places(rows: Sequence[int], files: Sequence[NewFile], file_ids: Sequence[int]) -> list[tuple[int, int]]:
    """File id and position of rows, from their numbers over all files."""
    found = []
    at = first = 0
    for row in rows:
        while row >= first + files[at].record_count:
            first += files[at].record_count
            at += 1
        found.append((file_ids[at], row - first))
    return found
