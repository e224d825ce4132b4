"""The tables of rows that are inlined in the catalog, and the checksums of these rows.

There is one for each layout since rows were first inlined, as DuckDB writes to the newest without checking its
columns. A catalog in PostgreSQL inlines nothing: DuckDB has other types there. Where a thousand tables have inlined
rows, rows of others go into files. Rows that another program has inlined have no sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.store import store
from pgrepl.catalog.store.declarative import of_row
from pgrepl.catalog.store.ducklake import ducklake_column, ducklake_inlined_data_tables
from pgrepl.ground.errors import PgError
from pgrepl.lake import sql
from pgrepl.lake.define.options import inlined_prefix
from pgrepl.lake.define.types import RESERVED_COLUMNS, lower, quoted
from pgrepl.lake.table import InlinedTable, fields_of, inlined_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.connection import CatalogConnection
    from pgrepl.lake.table import LakeField, LakeTable

_MOST_TABLES = 1000  # with a table each: SQLite reads all definitions again, in every connection, when one is made
_WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "boolean")


def inlined_table(session: Session, table_id: int) -> InlinedTable | None:
    """The table for new inlined rows, made if need be; None: rows of this table must be in files."""
    if not session.catalog.is_sqlite:
        return None
    columns = _columns(session, table_id)
    if any(lower(column.name) in RESERVED_COLUMNS for column in columns):
        return None
    newest = inlined_tables(session, table_id)[-1:]
    if newest and newest[0].columns == columns:
        return newest[0]
    return _make(session, table_id, columns)


def can_inline(session: Session, table: LakeTable) -> bool:
    """Can rows of the table be inlined, so that `inlined_table` is not None, and may there be one more such table?"""
    if not session.catalog.is_sqlite or any(lower(column.name) in RESERVED_COLUMNS for column in table.columns):
        return False
    if inlined_tables(session, table.table_id):
        return True
    return not session.link.execute(sql.INLINED_TABLE_AT, (_MOST_TABLES - 1,))


def keep_inlining(session: Session, table_id: int) -> None:
    """Make an inlined table for the changed columns of a table that has inlined rows."""
    if inlined_tables(session, table_id):
        inlined_table(session, table_id)


def _columns(session: Session, table_id: int) -> tuple[LakeField, ...]:
    columns = store.rows(session, ducklake_column, table_id=table_id, end_snapshot=None)
    columns.sort(key=lambda row: row.column_order)
    return fields_of([(row.column_id, row.column_name, row.column_type, row.parent_column) for row in columns], None)


def _make(session: Session, table_id: int, columns: tuple[LakeField, ...]) -> InlinedTable:
    numbering = session.transaction.numbering
    numbering.note_definition(table_id)  # DuckDB reads structs by the fields that the table had at this version
    version = numbering.schema_version
    name = f"ducklake_inlined_data_{table_id}_{version}"
    own = [f"{quoted(column.name)} {_sqlite_type(column.type)}" for column in columns]
    prefix = inlined_prefix(session)
    session.link.execute(sql.create_inlined_table(name, own, prefix))
    store.insert(session, ducklake_inlined_data_tables, table_id=table_id, table_name=name, schema_version=version)
    return InlinedTable(name, version, columns, prefix)


def _sqlite_type(kind: str) -> str:
    if kind in _WHOLE:
        return "BIGINT"
    return "BLOB" if kind == "blob" else "VARCHAR"


# --- inlined checksums ------------------------------------------------------------------------------------------------


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
    snapshots = []
    for begin, rows, checksum in known:
        if begin not in there and moved is None:
            moved = _has_files_of_others(link, table_id)
        if there.get(begin, (0, 0) if not moved else (rows, checksum)) != (rows, checksum):
            snapshots.append(int(begin))
    return sorted(snapshots)


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
    sums: dict[int, tuple[int, int]] = {}
    for row in rows:
        count, checksum = sums.get(row[begin], (0, 0))
        sums[row[begin]] = count + 1, checksum + of_row([row[i] for i in kept])
    return sums


def _begin(link: CatalogConnection, table: str) -> int:
    """The place of begin_snapshot among the columns of the table, which have just been read."""
    for place, name in enumerate(link.column_names[:_OWN]):
        if name.endswith("begin_snapshot"):
            return place
    raise PgError("XX001", f'catalog "{link.catalog.name}" is damaged: {table} has no column begin_snapshot')


def _change(link: CatalogConnection, table: str, sums: dict[int, tuple[int, int]]) -> None:
    link.execute_many(
        sql.ADD_TO_INLINED_SUM, [(table, begin, rows, checksum) for begin, (rows, checksum) in sums.items()]
    )
    if any(rows < 0 for rows, _ in sums.values()):
        link.execute(sql.DELETE_EMPTY_INLINED_SUMS, (table,))
