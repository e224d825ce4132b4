"""What the rows of tables take: how many there are, files by their sizes, rows in the catalog by the pages they would
fill. All of it stands in the catalog: no file is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.frozen import frozen
from pgrepl.lake import sql
from pgrepl.lake.inlined import deletes_table, exists
from pgrepl.lake.table import inlined_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

PAGE = 8192
_ROW = 28  # bytes of a row's header in a page, and of its pointer


@frozen
class Volume:
    """Of the files of a table as it is now: their bytes, those of delete files included, and the rows alive in them."""

    size: int
    rows: int


@frozen
class RowCounts:
    """The rows of a table."""

    live: int = 0
    dead: int = 0  # deleted, and still in files
    inlined: int = 0  # of the living ones those that stand in the catalog
    positions: int = 0  # of the dead ones those whose positions stand in the catalog


def row_counts(session: Session) -> dict[int, RowCounts]:
    """By the numbers that DuckLake has for tables; those without rows are not among them."""
    session.transaction.require_read()
    link = session.link

    def sums(asked: str) -> dict[int, int]:
        return {int(number): int(count) for number, count in link.execute(asked)}

    in_files, dead = sums(sql.LIVING_ROWS_BY_TABLE), sums(sql.DEAD_ROWS_BY_TABLE)
    inlined = {int(number): 0 for (number,) in link.execute(sql.TABLES_WITH_INLINED_ROWS)}
    for number in inlined:
        for each in inlined_tables(session, number):
            inlined[number] += int(link.execute(sql.count_living_inlined_rows(each.name))[0][0])
    found = {}
    for number in in_files.keys() | inlined.keys():
        name = deletes_table(number)
        positions = int(link.execute(sql.count_inlined_deletes(name))[0][0]) if exists(link, name) else 0
        gone = dead.get(number, 0) + positions
        here = inlined.get(number, 0)
        found[number] = RowCounts(in_files.get(number, 0) - gone + here, gone, here, positions)
    return found


def file_sizes(session: Session, below: int) -> dict[int, list[int]]:
    """Of each table's data files that are smaller than so many bytes."""
    found: dict[int, list[int]] = {}
    for number, size in session.link.execute(sql.SMALL_FILES, (below,)):
        found.setdefault(int(number), []).append(int(size))
    return found


def volumes(session: Session, table_id: int | None = None) -> dict[int, Volume]:
    """By the numbers that DuckLake has for tables; those without files are not among them."""
    link = session.link
    of_one = table_id is not None

    def sums(table: str, count: str) -> dict[int, tuple[int, int]]:
        found = link.execute(sql.volumes(table, count, of_one=of_one), (table_id,) if of_one else ())
        return {int(number): (int(size), int(rows)) for number, size, rows in found}

    deleted = sums("ducklake_delete_file", "delete_count")
    return {
        number: Volume(size + deleted.get(number, (0, 0))[0], rows - deleted.get(number, (0, 0))[1])
        for number, (size, rows) in sums("ducklake_data_file", "record_count").items()
    }


def table_bytes(session: Session, table_id: int) -> int:
    """What the rows of a table take together."""
    volume = volumes(session, table_id).get(table_id)
    return _in_catalog(session, table_id) + (volume.size if volume is not None else 0)


def _in_catalog(session: Session, table_id: int) -> int:
    """Of rows inlined, in whole pages."""
    size = 0
    for inlined in inlined_tables(session, table_id):
        query = sql.size_of_inlined_rows(inlined.name, _ROW, [column for _, column, _ in inlined.columns])
        size += int(session.link.execute(query)[0][0] or 0)
    return -(-size // PAGE) * PAGE
