"""Compaction of a table's files: small files are merged, deleted rows left out, inlined rows and many inlined deletes
moved into files.

Old files end at the compaction's snapshot; new ones have the same rows with the same row ids. DuckLake's words for
such snapshots tell readers of changes that there are none. Rows that others delete meanwhile are deleted in the new
files, too; any other change makes it Stale.

VACUUM merges all small files. Autovacuum merges by tiers: a file is merged when the smaller ones together have grown
to its size, so that a row is rewritten only a few times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake import sql, storage
from pgrepl.lake.commit import Stale, check_only_rows_changed
from pgrepl.lake.commit_rows import Compaction
from pgrepl.lake.read import inlined
from pgrepl.lake.read.data_file import DataFile, NewFile
from pgrepl.lake.read.file_scan import portions
from pgrepl.lake.read.files import data_file, data_files, last_snapshot
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.lake.write import delete_files, file_writer
from pgrepl.lake.write.delete_files import StagedDeletes, deletions, has_usable_deletes, write_deletes
from pgrepl.lake.write.file_writer import DataFileWriter

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.inlined import InlinedRow

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
            before = delete_files.deleted_positions(session, table, file, snapshot)
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
    there = data_file(session, table, file.data_file_id)
    if there is None:
        raise Stale
    now = delete_files.deleted_positions(session, table, there)
    new = np.setdiff1d(now, before, assume_unique=True)
    gone: list[int] = (first + new - np.searchsorted(before, new)).tolist()
    return gone


def places(rows: Sequence[int], files: Sequence[NewFile], file_ids: Sequence[int]) -> list[tuple[int, int]]:
    """File id and position of rows, from their numbers over all files."""
    pairs = []
    at = first = 0
    for row in rows:
        while row >= first + files[at].record_count:
            first += files[at].record_count
            at += 1
        pairs.append((file_ids[at], row - first))
    return pairs


SMALL_BYTES = 16 * 1024 * 1024  # a file below this is worth merging
DEAD_SHARE = 0.005  # share of deleted rows from which on a file is rewritten: leaving rows out doubles a scan's time
INLINED_ROWS = 100  # rows that are worth a file
TIER_FILES = 4  # files of a tier that are merged
TIER_BYTES = 64 * 1024  # smaller files are of one tier
ROWS_IN_FILE = 10_000_000
_PORTION = 65_536


@frozen
class CompactionPlan:
    """The files and inlined rows that are compacted."""

    files: tuple[DataFile, ...]
    inlined: tuple[inlined.InlinedRow, ...]


@frozen
class StagedCompaction:
    """The new files, which nothing refers to yet."""

    table: LakeTable
    snapshot: int  # at which the rows were read
    plan: CompactionPlan
    files: tuple[NewFile, ...]


def stage(session: Session, oid: int, *, full: bool) -> StagedCompaction | None:
    """Write the new files; None: nothing needs compaction."""
    table = lake_table(session, oid)
    at = last_snapshot(session)
    return _staged(session, table, _plan(session, table, at, full=full), at)


def stage_tier(session: Session, oid: int, *, inlined_rows: int | None) -> StagedCompaction | None:
    """Write new files for the small files of a tier, and for the inlined rows if there are more than `inlined_rows`."""
    table = lake_table(session, oid)
    at = last_snapshot(session)
    rows = inlined.rows(session, table, table.columns, at)
    files = data_files(session, table, at)
    sizes = tier([file.file_size_bytes for file in files])
    chosen = [file for file in files if file.file_size_bytes <= sizes]
    flush = inlined_rows is not None and len(rows) > inlined_rows
    if not chosen and not flush:
        return None
    inlined.check(session, table.table_id)
    return _staged(session, table, CompactionPlan(tuple(_in_order(chosen)), tuple(rows) if flush else ()), at)


def tier(sizes: Sequence[int]) -> int:
    """The size up to which files are merged, of files with these sizes; 0: none."""
    small = sorted(size for size in sizes if size < SMALL_BYTES)
    total = count = 0
    for size in small:
        if size > max(2 * total, TIER_BYTES):
            break
        total += size
        count += 1
    return small[count - 1] if count >= TIER_FILES else 0


def _staged(session: Session, table: LakeTable, plan: CompactionPlan | None, at: int) -> StagedCompaction | None:
    return None if plan is None else StagedCompaction(table, at, plan, tuple(_write(session, table, plan, at)))


def commit(session: Session, staged: StagedCompaction) -> None:
    """Replace the old files by the new ones, under the write lock. Stale: others have changed more than rows, or too
    many."""
    table, plan = staged.table, staged.plan
    gone = gone_since(session, table, plan.files, plan.inlined, staged.snapshot)
    inlined.settle(session.link, table.table_id)
    ended = [file.data_file_id for file in plan.files]
    compaction = Compaction(session, table)
    compaction.run(staged.files, ended, gone.flushed)
    compaction.delete_new(places(gone.rows, staged.files, compaction.file_ids))


def _in_order(files: Sequence[DataFile]) -> list[DataFile]:
    return sorted(files, key=lambda file: (file.begin_snapshot, file.data_file_id))


def _plan(session: Session, table: LakeTable, at: int, *, full: bool) -> CompactionPlan | None:
    files = data_files(session, table, at)
    rows = inlined.rows(session, table, table.columns, at)
    shares = {file.data_file_id: _dead_share(session, table, file, at) for file in files}
    small = [file for file in files if file.file_size_bytes < SMALL_BYTES]
    flush = bool(rows) and (full or len(rows) >= INLINED_ROWS)
    inlined.check(session, table.table_id)
    chosen = [file for file in files if shares[file.data_file_id] >= (DEAD_SHARE if not full else 1e-12)]
    if len(small) + flush >= 2:
        chosen += [file for file in small if file not in chosen]
    if not chosen and not flush:
        return None
    return CompactionPlan(tuple(_in_order(chosen)), tuple(rows) if flush else ())


def _dead_share(session: Session, table: LakeTable, file: DataFile, at: int) -> float:
    gone = len(delete_files.deleted_positions(session, table, file, at))
    return gone / file.record_count if file.record_count else 1.0


def _write(session: Session, table: LakeTable, plan: CompactionPlan, at: int) -> Iterator[NewFile]:
    """Write the rows that are not deleted, in the order of a scan."""
    writer: DataFileWriter | None = None
    written = 0
    try:
        for arrays, row_ids in _arrays(session, table, plan, at):
            if writer is None:
                writer = DataFileWriter(table, row_ids=True)
                path = writer.path
                session.transaction.undo.append(partial(storage.remove, path))
            writer.write_arrays(arrays, row_ids, len(row_ids))
            written += len(row_ids)
            if written >= ROWS_IN_FILE:
                yield writer.close()
                writer, written = None, 0
        if writer is not None:
            done, writer = writer, None
            yield done.close()
    finally:
        if writer is not None:
            writer.discard()


def _arrays(session: Session, table: LakeTable, plan: CompactionPlan, at: int) -> Iterator[tuple[list[Any], Any]]:
    """Columns and row ids, a portion at a time."""
    columns = table.columns
    for some, file in inlined.among_files(plan.files, plan.inlined):
        yield from _inlined_arrays(table, some)
        if file is None:
            continue
        file_writer.compare(file)  # damaged rows must not be written anew
        for delete_file in file.delete_files:
            file_writer.compare(delete_file)
        deletes = inlined.deletes(session, table, at, file.data_file_id).get(file.data_file_id, [])
        for portion in portions(table, file, columns, (), deletes, at, True):
            if not portion.count:
                continue
            arrays = [
                column.form.to_array([constant] * portion.count) if array is None else array
                for column, array, constant in zip(columns, portion.arrays, portion.constants, strict=True)
            ]
            yield arrays, pa.array(portion.row_ids, pa.int64())


def _inlined_arrays(table: LakeTable, rows: Sequence[inlined.InlinedRow]) -> Iterator[tuple[list[Any], Any]]:
    for start in range(0, len(rows), _PORTION):
        some = rows[start : start + _PORTION]
        values = list(zip(*[row.values for row in some], strict=True))
        arrays = [column.form.to_array(list(given)) for column, given in zip(table.columns, values, strict=True)]
        yield arrays, pa.array([row.row_id for row in some], pa.int64())


# --- fold deletes -----------------------------------------------------------------------------------------------------


POSITIONS = 1000  # inlined deletes of a data file from which on they get a delete file


@frozen
class StagedFolding:
    """The new delete files, which the catalog does not have yet."""

    table: LakeTable
    snapshot: int  # up to which they have deletes
    deletes: tuple[StagedDeletes, ...]


def stage_folded(session: Session, oid: int, *, rewrites: bool) -> StagedFolding | None:
    """Write the delete files; None: there is nothing to do. `rewrites`: old delete files, too, which are opened."""
    table = lake_table(session, oid)
    at = last_snapshot(session)
    chosen = _with_many_inlined(session, table)
    if rewrites:
        chosen |= {file.data_file_id for file in data_files(session, table, at) if not has_usable_deletes(file)}
    if not chosen:
        return None
    inlined.check(session, table.table_id)
    staged = [each for each in (_stage(session, table, file_id, at) for file_id in sorted(chosen)) if each is not None]
    return StagedFolding(table, at, tuple(staged)) if staged else None


def _with_many_inlined(session: Session, table: LakeTable) -> set[int]:
    name = inlined.deletes_table(table.table_id)
    if not inlined.exists(session.link, name):
        return set()
    return {int(row[0]) for row in session.link.execute(sql.files_with_inlined_deletes(name), (POSITIONS,))}


def _stage(session: Session, table: LakeTable, file_id: int, at: int) -> StagedDeletes | None:
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
    begin = min(int(snapshots.min()), *(deletes.begin_snapshot for deletes in file.delete_files), at)
    if bool((snapshots == begin).all()):
        staged = write_deletes(table, file, positions, None, begin)
    else:
        staged = write_deletes(table, file, positions, snapshots, begin, int(snapshots.max()))
    path = table.location + staged.name
    session.transaction.undo.append(lambda: storage.remove(path))
    replaces = tuple(sorted(deletes.delete_file_id for deletes in file.delete_files))
    return StagedDeletes(file_id, 0, staged, replaces)


def commit_folded(session: Session, staged: StagedFolding) -> int:
    """Replace inlined deletes by the delete files, under the write lock. Returns the number of delete files that were
    used: a data file may have ended meanwhile, or have another delete file."""
    compaction = Compaction(session, staged.table)
    usable: Sequence[StagedDeletes] = [
        deletes
        for deletes in staged.deletes
        if data_file(session, staged.table, deletes.data_file_id) is not None
        and compaction.delete_files_of(deletes.data_file_id) == deletes.replaces
    ]
    for deletes in staged.deletes:
        if deletes not in usable and deletes.file is not None:
            storage.remove(staged.table.location + deletes.file.name)
    if usable:
        inlined.settle(session.link, staged.table.table_id)
        compaction.fold(usable, staged.snapshot)
    return len(usable)
