"""Work of an instance that a follower does beside its own, in a thread; the export of Iceberg tables
(pgrepl.iceberg_export).

Its sessions are those of the bootstrap superuser with the settings of each database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.subscription import subscription_by_name, subscription_relations
from pgrepl.catalog.session import login
from pgrepl.catalog.session.context import in_recovery
from pgrepl.catalog.session.login import apply_stored_settings
from pgrepl.catalog.session.parameter_lists import split_identifiers
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.replication.log import LogOf, ServerLog
from pgrepl.sql.keywords import quote_qualified

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.ground.errors import Report

T = TypeVar("T")
LOCKED = "55P03"
_LOCK_PATIENCE = "1s"  # that a commit waits for the catalog's lock
_PATIENCE = 2.0  # seconds for the thread to end


class Background:
    """What is done. It ends once `is_over` returns true, and logs its work."""

    name = ""  # in the log

    def __init__(self, session: Session, log: ServerLog, is_over: Callable[[], bool] = lambda: False) -> None:
        """`session` gives the catalog; the work is done in sessions of its own."""
        self._session = session
        self._log = log
        self._is_over = is_over
        self._running: Session | None = None

    def stop(self) -> None:
        """Stop waiting for locks. Called from another thread."""
        running = self._running
        if running is not None:
            running.link.give_up()

    def _with_session(self, database: int, work: Callable[[Session], T]) -> T | None:
        """Do some work in a session of its own. An error is logged; None is returned then."""
        session: Session | None = None
        try:
            session = self._running = self._session.elsewhere(database, BOOTSTRAP_SUPERUSER, apart=True)
            session.on_report = LogOf(self._log, session).report
            with reading(session):
                login.reload(session)
                apply_stored_settings(session, BOOTSTRAP_SUPERUSER, database)
            session.settings.set_default("lock_timeout", _LOCK_PATIENCE, complain=False)
            if session.settings.get("synchronous_commit") != "off":  # it waits for no standby (AutoVacWorkerMain)
                session.settings.set_default("synchronous_commit", "local", complain=False, source="override")
            return work(session)
        except PgError as error:
            if error.sqlstate != LOCKED and not self._is_over():
                self._log.error(error)
        except Exception as problem:  # a mistake in here must not end a follower
            self._log.error(PgError("XX000", f"{self.name} failed: {problem!r}"))
        finally:
            self._running = None
            if session is not None:
                session.close()
        return None


class BackgroundThread:
    """Its thread. After `stop` it begins nothing more, and work in progress is rolled back."""

    def __init__(self, work: Background, over: threading.Event, thread: JoinedThread) -> None:
        self.over = over
        self._work = work
        self._thread = thread

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.over.set()
        self._work.stop()
        self._thread.join(_PATIENCE)


# --- iceberg export ---------------------------------------------------------------------------------------------------


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
