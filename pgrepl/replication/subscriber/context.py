"""The context of a worker: a session of its own with its settings (InitializeLogRepWorker), its subscription, and the
kept connection; and its work in spite of rows that local sessions have locked.

It reads first, without locks. The result is written in one short transaction that begins with `lock`: if another
session has altered the subscription, moved its origin or taken the lease meanwhile, SubscriptionChanged is raised and
nothing written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog.facts.roles import is_superuser, role_name
from pgrepl.catalog.facts.subscription import conninfo_of
from pgrepl.catalog.locks.lock_table import LockRequest
from pgrepl.catalog.session.login import admit, apply_stored_settings
from pgrepl.catalog.session.settings import Settings
from pgrepl.catalog.session.transaction import DimensionsNeeded, LockNeeded, reading, statement
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.commit import LockedByOthers
from pgrepl.replication.conninfo import ConnectionFailure
from pgrepl.replication.log import LogOf, ServerLog
from pgrepl.replication.publisher.protocol import Publisher, PublisherError
from pgrepl.replication.subscriber import connection, lease, state
from pgrepl.replication.subscriber.connection import connect
from pgrepl.replication.subscriber.lease import (
    CopyProgress,
    Heartbeat,
    HeldLease,
    Observer,
    SubscriptionChanged,
    WorkerFailed,
    WorkerStopped,
    asking,
)

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.files.memory import GivenBatch


_OF_WORKERS = (
    ("search_path", ""),
    ("session_replication_role", "replica"),
    ("client_min_messages", "debug5"),  # messages go to the log, which filters by log_min_messages
)
REMEMBERED = 100_000  # transactions; one that commits becomes visible long before so many have followed it
T = TypeVar("T")


@frozen
class WorkerSettings:
    """The settings that a worker has been started with."""

    command: Settings
    patience: float | None  # the seconds that it waits for the catalog's write lock, if not the usual ones

    def begin(self, session: Session) -> None:
        """Apply them before the subscription is known."""
        session.settings.take_command(self.command)
        if self.patience is not None:
            session.settings.set_default("lock_timeout", f"{int(self.patience * 1000)}ms", complain=False)

    def admit(self, session: Session, subscription: tables.pg_subscription) -> None:
        """Connect as the subscription's owner, who needs the usual privileges (InitializeApplyWorker), with the present
        settings."""
        try:
            admit(session, role_name(session, subscription.subowner), session.database.name)
        except PgError as error:
            raise WorkerFailed(error, began=False) from None
        session.authenticated_user = subscription.subowner
        session.act_as(BOOTSTRAP_SUPERUSER)  # for the worker's own reads and writes
        session.settings.forget_stored()
        apply_stored_settings(session, subscription.subowner, session.database_oid)
        self.begin(session)
        for name, value in (*_OF_WORKERS, ("synchronous_commit", subscription.subsynccommit)):
            session.settings.set_default(name, value, complain=False, source="override")


# --- kept connection --------------------------------------------------------------------------------------------------


class KeptConnection:
    """The connection, or the lack of one. Another thread may call `interrupt`, `give_up` and `wake`."""

    def __init__(self, session: Session, subid: int, given: GivenBatch | None) -> None:
        """`session`: the worker's. `given`: see connect."""
        self.opened: Publisher | None = None
        self._session = session
        self._subid = subid
        self._given = given
        self._opened_as: tuple[str, bool] | None = None

    def publisher(self, subscription: tables.pg_subscription) -> Publisher:
        """The publisher of the subscription, connected if it is not yet."""
        publisher = self.opened_for(subscription, self._session) or self._connect(subscription)
        publisher.inherit_engine(self._session)
        return publisher

    def opened_for(self, subscription: tables.pg_subscription, session: Session) -> Publisher | None:
        """The open connection, if it is the one that the subscription, as the session sees it, wants. None, too, if it
        has no connection string any more: who connects meets that error."""
        opened = self.opened
        if opened is None or not opened.is_open:
            return None
        try:
            return opened if _wanted(subscription, session) == self._opened_as else None
        except PgError:
            return None

    def _connect(self, subscription: tables.pg_subscription) -> Publisher:
        session = self._session
        self.close()
        try:
            wanted = _wanted(subscription, session)
            self.opened = publisher = connect(
                session, wanted[0], must_use_password=wanted[1], apart=True, subid=self._subid, given=self._given
            )
            with asking():
                connection.check(session, subscription, publisher)
        except ConnectionFailure as failure:
            failed = PgError("08006", f"could not connect to the publisher: {failure}")
            raise WorkerFailed(failed, began=False) from None
        except PgError as error:
            self.close()
            raise WorkerFailed(error, began=False) from error
        self._opened_as = wanted
        return publisher

    def wait(self, lsn: int, seconds: float, over: Event) -> bool:
        """See ChangeStream.wait. An error of the publisher is met again by what is asked next."""
        opened = self.opened
        if opened is None or not opened.is_open:
            over.wait(seconds)
            return True
        try:
            return opened.stream.wait(lsn, seconds, over)
        except PublisherError:
            return True

    def wake(self) -> None:
        if (opened := self.opened) is not None:
            opened.stream.wake()

    def interrupt(self) -> None:
        if (opened := self.opened) is not None:
            opened.interrupt()

    def close(self) -> None:
        opened, self.opened = self.opened, None
        if opened is not None:
            with suppress(PgError, PublisherError):
                opened.close()


def _wanted(subscription: tables.pg_subscription, session: Session) -> tuple[str, bool]:
    """The connection string, and whether the connection must use a password."""
    required = subscription.subpasswordrequired and not is_superuser(session, subscription.subowner)
    return conninfo_of(session, subscription), bool(required)


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


# --- locked rows ------------------------------------------------------------------------------------------------------


def despite_locks(context: WorkerContext, action: Callable[[], T]) -> T:
    """Run an action with a transaction of its own, and again after waiting whenever it meets rows that others have
    locked."""
    locks = context.session.transaction.locks
    needed: DimensionsNeeded | None = None
    while True:
        try:
            if needed is not None:
                _keep_dimensions(context, needed)
                needed = None
            return action()
        except DimensionsNeeded as missing:
            needed = missing
            continue
        except LockedByOthers as locked:
            wanted = locked.wanted
        try:
            locks.wait_until(wanted, partial(_is_taken, context, wanted))
        except PgError as error:
            if error.sqlstate != "40P01":
                raise
            locks.release()  # the other transaction of the deadlock goes first


def _keep_dimensions(context: WorkerContext, needed: DimensionsNeeded) -> None:
    """Have a column keep arrays of several dimensions, in a transaction of its own."""
    from pgrepl.writing.rewrite import keep_as_text

    try:
        with statement(context.session, writes=True):
            keep_as_text(context.session, needed)
    except LockNeeded as locked:
        raise LockedByOthers(locked.wanted) from None


def _is_taken(context: WorkerContext, wanted: LockRequest, ticket: int) -> bool:
    context.check_stopped()
    return context.session.transaction.locks.is_taken(wanted, ticket)
