"""Admission of a role to a database, and the settings that a session begins with, those of ALTER SYSTEM among them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pgrepl.catalog.facts.acl import ObjectKind, has_privilege
from pgrepl.catalog.session import parameters
from pgrepl.catalog.session.context import STANDBY, CatalogSession
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.ground.errors import PgError
from pgrepl.types.input_checks import NAMES, is_valid_utf8

if TYPE_CHECKING:
    from pgrepl.catalog.session.settings import Settings

NEEDS_RESTART = "setting could not be applied"
_HEADER_LINES = 2  # of the file that PostgreSQL writes
_AT_START = ("postmaster", "backend", "superuser-backend")


class Starting(CatalogSession, Protocol):
    """A session whose settings are read."""

    @property
    def settings(self) -> Settings: ...


class FileSetting(NamedTuple):
    """A row of pg_file_settings."""

    line: int
    number: int
    name: str
    text: str
    error: str | None


def stored(session: CatalogSession) -> list[tuple[str, str]]:
    return [(row.name, row.value) for row in rows(session, tables.pgrepl_setting) if row.name != STANDBY]


def start(session: Starting) -> None:
    """Apply all settings. One that is not valid any more is a WARNING, so that a session can begin and correct it."""
    session.settings.loaded_at = datetime.now(timezone.utc)
    for name, text in stored(session):
        _take(session, name, text)


def _take(session: Starting, name: str, text: str) -> None:
    try:
        session.settings.set_by_system(name, text)
    except PgError as wrong:
        says = wrong.report
        session.notice("WARNING", says.message, sqlstate=says.sqlstate, detail=says.detail, hint=says.hint)


def reload(session: Starting) -> None:
    """Apply changes since the session began, except those that need a restart (ProcessConfigFile)."""
    settings = session.settings
    settings.loaded_at = datetime.now(timezone.utc)
    now = dict(stored(session))
    settings.pending_restart = frozenset(
        parameter.key
        for parameter in parameters.all_parameters()
        if parameter.context == "postmaster" and settings.differs_from_system(parameter.name, now.get(parameter.name))
    )
    for name in settings.system_names():
        if name not in now and not _only_at_start(name):
            settings.forget_system(name)
    for name, text in now.items():
        if not _only_at_start(name):
            _take(session, name, text)


def _only_at_start(name: str) -> bool:
    parameter = parameters.find(name)
    return parameter is not None and parameter.context in _AT_START


def file_settings(session: Starting) -> list[FileSetting]:
    """The rows of pg_file_settings, with an error for those that this session could not apply."""
    settings = []
    for number, (name, text) in enumerate(stored(session), 1):
        error = None
        parameter = parameters.find(name)
        try:
            session.settings.check_text(name, text)
        except PgError:
            error = NEEDS_RESTART
        else:
            if parameter is not None and parameter.context == "postmaster":
                error = NEEDS_RESTART if session.settings.differs_from_system(name, text) else None
        settings.append(FileSetting(number + _HEADER_LINES, number, name, text, error))
    return settings


# --- login ------------------------------------------------------------------------------------------------------------


def admit(session: CatalogSession, user: str, database: str) -> tuple[tables.pg_authid, tables.pg_database]:
    """The rows of the role and the database, or a FATAL error."""
    role = admit_user(session, user)
    return role, admit_to_database(session, role, database)


def admit_user(session: CatalogSession, user: str) -> tables.pg_authid:
    """The role, if it may log in (InitializeSessionUserId)."""
    role = one(session, tables.pg_authid, rolname=user) if is_valid_utf8(user) else None
    if role is None:
        raise _fatal("28000", f'role "{user}" does not exist')
    if not role.rolcanlogin:
        raise _fatal("28000", f'role "{user}" is not permitted to log in')
    if role.rolconnlimit == 0 and not role.rolsuper:
        raise _fatal("53300", f'too many connections for role "{user}"')
    return role


def admit_to_database(session: CatalogSession, role: tables.pg_authid, database: str) -> tables.pg_database:
    """The database, if the role may connect to it (CheckMyDatabase)."""
    row = one(session, tables.pg_database, datname=database) if is_valid_utf8(database) else None
    if row is None:
        raise _fatal("3D000", f'database "{database}" does not exist')
    if not row.datallowconn:
        raise _fatal("55000", f'database "{database}" is not currently accepting connections')
    if not role.rolsuper:
        if not has_privilege(session, ObjectKind.DATABASE, row, "CONNECT", role.oid):
            raise _fatal(
                "42501", f'permission denied for database "{database}"', detail="User does not have CONNECT privilege."
            )
        if row.datconnlimit == 0:
            raise _fatal("53300", f'too many connections for database "{database}"')
    return row


def apply_settings(
    session: Starting, role: tables.pg_authid, database: tables.pg_database, startup: Mapping[str, str]
) -> None:
    """Apply the settings of ALTER SYSTEM, ALTER ROLE ALL, ALTER DATABASE, ALTER ROLE, ALTER ROLE … IN DATABASE and the
    client, in this order: the last one wins."""
    settings = session.settings
    settings.set_identity(role.oid, role.rolname)
    start(session)
    apply_stored_settings(session, role.oid, database.oid)
    for name, value in startup.items():
        if not is_valid_utf8(value):
            raise _fatal("22021", f'invalid byte sequence in the value of parameter "{name}"')
        settings.set_default(name, value, complain=True)


def apply_stored_settings(session: Starting, role: int, database: int) -> None:
    """Apply the database's encoding, and the settings of ALTER ROLE and ALTER DATABASE (process_settings)."""
    row = one(session, tables.pg_database, oid=database)
    if row is not None and row.encoding != _UTF8:
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
