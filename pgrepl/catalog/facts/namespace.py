"""Look-ups of schemas, and the search path (PostgreSQL's namespace.c)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import ObjectKind, check_privilege, has_privilege
from pgrepl.catalog.facts.roles import role_display
from pgrepl.catalog.session.parameter_lists import split_identifiers
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import CATALOG_NAMESPACE
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession

QUALIFIED = (("search_path", ""),)  # settings with which definitions name the schemas of what they use


def schemas(session: CatalogSession) -> list[tables.pg_namespace]:
    """The schemas of the database by name."""
    found = rows(session, tables.pg_namespace, datid=session.database_oid)
    return sorted(found, key=lambda row: str(row.nspname))


def schema_or_none(session: CatalogSession, name: str) -> tables.pg_namespace | None:
    return one(session, tables.pg_namespace, datid=session.database_oid, nspname=name)


def schema_by_name(session: CatalogSession, name: str) -> tables.pg_namespace:
    """The schema, whatever privileges the role has (get_namespace_oid)."""
    row = schema_or_none(session, name)
    if row is None:
        raise PgError("3F000", f'schema "{name}" does not exist')
    return row


def schema_row(session: CatalogSession, oid: int) -> tables.pg_namespace | None:
    return one(session, tables.pg_namespace, datid=session.database_oid, oid=oid)


def schema_name(session: CatalogSession, oid: int) -> str:
    row = schema_row(session, oid)
    if row is None:
        raise PgError("3F000", f"schema with OID {oid} does not exist")
    return str(row.nspname)


TEMPORARY = "pg_temp"  # each session's name for its own temporary schema


def temporary_schema(session: CatalogSession) -> int:
    """The session's schema for temporary relations; 0: it has none yet, or its creation was rolled back."""
    oid = session.temporary_schema
    return oid if oid and schema_row(session, oid) is not None else 0


def is_temporary(name: str) -> bool:
    """Is this the schema of some session's temporary relations? (isAnyTempNamespace)"""
    return name.startswith(("pg_temp_", "pg_toast_temp_"))


def explicit_schema(
    session: CatalogSession, name: str, *, missing_ok: bool = False, location: int | None = None
) -> int:
    """The schema of that name, which must exist and grant the role USAGE (LookupExplicitNamespace). 0: missing, and
    `missing_ok`."""
    if name == TEMPORARY and (own := temporary_schema(session)):
        return own
    key = ("explicit schema", name, session.role)
    known: int | None = session.derived.get(key)
    if known is not None:
        return known
    row = schema_or_none(session, name)
    if row is None:
        if missing_ok:
            return 0
        raise PgError("3F000", f'schema "{name}" does not exist', location=location)
    if row.oid != session.temporary_schema:
        check_privilege(session, ObjectKind.SCHEMA, row, "USAGE", name)
    found = session.derived[key] = int(row.oid)
    return found


@lru_cache(64)
def _listed(search_path: str) -> tuple[str, ...]:
    return tuple(split_identifiers(search_path) or ())


def _named_schemas(session: CatalogSession) -> list[int]:
    """The schemas of search_path that exist and may be used, pg_catalog only if search_path names it."""
    path = session.settings.get("search_path")
    key = ("search_path", path, session.role)
    known = session.derived.get(key)
    if known is not None:
        return known  # type: ignore[no-any-return]
    found: list[int] = []
    for listed in _listed(path):
        if listed == TEMPORARY:
            if (own := temporary_schema(session)) and own not in found:
                found.append(own)
            continue
        name = role_display(session, session.role) if listed == "$user" else listed
        row = schema_or_none(session, name)
        if row is None or row.oid in found:
            continue
        if has_privilege(session, ObjectKind.SCHEMA, row, "USAGE", session.role):
            found.append(int(row.oid))
    session.derived[key] = found
    return found


def search_path(session: CatalogSession) -> list[int]:
    """The schemas in which an unqualified name is looked up, in order: first the temporary schema, then pg_catalog,
    unless search_path names them."""
    named = _named_schemas(session)
    path = named if CATALOG_NAMESPACE in named else [CATALOG_NAMESPACE, *named]
    own = temporary_schema(session)
    return [own, *path] if own and own not in path else path


def current_schemas(session: CatalogSession, implicit: bool) -> list[str]:
    """current_schemas(bool)."""
    oids = search_path(session) if implicit else _named_schemas(session)
    return [schema_name(session, oid) for oid in oids]


def creation_schema(session: CatalogSession, *, location: int | None = None) -> int:
    """The schema of a new object with an unqualified name: the first of search_path that exists."""
    named = _named_schemas(session)
    if not named:
        raise PgError("3F000", "no schema has been selected to create in", location=location)
    return named[0]


def creates_temporary(session: CatalogSession) -> bool:
    """Is pg_temp the first schema of search_path, so that new relations are temporary?"""
    return _listed(session.settings.get("search_path"))[:1] == (TEMPORARY,)


def schema_for_creation(session: CatalogSession, schema: str | None) -> int:
    """The schema of a new object: the named one, else the first of search_path; the role needs CREATE on it."""
    if schema is None:
        oid = creation_schema(session)
    else:
        oid = int(schema_by_name(session, schema).oid)
    row = schema_row(session, oid)
    assert row is not None
    if oid != session.temporary_schema:
        check_privilege(session, ObjectKind.SCHEMA, row, "CREATE", row.nspname)
    return oid
