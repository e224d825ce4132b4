"""How much a scan reads, by the catalog's statistics and footers; the places of a table's rows as plain data for
kernels, and of the rows with given ids; and the division of rows into parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake import sql
from pgrepl.lake.read import footers, inlined
from pgrepl.lake.read.data_file import once, row_ids
from pgrepl.lake.read.files import Extent, data_files, last_snapshot, whole_extent
from pgrepl.lake.read.inlined import count_rows, deletes_table, exists
from pgrepl.lake.read.part import CatalogRows, FileRows, ForeignRows, PartRows
from pgrepl.lake.table import inlined_tables
from pgrepl.types.lake.arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.read.data_file import DataFile
    from pgrepl.lake.read.inlined import InlinedRow
    from pgrepl.lake.table import LakeColumn, LakeTable

    RowsWithin = Callable[[Sequence[LakeColumn], Sequence[Bound]], "TableRows"]

PAGE = 8192
_ROW = 28  # bytes of a row's header and its line pointer in a page


@frozen
class Volume:
    """The bytes of a table's present files, delete files included, their rows that are not deleted, and how many files
    of each kind there are."""

    size: int
    rows: int
    data_files: int = 0
    delete_files: int = 0


@frozen
class RowCounts:
    """The numbers of a table's rows."""

    live: int = 0
    dead: int = 0  # deleted, and still in files
    inlined: int = 0  # live rows that are inlined
    positions: int = 0  # dead rows whose deletes are inlined


def row_counts(session: Session) -> dict[int, RowCounts]:
    """The numbers of rows by DuckLake table id; tables without rows are left out."""
    session.transaction.require_read()
    link = session.link

    def sums(asked: str) -> dict[int, int]:
        return {int(number): int(count) for number, count in link.execute(asked)}

    in_files, dead = sums(sql.LIVING_ROWS_BY_TABLE), sums(sql.DEAD_ROWS_BY_TABLE)
    inlined = {int(number): 0 for (number,) in link.execute(sql.TABLES_WITH_INLINED_ROWS)}
    for number in inlined:
        for version in inlined_tables(session, number):
            inlined[number] += int(link.execute(sql.count_living_inlined_rows(version.name, version.prefix))[0][0])
    counts = {}
    for number in in_files.keys() | inlined.keys():
        name = deletes_table(number)
        positions = int(link.execute(sql.count_inlined_deletes(name))[0][0]) if exists(link, name) else 0
        gone = dead.get(number, 0) + positions
        here = inlined.get(number, 0)
        counts[number] = RowCounts(in_files.get(number, 0) - gone + here, gone, here, positions)
    return counts


@frozen
class PresentFiles:
    """The numbers of present files with their bytes, and the number of snapshots."""

    data: tuple[int, int]
    delete: tuple[int, int]
    snapshots: int


def present_files(session: Session) -> PresentFiles:
    link = session.link
    data, delete = (tuple(map(int, link.execute(asked)[0])) for asked in sql.PRESENT_FILES)
    ((snapshots,),) = link.execute(sql.COUNT_SNAPSHOTS)
    return PresentFiles((data[0], data[1]), (delete[0], delete[1]), int(snapshots))


def file_sizes(session: Session, below: int) -> dict[int, list[int]]:
    """The sizes of each table's data files that are smaller than `below` bytes."""
    sizes: dict[int, list[int]] = {}
    for number, size in session.link.execute(sql.SMALL_FILES, (below,)):
        sizes.setdefault(int(number), []).append(int(size))
    return sizes


def volumes(session: Session, table_id: int | None = None) -> dict[int, Volume]:
    """The volumes by DuckLake table id; tables without files are left out."""
    of_one = table_id is not None

    def sums(table: str, count: str) -> dict[int, tuple[int, int, int]]:
        sizes = session.link.execute(sql.volumes(table, count, of_one=of_one), (table_id,) if of_one else ())
        return {int(number): (int(size), int(rows), int(files)) for number, size, rows, files in sizes}

    deleted = sums("ducklake_delete_file", "delete_count")
    by_table = {}
    for number, (size, rows, files) in sums("ducklake_data_file", "record_count").items():
        more, gone, deletes = deleted.get(number, (0, 0, 0))
        by_table[number] = Volume(size + more, rows - gone, files, deletes)
    return by_table


def table_bytes(session: Session, table_id: int) -> int:
    """The bytes of a table's rows, in files and inlined."""
    volume = volumes(session, table_id).get(table_id)
    return _in_catalog(session, table_id) + (volume.size if volume is not None else 0)


def _in_catalog(session: Session, table_id: int) -> int:
    """The bytes of inlined rows, in whole pages."""
    size = 0
    for of_version in inlined_tables(session, table_id):
        names = [column.name for column in of_version.columns]
        query = sql.size_of_inlined_rows(of_version.name, _ROW, names, of_version.prefix)
        size += int(session.link.execute(query)[0][0] or 0)
    return -(-size // PAGE) * PAGE


# --- skipping ---------------------------------------------------------------------------------------------------------


FEW = 100  # files whose footers are looked at


@dataclass
class Skipping:
    """The files, rows, bytes and row groups that a scan reads, and those of the whole table. `groups` None: the footers
    were not read."""

    files: int
    extent: Extent
    all_files: int
    whole: Extent
    inlined: int
    groups: int | None = None
    all_groups: int = 0


def skipping(session: Session, table: LakeTable, bounds: Sequence[Bound]) -> Skipping:
    all_files, whole = whole_extent(session, table)
    inlined = count_rows(session, table, last_snapshot(session))
    if not bounds:
        return Skipping(all_files, whole, all_files, whole, inlined)
    files = data_files(session, table, bounds=bounds)
    left = Extent(sum(file.record_count for file in files), sum(file.file_size_bytes for file in files))
    skipped = Skipping(len(files), left, all_files, whole, inlined)
    if 0 < len(files) <= FEW:
        _look_into(skipped, table, files, bounds)
    return skipped


def _look_into(skipped: Skipping, table: LakeTable, files: Sequence[DataFile], bounds: Sequence[Bound]) -> None:
    from pgrepl.lake.read.file_scan import groups_within

    rows, size, groups, every = skipped.extent.rows, skipped.extent.bytes, 0, 0
    for file in files:
        try:
            footer, chosen = groups_within(table, file, bounds)
        except PgError:
            return  # the scan itself reports the damaged file
        groups += len(chosen)
        every += len(footer.row_groups)
        for group in set(footer.row_groups).difference(chosen):
            metadata = footer.metadata.row_group(group)
            rows -= metadata.num_rows
            size -= sum(metadata.column(n).total_compressed_size for n in range(metadata.num_columns))
    skipped.extent = Extent(rows, size)
    skipped.groups, skipped.all_groups = groups, every


# --- table rows -------------------------------------------------------------------------------------------------------


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
    files = tuple(data_files(session, table, snapshot, bounds))
    here = {file.data_file_id for file in files}
    inlined_deletes = inlined.deletes(session, table, snapshot) if files else {}
    deletes = {file_id: positions for file_id, positions in inlined_deletes.items() if file_id in here}
    in_catalog = tuple(inlined.rows(session, table, columns, snapshot, bounds))
    return TableRows(snapshot, files, deletes, in_catalog, tuple([column.attnum for column in columns]))


def rows_within(session: Session, table: LakeTable, snapshot: int) -> RowsWithin:
    return lambda columns, bounds: table_rows(session, table, snapshot, columns, bounds)


def are_within(rows: TableRows) -> RowsWithin:
    """The RowsWithin of a kernel, whose `rows` already include all that it may ask for."""
    return lambda columns, bounds: rows


# --- divide -----------------------------------------------------------------------------------------------------------


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
    parts: list[tuple[PartRows, int, int]] = []
    for rows, file in inlined.among_files(files, in_catalog):
        if rows:
            parts.append((_catalog_rows(columns, rows), len(rows), 0))
        if file is not None:
            own = tuple(deletes.get(file.data_file_id, ()))
            parts += _divided(FileRows(table, snapshot, file, own, None, tuple(bounds)))
    return parts


def _catalog_rows(columns: Sequence[LakeColumn], rows: Sequence[inlined.InlinedRow]) -> CatalogRows:
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
    parts: list[tuple[PartRows, int, int]] = []
    for group in footer.row_groups:
        count = footer.starts[group + 1] - footer.starts[group]
        size = file.file_size_bytes * count // max(file.record_count, 1)
        parts.append((replace(rows, groups=(group,)), count, size))
    return parts


def divide(rows_and_sizes: Sequence[tuple[PartRows, int, int]], slots: int) -> list[list[PartRows]]:
    """Parts of neighbouring rows, of about one size; about as many as `slots`, or a multiple, so that no slot idles."""
    total = sum(count for _, count, _ in rows_and_sizes)
    size = sum(size for _, _, size in rows_and_sizes)
    wanted = max(-(-total // _MOST_ROWS), -(-size // _MOST_BYTES), 1)
    wanted = -(-wanted // slots) * slots
    limits = iter([total * n // wanted for n in range(1, wanted)])
    parts: list[list[PartRows]] = [[]]
    limit, done = next(limits, total), 0
    for rows, count, _ in rows_and_sizes:
        if parts[-1] and done + count // 2 >= limit:
            parts.append([])
            while done + count // 2 >= limit and limit < total:
                limit = next(limits, total)
        parts[-1].append(rows)
        done += count
    return [_merged(part) for part in parts if part]


def _merged(part: Sequence[PartRows]) -> list[PartRows]:
    """Neighbouring row groups of one file become one piece, so that the file is opened once."""
    parts: list[PartRows] = []
    for rows in part:
        last = parts[-1] if parts else None
        if isinstance(rows, FileRows) and isinstance(last, FileRows) and last.file is rows.file:
            parts[-1] = replace(last, groups=(*(last.groups or ()), *(rows.groups or ())))
        elif isinstance(rows, ForeignRows) and isinstance(last, ForeignRows) and last.path == rows.path:
            parts[-1] = replace(last, groups=last.groups + rows.groups)
        else:
            parts.append(rows)
    return parts


# --- places of rows ---------------------------------------------------------------------------------------------------


class Positions(NamedTuple):
    """Distinct positions by file id, ascending, for Write.delete_positions; and row ids for Write.delete_inlined."""

    files: dict[int, npt.NDArray[np.int64]]
    inlined: npt.NDArray[np.int64]


def locate(
    session: Session, table: LakeTable, row_ids: npt.NDArray[np.int64], snapshot: int | None = None
) -> Positions:
    """The places at the snapshot of the rows with these ids."""
    from pgrepl.lake.write.delete_files import joined

    at = last_snapshot(session) if snapshot is None else snapshot
    wanted = once(row_ids)
    in_catalog = np.array([row.row_id for row in inlined.rows(session, table, (), at)], np.int64)
    found_inlined = np.intersect1d(wanted, in_catalog)
    deletes = inlined.deletes(session, table, at)
    positions: dict[int, Any] = {}
    left = len(wanted) - len(found_inlined)
    for file in data_files(session, table, at):
        if left <= 0:
            break
        here = _positions_in(file, wanted)
        if len(here):
            gone, _ = joined(file.delete_files, deletes.get(file.data_file_id, []), at)
            here = np.setdiff1d(here, gone)
        if len(here):
            positions[file.data_file_id] = here
            left -= len(here)
    return Positions(positions, found_inlined)


def _positions_in(file: DataFile, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The positions of the file's rows, deleted ones included, whose ids are in `wanted`, which ascends."""
    footer = footers.of(file)
    column = footer.by_id.get(footers.ROW_ID) or footer.by_name.get(footers.ROW_ID_NAME)
    start = file.row_id_start
    if column is None:
        if start is None:
            return np.empty(0, np.int64)
        first, last = np.searchsorted(wanted, [start, start + file.record_count])
        return wanted[first:last] - start
    with footers.DataFileReader(footer) as reader:
        array = reader.read(footer.row_groups, [column])[0]
    if array.null_count and start is not None:
        ids = row_ids(start, np.arange(len(array)), array.combine_chunks())
    else:
        ids = array.to_numpy()
    places = np.searchsorted(wanted, ids)
    places[places == len(wanted)] = 0
    positions: npt.NDArray[np.int64] = np.flatnonzero(wanted[places] == ids) if len(wanted) else np.empty(0, np.int64)
    return positions
