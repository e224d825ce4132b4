"""Moves inlined deletes into delete files, when there are many of a data file, and writes anew the delete files that
Iceberg's readers cannot use: those of DuckDB and of older releases, and those of a lake that has been moved.

The delete files have the snapshot of each deletion, so that readers of a snapshot, and of changes, see no difference.
Deletes that others add meanwhile stay in the catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.frozen import frozen
from pgrepl.lake import inlined, sql, storage
from pgrepl.lake.commit_rows import Compaction
from pgrepl.lake.delete_file import has_usable_deletes, write_deletes
from pgrepl.lake.deleted_rows import deletions
from pgrepl.lake.files import data_file, data_files, last_snapshot
from pgrepl.lake.staged_deletes import StagedDeletes
from pgrepl.lake.table import LakeTable, lake_table

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

POSITIONS = 1000  # inlined deletes of a data file from which on they get a delete file


@frozen
class StagedFolding:
    """The new delete files, which the catalog does not have yet."""

    table: LakeTable
    snapshot: int  # up to which they have deletes
    deletes: tuple[StagedDeletes, ...]


def stage(session: Session, oid: int, *, rewrites: bool) -> StagedFolding | None:
    """Write the delete files; None: there is nothing to do. `rewrites`: old delete files, too, which are opened."""
    table = lake_table(session, oid)
    at = last_snapshot(session)
    chosen = _with_many_inlined(session, table)
    if rewrites:
        chosen |= {file.data_file_id for file in data_files(session, table, at) if not has_usable_deletes(file)}
    if not chosen:
        return None
    inlined.check(session, table.table_id)
    found = [each for each in (_stage(session, table, file_id, at) for file_id in sorted(chosen)) if each is not None]
    return StagedFolding(table, at, tuple(found)) if found else None


def _with_many_inlined(session: Session, table: LakeTable) -> set[int]:
    name = inlined.deletes_table(table.table_id)
    if not inlined.exists(session.link, name):
        return set()
    return {int(row[0]) for row in session.link.execute(sql.files_with_inlined_deletes(name), (POSITIONS,))}


def _stage(session: Session, table: LakeTable, file_id: int, at: int) -> StagedDeletes | None:
    import numpy as np

    file = data_file(session, table, file_id)
    if file is None:
        return None
    positions, snapshots = deletions(session, table, file)
    order = np.lexsort((snapshots, positions))  # of two deletions of a row the first counts
    positions, snapshots = positions[order], snapshots[order]
    first = np.concatenate([[True], positions[1:] != positions[:-1]])
    positions, snapshots = positions[first], snapshots[first]
    if len(positions) >= file.record_count:
        return None  # a file without rows gets no delete file
    begin = min(int(snapshots.min()), *(each.begin_snapshot for each in file.delete_files), at)
    if bool((snapshots == begin).all()):
        made = write_deletes(table, file, positions, None, begin)
    else:
        made = write_deletes(table, file, positions, snapshots, begin, int(snapshots.max()))
    path = table.location + made.name
    session.transaction.undo.append(lambda: storage.remove(path))
    replaces = tuple(sorted(each.delete_file_id for each in file.delete_files))
    return StagedDeletes(file_id, 0, made, replaces)


def commit(session: Session, staged: StagedFolding) -> int:
    """Replace inlined deletes by the delete files, under the write lock. Returns the number of delete files that were
    used: a data file may have ended meanwhile, or have another delete file."""
    compaction = Compaction(session, staged.table)
    usable: Sequence[StagedDeletes] = [
        each
        for each in staged.deletes
        if data_file(session, staged.table, each.data_file_id) is not None
        and compaction.delete_files_of(each.data_file_id) == each.replaces
    ]
    for each in staged.deletes:
        if each not in usable and each.file is not None:
            storage.remove(staged.table.location + each.file.name)
    if usable:
        inlined.settle(session.link, staged.table.table_id)
        compaction.fold(usable, staged.snapshot)
    return len(usable)
