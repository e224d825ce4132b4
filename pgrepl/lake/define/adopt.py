"""Definitions of other writers of the lake, found by comparing DuckLake's definitions with the system tables; and the
upgrade from DuckLake 1.0 to 1.1, on request only.

`differences` lists what the system tables lack, each with its snapshot; statements/upkeep/adoption.py changes them as
of that.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session.context import refuse_in_recovery
from pgrepl.catalog.store import store, tables
from pgrepl.catalog.store.ducklake import NEW_COLUMNS, NEW_TABLE, VERSIONS
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake import sql
from pgrepl.lake.define.columns import NO_DEFAULT, Constant, column_names, default_of, may_be_null
from pgrepl.lake.define.definition import taken_names
from pgrepl.lake.define.options import has_1_1, option, set_option
from pgrepl.lake.define.types import MAIN, ColumnType, column_type, fits, is_variant, lower, place_of
from pgrepl.lake.table import LakeField
from pgrepl.types.lake.forms import is_row_type
from pgrepl.types.lake.structs import NO_COLUMNS
from pgrepl.types.oids import FIRST_USER_OID

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


@frozen
class ForeignColumn:
    """A column that another writer has made or changed."""

    column_id: int
    name: str
    type: str
    fields: tuple[LakeField, ...]
    nulls_allowed: bool
    default: str | None  # the text of a literal
    expression: str | None  # or a default in DuckDB's SQL
    initial_default: str | None


@frozen
class SchemaMade:
    snapshot: int
    schema_id: int
    database: str
    name: str


@frozen
class SchemaGone:
    snapshot: int
    database: int
    oid: int


@frozen
class TableMade:
    snapshot: int
    table_id: int
    schema_id: int
    name: str
    columns: tuple[ForeignColumn, ...]


@frozen
class TableGone:
    snapshot: int
    oid: int


@frozen
class TableMoved:
    """A table that has another name, or is in another schema."""

    snapshot: int
    oid: int
    schema_id: int
    name: str


@frozen
class ColumnMade:
    snapshot: int
    oid: int
    column: ForeignColumn


@frozen
class ColumnGone:
    snapshot: int
    oid: int
    attnum: int


@frozen
class ColumnChanged:
    """A column with another name, type or default, or that has or has not NOT NULL now."""

    snapshot: int
    oid: int
    attnum: int
    column: ForeignColumn
    renamed: bool
    retyped: bool
    other_default: bool


Difference = SchemaMade | TableGone | ColumnGone | TableMoved | TableMade | ColumnChanged | ColumnMade | SchemaGone
# the order of differences of one snapshot, so that names are free when they are needed
_ORDER = (SchemaMade, TableGone, ColumnGone, TableMoved, TableMade, ColumnChanged, ColumnMade, SchemaGone)


class _Lake:
    """DuckLake's definitions as they are now, and the ends of dropped ones."""

    def __init__(self, session: Session) -> None:
        link = session.link
        inside = {row[0] for row in link.execute(sql.IN_OTHER_SCHEMAS)} if has_1_1(session) else set()
        self.schemas = {row[0]: row[1:] for row in link.execute(sql.SCHEMAS) if row[0] not in inside}
        self.tables = {row[0]: row[1:] for row in link.execute(sql.TABLES) if row[2] not in inside}
        self.columns: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for row in link.execute(sql.COLUMNS):
            self.columns[row[0]].append(row[1:])
        self._session = session

    def ended(self, table: str, **key: int) -> int:
        """The snapshot at which a row ended; the newest snapshot, if the row is not remembered."""
        snapshot = self._session.link.execute(sql.ended(table, *key), tuple(key.values()))[0][0]
        return int(snapshot) if snapshot is not None else self._session.transaction.numbering.committed_snapshot()

    def fields_changed(self, table_id: int, column: ForeignColumn, known: int) -> int:
        """The snapshot behind `known` at which a field inside a column began or ended last."""
        rows = {row[0]: row for row in self.columns[table_id]}
        inside = _inside(column.fields)
        begun = max([rows[number][8] for number in inside], default=0)
        if begun > known:
            return int(begun)
        ends = [self.ended("ducklake_column", table_id=table_id, parent_column=n) for n in (column.column_id, *inside)]
        return max([end for end in ends if end > known], default=known)

    def foreign_columns(self, table_id: int) -> list[tuple[int, ForeignColumn]]:
        """The columns in their order, each with the snapshot at which its present version began."""
        rows = self.columns[table_id]
        return [(row[8], _foreign(row, rows)) for row in rows if row[7] is None]


def _inside(fields: tuple[LakeField, ...]) -> list[int]:
    return [number for field in fields for number in (field.column_id, *_inside(field.fields))]


def _foreign(row: tuple[Any, ...], rows: list[tuple[Any, ...]]) -> ForeignColumn:
    column_id, name, kind, nulls_allowed, default, default_type, initial, _parent, _begin = row
    literal = default if default_type == "literal" and default != NO_DEFAULT else None
    expression = default if default_type == "expression" else None
    fields = _fields(rows, column_id)
    return ForeignColumn(column_id, name, kind, fields, bool(nulls_allowed), literal, expression, initial)


def _fields(rows: list[tuple[Any, ...]], parent: int) -> tuple[LakeField, ...]:
    return tuple([LakeField(row[0], row[1], row[2], _fields(rows, row[0])) for row in rows if row[7] == parent])


def differences(session: Session, constant: Constant) -> list[Difference]:
    """The differences of the system tables, in the order of their snapshots."""
    lake = _Lake(session)
    relations = {
        row.table_id: row
        for row in store.rows(session, tables.pg_class, table_id=store.NOT_NULL)
        if row.relkind in ("r", "m") and row.table_id is not None
    }
    differing = [
        *_schemas(session, lake),
        *_tables(session, lake, relations),
        *_columns(session, lake, relations, constant),
    ]
    differing.sort(key=lambda difference: (difference.snapshot, _ORDER.index(type(difference))))
    return differing


def _schemas(session: Session, lake: _Lake) -> list[Difference]:
    found_there = store.rows(session, tables.pg_namespace, schema_id=store.NOT_NULL)
    known = {row.schema_id: row for row in found_there if row.schema_id is not None}
    used = {schema_id for _name, schema_id, _begin in lake.tables.values()}
    databases = {row.datname for row in store.rows(session, tables.pg_database)}
    schemas: list[Difference] = []
    for schema_id, (name, begin) in lake.schemas.items():
        if schema_id not in known and (name != MAIN or schema_id in used):
            schemas.append(SchemaMade(begin, schema_id, *place_of(name, databases)))
    for schema_id, row in known.items():
        if schema_id not in lake.schemas:
            schemas.append(SchemaGone(lake.ended("ducklake_schema", schema_id=schema_id), row.datid, row.oid))
    return schemas


def _tables(session: Session, lake: _Lake, relations: dict[int, tables.pg_class]) -> list[Difference]:
    differing: list[Difference] = []
    places = {
        row.schema_id: (row.datid, row.oid)
        for row in store.rows(session, tables.pg_namespace, schema_id=store.NOT_NULL)
    }
    for table_id, (name, schema_id, begin) in lake.tables.items():
        row = relations.get(table_id)
        if row is None:
            columns = [column for _begin, column in lake.foreign_columns(table_id)]
            differing.append(TableMade(begin, table_id, schema_id, name, tuple(columns)))
        elif begin > row.begin_snapshot and (
            places.get(schema_id) != (row.datid, row.relnamespace)
            or (name != row.relname and not _is_stand_in(session, name, row.relname, schema_id, table_id))
        ):
            differing.append(TableMoved(begin, row.oid, schema_id, name))
    for table_id, row in relations.items():
        if table_id not in lake.tables:
            differing.append(TableGone(lake.ended("ducklake_table", table_id=table_id), row.oid))
    return differing


def _is_stand_in(session: Session, name: str, own: str, schema_id: int, table_id: int) -> bool:
    """Has the table this name because its own is taken?"""
    return is_variant(name, own) and lower(own) in taken_names(session, schema_id, own, table_id)


def _columns(
    session: Session, lake: _Lake, relations: dict[int, tables.pg_class], constant: Constant
) -> list[Difference]:
    attributes: dict[int, list[tables.pg_attribute]] = defaultdict(list)
    for stored in store.rows(session, tables.pg_attribute, column_id=store.NOT_NULL):
        if not stored.attisdropped:
            attributes[stored.attrelid].append(stored)
    differing: list[Difference] = []
    for table_id, row in relations.items():
        if table_id not in lake.tables:
            continue
        known = {a.column_id: a for a in attributes[row.oid]}
        there = session.in_database(row.datid)
        columns = lake.foreign_columns(table_id)
        expected = column_names(attributes[row.oid], {c.column_id: c.name for _begin, c in columns})
        for begin, column in columns:
            attribute = known.get(column.column_id)
            if attribute is None:
                if column.name != NO_COLUMNS or known:
                    differing.append(ColumnMade(begin, row.oid, column))
                continue
            kept = column.type not in ("struct", "list") or _has_attributes(there, attribute, column)
            if not kept:
                begin = max(begin, lake.fields_changed(table_id, column, attribute.begin_snapshot))
            if begin <= attribute.begin_snapshot:
                continue
            changed = _changed(there, attribute, expected[attribute.attnum], begin, column, constant, kept=kept)
            if changed is not None:
                differing.append(changed)
        ids = {column.column_id for _begin, column in columns}
        for column_id, gone in known.items():
            if column_id is not None and column_id not in ids:
                ended = lake.ended("ducklake_column", table_id=table_id, column_id=column_id)
                differing.append(ColumnGone(ended, row.oid, gone.attnum))
    return differing


def _has_attributes(session: Session, attribute: tables.pg_attribute, column: ForeignColumn) -> bool:
    """Has a struct, or a list of such, the fields of its composite type's attributes? True: it has another type."""
    if attribute.atttypid < FIRST_USER_OID:
        return True
    typmod = -1 if attribute.atttypmod is None else attribute.atttypmod
    typoid = session.type_of(attribute.atttypid)
    if not is_row_type(typoid):
        return True
    return _as_type(column) == column_type(typoid, typmod).without_places()


def _as_type(field: ForeignColumn | LakeField) -> ColumnType:
    return ColumnType(field.type, tuple([(inside.name, _as_type(inside)) for inside in field.fields]))


def _changed(
    session: Session,
    attribute: tables.pg_attribute,
    expected: str,
    begin: int,
    column: ForeignColumn,
    constant: Constant,
    *,
    kept: bool,
) -> ColumnChanged | None:
    """`kept`: the fields inside are those of the type."""
    typmod = -1 if attribute.atttypmod is None else attribute.atttypmod
    renamed = column.name != expected
    retyped = not kept or not fits(column.type, session.type_of(attribute.atttypid), typmod)
    nullable = column.nulls_allowed != may_be_null(session, attribute)
    ours = default_of(session, attribute, typmod, constant)
    other_default = column.expression is not None or (NO_DEFAULT if column.default is None else column.default) != ours
    if not (renamed or retyped or nullable or other_default):
        return None
    return ColumnChanged(begin, attribute.attrelid, attribute.attnum, column, renamed, retyped, other_default)


NEWEST = VERSIONS[-1]


def upgrade(session: Session) -> bool:
    """Upgrade the catalog in the running write transaction. False: it has DuckLake 1.1 already."""
    refuse_in_recovery(session, "an upgrade of DuckLake")
    session.transaction.require_write()
    session.forget_all()
    version = option(session, -1, "version")
    if version == NEWEST:
        return False
    if version not in VERSIONS:
        raise PgError("0A000", f"cannot upgrade DuckLake {version} to {NEWEST}")
    link = session.link
    for name, _ in link.execute(sql.EVERY_INLINED_TABLE):
        for column in sql.OWN_COLUMNS:
            link.execute(sql.rename_inlined_column(name, column))
    for table, columns in NEW_COLUMNS.items():
        for column in columns:
            link.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    link.execute(NEW_TABLE)
    set_option(session, "version", NEWEST)
    return True
