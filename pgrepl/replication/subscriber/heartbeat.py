"""The heartbeat of a worker: a thread that updates the worker's rows in the catalog with the progress of its copies."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pgrepl.catalog import processes
from pgrepl.errors import PgError
from pgrepl.replication.subscriber import lease
from pgrepl.replication.subscriber.copy_progress import CopyProgress

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

WHILE_COPYING = 1.0  # seconds
_PATIENCE = 1.0  # seconds to wait for the catalog's lock; the next sign of life comes anyway


class Heartbeat:
    """Beats from now on until it is stopped."""

    def __init__(self, session: Session, token: str, copies: CopyProgress) -> None:
        self._copies = copies
        self._session = session
        self._place = session.database_oid, session.role
        self._token = token
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgrepl-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        waited = 0.0
        while not self._stopped.wait(WHILE_COPYING):
            waited += WHILE_COPYING
            if self._copies.copying or waited >= processes.SIGN_OF_LIFE:
                waited = 0.0
                self._beat()

    def _beat(self) -> None:
        try:
            session = self._session.elsewhere(*self._place, apart=True)
        except PgError:
            return
        try:
            session.settings.set_default("lock_timeout", f"{int(_PATIENCE * 1000)}ms", complain=False)
            session.transaction.waits_for_disk = False
            session.transaction.numbering.is_heartbeat = True
            session.transaction.begin_statement(writes=True)
            lease.beat(session, self._token, list(self._copies.copying.values()))
            session.transaction.end_statement()
        except PgError:
            pass
        finally:
            session.close()
