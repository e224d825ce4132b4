"""A database catches up with the changes for its enabled subscriptions, before a statement reads it.

The bound is the publisher's LSN at that moment: two databases that subscribe to each other would never end otherwise.
Errors go to the log. A subscription that failed is tried again when something has changed, or when
wal_retrieve_retry_interval has passed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pgrepl.catalog.context import Block
from pgrepl.catalog.recovery import in_recovery
from pgrepl.catalog.transaction import reading
from pgrepl.replication.log import ServerLog, log_beside
from pgrepl.replication.subscriber.state import enabled_subscriptions
from pgrepl.replication.subscriber.worker import Worker

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

PATIENCE = 3.0  # seconds that a statement waits for another session's write lock


class CatchUp:
    """Catches up the database of a session each time it is called."""

    def __init__(self, session: Session, log: ServerLog | None = None) -> None:
        self._session = session
        self._log = log or log_beside(session)
        session.at_close.append(self.close)
        self._workers: dict[int, Worker] = {}
        self._quiet: dict[int, tuple[int, float]] = {}  # failed subscriptions: the catalog's version, when

    def now(self) -> None:
        session = self._session
        if session.transaction.block is not Block.NONE or session.catalog.obstacle is not None:
            return
        first = next(iter(self._workers.values()), None)
        session = session if first is None else first.session  # the worker's session caches what is read
        with reading(session):
            standby = in_recovery(session)  # subscriptions sleep until it is promoted
            waiting = [] if standby else [row.oid for row in enabled_subscriptions(session)]
            idle = {subid for subid in waiting if self._is_idle(subid, session)}
        for subid in self._workers.keys() - set(waiting):
            self._workers.pop(subid).close()
            self._quiet.pop(subid, None)
        for subid in waiting:
            if subid not in idle and self._may_try(subid):
                self._round(subid)

    def _is_idle(self, subid: int, session: Session) -> bool:
        worker = self._workers.get(subid)
        return worker is not None and subid not in self._quiet and not worker.has_news(session)

    def close(self) -> None:
        while self._workers:
            self._workers.popitem()[1].close()

    def _may_try(self, subid: int) -> bool:
        failed = self._quiet.get(subid)
        if failed is None:
            return True
        version, when = failed
        pause = int(self._session.settings.value("wal_retrieve_retry_interval")) / 1000
        return version != self._version(subid) or time.monotonic() - when >= pause

    def _version(self, subid: int) -> int:
        """The catalog's version; it changes when another session than the worker's, this one included, writes."""
        session = self._workers[subid].session
        with reading(session):
            return session.link.version()

    def _round(self, subid: int) -> None:
        worker = self._workers.get(subid)
        if worker is None:  # the worker is kept, with its connection, for the next statements
            worker = self._workers[subid] = Worker(self._session, subid, self._log, patience=PATIENCE)
        done = worker.round(wait=True)
        self._quiet.pop(subid, None)
        if done.error is not None:
            self._quiet[subid] = (self._version(subid), time.monotonic())
