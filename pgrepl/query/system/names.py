"""Names given as text to functions: 'sales.orders', 'pg_class'."""

from __future__ import annotations

from pgrepl.catalog.identifiers import split_identifiers
from pgrepl.catalog.relation import Relation, find_relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.sql.nodes import RangeVar


def relation_named(session: Session, text: str) -> Relation:
    """The relation that a text names (textToQualifiedNameList, RangeVarGetRelid)."""
    parts = split_identifiers(text, ".")
    if not parts:
        raise PgError("42602", "invalid name syntax")
    if len(parts) > 3:
        raise PgError("42601", f"improper relation name (too many dotted names): {'.'.join(parts)}")
    name, schema, catalog = (*reversed(parts), None, None)[:3]
    assert name is not None
    return find_relation(session, RangeVar(name, schema, catalog))


def system_table(session: Session, name: str) -> int | None:
    """The OID of a system catalog in pg_catalog; None: there is none of this name."""
    found = session.system_relations().by_name("pg_catalog", name)
    return None if found is None else found.oid
