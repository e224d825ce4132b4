"""Export of tables as Iceberg tables beside a follower's work: `ALTER DATABASE … SET pgrepl.iceberg_export = on`.

It is what `pgrepl iceberg export --follow` does, for all tables of the databases that have the setting: a look at each
of them within pgrepl.iceberg_export_naptime.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.login import apply_stored_settings
from pgrepl.catalog.recovery import in_recovery
from pgrepl.catalog.store import rows
from pgrepl.catalog.transaction import reading
from pgrepl.interrupts import JoinedThread
from pgrepl.statements.background import Background, BackgroundThread

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.errors import Report
    from pgrepl.replication.log import ServerLog

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

        errors = export_tables(session, (), None, lambda *_: None)
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
    return bool(there.settings.value("pgrepl.iceberg_export"))


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
