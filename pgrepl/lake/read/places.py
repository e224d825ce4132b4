"""The positions that a write deletes, by Arrow and numpy, and the newest versions of rows that were found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.ground.lazy import np
from pgrepl.lake import sql
from pgrepl.lake.read import footers, inlined, local
from pgrepl.lake.read.data_file import once, row_ids
from pgrepl.lake.read.files import data_file, data_files, last_snapshot
from pgrepl.lake.table import inlined_tables
from pgrepl.lake.write.delete_files import deleted_positions, joined

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import DataFile, RowPlace
    from pgrepl.lake.table import LakeTable


class Positions(NamedTuple):
    """Distinct positions by file id, ascending, for Write.delete_positions; and row ids for Write.delete_inlined."""

    files: dict[int, npt.NDArray[np.int64]]
    inlined: npt.NDArray[np.int64]


def locate(
    session: Session, table: LakeTable, row_ids: npt.NDArray[np.int64], snapshot: int | None = None
) -> Positions:
    """The places at the snapshot of the rows with these ids."""

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


# --- versions ---------------------------------------------------------------------------------------------------------


_AT_ONCE = 500


def standing(session: Session, table: LakeTable, places: Iterable[RowPlace]) -> set[RowPlace]:
    """The places whose rows are still there, as the session sees the catalog."""
    by_file: dict[int | None, list[RowPlace]] = {}
    for place in places:
        by_file.setdefault(place.file, []).append(place)
    there: set[RowPlace] = set()
    for file_id, here in by_file.items():
        if file_id is None:
            alive = _inlined(session, table, [place.row for place in here])
            there.update(place for place in here if place.row in alive)
            continue
        file = data_file(session, table, file_id)
        if file is not None:
            gone = set(deleted_positions(session, table, file).tolist())
            there.update(place for place in here if place.pos not in gone)
    return there


def _inlined(session: Session, table: LakeTable, row_ids: Sequence[int]) -> set[int]:
    """The ids of these rows that are inlined and not deleted."""
    link = session.link
    living: set[int] = set()
    for version in inlined_tables(session, table.table_id):
        for start in range(0, len(row_ids), _AT_ONCE):
            some = row_ids[start : start + _AT_ONCE]
            rows = link.execute(sql.living_inlined_rows(version.name, len(some), version.prefix), tuple(some))
            living.update(row[0] for row in rows)
    return living


def begun_after(session: Session, table: LakeTable, places: Sequence[RowPlace], snapshot: int) -> set[RowPlace]:
    """The places of inlined rows that have a newer version than the snapshot's."""
    link = session.link
    wanted = {place.row: place for place in places if place.file is None}
    begun: set[RowPlace] = set()
    for version in inlined_tables(session, table.table_id) if wanted else ():
        rows = link.execute(sql.inlined_rows_begun_after(version.name, version.prefix), (snapshot,))
        begun.update(wanted[row[0]] for row in rows if row[0] in wanted)
    return begun


def updated_after(session: Session, table: LakeTable, row_id: int, snapshot: int) -> bool:
    """Did a deleted row have a newer version than the snapshot's?"""
    link = session.link
    return any(
        link.execute(sql.is_inlined_row_begun_after(version.name, version.prefix), (row_id, snapshot))
        for version in inlined_tables(session, table.table_id)
    )


def is_begun_between(session: Session, table: LakeTable, place: RowPlace, first: int, last: int) -> bool:
    """Was the version of a row at this place written by one of these snapshots?"""
    link = session.link
    if place.file is not None:
        begins = link.execute(sql.BEGIN_OF_FILE, (place.file,))
    else:
        versions = inlined_tables(session, table.table_id)
        asked = [sql.begins_of_inlined_row(version.name, version.prefix) for version in versions]
        begins = [row for each in asked for row in link.execute(each, (place.row,))]
    return any(first <= begin <= last for (begin,) in begins)


def newest(
    session: Session, table: LakeTable, attnums: Sequence[int], row_ids: Collection[int]
) -> dict[int, tuple[Any, ...]]:
    """The rows with these ids as they are now, by id: the columns, and last the RowPlace. Deleted rows are left out."""
    wanted = set(row_ids)
    return {
        row[-1].row: row
        for row in local.rows(session, table, attnums, places=True, snapshot=last_snapshot(session))
        if row[-1].row in wanted
    }
