"""Look-ups of collations: PostgreSQL's own, and those of the database's users (pg_collation).

All of them compare by code point: a user's collation is one of PostgreSQL's own under another name. Its OID knows its
name (`UserCollation`), so that analysis can tell of a conflict without asking the catalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog import tables
from pgrepl.catalog.classes import CATALOG_NAMESPACE, FIRST_NORMAL_OID
from pgrepl.catalog.namespace import schema_name, search_path
from pgrepl.catalog.store import one, rows
from pgrepl.types import builtin

if TYPE_CHECKING:
    from pgrepl.catalog.context import CatalogSession

ANY_ENCODING, UTF8 = -1, 6  # of collencoding


class UserCollation(int):
    name: str

    def __new__(cls, oid: int, name: str) -> UserCollation:
        made = super().__new__(cls, oid)
        made.name = name
        return made

    def __reduce__(self) -> Any:
        return UserCollation, (int(self), self.name)


def is_user_collation(oid: int) -> bool:
    return oid >= FIRST_NORMAL_OID


def described(session: CatalogSession, oid: int) -> int:
    """The OID with its name, if it is a user's collation."""
    if not is_user_collation(oid) or isinstance(oid, UserCollation):
        return oid
    row = collation_row(session, oid)
    return oid if row is None else UserCollation(oid, row.collname)


def collation_row(session: CatalogSession, oid: int) -> tables.pg_collation | None:
    return one(session, tables.pg_collation, datid=session.database_oid, oid=oid)


def collation_rows(session: CatalogSession) -> list[tables.pg_collation]:
    """The users' collations of the database in OID order."""
    return sorted(rows(session, tables.pg_collation, datid=session.database_oid), key=lambda row: int(row.oid))


def collation_in_schema(session: CatalogSession, namespace: int, name: str) -> int:
    """The collation of this name in a schema; 0: there is none."""
    if namespace == CATALOG_NAMESPACE:
        known = builtin.collation_by_name(name)
        if known is not None:
            return known.oid
    row = one(session, tables.pg_collation, datid=session.database_oid, collnamespace=namespace, collname=name)
    return 0 if row is None else UserCollation(row.oid, row.collname)


def collation_in_path(session: CatalogSession, name: str) -> int:
    """The first collation of this name in search_path, the temporary schema left out; 0: there is none."""
    for namespace in search_path(session):
        found = collation_in_schema(session, namespace, name) if namespace != session.temporary_schema else 0
        if found:
            return found
    return 0


def name_and_schema(session: CatalogSession, oid: int) -> tuple[str, int] | None:
    """The name of a collation and the OID of its schema; None: there is no such collation."""
    known = builtin.collation_by_oid(oid)
    if known is not None:
        return known.name, CATALOG_NAMESPACE
    row = collation_row(session, oid) if is_user_collation(oid) else None
    return None if row is None else (row.collname, row.collnamespace)


def is_visible(session: CatalogSession, oid: int) -> bool | None:
    """Whether the bare name finds it (CollationIsVisible); None: there is no such collation."""
    found = name_and_schema(session, oid)
    return None if found is None else collation_in_path(session, found[0]) == oid


def collation_text(session: CatalogSession, oid: int) -> str | None:
    """The quoted name, with the schema if the bare name does not find it (generate_collation_name)."""
    from pgrepl.sql.quote import quote_identifier

    found = name_and_schema(session, oid)
    if found is None:
        return None
    return quote_identifier(found[0]) if is_visible(session, oid) else qualified_collation(session, oid)


def qualified_collation(session: CatalogSession, oid: int) -> str:
    """The quoted name of a collation that exists, with its schema."""
    from pgrepl.sql.quote import quote_qualified

    found = name_and_schema(session, oid)
    assert found is not None
    return quote_qualified(schema_name(session, found[1]), found[0])
