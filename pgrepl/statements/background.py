"""Work of an instance that a follower does beside its own: a thread, whose sessions are those of the bootstrap
superuser with the settings of each database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog import system_settings
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.login import apply_stored_settings
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.interrupts import JoinedThread
from pgrepl.replication.log import LogOf, ServerLog

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

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
                system_settings.reload(session)
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
