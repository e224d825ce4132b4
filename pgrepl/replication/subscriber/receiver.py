"""The receiver of a worker: a session of its own, its subscription as it is now, and the connection to the publisher.

A worker holds the subscription's lease, and its slot at the publisher is active (`hold`). It reads first, from the
publisher and from its own tables, without locks. The result is written in one short transaction that begins with
`lock`: if another session has altered the subscription, moved its origin or taken the lease meanwhile, it raises
SubscriptionChanged and nothing is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog import processes, tables
from pgrepl.catalog import subscription as catalog
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.copies import Copying
from pgrepl.catalog.lock_table import LockRequest
from pgrepl.catalog.login import admit, apply_stored_settings
from pgrepl.catalog.roles import is_superuser, role_name
from pgrepl.catalog.store import one
from pgrepl.catalog.transaction import DimensionsNeeded, LockNeeded, reading, statement
from pgrepl.errors import PgError
from pgrepl.lake.commit import LockedByOthers
from pgrepl.replication.libpq.conninfo import parse_conninfo
from pgrepl.replication.libpq.endpoints import ConnectionFailure
from pgrepl.replication.log import LogOf, ServerLog
from pgrepl.replication.publisher.protocol import Publisher, PublisherError, Slots, not_received, not_started
from pgrepl.replication.publisher.senders import StreamOptions, WalSender
from pgrepl.replication.subscriber import lease, same_server, state
from pgrepl.replication.subscriber.connection import connect
from pgrepl.replication.subscriber.heartbeat import Heartbeat
from pgrepl.replication.subscriber.lease import LeaseHeld
from pgrepl.replication.subscriber.observer import Observer

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session
    from pgrepl.replication.publisher.files.given import GivenBatch
    from pgrepl.replication.subscriber.publisher_watch import PublisherWatch

T = TypeVar("T")
REMEMBERED = 100_000  # transactions; one that commits becomes visible long before so many have followed it
_SETTINGS = (
    ("search_path", ""),
    ("session_replication_role", "replica"),
    ("client_min_messages", "debug5"),  # messages go to the log, which filters by log_min_messages
)


class SubscriptionChanged(Exception):
    """The subscription was altered, disabled or dropped since its messages were read."""


class WorkerFailed(Exception):
    """The worker ends by an error of the subscription; pg_stat_subscription_stats counts it if the worker `began`."""

    def __init__(self, error: PgError, *, began: bool = True) -> None:
        super().__init__(error.message)
        self.error = error
        self.began = began


class ReceiverStopped(BaseException):
    """The worker has been stopped (Receiver.stop)."""


class Receiver:
    """The session and the connection of one worker."""

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
        """The worker has a session of its own in the database of `session`. `patience`: the seconds that it waits for
        the catalog's write lock, if not the usual ones. `given`: see connect."""
        self._given = given
        self.observer = observer or Observer()
        with reading(session):
            database = session.database_oid
        self.session = session.elsewhere(database, BOOTSTRAP_SUPERUSER, apart=True)
        self._command = session.settings
        self.session.settings.take_command(self._command)
        self.log = LogOf(log, self.session)
        self.session.on_report = self.log.report
        if patience is not None:
            self.session.settings.set_default("lock_timeout", f"{int(patience * 1000)}ms", complain=False)
        self.subid = subid
        self._server_log = log
        self._patience = patience
        self._closed = False
        self._leads = True  # it holds the lease itself
        self.stopped = False
        self._beside: list[Receiver] = []
        self._leader: Receiver | None = None
        self.token = ""  # of the lease, while it is held
        self._held: tables.pg_subscription | None = None  # the subscription as it was when the lease was taken
        self._of_superuser = False  # was its owner a superuser then?
        self._heartbeat: Heartbeat | None = None
        self.follows = False  # it goes on after this round, and looks after its publisher
        self._watch: PublisherWatch | None = None
        self._passed: deque[int] = deque(maxlen=REMEMBERED)  # XIDs of the last transactions
        self.unpublished: set[int] = set()  # relations of the publisher that it does not publish any more
        self._publisher: Publisher | None = None
        self._connected_as: tuple[str, bool] | None = None

    def close(self) -> None:
        """End the worker. It does not wait long for a catalog's write lock: the next worker finds that it has ended."""
        if not self._closed:
            self._closed = True
            if self._leader is not None:
                self._leader._beside.remove(self)
            self.session.link.give_up()
            if self._publisher is not None:
                self._publisher.give_up()
            self.release()
            self.disconnect()
            self.session.close()

    # --- workers of tables --------------------------------------------------------------------------------------------

    def beside(self) -> Receiver:
        """A receiver for the worker of a table, in another thread: under this one's lease, with a session and a
        connection of its own."""
        other = Receiver(self.session, self.subid, self._server_log, self.observer, patience=self._patience)
        other.session.settings.take_defaults(self.session.settings)
        other.session.authenticated_user = self.session.authenticated_user
        other.session.act_as(BOOTSTRAP_SUPERUSER)
        other.token, other._held, other._heartbeat, other._leads = self.token, self._held, self._heartbeat, False
        other._of_superuser = self._of_superuser
        other._leader = self
        self._beside.append(other)
        return other

    def stop(self) -> None:
        """End the worker soon, from another thread, with ReceiverStopped or an error of the interrupted call; the
        workers of its tables, too."""
        self.stopped = True
        self.session.link.give_up()
        publisher = self._publisher
        if publisher is not None:
            publisher.interrupt()
        for other in list(self._beside):
            other.stop()

    def check_stopped(self) -> None:
        if self.stopped:
            raise ReceiverStopped

    # --- the lease ----------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Become the subscription's worker; LeaseHeld if there is another."""
        if self._held is not None:
            return
        token = processes.new_token()
        try:
            with self.transaction() as subscription:
                self.admit(subscription)
                publisher = self.publisher(subscription)
                self.session.transaction.require_write()
                if self.subscription() != subscription:
                    raise SubscriptionChanged
                self._take_lease(token)
                if publisher.shares_catalog and same_server.is_unknown(self.session, self.subid):
                    self._catch_up_with_slot(publisher, subscription)
                with asking():
                    same_server.remember(self.session, self.subid, publisher)
                if publisher.shares_catalog:
                    self._occupy(publisher, subscription, token)
            self.token, self._held = token, subscription
            with reading(self.session):
                self._of_superuser = is_superuser(self.session, subscription.subowner)
            if not publisher.shares_catalog:
                self._occupy(publisher, subscription, token)
        except BaseException:
            processes.retire(token)
            self.release(occupied=False)
            raise
        self._heartbeat = Heartbeat(self.session, token)
        if self.follows:
            self._look_after(publisher, subscription)

    def _look_after(self, publisher: Slots, subscription: tables.pg_subscription) -> None:
        from pgrepl.replication.subscriber.publisher_watch import PublisherWatch

        self._watch = self._watch or PublisherWatch(self.session, self.log, self._server_log)
        self._watch.start(publisher, catalog.slot_of(subscription), subscription.subname)

    def _catch_up_with_slot(self, publisher: Slots, subscription: tables.pg_subscription) -> None:
        """Move the origin to the slot's position, in a catalog of a format before 5: there the origin of a subscription
        to its own instance moved only with applied changes, the slot with all that were read."""
        with asking():
            lag = publisher.lag(catalog.slot_of(subscription), tell=True)
        position = state.position(self.session, self.subid)
        if lag is not None and position and lag.confirmed > position:
            state.move(self.session, self.subid, lag.confirmed)

    def _take_lease(self, token: str) -> None:
        try:
            lease.take(self.session, self.subid, token)
        except PgError as error:
            raise WorkerFailed(error, began=False) from None

    def admit(self, subscription: tables.pg_subscription) -> None:
        """Connect as the subscription's owner, who needs the usual privileges (InitializeApplyWorker)."""
        try:
            admit(self.session, role_name(self.session, subscription.subowner), self.session.database.name)
        except PgError as error:
            raise WorkerFailed(error, began=False) from None
        self._apply_settings(subscription)

    def _apply_settings(self, subscription: tables.pg_subscription) -> None:
        """Apply the present settings of the owner and the database, and those of all workers
        (InitializeLogRepWorker)."""
        session = self.session
        session.authenticated_user = subscription.subowner
        session.act_as(BOOTSTRAP_SUPERUSER)  # for the worker's own reads and writes
        session.settings.forget_stored()
        apply_stored_settings(session, subscription.subowner, session.database_oid)
        session.settings.take_command(self._command)
        for name, value in (*_SETTINGS, ("synchronous_commit", subscription.subsynccommit)):
            session.settings.set_default(name, value, complain=False, source="override")
        if self._patience is not None:
            session.settings.set_default("lock_timeout", f"{int(self._patience * 1000)}ms", complain=False)

    def check_free(self) -> None:
        """LeaseHeld if another worker has the lease."""
        with reading(self.session):
            other = lease.holder(self.session, self.subid)
        if other is not None and other.token != self.token:
            raise LeaseHeld(other.pid)

    def _occupy(self, publisher: Slots, subscription: tables.pg_subscription, token: str) -> None:
        within = self.session if publisher.shares_catalog else None
        try:
            options = _options(subscription)
            with reading(self.session):
                lsn = state.position(self.session, subscription.oid)
            statement = options.statement(catalog.slot_of(subscription), lsn)
            sender = WalSender(token, self._application_name(subscription), statement, options=options)
            publisher.occupy(catalog.slot_of(subscription), sender, within)
        except PublisherError as error:
            raise WorkerFailed(not_started(error), began=False) from None

    @staticmethod
    def _application_name(subscription: tables.pg_subscription) -> str:
        return parse_conninfo(subscription.subconninfo).get("application_name") or str(subscription.subname)

    def release(self, *, occupied: bool = True) -> None:
        """Give the lease back, and leave the slot if it is `occupied`. If that fails, because a catalog is gone or
        locked, the next worker finds that this one has ended."""
        held, self._held = self._held, None
        if held is None or not self._leads:
            return
        token, self.token = self.token, ""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        if self._watch is not None:
            self._watch.stop()
        processes.retire(token)
        publisher = self._publisher
        with suppress(PublisherError, PgError):
            if publisher is not None and occupied and not publisher.shares_catalog:
                publisher.leave(catalog.slot_of(held), token)
        with suppress(PublisherError, PgError), statement(self.session, writes=True):
            lease.end(self.session, self.subid, lease.APPLY, token)
            if publisher is not None and publisher.shares_catalog:
                publisher.leave(catalog.slot_of(held), token, self.session)

    def copy_begins(
        self, subscription: str, table: Relation, rows: int | None, pieces: tuple[int, int] | None = None
    ) -> Callable[[int, int], None]:
        """A function to count rows and bytes of a table's copy, from any thread, for pg_stat_progress_copy. `rows` is
        the table's number of rows, if known. `pieces`: of a table that is copied in pieces those that are copied, and
        all; their rows are counted together."""
        copying = Copying(table.oid, tuples_total=rows)
        if pieces is not None:
            if self._heartbeat is not None:
                copying = self._heartbeat.copying.get(table.oid, copying)
            copying.count_pieces(*pieces)
        if self._heartbeat is not None:
            self._heartbeat.copying[table.oid] = copying
        name = table.qualified_name
        self.observer.rows(subscription, name, copying)

        def count_rows(tuples: int, size: int) -> None:
            copying.add(tuples, size)
            self.observer.rows(subscription, name, copying)

        return count_rows

    def pieces_copied(self, relid: int, done: int, total: int) -> None:
        copying = None if self._heartbeat is None else self._heartbeat.copying.get(relid)
        if copying is not None:
            copying.count_pieces(done, total)

    def copy_ended(self, relid: int) -> None:
        if self._heartbeat is not None:
            self._heartbeat.copying.pop(relid, None)

    # --- the subscription ---------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[tables.pg_subscription]:
        """A transaction in which the subscription exists and is enabled. It only reads before `lock`."""
        self.check_stopped()
        with statement(self.session):
            subscription = self.subscription()
            if subscription is None or not subscription.subenabled or not subscription.subslotname:
                raise SubscriptionChanged(self._farewell(subscription))
            if self._is_another(subscription):
                raise SubscriptionChanged(self._farewell(subscription))
            yield subscription

    def _is_another(self, subscription: tables.pg_subscription) -> bool:
        """Has the subscription changed so that the worker must restart? Not by ALTER SUBSCRIPTION … SKIP."""
        held = self._held
        if held is None:
            return False
        return subscription._replace(subskiplsn=0) != held._replace(subskiplsn=0) or self._is_demoted(subscription)

    def _is_demoted(self, subscription: tables.pg_subscription) -> bool:
        return self._of_superuser and not is_superuser(self.session, subscription.subowner)

    def _farewell(self, subscription: tables.pg_subscription | None) -> str:
        """The log message about the end of a worker that holds the lease (maybe_reread_subscription)."""
        if self._held is None:
            return ""
        worker = f'logical replication worker for subscription "{self._held.subname}"'
        if subscription is None:
            return f"{worker} will stop because the subscription was removed"
        if not subscription.subenabled:
            return f"{worker} will stop because the subscription was disabled"
        if subscription._replace(subskiplsn=0) == self._held._replace(subskiplsn=0):
            return f"{worker} will restart because the subscription owner's superuser privileges have been revoked"
        return f"{worker} will restart because of a parameter change"

    def farewell(self) -> str:
        """The log message about the end of a worker whose subscription is dropped or disabled; empty: it is not."""
        with reading(self.session):
            subscription = self.subscription()
            return "" if subscription is not None and subscription.subenabled else self._farewell(subscription)

    @property
    def name(self) -> str:
        """The subscription's name, while the lease is held."""
        return "" if self._held is None else str(self._held.subname)

    def subscription(self) -> tables.pg_subscription | None:
        return one(self.session, tables.pg_subscription, oid=self.subid)

    def despite_locks(self, action: Callable[[], T]) -> T:
        """Run an action with a transaction of its own, and again after waiting whenever it meets rows that others have
        locked. Locks of local sessions never make it fail."""
        locks = self.session.transaction.locks
        needed: DimensionsNeeded | None = None
        while True:
            try:
                if needed is not None:
                    self._keep_dimensions(needed)
                    needed = None
                return action()
            except DimensionsNeeded as found:
                needed = found
                continue
            except LockedByOthers as locked:
                wanted = locked.wanted
            try:
                locks.wait_until(wanted, partial(self._is_taken, wanted))
            except PgError as error:
                if error.sqlstate != "40P01":
                    raise
                locks.release()  # the other transaction of the deadlock goes first

    def _keep_dimensions(self, needed: DimensionsNeeded) -> None:
        """Have a column keep arrays of several dimensions, in a transaction of its own."""
        from pgrepl.writing.rewrite.dimensions import keep_as_text

        try:
            with statement(self.session, writes=True):
                keep_as_text(self.session, needed)
        except LockNeeded as locked:
            raise LockedByOthers(locked.wanted) from None

    def _is_taken(self, wanted: LockRequest, ticket: int) -> bool:
        self.check_stopped()
        return self.session.transaction.locks.is_taken(wanted, ticket)

    def lock(self, subscription: tables.pg_subscription, position: int) -> None:
        """Take the write lock, and check that nothing has changed on which the reads of the transaction depend."""
        self.check_stopped()
        self.session.transaction.require_write()
        now = self.subscription()
        if now != subscription:
            raise SubscriptionChanged(self._farewell(now) if now is None or self._is_another(now) else "")
        if state.position(self.session, subscription.oid) != position:
            raise SubscriptionChanged
        if not lease.is_held(self.session, subscription.oid, self.token):
            raise SubscriptionChanged

    def two_phase_begins(self) -> None:
        """Note that the worker itself has enabled two_phase, so that it need not restart."""
        if self._held is not None:
            self._held = self._held._replace(subtwophasestate=catalog.TWO_PHASE_ENABLED)

    def stay(self) -> None:
        """Give a heartbeat inside a long transaction, whose write lock blocks the heartbeat's thread."""
        self.check_stopped()
        lease.beat(self.session, self.token, ())

    def as_owner(self, subscription: tables.pg_subscription) -> AbstractContextManager[None]:
        return self.session.acting_as(subscription.subowner)

    def has_passed(self, xids: Iterable[int]) -> None:
        """Note that these transactions have been received and applied, in order."""
        self._passed.extend(xids)

    @property
    def passed(self) -> frozenset[int]:
        return frozenset(self._passed)

    # --- the publisher ------------------------------------------------------------------------------------------------

    def publisher(self, subscription: tables.pg_subscription) -> Publisher:
        """The connection, which is kept while the subscription's connection string stays the same."""
        found = self.connected(subscription, self.session) or self._connect(subscription)
        found.choose_as(self.session)
        return found

    def _connect(self, subscription: tables.pg_subscription) -> Publisher:
        wanted = self._wanted(subscription, self.session)
        self.disconnect()
        try:
            self._publisher = publisher = connect(
                self.session, wanted[0], must_use_password=wanted[1], apart=True, subid=self.subid, given=self._given
            )
            with asking():
                same_server.check(self.session, subscription, publisher)
        except ConnectionFailure as failure:
            failed = PgError("08006", f"could not connect to the publisher: {failure}")
            raise WorkerFailed(failed, began=False) from None
        except PgError as error:
            self.disconnect()
            raise WorkerFailed(error, began=False) from error
        self._connected_as = wanted
        return publisher

    @property
    def is_within_instance(self) -> bool:
        """Is it connected, and to a database of its own instance?"""
        return self._publisher is not None and self._publisher.within is not None

    def connected(self, subscription: tables.pg_subscription, session: Session) -> Publisher | None:
        """The open connection, if it is the one that the subscription, as the session sees it, wants."""
        publisher = self._publisher
        if publisher is not None and self._wanted(subscription, session) == self._connected_as and publisher.is_open:
            return publisher
        return None

    @staticmethod
    def _wanted(subscription: tables.pg_subscription, session: Session) -> tuple[str, bool]:
        """The connection string, and whether the connection must use a password."""
        required = subscription.subpasswordrequired and not is_superuser(session, subscription.subowner)
        return subscription.subconninfo, bool(required)

    def missing_before(self, lsn: int | None = None) -> int | None:
        """The LSN of the publisher, or the given earlier one, if there is work before it: changes, or tables that are
        not ready. It costs little."""
        with self.transaction() as subscription:
            publisher = self.publisher(subscription)
            with asking():
                lag = publisher.lag(catalog.slot_of(subscription), tell=True)
            position = state.position(self.session, subscription.oid)
            states = state.table_states(self.session, subscription.oid).values()
            can_begin = state.two_phase_can_begin(self.session, subscription)
        if lag is None or lag.current < position or 0 < position < lag.confirmed:  # a round raises the error
            return lsn or position or 1
        end = lag.sendable if lsn is None else lsn
        behind = end > max(lag.confirmed, position) or any(current != catalog.READY for current, _ in states)
        return end if behind or can_begin else None

    def wait(self, lsn: int, seconds: float, over: Event) -> bool:
        """See Worker.wait. An error of the publisher is met again by the next round."""
        publisher = self._publisher
        if publisher is None or not publisher.is_open or self._held is None:
            over.wait(seconds)
            return True
        try:
            return publisher.wait(lsn, seconds, over)
        except PublisherError:
            self.check_stopped()
            return True

    def wake(self) -> None:
        publisher = self._publisher
        if publisher is not None:
            publisher.wake()

    def disconnect(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            with suppress(PgError, PublisherError):
                publisher.close()


def _options(subscription: tables.pg_subscription) -> StreamOptions:
    return StreamOptions(
        tuple(subscription.subpublications),
        subscription.suborigin,
        {"t": "on", "p": "parallel"}.get(subscription.substream),
        subscription.subtwophasestate == catalog.TWO_PHASE_ENABLED,
        bool(subscription.subbinary),
    )


@contextmanager
def working() -> Iterator[None]:
    """Work that ends the worker if it fails: a PgError becomes WorkerFailed."""
    try:
        yield
    except PgError as error:
        raise WorkerFailed(error) from error


@contextmanager
def asking() -> Iterator[None]:
    """A question to the publisher, whose PublisherError becomes WorkerFailed."""
    try:
        yield
    except PublisherError as error:
        raise WorkerFailed(not_received(error)) from None
