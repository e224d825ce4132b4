"""Bringing DuckLake's definitions in line with the system tables: schemas, tables, columns, views.

Changes of pg_class and the like are noted (catalog/store/declarative.py); when a statement ends `define` writes the
difference at its snapshot. A statement that writes rows of a table which it has just defined calls it earlier.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation_parts import partition_ancestors
from pgrepl.catalog.facts.user_types import user_types
from pgrepl.catalog.store import store, tables
from pgrepl.catalog.store.ducklake import (
    ducklake_column,
    ducklake_column_tag,
    ducklake_data_file,
    ducklake_delete_file,
    ducklake_partition_info,
    ducklake_schema,
    ducklake_sort_info,
    ducklake_table,
    ducklake_tag,
    ducklake_view,
)
from pgrepl.lake import sql, storage
from pgrepl.lake.define import schemas as versions
from pgrepl.lake.define.columns import Constant, define_columns
from pgrepl.lake.define.schemas import define_schemas, define_view, require_schema
from pgrepl.lake.define.types import free, is_variant, lower, quoted

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def define(session: Session, constant: Constant) -> None:
    """Bring DuckLake's rows in line with all definitions that the running statement has changed."""
    changes = session.transaction.numbering.definition_changes
    try:
        renamed = define_schemas(session, changes.databases, changes.schemas)
        parents = _partitioned_in(session, renamed)
        users = _users_of_types(session, changes.relations)
        before = session.at(session.snapshot() - 1) if users else None
        for oid, table_id in {**users, **changes.relations}.items():
            row = store.one(session, tables.pg_class, oid=oid)
            if row is None:
                if table_id is not None:
                    forget(session, table_id)
            elif row.relkind == "p":
                parents.setdefault(oid)
            elif row.relkind in ("r", "m"):
                define_table(session.in_database(row.datid), row, constant, before)
            if row is not None:
                parents.update(dict.fromkeys(partition_ancestors(session, oid)))
        for oid in parents:
            row = store.one(session, tables.pg_class, oid=oid)
            if row is not None and row.relkind == "p":
                define_view(session.in_database(row.datid), row, partial(_view_name, session, row.relname))
    finally:
        changes.clear()


def _users_of_types(session: Session, changed: Iterable[int]) -> dict[int, int | None]:
    """The relations with columns of the composite types among these, or of types that are made of them."""
    composites = {row.reltype for row in store.rows(session, tables.pg_class, oid=[*changed], relkind="c")}
    if not composites:
        return {}
    types = user_types(session)
    using = {oid for oid in types.data if any(part.row.oid in composites for part in types.closure(oid))}
    rows = store.rows(session, tables.pg_attribute, atttypid=using)
    return dict.fromkeys(row.attrelid for row in rows if not row.attisdropped)


def _partitioned_in(session: Session, schemas: Iterable[tuple[int, int]]) -> dict[int, None]:
    """The partitioned tables that may have leaves in renamed schemas."""
    databases = {database for database, _schema in schemas}
    partitioned = store.rows(session, tables.pg_class, datid=databases, relkind="p") if databases else []
    return dict.fromkeys(row.oid for row in partitioned)


def define_everything(session: Session, constant: Constant) -> None:
    """Write DuckLake's rows for all definitions of a catalog that was made without a lake."""
    see_everything(session)
    define(session, constant)


def see_everything(session: Session) -> None:
    """Note all definitions as changed by the running statement."""
    changes = session.transaction.numbering.definition_changes
    for database in store.rows(session, tables.pg_database, datistemplate=False):
        changes.databases.add(database.oid)
    for row in store.rows(session, tables.pg_class, relkind=("r", "m", "p")):
        changes.relations[row.oid] = None


def _view_name(session: Session, name: str, schema_id: int, view_id: int) -> str:
    return free_name(session, schema_id, name, view_id)


def define_table(session: Session, row: tables.pg_class, constant: Constant, before: Session | None) -> None:
    """`before`: the definitions before the running statement, if it has changed attributes of composite types."""
    numbering = session.transaction.numbering
    schema = require_schema(session, row.datid, row.relnamespace)
    if row.table_id is None:
        table_id = numbering.next_catalog_id()
        name = free_name(session, schema.schema_id, row.relname)
        versions.begin(
            session,
            ducklake_table,
            table_id=table_id,
            table_uuid=(identifier := storage.uuid7()),
            schema_id=schema.schema_id,
            table_name=name,
            path=_folder(schema, name, identifier),
            path_is_relative=True,
        )
        store.amend(session, tables.pg_class, {"oid": row.oid}, table_id=table_id)
        numbering.note_change(f"created_table:{quoted(schema.schema_name)}.{quoted(name)}")
        numbering.note_definition(table_id)
        define_columns(session, row.oid, table_id, constant, None)
        return
    changed = _place_table(session, row, schema)
    changed |= define_columns(session, row.oid, row.table_id, constant, before)
    if changed:
        if not numbering.is_new(row.table_id):
            numbering.note_change(f"altered_table:{row.table_id}")
        numbering.note_definition(row.table_id)


def _folder(schema: ducklake_schema, name: str, identifier: str) -> str:
    """The folder of a table's files, with its name if that is plain, else with an id."""
    folder = f"{name if _is_plain(name) else identifier}/"
    if schema.path:
        return folder
    parent = schema.schema_name if all(_is_plain(part) for part in schema.schema_name.split(".")) else "other"
    return f"{parent}/{folder}"


def _is_plain(name: str) -> bool:
    return name.isascii() and name.replace("_", "").isalnum()


def _place_table(session: Session, row: tables.pg_class, schema: ducklake_schema) -> bool:
    """Change the table's name and schema in DuckLake, if they differ. The files stay where they are."""
    now = store.one(session, ducklake_table, table_id=row.table_id, end_snapshot=None)
    if now is None:
        return False
    name = now.table_name
    if now.schema_id != schema.schema_id or not is_variant(name, row.relname) or _is_free(session, now, row.relname):
        name = free_name(session, schema.schema_id, row.relname, now.table_id)
    if (name, schema.schema_id) == (now.table_name, now.schema_id):
        return False
    path, relative = now.path, now.path_is_relative
    if now.schema_id != schema.schema_id and relative:
        before = store.one(session, ducklake_schema, schema_id=now.schema_id)
        assert before is not None
        path, relative = moved_path(session, path, before, schema)
    versions.change(
        session,
        ducklake_table,
        now,
        {"table_id": row.table_id},
        table_name=name,
        schema_id=schema.schema_id,
        path=path,
        path_is_relative=relative,
    )
    return True


def moved_path(session: Session, path: str, before: ducklake_schema, after: ducklake_schema) -> tuple[str, bool]:
    """The path of a folder, relative to one schema, for another schema; and whether it is relative."""
    if (before.path, before.path_is_relative) == (after.path, after.path_is_relative):
        return path, True
    whole = before.path + path
    if not before.path_is_relative:
        return whole, False
    if after.path_is_relative and not after.path:
        return whole, True
    return session.catalog.data_path + whole, False


def _is_free(session: Session, now: ducklake_table, name: str) -> bool:
    """Is a table's own name free now, when it has another because that was taken?"""
    return bool(now.table_name != name and lower(name) not in taken_names(session, now.schema_id, name, now.table_id))


def free_name(session: Session, schema_id: int, name: str, itself: int = -1) -> str:
    return free(name, taken_names(session, schema_id, name, itself))


def taken_names(session: Session, schema_id: int, name: str, itself: int) -> set[str]:
    """The names of tables and views that begin with this name, in lower case."""
    link = session.link
    names: set[str] = set()
    for table, id_, column in (("ducklake_table", "table_id", "table_name"), ("ducklake_view", "view_id", "view_name")):
        start = lower(name)
        named = link.execute(sql.names_like(table, id_, column), (schema_id, itself, start, start + "\U0010ffff"))
        names.update(row[0] for row in named)
    return names


_OF_TABLES = (
    ducklake_table, ducklake_column, ducklake_column_tag, ducklake_partition_info, ducklake_sort_info,
    ducklake_data_file, ducklake_delete_file,
)  # fmt: skip


def forget(session: Session, table_id: int) -> None:
    """End a dropped table or view, and all rows about it."""
    numbering = session.transaction.numbering
    kind = "table" if store.rows(session, ducklake_table, table_id=table_id, end_snapshot=None) else "view"
    if kind == "table":
        for table in _OF_TABLES:
            versions.end(session, table, table_id=table_id)
    elif store.rows(session, ducklake_view, view_id=table_id, end_snapshot=None):
        versions.end(session, ducklake_view, view_id=table_id)
    else:
        return
    versions.end(session, ducklake_tag, object_id=table_id)
    numbering.note_change(f"dropped_{kind}:{table_id}")
    numbering.note_definition()
