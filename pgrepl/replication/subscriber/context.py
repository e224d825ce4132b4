"""The context of a worker: a session of its own, its subscription as it is now, and the connection to the publisher.

A worker holds the subscription's lease, and its slot at the publisher is active (attach.py). It reads first, from the
publisher and from its own tables, without locks. The result is written in one short transaction that begins with
`lock`: if another session has altered the subscription, moved its origin or taken the lease meanwhile, it raises
SubscriptionChanged and nothing is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.store import one
from pgrepl.catalog.transaction import reading, statement
from pgrepl.replication.log import LogOf, ServerLog
from pgrepl.replication.subscriber import lease, state
from pgrepl.replication.subscriber.copy_progress import CopyProgress
from pgrepl.replication.subscriber.failures import SubscriptionChanged, WorkerStopped
from pgrepl.replication.subscriber.heartbeat import Heartbeat
from pgrepl.replication.subscriber.kept_connection import KeptConnection
from pgrepl.replication.subscriber.lease import HeldLease
from pgrepl.replication.subscriber.observer import Observer
from pgrepl.replication.subscriber.worker_settings import WorkerSettings

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.publisher.files.given import GivenBatch

REMEMBERED = 100_000  # transactions; one that commits becomes visible long before so many have followed it


class WorkerContext:
    """What the parts of one worker's work share."""

    def __init__(
        self,
        session: Session,
        subid: int,
        log: ServerLog,
        observer: Observer | None = None,
        *,
        patience: float | None = None,
        given: GivenBatch | None = None,
    ) -> None:
        """The worker has a session of its own in the database of `session`. `patience`: see WorkerSettings. `given`:
        see connect."""
        with reading(session):
            database = session.database_oid
        self.session = session.elsewhere(database, BOOTSTRAP_SUPERUSER, apart=True)
        self.settings = WorkerSettings(session.settings, patience)
        self.settings.begin(self.session)
        self.log = LogOf(log, self.session)
        self.session.on_report = self.log.report
        self.observer = observer or Observer()
        self.subid = subid
        self.connection = KeptConnection(self.session, subid, given)
        self.lease: HeldLease | None = None  # which the workers of tables share
        self.heartbeat: Heartbeat | None = None
        self.copies = CopyProgress(self.observer)
        self.passed: deque[int] = deque(maxlen=REMEMBERED)  # XIDs of the last transactions that were applied, in order
        self.unforgotten: set[int] = set()  # copied tables whose slots have not been dropped yet
        self.unpublished: set[int] = set()  # relations of the publisher that it does not publish any more
        self.beside: list[WorkerContext] = []  # of the workers of tables
        self.stopped = self.closed = False

    def close(self) -> None:
        self.closed = True
        self.give_up()
        self.connection.close()
        self.session.close()

    def give_up(self) -> None:
        """From now on wait for no lock for long: the worker is about to end."""
        self.session.link.give_up()
        if self.connection.opened is not None:
            self.connection.opened.give_up()

    def stop(self) -> None:
        """End the worker soon, from another thread, with WorkerStopped or an error of the interrupted call; the workers
        of its tables, too."""
        self.stopped = True
        self.session.link.give_up()
        self.connection.interrupt()
        for other in list(self.beside):
            other.stop()

    def check_stopped(self) -> None:
        if self.stopped:
            raise WorkerStopped

    @property
    def token(self) -> str:
        """The lease's; empty: it is not held."""
        return "" if self.lease is None else self.lease.token

    @property
    def name(self) -> str:
        """The subscription's name, while the lease is held."""
        return "" if self.lease is None else str(self.lease.subscription.subname)

    # --- the subscription ---------------------------------------------------------------------------------------------

    def subscription(self) -> tables.pg_subscription | None:
        return one(self.session, tables.pg_subscription, oid=self.subid)

    @contextmanager
    def transaction(self) -> Iterator[tables.pg_subscription]:
        """A transaction in which the subscription exists and is enabled. It only reads before `lock`."""
        self.check_stopped()
        with statement(self.session):
            subscription = self.subscription()
            if subscription is None or not subscription.subenabled or not subscription.subslotname:
                raise SubscriptionChanged(self._farewell(subscription))
            self._check_same(subscription)
            yield subscription

    def lock(self, subscription: tables.pg_subscription, position: int | None = None) -> None:
        """Take the write lock, and check that nothing has changed on which the reads of the transaction depend. Without
        a `position` they do not depend on that of the main stream, nor on the transaction that it is to skip."""
        self.check_stopped()
        self.session.transaction.require_write()
        now = self.subscription()
        if now is None:
            raise SubscriptionChanged(self._farewell(now))
        same = now if position is not None else now._replace(subskiplsn=subscription.subskiplsn)
        if same != subscription:
            self._check_same(now)
            raise SubscriptionChanged
        if position is not None and state.position(self.session, subscription.oid) != position:
            raise SubscriptionChanged
        if not lease.is_held(self.session, subscription.oid, self.token):
            raise SubscriptionChanged

    def _check_same(self, now: tables.pg_subscription) -> None:
        if self.lease is not None and self.lease.must_restart(self.session, now):
            raise SubscriptionChanged(self.lease.farewell(now))

    def _farewell(self, now: tables.pg_subscription | None) -> str:
        return "" if self.lease is None else self.lease.farewell(now)

    def farewell(self) -> str:
        """The log message about the end of a worker whose subscription is dropped or disabled; empty: it is not."""
        with reading(self.session):
            subscription = self.subscription()
            return "" if subscription is not None and subscription.subenabled else self._farewell(subscription)
