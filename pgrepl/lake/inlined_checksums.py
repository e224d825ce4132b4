"""Checksums of inlined rows and inlined deletes.

There is a sum over the rows of each snapshot (pgrepl_inlined), to which rows are added and from which they are
subtracted. It does not include the end of rows. A catalog in PostgreSQL inlines nothing. Rows that another program has
inlined have no sum; if it has moved rows into a file, none of a snapshot is left, which is no damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.sums import of_row
from pgrepl.errors import PgError
from pgrepl.lake import sql

if TYPE_CHECKING:
    from pgrepl.catalog.connection import CatalogConnection

_END = "end_snapshot"
_OWN = len(sql.OWN_COLUMNS)  # the first columns are DuckLake's own, with a prefix in DuckLake 1.1


def add(link: CatalogConnection, table: str, rows: int) -> None:
    """Add the last `rows` rows that were written."""
    _change(link, table, _sums(link, table, sql.newest_inlined_rows(table), (rows,)))


def delete(link: CatalogConnection, table: str, condition: str, values: Sequence[Any]) -> int:
    """Delete rows, and subtract them from the sums; returns their number."""
    gone = _sums(link, table, condition, values)
    if gone:
        link.execute(sql.delete_inlined_rows(table, condition), tuple(values))
        _change(link, table, {begin: (-rows, -checksum) for begin, (rows, checksum) in gone.items()})
    return sum(rows for rows, _ in gone.values())


def forget(link: CatalogConnection, table: str) -> None:
    """Forget the sums of a dropped table."""
    link.execute(sql.DELETE_INLINED_SUMS, (table,))


def settle(link: CatalogConnection, table: str, table_id: int) -> None:
    """Forget the sums of rows that another program has moved into a file, while its file is still there."""
    link.execute(sql.every_column_of_inlined_rows(table, "false"))
    begin = link.column_names[_begin(link, table)]
    if link.execute(sql.has_moved_inlined_sums(table, begin), (table,)):
        if not damaged(link, table, table_id):
            link.execute(sql.delete_moved_inlined_sums(table, begin), (table,))


def damaged(link: CatalogConnection, table: str, table_id: int) -> list[int]:
    """The snapshots whose rows do not agree with their sums."""
    known = link.execute(sql.INLINED_SUMS, (table,))
    if not known:
        return []
    there = _sums(link, table, "true", ())
    moved = None
    found = []
    for begin, rows, checksum in known:
        if begin not in there and moved is None:
            moved = _has_files_of_others(link, table_id)
        if there.get(begin, (0, 0) if not moved else (rows, checksum)) != (rows, checksum):
            found.append(int(begin))
    return sorted(found)


def _has_files_of_others(link: CatalogConnection, table_id: int) -> bool:
    return any(
        link.execute(sql.is_file_of_others(table, key), (table_id,))
        for table, key in (("ducklake_data_file", "data_file_id"), ("ducklake_delete_file", "delete_file_id"))
    )


def _sums(link: CatalogConnection, table: str, condition: str, values: Sequence[Any]) -> dict[int, tuple[int, int]]:
    """The number of rows and the sum of their checksums by their snapshots."""
    rows = link.execute(sql.every_column_of_inlined_rows(table, condition), tuple(values))
    begin = _begin(link, table)
    kept = [i for i, name in enumerate(link.column_names) if i >= _OWN or not name.endswith(_END)]
    found: dict[int, tuple[int, int]] = {}
    for row in rows:
        count, checksum = found.get(row[begin], (0, 0))
        found[row[begin]] = count + 1, checksum + of_row([row[i] for i in kept])
    return found


def _begin(link: CatalogConnection, table: str) -> int:
    """The place of begin_snapshot among the columns of the table, which have just been read."""
    for place, name in enumerate(link.column_names[:_OWN]):
        if name.endswith("begin_snapshot"):
            return place
    raise PgError("XX001", f'catalog "{link.catalog.name}" is damaged: {table} has no column begin_snapshot')


def _change(link: CatalogConnection, table: str, sums: dict[int, tuple[int, int]]) -> None:
    link.execute_many(
        sql.ADD_TO_INLINED_SUM,
        [(table, begin, rows, checksum) for begin, (rows, checksum) in sums.items()],
    )
    if any(rows < 0 for rows, _ in sums.values()):
        link.execute(sql.DELETE_EMPTY_INLINED_SUMS, (table,))
