"""DuckLake's views for partitioned tables: unions of their leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import store, tables
from pgrepl.catalog.ducklake import ducklake_column, ducklake_schema, ducklake_table, ducklake_view
from pgrepl.catalog.inheritance import inheritors
from pgrepl.lake import definition_names as names
from pgrepl.lake import definition_rows as versions
from pgrepl.lake import storage
from pgrepl.lake.definition_schema import require_schema
from pgrepl.lake.definition_types import column_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgrepl.catalog.session import Session


def define_view(session: Session, row: tables.pg_class, free_name: Callable[[int, int], str]) -> None:
    """Bring the view of a partitioned table in line. `free_name` gives a free name in a DuckLake schema, for the view
    with an id."""
    numbering = session.transaction.numbering
    schema = require_schema(session, row.datid, row.relnamespace)
    sql = _query(session, row)
    now = None
    if row.table_id is not None:
        now = store.one(session, ducklake_view, view_id=row.table_id, end_snapshot=None)
    if sql is None:
        return
    name = free_name(schema.schema_id, -1 if now is None else now.view_id)
    if now is None:
        view_id = numbering.next_catalog_id()
        versions.begin(
            session,
            ducklake_view,
            view_id=view_id,
            view_uuid=storage.uuid7(),
            schema_id=schema.schema_id,
            view_name=name,
            dialect="duckdb",
            sql=sql,
            column_aliases="",
        )
        store.amend(session, tables.pg_class, {"oid": row.oid}, table_id=view_id)
        numbering.note_change(f"created_view:{names.quoted(schema.schema_name)}.{names.quoted(name)}")
        numbering.note_definition()
    elif (now.sql, now.view_name, now.schema_id) != (sql, name, schema.schema_id):
        values = {"sql": sql, "view_name": name, "schema_id": schema.schema_id}
        versions.change(session, ducklake_view, now, {"view_id": now.view_id}, **values)
        if not numbering.is_new(now.view_id):
            numbering.note_change(f"altered_view:{now.view_id}")
        numbering.note_definition()


def _query(session: Session, row: tables.pg_class) -> str | None:
    """The query over all leaves with the parent's columns, in its order; None: it has no columns."""
    columns = _columns(session, row.oid)
    if not columns:
        return None
    parts = []
    for leaf in inheritors(session, row.oid)[1:]:
        found = store.one(session, tables.pg_class, oid=leaf)
        if found is not None and found.relkind == "r" and found.table_id is not None:
            parts.append(_leaf(session, found, columns))
    if parts:
        return " UNION ALL ".join(parts)
    nothing = [f"CAST(NULL AS {kind}) AS {names.quoted(name)}" for _attname, name, kind in columns]
    return f"SELECT {', '.join(nothing)} WHERE false"


def _columns(session: Session, oid: int) -> list[tuple[str, str, str]]:
    """Each column's name, its name in DuckLake, and its type as DuckDB spells it."""
    attributes = [a for a in store.rows(session, tables.pg_attribute, attrelid=oid) if not a.attisdropped]
    attributes.sort(key=lambda a: a.attnum)
    taken: set[str] = set()
    found = []
    for attribute in attributes:
        name = names.free(attribute.attname, taken)
        taken.add(names.lower(name))
        typmod = -1 if attribute.atttypmod is None else attribute.atttypmod
        kind = column_type(session.type_of(attribute.atttypid), typmod, attribute.attndims or 0)
        found.append((attribute.attname, name, kind.duckdb))
    return found


def _leaf(session: Session, row: tables.pg_class, columns: list[tuple[str, str, str]]) -> str:
    table = store.one(session, ducklake_table, table_id=row.table_id, end_snapshot=None)
    assert table is not None
    schema = store.one(session, ducklake_schema, schema_id=table.schema_id)
    assert schema is not None
    attributes = store.rows(session, tables.pg_attribute, attrelid=row.oid)
    ids = {a.attname: a.column_id for a in attributes if not a.attisdropped}
    stored = store.rows(session, ducklake_column, table_id=row.table_id, end_snapshot=None)
    given: dict[int | None, str] = {c.column_id: c.column_name for c in stored}
    listed = []
    for attname, name, _kind in columns:
        own = given[ids[attname]]
        listed.append(names.quoted(own) + ("" if own == name else f" AS {names.quoted(name)}"))
    place = f"{{DUCKLAKE_CATALOG}}.{names.quoted(schema.schema_name)}.{names.quoted(table.table_name)}"
    return f"SELECT {', '.join(listed)} FROM {place}"
