"""The collations of a dump."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.classes import PG_COLLATION
from pgrepl.catalog.collations import collation_rows, qualified_collation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_collation
from pgrepl.sql.quote import quote_literal
from pgrepl.statements.dump import naming

_PROVIDERS = {"b": "builtin", "c": "libc"}


def collation_parts(session: Session) -> Iterator[str]:
    for row in collation_rows(session):
        words = f"COLLATION {qualified_collation(session, row.oid)}"
        yield create_collation(session, row)
        yield naming.owner(session, words, row.collowner)
        yield from naming.comment(session, words, PG_COLLATION, row.oid)


def create_collation(session: Session, row: pg_collation) -> str:
    """As pg_dump words it."""
    parts = [f"provider = {_PROVIDERS[row.collprovider]}"]
    if row.colllocale is not None or row.collcollate == row.collctype:
        parts.append(f"locale = {quote_literal(row.colllocale or row.collcollate or '')}")
    else:
        parts.append(f"lc_collate = {quote_literal(row.collcollate or '')}")
        parts.append(f"lc_ctype = {quote_literal(row.collctype or '')}")
    return f"CREATE COLLATION {qualified_collation(session, row.oid)} ({', '.join(parts)});"
