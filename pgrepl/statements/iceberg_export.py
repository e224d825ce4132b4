"""Export of tables as Iceberg tables beside a follower's work: `ALTER DATABASE … SET pgrepl.iceberg_export = on`.

It is what `pgrepl iceberg export --follow` does, for all tables of the databases that have the setting, or for those of
the subscriptions that it names: a look at each of them within pgrepl.iceberg_export_naptime.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.identifiers import split_identifiers
from pgrepl.catalog.login import apply_stored_settings
from pgrepl.catalog.recovery import in_recovery
from pgrepl.catalog.relation import relation
from pgrepl.catalog.store import rows
from pgrepl.catalog.subscription import subscription_by_name, subscription_relations
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.interrupts import JoinedThread
from pgrepl.sql.quote import quote_qualified
from pgrepl.statements.background import Background, BackgroundThread

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.errors import Report
    from pgrepl.replication.log import ServerLog

_SETTING = "pgrepl.iceberg_export"
_USUAL = 10.0  # seconds between two looks, if the setting could not be read
_FIRST = 1.0  # seconds until the first look: a follower has other things to do when it starts


class IcebergExport(Background):
    """The exports of an instance."""

    name = "export of Iceberg tables"

    def __init__(self, session: Session, log: ServerLog, is_over: Callable[[], bool] = lambda: False) -> None:
        super().__init__(session, log, is_over)
        self._said: dict[int, list[Report]] = {}  # errors of the last look at a database

    def look(self) -> float:
        """Export what has changed; the seconds until the next look."""
        naptime, databases = self._with_session(self._session.database_oid, _wanted) or (_USUAL, [])
        for oid in databases:
            if not self._is_over():
                self._with_session(oid, self._export)
        return naptime

    def _export(self, session: Session) -> None:
        from pgrepl.iceberg.export import export_tables

        try:
            names = _tables_of(session)
            errors = [] if names == [] else export_tables(session, names or (), None, lambda *_: None)
        except PgError as problem:
            errors = [problem]
        for error in errors:
            if error.report not in self._said.get(session.database_oid, ()):
                self._log.error(error)
        self._said[session.database_oid] = [error.report for error in errors]


def _wanted(session: Session) -> tuple[float, list[int]]:
    """The naptime, and the databases that are to be exported."""
    naptime = float(session.settings.value("pgrepl.iceberg_export_naptime"))
    with reading(session):
        if in_recovery(session):
            return naptime, []
        every = [row.oid for row in rows(session, tables.pg_database) if row.datallowconn and not row.datistemplate]
        return naptime, [oid for oid in every if _is_on(session, oid)]


def _is_on(session: Session, database: int) -> bool:
    there = session.elsewhere(database, BOOTSTRAP_SUPERUSER)
    apply_stored_settings(there, BOOTSTRAP_SUPERUSER, database)
    return there.settings.get(_SETTING) != "off"


def _tables_of(session: Session) -> list[str] | None:
    """The tables of the subscriptions that the setting names; None: all of the database."""
    wanted = session.settings.get(_SETTING)
    if wanted == "on":
        return None
    with reading(session):
        subs = [subscription_by_name(session, name).oid for name in split_identifiers(wanted) or ()]
        oids = dict.fromkeys(row.srrelid for sub in subs for row in subscription_relations(session, sub))
        found = [relation(session, oid) for oid in oids]
        return [quote_qualified(each.schema, each.name) for each in found]


class IcebergExporter(BackgroundThread):
    """Looks again and again. Several of them write the same."""

    def __init__(self, session: Session, log: ServerLog) -> None:
        over = threading.Event()
        self._exports = IcebergExport(session, log, over.is_set)
        super().__init__(self._exports, over, JoinedThread(self.run, "pgrepl-iceberg"))

    def run(self) -> None:
        naptime = _FIRST
        while not self.over.wait(naptime):
            naptime = self._exports.look()
