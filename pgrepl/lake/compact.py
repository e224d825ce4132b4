"""Compaction of a table's files: small files are merged, deleted rows left out, inlined rows moved into files.

Readers of a snapshot see no difference: the old files end at the snapshot of the compaction and serve older snapshots
until those expire; the new files have the same rows with the same row ids. DuckLake's words for such snapshots
(`rewrite_delete`, `inline_flush`) tell readers of changes that there are none.

Others may write to the table while its new files are staged: rows that they add stay where they are, and rows that they
delete are deleted in the new files, too, at the snapshot of the compaction (compact_concurrent.py).

VACUUM merges all small files. Autovacuum, which runs again and again, merges by tiers: a file is merged when the
smaller ones together have grown to its size, so that a row is rewritten only a few times however many small files come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.lake import checksums, compact_concurrent, deleted_rows, inlined, storage
from pgrepl.lake.commit_rows import Compaction
from pgrepl.lake.data_file import DataFile, NewFile
from pgrepl.lake.file_scan import portions
from pgrepl.lake.file_writer import DataFileWriter
from pgrepl.lake.files import data_files, last_snapshot
from pgrepl.lake.table import LakeTable, lake_table

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

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
    gone = compact_concurrent.gone_since(session, table, plan.files, plan.inlined, staged.snapshot)
    inlined.settle(session.link, table.table_id)
    ended = [file.data_file_id for file in plan.files]
    compaction = Compaction(session, table)
    compaction.run(staged.files, ended, gone.flushed)
    compaction.delete_new(compact_concurrent.places(gone.rows, staged.files, compaction.file_ids))


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
    gone = len(deleted_rows.deleted_positions(session, table, file, at))
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
    import pyarrow as pa

    columns = table.columns
    for some, file in inlined.among_files(plan.files, plan.inlined):
        yield from _inlined_arrays(table, some)
        if file is None:
            continue
        checksums.compare(file)  # damaged rows must not be written anew
        for delete_file in file.delete_files:
            checksums.compare(delete_file)
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
    import pyarrow as pa

    for start in range(0, len(rows), _PORTION):
        some = rows[start : start + _PORTION]
        values = list(zip(*[row.values for row in some], strict=True))
        arrays = [column.form.to_array(list(given)) for column, given in zip(table.columns, values, strict=True)]
        yield arrays, pa.array([row.row_id for row in some], pa.int64())
