"""DuckLake's schemas: one for each schema of each database, named after both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pgrepl.catalog import store, tables
from pgrepl.catalog.classes import CATALOG_NAMESPACE, INFORMATION_SCHEMA, TOAST_NAMESPACE
from pgrepl.catalog.ducklake import ducklake_schema, ducklake_table, ducklake_tag, ducklake_view
from pgrepl.catalog.namespace import is_temporary
from pgrepl.lake import definition_names as names
from pgrepl.lake import definition_rows as versions
from pgrepl.lake import sql, storage

if TYPE_CHECKING:
    from pgrepl.catalog.ducklake import ducklake_schema
    from pgrepl.catalog.session import Session

_INTERNAL = frozenset({CATALOG_NAMESPACE, INFORMATION_SCHEMA, TOAST_NAMESPACE})


def define_schemas(
    session: Session, databases: Iterable[int], schemas: Mapping[tuple[int, int], int | None]
) -> list[tuple[int, int]]:
    """Make, rename and drop DuckLake's schemas; returns the renamed ones."""
    renamed: list[tuple[int, int]] = []
    changed = dict(schemas)
    for database in databases:
        for row in store.rows(session, tables.pg_namespace, datid=database):
            changed.setdefault((database, row.oid), row.schema_id)
    for (database, oid), schema_id in changed.items():
        if oid in _INTERNAL:
            continue
        now = store.one(session, tables.pg_namespace, datid=database, oid=oid)
        if now is None:
            if schema_id is not None:
                _drop(session, schema_id)
        elif now.schema_id is not None:
            if _rename(session, now):
                renamed.append((database, oid))
        elif not is_temporary(now.nspname):
            _create(session, now)
    return renamed


def require_schema(session: Session, database: int, oid: int) -> ducklake_schema:
    """The DuckLake schema of a schema. Those of templates and of temporary relations are made when they are needed."""
    row = store.one(session, tables.pg_namespace, datid=database, oid=oid)
    assert row is not None
    if row.schema_id is None:
        schema_id = _create(session, row)
    else:
        schema_id = row.schema_id
    found = store.one(session, ducklake_schema, schema_id=schema_id)
    assert found is not None
    return found


def _create(session: Session, row: tables.pg_namespace, *, path: str = "", relative: bool = True) -> int:
    name = names.free(_wanted(session, row), _taken(session))
    schema_id = session.transaction.numbering.next_catalog_id()
    store.insert(
        session,
        ducklake_schema,
        schema_id=schema_id,
        schema_uuid=storage.uuid7(),
        begin_snapshot=session.snapshot(),
        schema_name=name,
        path=path,
        path_is_relative=relative,
    )
    store.amend(session, tables.pg_namespace, {"datid": row.datid, "oid": row.oid}, schema_id=schema_id)
    session.transaction.numbering.note_change(f"created_schema:{names.quoted(name)}")
    session.transaction.numbering.note_definition()
    return schema_id


def _wanted(session: Session, row: tables.pg_namespace) -> str:
    database = store.one(session, tables.pg_database, oid=row.datid)
    assert database is not None
    return names.schema_name(database.datname, row.nspname)


def _taken(session: Session) -> set[str]:
    return {names.lower(row.schema_name) for row in store.rows(session, ducklake_schema, end_snapshot=None)}


def _rename(session: Session, row: tables.pg_namespace) -> bool:
    """Rename a schema: DuckLake makes another schema, with another id, for the same tables. Whether it was renamed."""
    now = store.one(session, ducklake_schema, schema_id=row.schema_id)
    assert now is not None
    databases = {d.datname: d.oid for d in store.rows(session, tables.pg_database)}
    database, schema = names.place_of(now.schema_name, databases)
    if (databases.get(database), schema) == (row.datid, row.nspname):
        return False
    if names.is_variant(now.schema_name, _wanted(session, row)):
        return False
    schema_id = _create(session, row, path=now.path, relative=now.path_is_relative)
    numbering = session.transaction.numbering
    for table in store.rows(session, ducklake_table, schema_id=row.schema_id, end_snapshot=None):
        versions.change(session, ducklake_table, table, {"table_id": table.table_id}, schema_id=schema_id)
        numbering.note_change(f"altered_table:{table.table_id}")
    for view in store.rows(session, ducklake_view, schema_id=row.schema_id, end_snapshot=None):
        versions.change(session, ducklake_view, view, {"view_id": view.view_id}, schema_id=schema_id)
        numbering.note_change(f"altered_view:{view.view_id}")
    session.link.execute(sql.MOVE_OPTIONS, (schema_id, now.schema_id))
    _drop(session, now.schema_id)
    return True


def _drop(session: Session, schema_id: int) -> None:
    versions.end(session, ducklake_schema, schema_id=schema_id)
    versions.end(session, ducklake_tag, object_id=schema_id)
    session.transaction.numbering.note_change(f"dropped_schema:{schema_id}")
    session.transaction.numbering.note_definition()
