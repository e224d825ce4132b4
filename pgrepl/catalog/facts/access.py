"""Look-ups of databases, and row security: there are no policies, so that a role to which it applies sees no row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.facts import acl
from pgrepl.catalog.facts.acl import ObjectKind, has_privilege
from pgrepl.catalog.facts.roles import role_row
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session


def databases(session: Session) -> list[tables.pg_database]:
    return sorted(rows(session, tables.pg_database), key=lambda row: str(row.datname))


def database_or_none(session: Session, name: str) -> tables.pg_database | None:
    return one(session, tables.pg_database, datname=name)


def database_by_name(session: Session, name: str) -> tables.pg_database:
    """The row of a database, or the error that it does not exist (get_database_oid)."""
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
    database = current_database(session)
    if not has_privilege(session, ObjectKind.DATABASE, database, "CREATE", role):
        raise PgError("42501", f"permission denied for database {database.datname}")


# --- row security -----------------------------------------------------------------------------------------------------


def is_active(session: Session, found: Relation, role: int | None = None) -> bool:
    """Does row security apply to the role (the current one)? Not to the owner, unless forced, nor to a role with
    BYPASSRLS (check_enable_rls)."""
    if not found.row_security:
        return False
    who = session.role if role is None else role
    row = role_row(session, who)
    if row is None or row.rolsuper or row.rolbypassrls:
        return False
    return found.force_row_security or not acl.is_owner(session, found.owner, who)


def hides_rows(session: Session, found: Relation, role: int) -> bool:
    """Does row security hide all rows from the role? An error with row_security = off."""
    if not is_active(session, found, role):
        return False
    if not session.settings.value("row_security"):
        hint = None
        if acl.is_owner(session, found.owner, role):
            hint = "To disable the policy for the table's owner, use ALTER TABLE NO FORCE ROW LEVEL SECURITY."
        raise PgError(
            "42501", f'query would be affected by row-level security policy for table "{found.name}"', hint=hint
        )
    return True
