"""Names given as text to functions: 'sales.orders', 'pg_class'."""

from __future__ import annotations

from pgrepl.catalog.identifiers import split_identifiers
from pgrepl.catalog.relation import Relation, find_relation, range_var
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError


def relation_named(session: Session, text: str) -> Relation:
    """The relation that a text names (textToQualifiedNameList, RangeVarGetRelid)."""
    parts = split_identifiers(text, ".")
    if not parts:
        raise PgError("42602", "invalid name syntax")
    return find_relation(session, range_var(parts))


def system_table(session: Session, name: str) -> int | None:
    """The OID of a system catalog in pg_catalog; None: there is none of this name."""
    found = session.system_relations().by_name("pg_catalog", name)
    return None if found is None else found.oid
