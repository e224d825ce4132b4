"""Catalog lookups of analysis and deparsing: relations by name and by row type, schemas, and values of literals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import tables
from pgrepl.catalog.namespace import explicit_schema, schema_name, search_path
from pgrepl.catalog.relation import Attribute, display_name, find_relation, relation
from pgrepl.catalog.row_types import rowtype_relation
from pgrepl.catalog.store import one, rows
from pgrepl.catalog.user_types import type_display_name, type_in_schema, type_row
from pgrepl.errors import PgError
from pgrepl.sql import nodes
from pgrepl.types import builtin, oids
from pgrepl.types.row_arrays import array_over

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def relid(session: Session, name: nodes.RangeVar) -> int:
    """The relid of a name; 0: no such relation."""
    found = find_relation(session, name, missing_ok=True)
    return found.oid if found is not None else 0


def relid_in_schema(session: Session, schema: str, name: str) -> int:
    """The relid of a relation in a schema; 0: either does not exist."""
    return relid(session, nodes.RangeVar(name, schema))


def row_type(session: Session, oid: int) -> int:
    found = relation(session, oid)
    if found.type:
        return session.type_of(found.type)
    known = builtin.type_by_name(found.name, found.schema)
    return known.oid if known is not None and known.relid else oids.RECORD


def existing_type(session: Session, oid: int) -> int:
    """The OID of a type, with its description if it is a user's type."""
    found = session.type_of(oid)
    if builtin.type_by_oid(found) is None and rowtype_relation(session, oid) is None:
        raise PgError("XX000", f"cache lookup failed for type {oid}")
    return found


def type_name(session: Session, typoid: int) -> str | None:
    """The printed name of a user's type, or of a relation's row type."""
    row = type_row(session, typoid)
    if row is not None:
        return type_display_name(session, row)
    found = rowtype_relation(session, typoid)
    return display_name(session, found) if found is not None else None


def type_in_schema_named(session: Session, schema: str, name: str) -> int:
    """A user's type, or the row type of a relation, by name; 0: no such type."""
    namespace = explicit_schema(session, schema, missing_ok=True)
    known = type_in_schema(session, namespace, name)
    if known is not None:
        return session.type_of(known.oid)
    row = one(session, tables.pg_class, datid=session.database_oid, relnamespace=namespace, relname=name)
    if row is not None:
        return int(row.reltype or 0)
    row = one(session, tables.pg_class, datid=session.database_oid, relnamespace=namespace, relname=name[1:])
    return array_over(row.reltype) if name[:1] == "_" and row is not None and row.reltype else 0


def search_schemas(session: Session) -> list[str]:
    return [schema_name(session, oid) for oid in search_path(session)]


def row_attributes(session: Session, typoid: int) -> Sequence[Attribute]:
    """The columns of a named row type, dropped ones included."""
    found = rowtype_relation(session, typoid)
    return found.attributes if found is not None else ()


def row_inherits(session: Session, source: int, target: int) -> bool:
    """Whether one row type's relation is a descendant of the other's (typeInheritsFrom)."""
    if source < oids.FIRST_USER_OID or target < oids.FIRST_USER_OID:
        return False
    child, parent = rowtype_relation(session, source), rowtype_relation(session, target)
    if child is None or parent is None:
        return False
    waiting, seen = [child.oid], {child.oid}
    while waiting:
        for row in rows(session, tables.pg_inherits, inhrelid=waiting.pop()):
            if row.inhparent == parent.oid:
                return True
            if row.inhparent not in seen:
                seen.add(row.inhparent)
                waiting.append(row.inhparent)
    return False


def split_name(session: Session, names: tuple[str, ...], location: int = -1) -> tuple[str | None, str]:
    """Schema and name of a qualified name (DeconstructQualifiedName)."""
    if len(names) == 1:
        return None, names[0]
    if len(names) == 2:
        return names[0], names[1]
    dotted = ".".join(names)
    if len(names) == 3:
        if names[0] != session.database.name:
            raise PgError("0A000", f"cross-database references are not implemented: {dotted}", location=location)
        return names[1], names[2]
    raise PgError("42601", f"improper qualified name (too many dotted names): {dotted}", location=location)


def warner(session: Session, location: int = -1) -> Callable[[str, str], None]:
    """The function by which a type's input function raises a warning: (sqlstate, message)."""
    return lambda sqlstate, message: session.notice("WARNING", message, sqlstate=sqlstate, location=location)


def read_value(session: Session, text: str, typoid: int, typmod: int) -> Any:
    """The value of a literal, as the type's input function gives it in this session."""
    from pgrepl.types.text import read_text

    return read_text(text, typoid, typmod, session.text_style)


def write_value(session: Session, value: Any, typoid: int) -> str:
    """A value as the type's output function prints it in this session."""
    from pgrepl.types.text import write_text

    return write_text(value, typoid, session.text_style)
