"""Settings of ALTER SYSTEM, which PostgreSQL has in postgresql.auto.conf.

A session begins with them. It applies later changes at pg_reload_conf(), except those for which PostgreSQL needs a
restart: these are pending (`pg_settings.pending_restart`) until a new session begins.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pgrepl.catalog import parameters, tables
from pgrepl.catalog.context import CatalogSession
from pgrepl.catalog.recovery import STANDBY
from pgrepl.catalog.store import rows
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.settings import Settings

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
    found = []
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
        found.append(FileSetting(number + _HEADER_LINES, number, name, text, error))
    return found
