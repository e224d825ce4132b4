"""The files of a table at a snapshot, and which of them a condition can concern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import InvalidOperation
from typing import TYPE_CHECKING, Any

from pgrepl.errors import unsupported
from pgrepl.frozen import frozen
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound, Limit
    from pgrepl.lake.table import LakeTable


@frozen
class DeleteFile:
    """A row of ducklake_delete_file."""

    delete_file_id: int
    data_file_id: int
    begin_snapshot: int
    path: str  # absolute, or a URI
    delete_count: int
    file_size_bytes: int
    partial_max: int | None  # not NULL: the file says of each position at which snapshot it was deleted


@frozen
class DataFile:
    """A row of ducklake_data_file with the delete file that belongs to it at the snapshot asked for."""

    data_file_id: int
    begin_snapshot: int
    end_snapshot: int | None
    path: str  # absolute, or a URI
    record_count: int
    file_size_bytes: int
    row_id_start: int | None
    mapping_id: int | None  # not NULL: columns are found by name, not by field id
    partial_max: int | None  # not NULL: rows say at which snapshot they came
    delete_files: tuple[DeleteFile, ...]  # one, unless DuckDB has flushed inlined deletes from before another
    names: SourceNames | None = None  # with mapping_id


def data_files(
    session: Session, table: LakeTable, snapshot: int | None = None, bounds: Sequence[Bound] = ()
) -> list[DataFile]:
    """The table's files at the snapshot (None: as the running transaction sees it), in the order of their rows; those
    whose statistics say that no row is within the bounds are left out."""
    at = last_snapshot(session) if snapshot is None else snapshot
    found = _files_at(session, table, at)
    if found and bounds:
        missed = _missed(session, table, bounds)
        found = [file for file in found if file.data_file_id not in missed]
    return found


def last_snapshot(session: Session) -> int:
    """What the running transaction sees: with what its statements have done, the running one included."""
    return session.transaction.numbering.last_snapshot()


def data_file(session: Session, table: LakeTable, data_file_id: int, snapshot: int | None = None) -> DataFile | None:
    at = last_snapshot(session) if snapshot is None else snapshot
    found = _files_at(session, table, at, data_file_id)
    return found[0] if found else None


_ALIVE = "{0}.begin_snapshot <= {1} AND ({0}.end_snapshot IS NULL OR {0}.end_snapshot > {1})"


def _files_at(session: Session, table: LakeTable, snapshot: int, only: int | None = None) -> list[DataFile]:
    session.transaction.require_read()
    link = session.link
    mark = link.mark
    one = "" if only is None else f" AND f.data_file_id = {mark}"
    rows = link.execute(
        "SELECT f.data_file_id, f.begin_snapshot, f.end_snapshot, f.path, f.path_is_relative, f.record_count,"
        " f.file_size_bytes, f.row_id_start, f.mapping_id, f.partial_max, f.file_format, f.encryption_key,"
        " d.delete_file_id, d.begin_snapshot, d.path, d.path_is_relative, d.format, d.delete_count,"
        " d.file_size_bytes, d.partial_max, d.encryption_key"
        " FROM ducklake_data_file f LEFT JOIN ducklake_delete_file d"
        f" ON d.data_file_id = f.data_file_id AND {_ALIVE.format('d', mark)}"
        f" WHERE f.table_id = {mark} AND {_ALIVE.format('f', mark)}{one}"
        " ORDER BY f.begin_snapshot, f.data_file_id",
        (snapshot, snapshot, table.table_id, snapshot, snapshot, *(() if only is None else (only,))),
    )
    found: dict[int, DataFile] = {}
    for row in rows:
        file = _made(session, table.location, row)
        known = found.get(file.data_file_id)
        if known is not None:
            file = replace(known, delete_files=(*known.delete_files, *file.delete_files))
        found[file.data_file_id] = file
    return list(found.values())


def _made(session: Session, location: str, row: tuple[Any, ...]) -> DataFile:
    (file_id, begin, end, path, relative, count, size, row_id_start, mapping, partial, file_format, key,
     *of_deletes) = row  # fmt: skip
    if file_format is not None and file_format != "parquet":
        raise unsupported(f"a data file in format {file_format}")
    if key is not None:
        raise unsupported("an encrypted data file")
    return DataFile(
        file_id, begin, end, location + path if relative else path, count, size, row_id_start, mapping, partial,
        _made_delete_files(location, file_id, *of_deletes),
        None if mapping is None else source_names(session, mapping),
    )  # fmt: skip


def _made_delete_files(
    location: str,
    file_id: int,
    delete_id: int | None,
    begin: int,
    path: str,
    relative: bool,
    kind: str | None,
    count: int,
    size: int,
    partial: int | None,
    key: str | None,
) -> tuple[DeleteFile, ...]:
    if delete_id is None:
        return ()
    if kind is not None and kind != "parquet":
        raise unsupported(f"a delete file in format {kind}")
    if key is not None:
        raise unsupported("an encrypted delete file")
    return (DeleteFile(delete_id, file_id, begin, location + path if relative else path, count, size, partial),)


# --- files without field ids ----------------------------------------------------------------------------------------


@frozen
class SourceNames:
    """Of a file whose columns are found by name: the names by column id; of `partitions` the values stand in the
    file's path, as `name=value`."""

    names: dict[int, str]
    partitions: dict[int, str]

    def partition_text(self, path: str, column_id: int) -> str | None:
        """The value of such a column, percent signs resolved."""
        from urllib.parse import unquote

        for part in path.split("/")[:-1]:
            name, equals, value = part.partition("=")
            if equals and unquote(name) == self.partitions[column_id]:
                return None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
        return None


def source_names(session: Session, mapping_id: int) -> SourceNames:
    key = ("source_names", mapping_id)
    known: SourceNames | None = session.derived.get(key)
    if known is not None:
        return known
    link = session.link
    found = link.execute(
        "SELECT target_field_id, source_name, is_partition FROM ducklake_name_mapping"
        f" WHERE mapping_id = {link.mark} AND parent_column IS NULL",
        (mapping_id,),
    )
    known = SourceNames({r[0]: r[1] for r in found if not r[2]}, {r[0]: r[1] for r in found if r[2]})
    session.derived[key] = known
    return known


# --- skipping -----------------------------------------------------------------------------------------------------


def _missed(session: Session, table: LakeTable, bounds: Sequence[Bound]) -> set[int]:
    """The files, of whatever snapshot, that have no row within the bounds."""
    from pgrepl.lake.bounds import limits

    missed: set[int] = set()
    link = session.link
    for limit in limits(table, bounds):
        rows = link.execute(
            "SELECT s.data_file_id, s.min_value, s.max_value, s.contains_nan, s.null_count, f.record_count"
            " FROM ducklake_file_column_stats s JOIN ducklake_data_file f ON f.data_file_id = s.data_file_id"
            f" WHERE s.table_id = {link.mark} AND s.column_id = {link.mark}",
            (table.table_id, limit.column.column_id),
        )
        for file_id, low, high, nan, nulls, count in rows:
            if (nulls is not None and nulls >= count and not limit.column.fields) or _misses(limit, low, high, nan):
                missed.add(file_id)
    return missed


def _misses(limit: Limit, low: str | None, high: str | None, nan: bool | None) -> bool:
    if low is None or high is None or limit.form.ordered == "none":
        return False
    try:
        lowest, highest = limit.form.from_stat(low), limit.form.from_stat(high)
    except (ValueError, InvalidOperation):
        return False  # in somebody else's words
    floating = limit.column.typoid in (oids.FLOAT4, oids.FLOAT8)
    if limit.column.typoid == oids.FLOAT8:
        # a file from when the column was narrower has singles' shortest text, which is not quite their value
        lowest, highest = lowest - abs(lowest) * 1e-6, highest + abs(highest) * 1e-6
    return limit.misses(lowest, highest, may_have_nan=floating and (nan is None or bool(nan)))


def estimate(session: Session, table: LakeTable, bounds: Sequence[Bound] = (), snapshot: int | None = None) -> int:
    """How many rows a scan within the bounds has to look at, at most, inlined ones included; reads no file."""
    from pgrepl.lake.inlined import count_rows

    at = last_snapshot(session) if snapshot is None else snapshot
    in_files = sum(file.record_count for file in data_files(session, table, at, bounds))
    return in_files + count_rows(session, table, at)


# --- what there was between snapshots -----------------------------------------------------------------------------


def files_between(session: Session, table: LakeTable, after: int, upto: int) -> list[DataFile]:
    """The files that were there at some time behind `after` up to `upto`, in the order of their rows; without their
    delete files."""
    link = session.link
    mark = link.mark
    rows = link.execute(
        "SELECT f.data_file_id, f.begin_snapshot, f.end_snapshot, f.path, f.path_is_relative, f.record_count,"
        " f.file_size_bytes, f.row_id_start, f.mapping_id, f.partial_max, f.file_format, f.encryption_key"
        f" FROM ducklake_data_file f WHERE f.table_id = {mark} AND f.begin_snapshot <= {mark}"
        f" AND (f.end_snapshot IS NULL OR f.end_snapshot > {mark}) ORDER BY f.begin_snapshot, f.data_file_id",
        (table.table_id, upto, after),
    )
    return [_made(session, table.location, (*row, None, 0, "", 0, None, 0, 0, None, None)) for row in rows]


def delete_files_until(session: Session, table: LakeTable, upto: int) -> list[DeleteFile]:
    """All delete files of the table up to a snapshot, those that others have taken the place of included."""
    link = session.link
    rows = link.execute(
        "SELECT data_file_id, delete_file_id, begin_snapshot, path, path_is_relative, format, delete_count,"
        " file_size_bytes, partial_max, encryption_key FROM ducklake_delete_file"
        f" WHERE table_id = {link.mark} AND begin_snapshot <= {link.mark} ORDER BY begin_snapshot, delete_file_id",
        (table.table_id, upto),
    )
    return [file for row in rows for file in _made_delete_files(table.location, *row)]
