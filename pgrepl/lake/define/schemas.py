"""DuckLake's schemas, one for each schema of each database; its views for partitioned tables; versions of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog.facts.namespace import is_temporary
from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.catalog.store import store, tables
from pgrepl.catalog.store.ducklake import ducklake_column, ducklake_schema, ducklake_table, ducklake_tag, ducklake_view
from pgrepl.catalog.store.system import CATALOG_NAMESPACE, INFORMATION_SCHEMA, TOAST_NAMESPACE
from pgrepl.lake import sql, storage
from pgrepl.lake.define.types import column_type, free, is_variant, lower, place_of, quoted, schema_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.declarative import SystemRow


class Version(Protocol):
    """A row that is valid from `begin_snapshot` on."""

    begin_snapshot: int

    def _asdict(self) -> dict[str, Any]: ...


def begin(session: Session, table: type[SystemRow], **values: Any) -> None:
    store.insert(session, table, begin_snapshot=session.snapshot(), **values)


def begin_many(session: Session, table: type[SystemRow], values: list[dict[str, Any]]) -> None:
    snapshot = session.snapshot()
    store.insert_many(session, table, [{"begin_snapshot": snapshot, **row} for row in values])


def end(session: Session, table: type[SystemRow], **eq: Any) -> None:
    """End current versions; those that began at this snapshot are deleted."""
    snapshot = session.snapshot()
    store.delete(session, table, begin_snapshot=snapshot, end_snapshot=None, **eq)
    store.update(session, table, {"end_snapshot": None, **eq}, end_snapshot=snapshot)


def change(session: Session, table: type[SystemRow], row: Version, eq: dict[str, Any], **values: Any) -> None:
    """Begin another version of a current row, which `eq` finds."""
    if row.begin_snapshot == session.snapshot():
        store.update(session, table, {"end_snapshot": None, **eq}, **values)
        return
    end(session, table, **eq)
    store.insert(session, table, **{**row._asdict(), **values, "begin_snapshot": session.snapshot()})


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
    schema = store.one(session, ducklake_schema, schema_id=schema_id)
    assert schema is not None
    return schema


def _create(session: Session, row: tables.pg_namespace, *, path: str = "", relative: bool = True) -> int:
    name = free(_wanted(session, row), _taken(session))
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
    session.transaction.numbering.note_change(f"created_schema:{quoted(name)}")
    session.transaction.numbering.note_definition()
    return schema_id


def _wanted(session: Session, row: tables.pg_namespace) -> str:
    database = store.one(session, tables.pg_database, oid=row.datid)
    assert database is not None
    return schema_name(database.datname, row.nspname)


def _taken(session: Session) -> set[str]:
    return {lower(row.schema_name) for row in store.rows(session, ducklake_schema, end_snapshot=None)}


def _rename(session: Session, row: tables.pg_namespace) -> bool:
    """Rename a schema: DuckLake makes another schema, with another id, for the same tables. Whether it was renamed."""
    now = store.one(session, ducklake_schema, schema_id=row.schema_id)
    assert now is not None
    databases = {d.datname: d.oid for d in store.rows(session, tables.pg_database)}
    database, schema = place_of(now.schema_name, databases)
    if (databases.get(database), schema) == (row.datid, row.nspname):
        return False
    if is_variant(now.schema_name, _wanted(session, row)):
        return False
    schema_id = _create(session, row, path=now.path, relative=now.path_is_relative)
    numbering = session.transaction.numbering
    for table in store.rows(session, ducklake_table, schema_id=row.schema_id, end_snapshot=None):
        change(session, ducklake_table, table, {"table_id": table.table_id}, schema_id=schema_id)
        numbering.note_change(f"altered_table:{table.table_id}")
    for view in store.rows(session, ducklake_view, schema_id=row.schema_id, end_snapshot=None):
        change(session, ducklake_view, view, {"view_id": view.view_id}, schema_id=schema_id)
        numbering.note_change(f"altered_view:{view.view_id}")
    session.link.execute(sql.MOVE_OPTIONS, (schema_id, now.schema_id))
    _drop(session, now.schema_id)
    return True


def _drop(session: Session, schema_id: int) -> None:
    end(session, ducklake_schema, schema_id=schema_id)
    end(session, ducklake_tag, object_id=schema_id)
    session.transaction.numbering.note_change(f"dropped_schema:{schema_id}")
    session.transaction.numbering.note_definition()


# --- definition views -------------------------------------------------------------------------------------------------


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
        begin(
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
        numbering.note_change(f"created_view:{quoted(schema.schema_name)}.{quoted(name)}")
        numbering.note_definition()
    elif (now.sql, now.view_name, now.schema_id) != (sql, name, schema.schema_id):
        values = {"sql": sql, "view_name": name, "schema_id": schema.schema_id}
        change(session, ducklake_view, now, {"view_id": now.view_id}, **values)
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
        leaf_row = store.one(session, tables.pg_class, oid=leaf)
        if leaf_row is not None and leaf_row.relkind == "r" and leaf_row.table_id is not None:
            parts.append(_leaf(session, leaf_row, columns))
    if parts:
        return " UNION ALL ".join(parts)
    nothing = [f"CAST(NULL AS {kind}) AS {quoted(name)}" for _attname, name, kind in columns]
    return f"SELECT {', '.join(nothing)} WHERE false"


def _columns(session: Session, oid: int) -> list[tuple[str, str, str]]:
    """Each column's name, its name in DuckLake, and its type as DuckDB spells it."""
    rows = store.rows(session, tables.pg_attribute, attrelid=oid)
    attributes = [a for a in rows if not a.attisdropped and a.attgenerated != "v"]
    attributes.sort(key=lambda a: a.attnum)
    taken: set[str] = set()
    columns = []
    for attribute in attributes:
        name = free(attribute.attname, taken)
        taken.add(lower(name))
        typmod = -1 if attribute.atttypmod is None else attribute.atttypmod
        kind = column_type(session.type_of(attribute.atttypid), typmod, attribute.attndims or 0)
        columns.append((attribute.attname, name, kind.duckdb))
    return columns


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
        listed.append(quoted(own) + ("" if own == name else f" AS {quoted(name)}"))
    place = f"{{DUCKLAKE_CATALOG}}.{quoted(schema.schema_name)}.{quoted(table.table_name)}"
    return f"SELECT {', '.join(listed)} FROM {place}"
