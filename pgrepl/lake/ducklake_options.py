"""DuckLake's options in `ducklake_metadata`: of a table, of its schema, or of the whole lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.lake import sql

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.table import LakeTable

DEFAULT_INLINING_LIMIT = 100  # rows; beyond it a file is written about as fast, and read faster


def option(session: Session, table: LakeTable, name: str) -> str | None:
    """The table's value, else its schema's, else the lake's."""
    key = ("option", name, table.table_id)
    if key in session.derived:
        known: str | None = session.derived[key]
        return known
    link = session.link
    found = link.execute(
        sql.OPTION,
        (name, table.table_id, table.table_id),
    )
    value = session.derived[key] = str(found[0][0]) if found else None
    return value


def inlining_limit(session: Session, table: LakeTable) -> int:
    """The number of rows, or deletes, of a statement up to which they are inlined in the catalog."""
    value = option(session, table, "data_inlining_row_limit")
    return int(value) if value is not None and value.isdigit() else DEFAULT_INLINING_LIMIT
