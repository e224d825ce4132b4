"""The autovacuum launcher: a thread that lets autovacuum look at one database after the other (AutoVacLauncherMain).

Each database has its turn once within autovacuum_naptime, spread evenly; after the last of them the instance is cleaned
up. The thread's own sessions do the work, so that its starter need not wait. After `stop` it begins nothing more, and
work in progress is rolled back.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pgrepl.interrupts import JoinedThread
from pgrepl.statements.autovacuum import Autovacuum

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.log import ServerLog

_PATIENCE = 2.0  # seconds for it to end


class AutovacuumLauncher:
    """The launcher of an instance. A second one would only share its work."""

    def __init__(self, session: Session, log: ServerLog) -> None:
        self.over = threading.Event()
        self.autovacuum = Autovacuum(session, log, self.over.is_set)
        self._thread = JoinedThread(self.run, "pgrepl-autovacuum")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.over.set()
        self.autovacuum.stop()
        self._thread.join(_PATIENCE)

    def run(self) -> None:
        while not self.over.is_set():
            naptime = self.autovacuum.naptime() or 60.0
            listed = self.autovacuum.databases()
            if not listed:
                self.over.wait(naptime)
                continue
            for oid in listed:
                if self.over.wait(naptime / len(listed)):
                    return
                self.autovacuum.look_at(oid)
            self.autovacuum.clean()
