"""Default privileges in a dump."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.default_privileges import KINDS, built_in, default_entries
from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_default_acl
from pgrepl.sql.quote import quote_identifier
from pgrepl.statements.dump import naming

WORDS = {"r": "TABLES", "S": "SEQUENCES", "f": "FUNCTIONS", "T": "TYPES", "n": "SCHEMAS"}


def default_privileges(session: Session) -> Iterator[str]:
    """They come last in a dump, so that its own objects get none of them (dumpDefaultACL)."""
    for entry in default_entries(session):
        yield from changed_by(session, entry)


def changed_by(session: Session, entry: pg_default_acl) -> Iterator[str]:
    """The statements that make an entry."""
    words, role = WORDS[entry.defaclobjtype], entry.defaclrole
    before = built_in(KINDS[entry.defaclobjtype], role, entry.defaclnamespace)
    for text in naming.acl_changes(session, words, role, before, entry.defaclacl):
        yield f"ALTER DEFAULT PRIVILEGES {whose(session, entry)} {text}"


def whose(session: Session, entry: pg_default_acl) -> str:
    """The role, and the schema."""
    start = f"FOR ROLE {naming.role(session, entry.defaclrole)}"
    if entry.defaclnamespace:
        start += f" IN SCHEMA {quote_identifier(schema_name(session, entry.defaclnamespace))}"
    return start
