"""The autovacuum launcher: a thread that lets autovacuum look at one database after the other (AutoVacLauncherMain).

Each database has its turn once within autovacuum_naptime, spread evenly; after the last of them the instance is cleaned
up. The thread's own sessions do the work, so that its starter need not wait.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pgrepl.interrupts import JoinedThread
from pgrepl.statements.autovacuum import Autovacuum
from pgrepl.statements.background import BackgroundThread

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.log import ServerLog


class AutovacuumLauncher(BackgroundThread):
    """The launcher of an instance. A second one would only share its work."""

    def __init__(self, session: Session, log: ServerLog) -> None:
        over = threading.Event()
        self.autovacuum = Autovacuum(session, log, over.is_set)
        super().__init__(self.autovacuum, over, JoinedThread(self.run, "pgrepl-autovacuum"))

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
