"""Rearranging a table's files: small ones become one, deleted rows are left out, inlined rows move into files.

Nothing changes for who reads a snapshot: the old files end at the snapshot of the compaction and serve the ones before
it until those expire; the new file holds the same rows under the same row ids. DuckLake's words for such snapshots
(`rewrite_delete`, `inline_flush`) tell whoever asks what changed that nothing did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.lake import checksums, deleted_rows, inlined
from pgrepl.lake.commit import check_unchanged
from pgrepl.lake.commit_rows import Compaction
from pgrepl.lake.data_file import DataFile, NewFile
from pgrepl.lake.file_scan import portions
from pgrepl.lake.file_writer import DataFileWriter
from pgrepl.lake.files import data_files, last_snapshot
from pgrepl.lake.table import LakeTable, lake_table

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

SMALL_BYTES = 16 * 1024 * 1024  # a file below this is worth merging
DEAD_SHARE = 0.005  # so many deleted rows make a file worth rewriting: leaving rows out doubles the time of a scan
INLINED_ROWS = 100  # so many are worth a file
ROWS_IN_FILE = 10_000_000
_PORTION = 65_536


@frozen
class CompactionPlan:
    """What is to be rearranged."""

    files: tuple[DataFile, ...]
    inlined: tuple[inlined.InlinedRow, ...]


@frozen
class Staged:
    """The new files, which nothing refers to yet."""

    table: LakeTable
    snapshot: int  # at which the rows were read
    plan: CompactionPlan
    files: tuple[NewFile, ...]


def stage(session: Session, oid: int, *, full: bool) -> Staged | None:
    """Write the new files; None: the table is well as it is."""
    table = lake_table(session, oid)
    at = last_snapshot(session)
    plan = _plan(session, table, at, full=full)
    if plan is None:
        return None
    return Staged(table, at, plan, tuple(_write(session, table, plan, at)))


def commit(session: Session, staged: Staged) -> None:
    """Put the new files in the place of the old; holding the write lock. lake.commit.Stale: somebody came between."""
    check_unchanged(session, [staged.table.table_id], staged.snapshot)
    inlined.settle(session.link, staged.table.table_id)
    ended = [file.data_file_id for file in staged.plan.files]
    flushed = [row.row_id for row in staged.plan.inlined]
    Compaction(session, staged.table).run(staged.files, ended, flushed)


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
    chosen.sort(key=lambda file: (file.begin_snapshot, file.data_file_id))
    return CompactionPlan(tuple(chosen), tuple(rows) if flush else ())


def _dead_share(session: Session, table: LakeTable, file: DataFile, at: int) -> float:
    gone = len(deleted_rows.deleted_positions(session, table, file, at))
    return gone / file.record_count if file.record_count else 1.0


def _write(session: Session, table: LakeTable, plan: CompactionPlan, at: int) -> Iterator[NewFile]:
    """The living rows in the order in which a scan would meet them."""
    writer: DataFileWriter | None = None
    written = 0
    try:
        for arrays, row_ids in _arrays(session, table, plan, at):
            if writer is None:
                writer = DataFileWriter(table, row_ids=True)
                path = writer.path
                session.transaction.undo.append(lambda path=path: _remove(path))  # type: ignore[misc]
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
        checksums.compare(file)  # what is damaged is not written anew: that would be for good
        for delete_file in file.delete_files:
            checksums.compare(delete_file)
        deletes = [(position, when) for _, position, when in inlined.deletes(session, table, at, file.data_file_id)]
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


def _remove(path: str) -> None:
    from pgrepl.lake import storage

    storage.remove(path)
