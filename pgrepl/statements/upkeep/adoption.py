"""Adopts what other writers have defined in the lake: schemas, tables and columns, as of the snapshot that defined
them.

They belong to the database's owner. A partition or child whose columns differ from its parent's becomes a table of its
own. Objects that depend on a dropped one are dropped with it, without a notice. A name that exists already gets a
number; a long one is cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import relation_parts
from pgrepl.catalog.facts.depend import forget_dependencies
from pgrepl.catalog.facts.relation import oid_in_schema, relation
from pgrepl.catalog.store import store, tables
from pgrepl.catalog.store.system import (
    BOOTSTRAP_SUPERUSER,
    PG_CLASS,
    PG_NAMESPACE,
    PG_TYPE,
    PUBLIC_NAMESPACE,
    ObjectAddress,
)
from pgrepl.expr.tree import Const, Expr
from pgrepl.ground.errors import PgError
from pgrepl.lake.define import adopt
from pgrepl.lake.define.adopt import ForeignColumn
from pgrepl.lake.define.types import foreign_type
from pgrepl.sql.parser import parse_expression
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.dependencies import record_column_dependencies
from pgrepl.statements.table.alter.partition import detach, remove_inheritance
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, NewColumn, attribute_values, column_of_type, finish
from pgrepl.statements.table.heap import cook_default, create_relation, remove_default, store_default
from pgrepl.statements.table.names import HEAP, NAMEDATALEN, clip, make_object_name
from pgrepl.statements.table.relations import move_relation, rename_relation
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.lake.forms import form
from pgrepl.types.lake.lists import element_value
from pgrepl.types.oids import FIRST_USER_OID
from pgrepl.types.style import STORED_STYLE
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.define.columns import Constant


def adopt_all(session: Session, constant: Constant) -> None:
    """Adopt everything that the system tables lack. Partitioned tables whose partitions were changed are redefined in
    the lake."""
    numbering = session.transaction.numbering
    above: set[int] = set()
    for difference in adopt.differences(session, constant):
        oid = getattr(difference, "oid", 0)
        above.update(relation_parts.partition_ancestors(session, oid))
        with numbering.adopting(difference.snapshot):
            _make_up(difference, session)
    numbering.definition_changes.relations.update(dict.fromkeys(above))


@singledispatch
def _make_up(difference: adopt.Difference, session: Session) -> None:
    raise TypeError(difference)


def _in_database(session: Session, database: int) -> Session:
    return session if session.database_oid == database else session.elsewhere(database, BOOTSTRAP_SUPERUSER)


def _of_relation(session: Session, oid: int) -> Session:
    row = store.one(session, tables.pg_class, oid=oid)
    assert row is not None
    return _in_database(session, row.datid)


# --- schemas ----------------------------------------------------------------------------------------------------------


@_make_up.register(adopt.SchemaMade)
def _schema_made(schema: adopt.SchemaMade, session: Session) -> None:
    database = store.one(session, tables.pg_database, datname=schema.database)
    assert database is not None
    name = clip(schema.name, NAMEDATALEN - 1)
    existing = store.one(session, tables.pg_namespace, datid=database.oid, nspname=name)
    if existing is not None and existing.schema_id is None and existing.oid == PUBLIC_NAMESPACE:
        where = {"datid": database.oid, "oid": existing.oid}
        store.amend(session, tables.pg_namespace, where, schema_id=schema.schema_id)
        return
    taken = {row.nspname for row in store.rows(session, tables.pg_namespace, datid=database.oid)}
    store.insert(
        session,
        tables.pg_namespace,
        datid=database.oid,
        oid=store.new_oid(session),
        nspname=_unused(schema.name, taken.__contains__),
        nspowner=database.datdba,
        nspacl=None,
        schema_id=schema.schema_id,
    )


@_make_up.register(adopt.SchemaGone)
def _schema_gone(gone: adopt.SchemaGone, session: Session) -> None:
    if gone.oid == PUBLIC_NAMESPACE:  # DuckLake gets it back with the next table in it
        store.amend(session, tables.pg_namespace, {"datid": gone.database, "oid": gone.oid}, schema_id=None)
        return
    there = _in_database(session, gone.database)
    drop_objects(there, [ObjectAddress(PG_NAMESPACE, gone.oid)], cascade=True, quietly=True)


def _namespace(session: Session, schema_id: int) -> tables.pg_namespace:
    row = store.one(session, tables.pg_namespace, schema_id=schema_id)
    assert row is not None
    return row


# --- tables -----------------------------------------------------------------------------------------------------------


@_make_up.register(adopt.TableMade)
def _table_made(table: adopt.TableMade, session: Session) -> None:
    namespace = _namespace(session, table.schema_id)
    there = _in_database(session, namespace.datid)
    database = store.one(there, tables.pg_database, oid=namespace.datid)
    assert database is not None
    columns: list[NewColumn] = []
    for column in table.columns:
        columns.append(_column(column, {c.name for c in columns}))
    finish(there, columns)
    oid = create_relation(
        there,
        _free_relation_name(there, namespace.oid, table.name),
        namespace.oid,
        "r",
        columns,
        owner=database.datdba,
        access_method=HEAP,
    )
    store.amend(there, tables.pg_class, {"oid": oid}, table_id=table.table_id)
    for number, column in enumerate(table.columns, 1):
        _connect(there, oid, number, column)


@_make_up.register(adopt.TableGone)
def _table_gone(gone: adopt.TableGone, session: Session) -> None:
    if store.one(session, tables.pg_class, oid=gone.oid) is not None:  # it may have gone with another
        there = _of_relation(session, gone.oid)
        drop_objects(there, [ObjectAddress(PG_CLASS, gone.oid)], cascade=True, quietly=True)


@_make_up.register(adopt.TableMoved)
def _table_moved(moved: adopt.TableMoved, session: Session) -> None:
    there = _of_relation(session, moved.oid)
    rel = relation(there, moved.oid)
    namespace = _namespace(session, moved.schema_id)
    if namespace.oid != rel.namespace and namespace.datid == there.database_oid:
        move_relation(there, rel, namespace.oid)
        rel = relation(there, moved.oid)
    if rel.name != moved.name:
        rename_relation(there, rel, _free_relation_name(there, rel.namespace, moved.name))


def _free_relation_name(session: Session, namespace: int, name: str) -> str:
    return _unused(name, lambda wanted: oid_in_schema(session, namespace, wanted) is not None)


# --- columns ----------------------------------------------------------------------------------------------------------


@_make_up.register(adopt.ColumnMade)
def _column_made(added: adopt.ColumnMade, session: Session) -> None:
    there = _of_relation(session, added.oid)
    if relation(there, added.oid).is_partition:
        _leave_parents(there, added.oid)
    _leave_children(there, added.oid)
    rel = relation(there, added.oid)
    column = _column(added.column, {c.name for c in rel.columns})
    finish(there, [column])
    number = len(rel.attributes) + 1
    store.insert(there, tables.pg_attribute, **attribute_values(added.oid, number, column))
    store.update(there, tables.pg_class, {"oid": added.oid}, relnatts=number)
    record_column_dependencies(there, added.oid, [(number, column.type, column.collation)])
    _connect(there, added.oid, number, added.column)


@_make_up.register(adopt.ColumnGone)
def _column_gone(gone: adopt.ColumnGone, session: Session) -> None:
    row = store.one(session, tables.pg_attribute, attrelid=gone.oid, attnum=gone.attnum)
    if row is not None and not row.attisdropped:
        there = _of_relation(session, gone.oid)
        if row.attinhcount:
            _leave_parents(there, gone.oid)
        _leave_children(there, gone.oid)
        drop_objects(there, [ObjectAddress(PG_CLASS, gone.oid, gone.attnum)], cascade=True, quietly=True)


@_make_up.register(adopt.ColumnChanged)
def _column_changed(changed: adopt.ColumnChanged, session: Session) -> None:
    there = _of_relation(session, changed.oid)
    if changed.renamed or changed.retyped:
        if relation(there, changed.oid).attributes[changed.attnum - 1].inhcount:
            _leave_parents(there, changed.oid)
        _leave_children(there, changed.oid)
    rel = relation(there, changed.oid)
    attribute = rel.attribute_by_number(changed.attnum)
    assert attribute is not None
    column = changed.column
    values: dict[str, Any] = {"attnotnull": not column.nulls_allowed or _is_key(there, changed.oid, changed.attnum)}
    if changed.renamed:
        others = {c.name for c in rel.columns if c.num != changed.attnum}
        values["attname"] = _unused(column.name, others.__contains__)
    if changed.retyped:
        retyped = _column(column, ())
        finish(there, [retyped])
        if attribute.type >= FIRST_USER_OID:
            forget_dependencies(there, ObjectAddress(PG_CLASS, changed.oid, changed.attnum), refclassid=PG_TYPE)
            if attribute.has_default and not attribute.generated:
                remove_default(there, changed.oid, changed.attnum)
                attribute = relation(there, changed.oid).attributes[changed.attnum - 1]
        values |= {
            "atttypid": retyped.type, "atttypmod": retyped.typmod, "attcollation": retyped.collation,
            "attstorage": retyped.storage, "attndims": retyped.ndims,
        }  # fmt: skip
    where = {"attrelid": changed.oid, "attnum": changed.attnum}
    store.update(there, tables.pg_attribute, where, **values)
    if changed.other_default and not attribute.generated:
        if attribute.has_default:
            remove_default(there, changed.oid, changed.attnum)
        _store_default(there, changed.oid, changed.attnum, column)


def _leave_parents(session: Session, oid: int) -> None:
    """Detach a table from its parents: the other writer has changed its columns, but not theirs."""
    for parent in relation_parts.parents(session, oid):
        above = relation(session, parent)
        if above.kind == "p":
            detach(session, above, relation(session, oid))
        else:
            remove_inheritance(session, relation(session, oid), above)


def _leave_children(session: Session, oid: int) -> None:
    for child in relation_parts.children(session, oid):
        _leave_parents(session, child)


def _is_key(session: Session, oid: int, attnum: int) -> bool:
    """Whether the column belongs to a primary key, which DuckLake does not know and which stays NOT NULL."""
    return any(attnum in row.conkey for row in store.rows(session, tables.pg_constraint, conrelid=oid, contype="p"))


def _column(column: ForeignColumn, taken: Collection[str]) -> NewColumn:
    type_, typmod = foreign_type(column.type, column.fields)
    known = type_by_oid(type_)
    assert known is not None
    name = _unused(column.name, {*taken, *SYSTEM_COLUMNS}.__contains__)
    ndims = 1 if known.category == "A" else 0
    return column_of_type(name, type_, typmod, known.collation, ndims=ndims, not_null=not column.nulls_allowed)


def _connect(session: Session, oid: int, number: int, column: ForeignColumn) -> None:
    """Store the column's id, its default, and its value in older rows."""
    where = {"attrelid": oid, "attnum": number}
    store.amend(session, tables.pg_attribute, where, column_id=column.column_id)
    _store_default(session, oid, number, column)
    type_, typmod = foreign_type(column.type, column.fields)
    missing = _value(column.initial_default, type_, typmod)
    if missing is not None:
        text = write_text(missing, type_, STORED_STYLE)
        store.update(session, tables.pg_attribute, where, atthasmissing=True, attmissingval=text)


def _store_default(session: Session, oid: int, number: int, column: ForeignColumn) -> None:
    type_, typmod = foreign_type(column.type, column.fields)
    expr: Expr | None = None
    value = _value(column.default, type_, typmod)
    if value is not None:
        known = type_by_oid(type_)
        expr = Const(type_, typmod=typmod, collation=0 if known is None else known.collation, value=value)
    elif column.expression is not None:
        expr = _expression(session, oid, column, type_, typmod)
    if expr is not None:
        store_default(session, oid, number, expr, "")


_QUOTED_TYPE = re.compile(r'AS "([A-Z]+)"\)')


def _expression(session: Session, oid: int, column: ForeignColumn, type_: int, typmod: int) -> Expr | None:
    """A default in DuckDB's SQL, if it means the same in PostgreSQL's."""
    assert column.expression is not None
    text = _QUOTED_TYPE.sub(lambda match: f"AS {match[1].lower()})", column.expression)
    try:
        return cook_default(session, relation(session, oid), parse_expression(text), column.name, type_, typmod, "")
    except PgError:
        return None


def _value(text: str | None, type_: int, typmod: int) -> Any:
    """The value that DuckDB's text stands for; None if the type does not accept it."""
    if text is None:
        return None
    try:
        return element_value(form(type_, typmod), text)
    except (PgError, ValueError, ArithmeticError):
        return None


def _unused(name: str, taken: Callable[[str], bool]) -> str:
    """The name in NAMEDATALEN - 1 bytes, with a number if it is taken."""
    wanted = clip(name, NAMEDATALEN - 1)
    number = 0
    while taken(wanted):
        number += 1
        wanted = make_object_name(name, None, str(number))
    return wanted
