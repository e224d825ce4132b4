"""The tables of rows that are inlined in the catalog: `ducklake_inlined_data_<table>_<schema version>`.

There is one for each layout that the table has had since rows were first inlined. DuckDB writes to the newest without
checking its columns, so that a new layout gets a new one at once; and it reads their list anew only when the schema
version changes. A catalog in PostgreSQL inlines nothing: DuckDB has other types for each column there.
Where a thousand tables have inlined rows, the rows of others go into files however few they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import store
from pgrepl.catalog.ducklake import ducklake_column, ducklake_inlined_data_tables
from pgrepl.lake import sql
from pgrepl.lake.definition_names import RESERVED_COLUMNS, lower, quoted
from pgrepl.lake.ducklake_options import inlined_prefix
from pgrepl.lake.table import InlinedTable, fields_of, inlined_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
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
    found = store.rows(session, ducklake_column, table_id=table_id, end_snapshot=None)
    found.sort(key=lambda row: row.column_order)
    return fields_of([(row.column_id, row.column_name, row.column_type, row.parent_column) for row in found], None)


def _make(session: Session, table_id: int, columns: tuple[LakeField, ...]) -> InlinedTable:
    numbering = session.transaction.numbering
    numbering.note_definition(table_id)  # DuckDB reads structs by the fields that the table had at this version
    version = numbering.schema_version
    name = f"ducklake_inlined_data_{table_id}_{version}"
    link = session.link
    own = [f"{quoted(column.name)} {_sqlite_type(column.type)}" for column in columns]
    prefix = inlined_prefix(session)
    link.execute(sql.create_inlined_table(name, own, prefix))
    store.insert(session, ducklake_inlined_data_tables, table_id=table_id, table_name=name, schema_version=version)
    return InlinedTable(name, version, columns, prefix)


def _sqlite_type(kind: str) -> str:
    if kind in _WHOLE:
        return "BIGINT"
    return "BLOB" if kind == "blob" else "VARCHAR"
