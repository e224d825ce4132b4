"""Look-ups of the instance's databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.store import one, rows
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def databases(session: Session) -> list[tables.pg_database]:
    return sorted(rows(session, tables.pg_database), key=lambda row: str(row.datname))


def database_or_none(session: Session, name: str) -> tables.pg_database | None:
    return one(session, tables.pg_database, datname=name)


def database_by_name(session: Session, name: str) -> tables.pg_database:
    """As get_database_oid."""
    row = database_or_none(session, name)
    if row is None:
        raise PgError("3D000", f'database "{name}" does not exist')
    return row


def database_name(session: Session, oid: int | None) -> str | None:
    row = one(session, tables.pg_database, oid=oid) if oid else None
    return None if row is None else str(row.datname)


def current_database(session: Session) -> tables.pg_database:
    row = one(session, tables.pg_database, oid=session.database_oid)
    assert row is not None
    return row


def check_may_create(session: Session, role: int | None = None) -> None:
    """An error unless the role (the current one) has CREATE on the database, which a new schema, publication or
    subscription needs."""
    from pgrepl.catalog.acl import ObjectKind, has_privilege

    database = current_database(session)
    if not has_privilege(session, ObjectKind.DATABASE, database, "CREATE", role):
        raise PgError("42501", f"permission denied for database {database.datname}")
