"""Numbers of rows and sizes of tables, from the catalog alone: files by their sizes, inlined rows by the pages that
they would fill in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.frozen import frozen
from pgrepl.lake import sql
from pgrepl.lake.inlined import deletes_table, exists
from pgrepl.lake.table import inlined_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

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
        for each in inlined_tables(session, number):
            inlined[number] += int(link.execute(sql.count_living_inlined_rows(each.name, each.prefix))[0][0])
    found = {}
    for number in in_files.keys() | inlined.keys():
        name = deletes_table(number)
        positions = int(link.execute(sql.count_inlined_deletes(name))[0][0]) if exists(link, name) else 0
        gone = dead.get(number, 0) + positions
        here = inlined.get(number, 0)
        found[number] = RowCounts(in_files.get(number, 0) - gone + here, gone, here, positions)
    return found


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
    found: dict[int, list[int]] = {}
    for number, size in session.link.execute(sql.SMALL_FILES, (below,)):
        found.setdefault(int(number), []).append(int(size))
    return found


def volumes(session: Session, table_id: int | None = None) -> dict[int, Volume]:
    """The volumes by DuckLake table id; tables without files are left out."""
    link = session.link
    of_one = table_id is not None

    def sums(table: str, count: str) -> dict[int, tuple[int, int, int]]:
        found = link.execute(sql.volumes(table, count, of_one=of_one), (table_id,) if of_one else ())
        return {int(number): (int(size), int(rows), int(files)) for number, size, rows, files in found}

    deleted = sums("ducklake_delete_file", "delete_count")
    found = {}
    for number, (size, rows, files) in sums("ducklake_data_file", "record_count").items():
        more, gone, deletes = deleted.get(number, (0, 0, 0))
        found[number] = Volume(size + more, rows - gone, files, deletes)
    return found


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
