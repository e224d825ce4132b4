"""The user's types of a lake: which of them can be made at a subscriber, and by which statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_CLASS, PG_COLLATION, PG_CONSTRAINT, PG_OPERATOR, PG_PROC, PG_TYPE, ObjectAddress
from pgrepl.catalog.depend import dependencies_of
from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.objects import describe_object
from pgrepl.catalog.relation import relation
from pgrepl.catalog.tables import pg_type
from pgrepl.expr import lookup
from pgrepl.expr.type_definition import (
    add_check,
    attribute_definitions,
    checks_of,
    create_domain,
    create_type,
    default_of_domain,
    type_definition_name,
    types_in_order,
)
from pgrepl.replication.publisher.definition import RemoteType, is_here
from pgrepl.sql.quote import quote_identifier
from pgrepl.types.names import format_type
from pgrepl.types.user_types import UserType

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


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
    made, left = (_composite if row.typtype == "c" else _domain)(session, row)
    return RemoteType(schema, row.typname, tuple(made), tuple(left))


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
