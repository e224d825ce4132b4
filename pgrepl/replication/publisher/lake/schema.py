"""The tables and types that a lake publishes as statements that make them at a subscriber, for schema_changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.depend import dependencies_of
from pgrepl.catalog.facts.namespace import QUALIFIED, schema_name
from pgrepl.catalog.facts.objects import describe_object
from pgrepl.catalog.facts.publication import publications as known_publications
from pgrepl.catalog.facts.publication import published_tables
from pgrepl.catalog.facts.relation import Attribute, Relation, find_relation, relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import indexes, inheritors, key_names, parents, partition_root, primary_key
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import (
    PG_CLASS,
    PG_COLLATION,
    PG_CONSTRAINT,
    PG_OPERATOR,
    PG_PROC,
    PG_TYPE,
    ObjectAddress,
)
from pgrepl.catalog.store.tables import pg_constraint, pg_index, pg_type
from pgrepl.expr.analyse import lookup
from pgrepl.expr.catalog_trees import column_default, default_text
from pgrepl.expr.evaluate.evaluate import evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.print.definitions import (
    add_check,
    attribute_definitions,
    checks_of,
    create_domain,
    create_type,
    default_of_domain,
    partition_bound_text,
    partition_key_definition,
    type_definition_name,
    types_in_order,
)
from pgrepl.expr.walk import is_volatile
from pgrepl.ground.errors import PgError
from pgrepl.lake import sql
from pgrepl.replication.publisher.lake.copy import published_plan
from pgrepl.replication.publisher.tables import RemoteAttribute, RemoteColumn, RemoteDefinition, RemoteType, is_here
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes.expr import RangeVar
from pgrepl.types.names import format_type
from pgrepl.types.style import STORED_STYLE
from pgrepl.types.text import read_text, write_text
from pgrepl.types.user_types import UserType

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def is_made(typoid: int, typmod: int) -> bool:
    """Can a column of a subscriber have the type: is it there, or can it be made?"""
    if not isinstance(typoid, UserType):
        return is_here(typoid, typmod)
    row = typoid.row
    if row.elem and row.typtype == "b":
        return isinstance(row.elem, UserType) and is_made(row.elem, -1)
    if row.typtype in ("r", "m"):
        return False
    return row.typtype != "d" or is_made(row.basetype, row.typmod)


def needed(session: Session, typoid: int) -> tuple[RemoteType, ...]:
    """The types that have to be made for a type, in order."""
    rows = types_in_order(session, [typoid]) if isinstance(typoid, UserType) else []
    return tuple([_made(session, row) for row in rows if is_made(session.type_of(row.oid), -1)])


def _made(session: Session, row: pg_type) -> RemoteType:
    schema = schema_name(session, row.typnamespace)
    if row.typtype == "e":
        return RemoteType(schema, row.typname, (create_type(session, row),))
    commands, left = (_composite if row.typtype == "c" else _domain)(session, row)
    return RemoteType(schema, row.typname, tuple(commands), tuple(left))


def _composite(session: Session, row: pg_type) -> tuple[list[str], list[str]]:
    name, left = type_definition_name(session, row), []
    attributes = attribute_definitions(session, row)
    for column in relation(session, row.typrelid).columns:
        if not is_made(column.type, column.typmod):
            attributes[column.name] = f"\n\t{quote_identifier(column.name)} text"
            left.append(f"attribute {column.name} of type {name}: its type is not here: its values as text")
    return [f"CREATE TYPE {name} AS ({','.join(attributes.values())}\n);"], left


def _domain(session: Session, row: pg_type) -> tuple[list[str], list[str]]:
    name, left = type_definition_name(session, row), []
    default = default_of_domain(session, row)
    for used in _used(session, ObjectAddress(PG_TYPE, row.oid)) if default is not None else ():
        default = None
        left.append(f"the default of domain {name} is not here: it uses {used}")
    validated, later = [], []
    for check in checks_of(session, row):
        uses = list(_used(session, ObjectAddress(PG_CONSTRAINT, check.oid)))
        if uses:
            left.append(f"constraint {check.conname} of domain {name} is not here: it uses {', '.join(uses)}")
        elif check.convalidated:
            validated.append(check)
        else:
            later.append(add_check(session, name, check))
    return [create_domain(session, row, default, validated), *later], left


def _used(session: Session, address: ObjectAddress) -> Iterator[str]:
    """The user's functions, operators and collations and the sequences that an expression uses."""
    for row in dependencies_of(session, address):
        if row.refclassid in (PG_PROC, PG_CLASS, PG_OPERATOR, PG_COLLATION) and row.deptype == "n":
            yield describe_object(session, ObjectAddress(row.refclassid, row.refobjid))


def type_name(session: Session, typoid: int, typmod: int) -> str:
    return format_type(typoid, typmod, lambda oid: lookup.type_name(session, oid))


# --- schema -----------------------------------------------------------------------------------------------------------


def attributes(session: Session, relid: int) -> tuple[RemoteAttribute, ...]:
    """All columns of a table, dropped ones included; empty: there is no such table."""
    table = relation_or_none(session, relid)
    with session.settings.during(QUALIFIED):
        return () if table is None else tuple([_attribute(session, relid, attribute) for attribute in table.attributes])


def _attribute(session: Session, relid: int, column: Attribute) -> RemoteAttribute:
    here, _, types = ("", None, ()) if column.dropped else _taken(session, column)
    return RemoteAttribute(
        column.num,
        column.name,
        column.type,
        column.typmod,
        here,
        column.dropped,
        column.missing,
        types,
        (default_text(session, relid, column.num) or "") if column.generated else "",
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
    table = relation_or_none(session, relid)
    column = None if table is None else table.attribute_by_number(attnum)
    if table is None or column is None:
        return None
    expr = column_default(session, table, column)
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
    published = find_relation(session, RangeVar(name, schema), missing_ok=True)
    if published is None or published.oid not in listed:
        return []
    with session.settings.during(QUALIFIED):
        return list(_tree(session, published, listed, there))


def _tree(session: Session, table: Relation, listed: set[int], names: Sequence[str]) -> Iterator[RemoteDefinition]:
    """A table by itself; or a partitioned one with all of its partitions, also if its leaves are published instead."""
    root = partition_root(session, table)
    members = [relation(session, oid) for oid in inheritors(session, root.oid)] if root.kind == "p" else []
    leaves = {member.oid for member in members if member.kind != "p"}
    if not members or not (root.oid == table.oid or leaves <= listed):
        yield _definition(session, table, None, names)
        return
    for member in members:
        parent = None if member.oid == root.oid else relation(session, parents(session, member.oid)[0])
        yield _definition(session, member, parent, names)


def _definition(session: Session, table: Relation, parent: Relation | None, names: Sequence[str]) -> RemoteDefinition:
    taken = published_plan(session, table.schema, table.name, names).columns
    columns = tuple([_column(session, column) for column in table.columns if column.num in taken])
    known = {column.name for column in columns}
    primary = primary_key(session, table)
    key = tuple(key_names(table, primary))
    chosen = next((row for row in indexes(session, table.oid) if row.indisreplident), None)
    identity = tuple(key_names(table, chosen))
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
        temporal=frozenset(kind for kind, index in (("p", primary), ("u", chosen)) if _is_temporal(session, index)),
    )


def _is_temporal(session: Session, index: pg_index | None) -> bool:
    """Is it that of a key WITHOUT OVERLAPS?"""
    constraints = [] if index is None else store.rows(session, pg_constraint, conindid=index.indexrelid)
    return any(row.conperiod and row.contype != "f" for row in constraints)


def _column(session: Session, column: Attribute) -> RemoteColumn:
    here, comment, types = _taken(session, column)
    return RemoteColumn(column.num, column.name, column.type, column.typmod, here, column.notnull, comment, types)
