"""Tables at a snapshot: the folder of their files, and their columns with field ids.

Parts of kernels bring tables to Spark's executors, so that the catalog is imported only when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.user_types import ObjectNames, row_type, types_labelled_as
from pgrepl.catalog.store import store, tables
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake import sql
from pgrepl.lake.define.options import DEFAULT_COMPRESSION, compression, inlined_prefix, vectors
from pgrepl.types.builtin import base_type, element_type
from pgrepl.types.lake.forms import form, is_row_type, row_type_in
from pgrepl.types.oids import FIRST_USER_OID
from pgrepl.types.style import TextStyle
from pgrepl.types.text import read_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.files import DataFolder
    from pgrepl.lake.define.types import ColumnType
    from pgrepl.types.lake.arrays import Form
    from pgrepl.types.style import RowType
    from pgrepl.types.user_types import UserTypes


@frozen
class LakeField:
    """A nested field of a column: the element of a list, a field of a struct, a map's key or value."""

    column_id: int
    name: str
    type: str  # DuckLake's
    fields: tuple[LakeField, ...] = ()
    place: int | None = None  # of an attribute of a composite type: its index among all that the type ever had

    @property
    def kept_alike(self) -> LakeField:
        return LakeField(0, self.name, self.type, tuple([field.kept_alike for field in self.fields]), self.place)


@frozen
class LakeColumn:
    """A column of a table at a snapshot."""

    attnum: int
    name: str  # in DuckLake, and so in files and inlined tables; PostgreSQL's may differ
    column_id: int  # the field id in Parquet files
    typoid: int
    typmod: int
    type: str  # DuckLake's
    fields: tuple[LakeField, ...] = ()
    initial_default: str | None = None  # DuckLake's text of the value of rows that are older than the column
    missing: Any = None  # that value in Python
    row: RowType | None = None  # of a column of a named row type, or of arrays of such

    @property
    def has_dimensions(self) -> bool:
        """Whether it is a column of arrays that are kept as text, because lists have one dimension."""
        return self.type == "varchar" and bool(element_type(base_type(self.typoid)))

    @property
    def kept_alike(self) -> LakeColumn:
        """What all columns have in common that keep their values alike, in whatever table."""
        fields = tuple([field.kept_alike for field in self.fields])
        return LakeColumn(0, "", 0, self.typoid, self.typmod, self.type, fields, row=self.row)

    @property
    def form(self) -> Form:
        """The form of stored values: that of PostgreSQL's type, or that of another writer's column."""
        if self.row is not None:
            from pgrepl.types.lake.structs import kept_form

            return kept_form(self.typoid, self.typmod, self.row, self.type, self.fields)

        own = form(self.typoid, self.typmod)
        if own.lake == self.type and own.element is None:
            return own
        from pgrepl.types.lake.structs import stored_form

        return stored_form(self.type, self.fields, self.typoid, self.typmod)


@frozen
class LakeTable:
    """A table at a snapshot."""

    oid: int
    table_id: int
    name: str
    schema_version: int  # of its present definition: part of the name of a new inlined table
    location: str  # the folder of its files, absolute or a URI, with a slash at its end
    columns: tuple[LakeColumn, ...]  # in the order of DuckLake
    lake: DataFolder  # with its files
    compression: str = DEFAULT_COMPRESSION  # of new files
    vectors: int = 0  # the snapshots that a file of deletion vectors may tell apart; 0: delete files have positions

    @property
    def has_dimensions(self) -> bool:
        """Whether it has a column of arrays that are kept as text."""
        return any(column.has_dimensions for column in self.columns)

    def lake_row(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """A row by attribute number in the lake's order, without dropped columns."""
        return tuple([row[column.attnum - 1] for column in self.columns])

    def own_row(self, width: int, values: Sequence[Any]) -> tuple[Any, ...]:
        """Values in the lake's order as a row by attribute number of a relation with `width` attributes."""
        row: list[Any] = [None] * width
        for column, value in zip(self.columns, values, strict=True):
            row[column.attnum - 1] = value
        return tuple(row)

    def column(self, attnum: int) -> LakeColumn:
        for column in self.columns:
            if column.attnum == attnum:
                return column
        raise PgError("XX000", f"column {attnum} of relation with OID {self.oid} is not in the lake")


@frozen
class InlinedTable:
    """A table of inlined rows. Its columns are row_id, begin_snapshot, end_snapshot, then those that the table had when
    it was made."""

    name: str
    schema_version: int
    columns: tuple[LakeField, ...]
    prefix: str  # of the names of the first three, in DuckLake 1.1


def lake_table(session: Session, oid: int, snapshot: int | None = None, *, labels_then: bool = False) -> LakeTable:
    """The table as the running transaction sees it, or at a snapshot. `labels_then`: values of enums have the labels of
    that snapshot, as logical decoding sends them, not those of now."""
    session.transaction.require_read()
    if snapshot is None:
        snapshot = session.as_of
    elif session.as_of is None and session.transaction.has_definitions_of(snapshot):
        snapshot = None
    key = ("lake_table", oid, snapshot, labels_then)
    known: LakeTable | None = session.derived.get(key)
    if known is None:
        table = _current(session, oid) if snapshot is None else _past(session, oid, snapshot, labels_then=labels_then)
        if table is None:
            raise PgError("XX000", f"relation with OID {oid} is not in the lake")
        known = session.derived[key] = table
    return known


def _current(session: Session, oid: int) -> LakeTable | None:
    row = store.one(session, tables.pg_class, oid=oid)
    if row is None or row.table_id is None or row.relkind not in ("r", "m"):
        return None
    attributes = store.rows(session, tables.pg_attribute, attrelid=oid)
    table = _made(session, session, oid, row.table_id, attributes, ())
    if table is None:
        what = f'ducklake_table has no row of table "{row.relname}"'
        raise PgError("XX001", f'catalog "{session.catalog.name}" is damaged: {what}')
    return table


def _past(session: Session, oid: int, snapshot: int, *, labels_then: bool) -> LakeTable | None:
    then = session.at(snapshot)
    row = store.one(then, tables.pg_class, oid=oid)
    if row is None or row.table_id is None or row.relkind not in ("r", "m"):
        return None
    attributes = store.rows(then, tables.pg_attribute, attrelid=oid)
    has_types = any(a.atttypid >= FIRST_USER_OID for a in attributes)
    types = types_labelled_as(session, then) if labels_then and has_types else None
    return _made(session, then, oid, row.table_id, attributes, (snapshot, snapshot), types)


def _made(
    session: Session,
    then: Session,
    oid: int,
    table_id: int,
    attributes: list[tables.pg_attribute],
    at: tuple[int, ...],
    types: UserTypes | None = None,
) -> LakeTable | None:
    link = session.link
    rows = link.execute(sql.TABLE_THEN if at else sql.TABLE_NOW, (table_id, *at))
    if not rows:
        return None
    name, *paths = rows[0]
    version = link.execute(sql.SCHEMA_VERSION_THEN if at else sql.SCHEMA_VERSION_NOW, (table_id, *at[:1]))[0][0]
    here = session.transaction.numbering
    if not at and table_id in here.altered_tables:
        version = here.schema_version
    columns = _columns(session, then, table_id, attributes, at, types)
    location, lake = folder(session, *paths), session.catalog.folder
    return LakeTable(
        oid, table_id, name, int(version or 0), location, columns, lake, compression(session, table_id),
        vectors(session, table_id),
    )  # fmt: skip


def folder(session: Session, path: str, relative: bool, schema_path: str, schema_relative: bool) -> str:
    """The folder of a table's files, from its path and its schema's in the catalog."""
    if not relative:
        return path
    return (session.catalog.data_path if schema_relative else "") + schema_path + path


def table_folder(session: Session, table_id: int) -> str:
    """The folder of a table's files, also of a dropped table."""
    link = session.link
    rows = link.execute(sql.FOLDER, (table_id,))
    if not rows:
        what = f"ducklake_table or ducklake_schema has no row of table {table_id}"
        raise PgError("XX001", f'catalog "{session.catalog.name}" is damaged: {what}')
    return folder(session, *rows[0])


def _columns(
    session: Session,
    then: Session,
    table_id: int,
    attributes: list[tables.pg_attribute],
    at: tuple[int, ...],
    types: UserTypes | None,
) -> tuple[LakeColumn, ...]:
    """The columns. Values are of the types as they are now, or as `types` says, whose attributes are found by those of
    `then`."""
    rows = session.link.execute(sql.COLUMNS_THEN if at else sql.COLUMNS_NOW, (table_id, *at))
    from pgrepl.lake.define.types import column_type

    by_id = {a.column_id: a for a in attributes if a.column_id is not None and not a.attisdropped}
    columns = []
    for column_id, name, type_, parent, initial in rows:
        attribute = by_id.get(column_id)
        if parent is not None or attribute is None:
            continue
        typmod = -1 if attribute.atttypmod is None else attribute.atttypmod
        typoid = session.type_of(attribute.atttypid)
        typoid = typoid if types is None else types.type_of(typoid)
        missing = missing_value(session, attribute, typoid)
        fields = fields_of(rows, column_id)
        row = None
        if is_row_type(typoid):
            inside = row_type_in(typoid)
            row = row_type(session, inside) or row_type(then, inside)  # of a table that is gone
            row = row if row is None or types is None else types.in_row(row)
            fields = _with_places(fields, column_type(then.type_of(attribute.atttypid), typmod))
        columns.append(
            LakeColumn(attribute.attnum, name, column_id, typoid, typmod, type_, fields, initial, missing, row)
        )
    return tuple(columns)


def fields_of(rows: Sequence[tuple[Any, ...]], parent: int | None) -> tuple[LakeField, ...]:
    """The fields in a column, or for None the columns, of rows that begin with id, name, type and parent."""
    return tuple([LakeField(r[0], r[1], r[2], fields_of(rows, r[0])) for r in rows if r[3] == parent])


def _with_places(fields: tuple[LakeField, ...], kind: ColumnType) -> tuple[LakeField, ...]:
    """The fields with the places of a composite type's attributes, which have the names of `kind`."""
    known: dict[str, tuple[int | None, ColumnType]] = {}
    for (name, inner), place in zip(kind.fields, kind.places or repeat(None), strict=False):
        known[name] = place, inner
    return tuple(
        [
            replace(field, place=known[field.name][0], fields=_with_places(field.fields, known[field.name][1]))
            if field.name in known
            else field
            for field in fields
        ]
    )


def missing_value(session: Session, attribute: tables.pg_attribute, typoid: int | None = None) -> Any:
    """The value of a column (a row of pg_attribute) in rows that are older than it. `typoid`: its described type."""
    if not attribute.atthasmissing or attribute.attmissingval is None:
        return None
    style = TextStyle(lookup=ObjectNames(session), stored=True)
    typoid = session.type_of(attribute.atttypid) if typoid is None else typoid
    return read_text(attribute.attmissingval, typoid, attribute.atttypmod, style)


def inlined_tables(session: Session, table_id: int) -> tuple[InlinedTable, ...]:
    """The tables of inlined rows of a DuckLake table, oldest first."""
    session.transaction.require_read()
    key = ("inlined_tables", table_id)
    known: tuple[InlinedTable, ...] | None = session.derived.get(key)
    if known is None:
        known = session.derived[key] = _inlined_tables(session, table_id)
    return known


def _inlined_tables(session: Session, table_id: int) -> tuple[InlinedTable, ...]:
    link = session.link
    named = link.execute(sql.INLINED_TABLES, (table_id,))
    versions = []
    numbering = session.transaction.numbering
    for name, version, begin in named:
        at = begin
        if at is None or (table_id in numbering.altered_tables and version == numbering.schema_version):
            at = numbering.last_snapshot()  # the running statement's
        columns = link.execute(sql.COLUMNS_OF_INLINED, (table_id, at, at))
        versions.append(InlinedTable(name, version, fields_of(columns, None), inlined_prefix(session)))
    return tuple(versions)
