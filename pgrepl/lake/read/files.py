"""The files of a table at a snapshot, without those that statistics exclude."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from decimal import InvalidOperation
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.catalog.store.declarative import of_row
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.lake import sql
from pgrepl.lake.read.bounds import limits
from pgrepl.lake.read.data_file import PARQUET, PUFFIN, DataFile, DeleteFile, SourceNames, overlay
from pgrepl.lake.read.inlined import count_rows, remembered
from pgrepl.lake.storage import size_of
from pgrepl.lake.table import table_folder
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.bounds import Bound, Limit
    from pgrepl.lake.table import LakeColumn, LakeTable

_MANY, _FEW = 1000, 100  # so few of so many files are asked for one by one


def data_files(
    session: Session, table: LakeTable, snapshot: int | None = None, bounds: Sequence[Bound] = ()
) -> list[DataFile]:
    """The table's files at the snapshot (None: as the running transaction sees it), in the order of their rows; those
    whose statistics say that no row is within the bounds are left out."""
    at = last_snapshot(session) if snapshot is None else snapshot
    if not bounds:
        return _files_at(session, table, at)
    missed = _missed_at(session, table, at, bounds)
    if len(missed) > _MANY:
        few = _few_left(session, table, at, missed)
        if few is not None:
            return few
    return [file for file in _files_at(session, table, at) if file.data_file_id not in missed]


def _few_left(session: Session, table: LakeTable, snapshot: int, missed: set[int]) -> list[DataFile] | None:
    """The files that are not missed, each asked for by itself. None: they are many, or all files are known."""
    if ("files", table.table_id) in session.derived:
        return None
    ids = session.link.execute(sql.FILE_IDS_THEN, (table.table_id, snapshot, snapshot))
    left = [file_id for (file_id,) in ids if file_id not in missed]
    if len(left) > _FEW:
        return None
    check_entries(session, table.table_id)
    files = [file for file_id in left for file in _files_at(session, table, snapshot, file_id)]
    own = overlay(session, table, snapshot)
    return files if own is None else [*files, *own.files]


def last_snapshot(session: Session) -> int:
    """The last snapshot that the running transaction sees, with those of its own statements; or the one at which the
    session reads now."""
    if session.reads_at is not None:
        return session.reads_at
    return session.transaction.numbering.last_snapshot()


def data_file(session: Session, table: LakeTable, data_file_id: int, snapshot: int | None = None) -> DataFile | None:
    at = last_snapshot(session) if snapshot is None else snapshot
    files = _files_at(session, table, at, data_file_id)
    return files[0] if files else None


def files_by_id(
    session: Session, table: LakeTable, file_ids: Collection[int], snapshot: int | None = None
) -> dict[int, DataFile]:
    """Some of the table's files, each asked for by itself if they are few."""
    at = last_snapshot(session) if snapshot is None else snapshot
    if len(file_ids) > _FEW:
        files = _files_at(session, table, at)
    else:
        files = [file for file_id in file_ids for file in _files_at(session, table, at, file_id)]
    return {file.data_file_id: file for file in files}


def _files_at(session: Session, table: LakeTable, snapshot: int, only: int | None = None) -> list[DataFile]:
    session.transaction.require_read()
    if only is not None:
        return _read_files(session, table, snapshot, only)
    return list(remembered(session, "files", table, snapshot, lambda: _read_files(session, table, snapshot, None)))


def _read_files(session: Session, table: LakeTable, snapshot: int, only: int | None) -> list[DataFile]:
    given = (snapshot, snapshot, table.table_id, snapshot, snapshot)
    if only is None:
        rows = _checked(session, table.table_id, sql.FILES_THEN, sql.CHECKED_FILES_THEN, given)
    else:
        rows = _checked(session, table.table_id, sql.FILE_THEN, sql.CHECKED_FILE_THEN, (*given, only))
    files: dict[int, DataFile] = {}
    for row in rows:
        file = _made(session, table, row)
        known = files.get(file.data_file_id)
        if known is not None:
            file = replace(known, delete_files=(*known.delete_files, *file.delete_files))
        files[file.data_file_id] = file
    own = overlay(session, table, snapshot)
    if own is not None:
        files.update({file.data_file_id: file for file in own.files if only is None or file.data_file_id == only})
    return list(files.values())


def _made(session: Session, table: LakeTable, row: tuple[Any, ...]) -> DataFile:
    (file_id, begin, end, path, relative, count, size, row_id_start, mapping, partial, file_format, key, entry,
     footer, whole, *of_deletes) = row  # fmt: skip
    if entry is not None:
        own = entry_sum(file_id, table.table_id, begin, path, count, size, row_id_start, mapping, partial)
        _compare_entry(session, "ducklake_data_file", path, own, entry)
    location = table.location
    if file_format is not None and file_format != "parquet":
        raise unsupported(f"a data file in format {file_format}")
    if key is not None:
        raise unsupported("an encrypted data file")
    return DataFile(
        file_id, begin, end, location + path if relative else path, count, size, row_id_start, mapping, partial,
        () if of_deletes[0] is None else (_made_delete_file(session, table, file_id, _DeleteFileRow(*of_deletes)),),
        None if mapping is None else source_names(session, mapping),
        footer, whole,
    )  # fmt: skip


class _DeleteFileRow(NamedTuple):
    """A delete file in ducklake_delete_file, and in pgrepl_file if pgrepl has written it."""

    delete_id: int
    begin: int
    path: str
    relative: bool
    kind: str | None
    deleted: int
    size: int
    partial: int | None
    key: str | None
    entry: int | None
    footer: int | None
    checksum: int | None


def _made_delete_file(session: Session, table: LakeTable, file_id: int, row: _DeleteFileRow) -> DeleteFile:
    if row.entry is not None:
        own = entry_sum(row.delete_id, table.table_id, row.begin, file_id, row.path, row.deleted, row.size, row.partial)
        _compare_entry(session, "ducklake_delete_file", row.path, own, row.entry)
    if row.kind not in (None, PARQUET, PUFFIN):
        raise unsupported(f"a delete file in format {row.kind}")
    if row.key is not None:
        raise unsupported("an encrypted delete file")
    return DeleteFile(
        row.delete_id, file_id, row.begin, table.location + row.path if row.relative else row.path, row.deleted,
        row.size, row.partial, row.footer, row.checksum, row.kind or PARQUET,
    )  # fmt: skip


# --- the catalog's rows about files ---------------------------------------------------------------------------------


def entry_sum(*columns: Any) -> int:
    """The checksum of those columns of a row about a file that never change. Of ducklake_data_file: data_file_id,
    table_id, begin_snapshot, path, record_count, file_size_bytes, row_id_start, mapping_id, partial_max; of
    ducklake_delete_file: delete_file_id, table_id, begin_snapshot, data_file_id, path, delete_count, file_size_bytes,
    partial_max."""
    return of_row(columns)


def _compare_entry(session: Session, table: str, path: str, computed: int, wanted: int) -> None:
    if computed != wanted:
        raise _damaged(session, f'the row of file "{path}" in {table} is not as it was written')


def _damaged(session: Session, what: str) -> PgError:
    return PgError("XX001", f'catalog "{session.catalog.name}" is damaged: {what}')


def check_entries(session: Session, table_id: int) -> None:
    """Raise XX001 if the catalog has lost rows about files that pgrepl has written for the table."""
    if ("files_checked", table_id) not in session.derived:
        _check(session, table_id, session.link.execute(sql.FORGOTTEN_OWN_FILES, (table_id,)))


def _checked(
    session: Session, table_id: int, query: str, checking: str, values: tuple[Any, ...]
) -> list[tuple[Any, ...]]:
    """The rows of a table's data files by `query`; the first time by `checking`, which does `check_entries`, too."""
    link = session.link
    if ("files_checked", table_id) in session.derived:
        return link.execute(query, values)
    rows = link.execute(checking, (table_id, *values))
    _check(session, table_id, [row for row in rows if not row[0]])
    return [row[1:] for row in rows if row[0]]


def _check(session: Session, table_id: int, forgotten: list[tuple[Any, ...]]) -> None:
    for _, data_file_id, owner, _, path, *_ in forgotten:
        where = "ducklake_data_file" if data_file_id is None else "ducklake_delete_file"
        if owner is not None:
            raise _damaged(session, f'the row of file "{path}" in {where} is not as it was written')
        if size_of(table_folder(session, table_id) + path) is not None:  # else another program has removed both
            raise _damaged(session, f'{where} has no row of file "{path}"')
    session.derived["files_checked", table_id] = True


def source_names(session: Session, mapping_id: int) -> SourceNames:
    key = ("source_names", mapping_id)
    known: SourceNames | None = session.derived.get(key)
    if known is not None:
        return known
    rows = session.link.execute(sql.SOURCE_NAMES, (mapping_id,))
    known = SourceNames({r[0]: r[1] for r in rows if not r[2]}, {r[0]: r[1] for r in rows if r[2]})
    session.derived[key] = known
    return known


# --- skipping -----------------------------------------------------------------------------------------------------


def _missed_at(session: Session, table: LakeTable, snapshot: int, bounds: Sequence[Bound]) -> set[int]:
    """The files that have no row within the bounds, cached: the choice of the engine and the scan both ask for them."""
    return remembered(session, "missed", table, snapshot, lambda: _missed(session, table, bounds), tuple(bounds))


def _missed(session: Session, table: LakeTable, bounds: Sequence[Bound]) -> set[int]:
    """The files, of any snapshot, that have no row within the bounds."""
    missed: set[int] = set()
    for limit in limits(table, bounds):
        rows = session.link.execute(sql.FILE_BOUNDS, (table.table_id, limit.column.column_id))
        test, nulls_tell = _test_of(limit), not limit.column.fields
        wants_nulls = nulls_tell and limit.is_null
        missed.update(
            file_id
            for file_id, low, high, nan, nulls, count in rows
            if (nulls == 0 if wants_nulls else nulls_tell and count is not None and nulls >= count)
            or test(low, high, nan)
        )
    return missed


# types whose statistics are the values themselves, in every file
EXACT = oids.INTEGERS | {oids.OID, oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ}


def exact_ends(session: Session, table: LakeTable, columns: Sequence[LakeColumn]) -> dict[int, list[tuple[Any, Any]]]:
    """The least and the greatest value of each of the columns, which are of EXACT types, in files as a whole; files
    whose statistics do not have all of them are left out."""
    ends: dict[int, list[tuple[Any, Any]]] = {}
    for number, column in enumerate(columns):
        read = column.form.from_stat
        for file_id, low, high, _, nulls, count in session.link.execute(
            sql.FILE_BOUNDS, (table.table_id, column.column_id)
        ):
            pairs = ends.setdefault(file_id, [])
            if len(pairs) != number:
                continue
            if low is not None and high is not None:
                try:
                    pairs.append((read(low), read(high)))
                except (ValueError, InvalidOperation):
                    continue  # a text of another writer
            elif count is not None and nulls >= count:
                pairs.append((None, None))
    return {file_id: pairs for file_id, pairs in ends.items() if len(pairs) == len(columns)}


def _test_of(limit: Limit) -> Callable[[str | None, str | None, bool | None], bool]:
    """The test of a file's bounds, of which there may be very many: is no value within the limit?"""
    read, misses, typoid = limit.form.from_stat, limit.misses, limit.column.typoid
    if limit.form.ordered == "none":
        return lambda low, high, nan: False
    floating = typoid in (oids.FLOAT4, oids.FLOAT8)

    def test(low: str | None, high: str | None, nan: bool | None) -> bool:
        if low is None or high is None:
            return False
        try:
            lowest, highest = read(low), read(high)
        except (ValueError, InvalidOperation):
            return False  # a text of another writer
        if typoid == oids.FLOAT8:
            # a file from when the column was narrower has singles' shortest text, which is not quite their value
            lowest, highest = lowest - abs(lowest) * 1e-6, highest + abs(highest) * 1e-6
        return misses(lowest, highest, may_have_nan=floating and (nan is None or bool(nan)))

    return test


@frozen
class Extent:
    """The rows and bytes of the files that are not skipped."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Extent) -> Extent:
        return Extent(self.rows + other.rows, self.bytes + other.bytes)


def estimate(session: Session, table: LakeTable, bounds: Sequence[Bound] = (), snapshot: int | None = None) -> int:
    """The rows that a scan within the bounds reads, at most, inlined ones included. Reads no file."""
    return extent(session, table, bounds, snapshot).rows


def extent(session: Session, table: LakeTable, bounds: Sequence[Bound] = (), snapshot: int | None = None) -> Extent:
    """The rows and the bytes that a scan within the bounds reads, at most. Reads no file."""
    at = last_snapshot(session) if snapshot is None else snapshot
    files = data_files(session, table, at, bounds)
    rows = sum(file.record_count for file in files) + count_rows(session, table, at)
    return Extent(rows, sum(file.file_size_bytes for file in files))


def whole_extent(session: Session, table: LakeTable) -> tuple[int, Extent]:
    """The number of files that the running transaction sees, and their rows and bytes, from sums in the catalog."""
    at = last_snapshot(session)
    session.transaction.require_read()
    ((count, rows, size),) = session.link.execute(sql.FILES_EXTENT_THEN, (table.table_id, at, at))
    own = overlay(session, table, at)
    pending = [] if own is None else own.files
    total = Extent(int(rows), int(size))
    for file in pending:
        total += Extent(file.record_count, file.file_size_bytes)
    return int(count) + len(pending), total


# --- files between snapshots --------------------------------------------------------------------------------------


def files_between(session: Session, table: LakeTable, after: int, upto: int) -> list[DataFile]:
    """The data files of any snapshot behind `after` up to `upto`, in the order of their rows, without delete files."""
    asked = (table.table_id, upto, after)
    rows = _checked(session, table.table_id, sql.FILES_BETWEEN, sql.CHECKED_FILES_BETWEEN, asked)
    return [_made(session, table, (*row, None)) for row in rows]


def delete_files_until(session: Session, table: LakeTable, upto: int) -> list[DeleteFile]:
    """All delete files of the table up to a snapshot, replaced ones included."""
    check_entries(session, table.table_id)
    rows = session.link.execute(sql.DELETE_FILES_UNTIL, (table.table_id, upto))
    return [_made_delete_file(session, table, file_id, _DeleteFileRow(*row)) for file_id, *row in rows]
