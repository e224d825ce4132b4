"""Admission of a role to a database, and the settings that a session begins with (InitPostgres, process_settings)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgrepl.catalog import system_settings, tables
from pgrepl.catalog.store import one
from pgrepl.errors import PgError
from pgrepl.types.encoding import is_utf8

if TYPE_CHECKING:
    from pgrepl.catalog.context import CatalogSession


def admit(session: CatalogSession, user: str, database: str) -> tuple[tables.pg_authid, tables.pg_database]:
    """The rows of the role and the database, or a FATAL error."""
    role = admit_user(session, user)
    return role, admit_to_database(session, role, database)


def admit_user(session: CatalogSession, user: str) -> tables.pg_authid:
    """The role, if it may log in (InitializeSessionUserId)."""
    role = one(session, tables.pg_authid, rolname=user) if is_utf8(user) else None
    if role is None:
        raise _fatal("28000", f'role "{user}" does not exist')
    if not role.rolcanlogin:
        raise _fatal("28000", f'role "{user}" is not permitted to log in')
    if role.rolconnlimit == 0 and not role.rolsuper:
        raise _fatal("53300", f'too many connections for role "{user}"')
    return role


def admit_to_database(session: CatalogSession, role: tables.pg_authid, database: str) -> tables.pg_database:
    """The database, if the role may connect to it (CheckMyDatabase)."""
    row = one(session, tables.pg_database, datname=database) if is_utf8(database) else None
    if row is None:
        raise _fatal("3D000", f'database "{database}" does not exist')
    if not row.datallowconn:
        raise _fatal("55000", f'database "{database}" is not currently accepting connections')
    if not role.rolsuper:
        from pgrepl.catalog.acl import ObjectKind, has_privilege

        if not has_privilege(session, ObjectKind.DATABASE, row, "CONNECT", role.oid):
            raise _fatal(
                "42501", f'permission denied for database "{database}"', detail="User does not have CONNECT privilege."
            )
        if row.datconnlimit == 0:
            raise _fatal("53300", f'too many connections for database "{database}"')
    return row


def apply_settings(
    session: system_settings.Starting, role: tables.pg_authid, database: tables.pg_database, startup: Mapping[str, str]
) -> None:
    """Apply the settings of ALTER SYSTEM, ALTER ROLE ALL, ALTER DATABASE, ALTER ROLE, ALTER ROLE … IN DATABASE and the
    client, in this order: the last one wins."""
    settings = session.settings
    settings.set_identity(role.oid, role.rolname)
    system_settings.start(session)
    apply_stored_settings(session, role.oid, database.oid)
    for name, value in startup.items():
        if not is_utf8(value):
            raise _fatal("22021", f'invalid byte sequence in the value of parameter "{name}"')
        settings.set_default(name, value, complain=True)


def apply_stored_settings(session: system_settings.Starting, role: int, database: int) -> None:
    """Apply the database's encoding, and the settings of ALTER ROLE and ALTER DATABASE (process_settings)."""
    row = one(session, tables.pg_database, oid=database)
    if row is not None and row.encoding != _UTF8:
        from pgrepl.types.encodings import NAMES

        if row.encoding not in range(len(NAMES)):
            raise _fatal("XX001", f"invalid database encoding: {row.encoding}")
        session.settings.set_encoding(NAMES[row.encoding])
    for setdatabase, setrole, source in (
        (0, 0, "global"),
        (database, 0, "database"),
        (0, role, "user"),
        (database, role, "database user"),
    ):
        stored = one(session, tables.pg_db_role_setting, setdatabase=setdatabase, setrole=setrole)
        for item in stored.setconfig if stored is not None else ():
            name, _, value = item.partition("=")
            session.settings.set_default(name, value, complain=False, source=source)


_UTF8 = 6  # of pg_database.encoding


def _fatal(sqlstate: str, message: str, detail: str | None = None) -> PgError:
    return PgError(sqlstate, message, detail=detail, severity="FATAL")
