"""The tables that a lake publishes, as it defines them: for subscriptions with schema_changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.indexes import indexes, primary_key
from pgrepl.catalog.inheritance import inheritors, parents, partition_root
from pgrepl.catalog.namespace import QUALIFIED
from pgrepl.catalog.publication import publications as known_publications
from pgrepl.catalog.publication import published_tables
from pgrepl.catalog.relation import Attribute, Relation, find_relation, relation, relation_or_none
from pgrepl.errors import PgError
from pgrepl.expr.context import Context
from pgrepl.expr.defaults import column_default
from pgrepl.expr.definitions import partition_bound_text, partition_key_definition
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.walk import is_volatile
from pgrepl.lake import sql
from pgrepl.replication.publisher.definition import RemoteAttribute, RemoteColumn, RemoteDefinition, RemoteType
from pgrepl.replication.publisher.lake.copy_plan import published_plan
from pgrepl.replication.publisher.lake.types import is_made, needed, type_name
from pgrepl.sql.nodes.expr import RangeVar
from pgrepl.types.style import STORED_STYLE
from pgrepl.types.text import read_text, write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def attributes(session: Session, relid: int) -> tuple[RemoteAttribute, ...]:
    """All columns of a table, dropped ones included; empty: there is no such table."""
    found = relation_or_none(session, relid)
    with session.settings.during(QUALIFIED):
        return () if found is None else tuple([_attribute(session, each) for each in found.attributes])


def _attribute(session: Session, column: Attribute) -> RemoteAttribute:
    here, _, types = ("", None, ()) if column.dropped else _taken(session, column)
    return RemoteAttribute(
        column.num, column.name, column.type, column.typmod, here, column.dropped, column.missing, types
    )


def _taken(session: Session, column: Attribute) -> tuple[str, str | None, tuple[RemoteType, ...]]:
    """The name of the type that is taken for a column, why if it is another, and what has to be made for it."""
    if is_made(column.type, column.typmod):
        return type_name(session, column.type, column.typmod), None, needed(session, column.type)
    return "text", "its type is not here: its values as text", ()


def older_value(session: Session, relid: int, attnum: int, lsn: int) -> str | None:
    """The value of a column in rows that are older than it, if they have been rewritten since: the first that it had,
    or the constant default that it was added with."""
    now = relation_or_none(session.at(lsn), relid)
    if now is None:
        return None
    begun = [row[0] for row in session.link.execute(sql.ATTRIBUTE_VERSIONS, (relid, attnum, lsn))]
    for snapshot in begun:
        then = relation_or_none(session.at(snapshot), relid)
        column = None if then is None else then.attribute_by_number(attnum)
        if column is None or column.missing is None:
            continue
        typed = now.attributes[attnum - 1]
        try:
            read_text(column.missing, typed.type, typed.typmod, session.text_style)
        except PgError:
            return None
        return str(column.missing)
    return _first_default(session.at(begun[0]), relid, attnum) if begun else None


def _first_default(session: Session, relid: int, attnum: int) -> str | None:
    found = relation_or_none(session, relid)
    column = None if found is None else found.attribute_by_number(attnum)
    if found is None or column is None:
        return None
    expr = column_default(session, found, column)
    if expr is None or is_volatile(expr):
        return None
    try:
        value = evaluate(expr, (), Context(session))
    except PgError:
        return None
    return None if value is None else write_text(value, column.type, STORED_STYLE)


def definitions(session: Session, schema: str, name: str, publications: Sequence[str]) -> list[RemoteDefinition]:
    """The tables to make for a published one: itself, with its partitions if rows are published by them; none: it is
    not published."""
    there = [row.pubname for row in known_publications(session) if row.pubname in publications]
    listed = {table.relid for table in published_tables(session, there)}
    found = find_relation(session, RangeVar(name, schema), missing_ok=True)
    if found is None or found.oid not in listed:
        return []
    with session.settings.during(QUALIFIED):
        return list(_tree(session, found, listed, there))


def _tree(session: Session, table: Relation, listed: set[int], names: Sequence[str]) -> Iterator[RemoteDefinition]:
    """A table by itself; or a partitioned one with all of its partitions, also if its leaves are published instead."""
    root = partition_root(session, table)
    members = [relation(session, oid) for oid in inheritors(session, root.oid)] if root.kind == "p" else []
    leaves = {each.oid for each in members if each.kind != "p"}
    if not members or not (root.oid == table.oid or leaves <= listed):
        yield _definition(session, table, None, names)
        return
    for member in members:
        parent = None if member.oid == root.oid else relation(session, parents(session, member.oid)[0])
        yield _definition(session, member, parent, names)


def _definition(session: Session, table: Relation, parent: Relation | None, names: Sequence[str]) -> RemoteDefinition:
    taken = published_plan(session, table.schema, table.name, names).columns
    columns = tuple([_column(session, each) for each in table.columns if each.num in taken])
    known = {each.name for each in columns}
    key = _index_columns(table, primary_key(session, table))
    chosen = next((row for row in indexes(session, table.oid) if row.indisreplident), None)
    identity = _index_columns(table, chosen)
    return RemoteDefinition(
        table.oid,
        table.schema,
        table.name,
        columns,
        key if set(key) <= known else (),
        table.replident,
        identity if set(identity) <= known and identity != key else (),
        relation(session, chosen.indexrelid).name if chosen is not None else "",
        partition_key_definition(session, table.oid) if table.kind == "p" else None,
        None if parent is None else (parent.schema, parent.name),
        partition_bound_text(session, table.oid) if parent is not None else None,
    )


def _column(session: Session, column: Attribute) -> RemoteColumn:
    here, comment, types = _taken(session, column)
    return RemoteColumn(column.num, column.name, column.type, column.typmod, here, column.notnull, comment, types)


def _index_columns(table: Relation, index: tables.pg_index | None) -> tuple[str, ...]:
    numbers = () if index is None else index.indkey[: index.indnkeyatts]
    return tuple([table.attributes[number - 1].name for number in numbers])
