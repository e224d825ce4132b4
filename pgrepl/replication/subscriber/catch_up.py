"""A database catches up with the changes for its enabled subscriptions, before a statement reads it.

The bound is the publisher's LSN at that moment: two databases that subscribe to each other would never end otherwise.
Errors go to the log. A subscription that failed is tried again when a table or a definition has changed, or when
wal_retrieve_retry_interval has passed; what the database's own workers write about themselves does not count.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pgrepl.catalog.context import Block
from pgrepl.catalog.recovery import in_recovery
from pgrepl.catalog.transaction import reading
from pgrepl.replication.log import ServerLog, log_beside
from pgrepl.replication.subscriber.at_once import has_news
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
        self._quiet: dict[int, float] = {}  # failed subscriptions, and when
        self._contents: object = None  # of the catalog after the last rounds

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
            changed = bool(self._quiet) and session.transaction.contents() != self._contents
        for subid in self._workers.keys() - set(waiting):
            self._workers.pop(subid).close()
            self._quiet.pop(subid, None)
        trying = [subid for subid in waiting if subid not in idle and (changed or self._may_try(subid))]
        for subid in trying:
            self._round(subid)
        if trying and self._quiet:
            with reading(self._session):
                self._contents = self._session.transaction.contents()

    def _is_idle(self, subid: int, session: Session) -> bool:
        worker = self._workers.get(subid)
        return worker is not None and subid not in self._quiet and not has_news(worker.context, session)

    def close(self) -> None:
        while self._workers:
            self._workers.popitem()[1].close()

    def _may_try(self, subid: int) -> bool:
        failed = self._quiet.get(subid)
        pause = int(self._session.settings.value("wal_retrieve_retry_interval")) / 1000
        return failed is None or time.monotonic() - failed >= pause

    def _round(self, subid: int) -> None:
        worker = self._workers.get(subid)
        if worker is None:  # the worker is kept, with its connection, for the next statements
            worker = self._workers[subid] = Worker(self._session, subid, self._log, patience=PATIENCE)
        done = worker.round(wait=True)
        self._quiet.pop(subid, None)
        if done.error is not None:
            self._quiet[subid] = time.monotonic()
