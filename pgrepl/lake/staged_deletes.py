"""Staged deletes: the one delete file of a data file, with its old positions and new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.lake.data_file import NewDeletes
from pgrepl.lake.delete_file import read_delete_file, write_deletes
from pgrepl.lake.deleted_rows import joined

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.data_file import DataFile
    from pgrepl.lake.table import LakeTable

    Numbers = npt.NDArray[Any]


@frozen
class StagedDeletes:
    """Deletes from one data file. `file` None: no row is left, so that the data file ends. `count`: the number of new
    positions."""

    data_file_id: int
    count: int
    file: NewDeletes | None
    replaces: tuple[int, ...]  # the data file's old delete files: DuckDB may have made more than one


def stage_deletes(
    table: LakeTable,
    file: DataFile,
    own: Sequence[tuple[int, int]],
    positions: Numbers,
    at: int,
    likely: int,
    folder: str | None = None,
) -> StagedDeletes:
    """Stage deletes of distinct positions, ascending. `own`: the file's inlined deletes, position and snapshot. `at`:
    the snapshot that is read; `likely`: the one of these deletes. `folder`: an existing one in the table's."""
    import numpy as np

    old = file.delete_files
    replaces = tuple(sorted(each.delete_file_id for each in old))
    gone, _ = joined(old, list(own), at)
    alive = np.ones(file.record_count, np.bool_)
    alive[gone] = alive[positions] = False
    if not alive.any():
        return StagedDeletes(file.data_file_id, len(positions), None, replaces)
    if not old:
        made = write_deletes(table, file, positions, None, folder=folder)
        return StagedDeletes(file.data_file_id, len(positions), made, replaces)
    before = [read_delete_file(each) for each in old]
    merged = np.concatenate([*(listed for listed, _ in before), positions])
    snapshots = np.concatenate([*(when for _, when in before), np.full(len(positions), likely, np.int64)])
    order = np.lexsort((snapshots, merged))  # of two deletions of a row the first counts
    merged, snapshots = merged[order], snapshots[order]
    first = np.concatenate([[True], merged[1:] != merged[:-1]])
    begin = min(each.begin_snapshot for each in old)
    made = write_deletes(table, file, merged[first], snapshots[first], begin, likely, folder=folder)
    return StagedDeletes(file.data_file_id, len(positions), made, replaces)
