"""What a worker stands on: a session of its own, its subscription as it is now, and the connection to the publisher.

A worker reads first, from the publisher and from its own tables, and holds no lock. What comes of it is written in one
short transaction that begins with `lock`: if somebody has altered the subscription, moved its origin or taken the lease
meanwhile, it raises SubscriptionChanged and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog import tables
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.store import Row, one
from pgrepl.errors import PgError
from pgrepl.replication import subscription_state as state
from pgrepl.replication.connection import connect
from pgrepl.replication.endpoints import ConnectionFailure
from pgrepl.replication.log import ServerLog
from pgrepl.replication.publisher import Publisher, PublisherError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

T = TypeVar("T")


class SubscriptionChanged(Exception):
    """Somebody has altered, disabled or dropped the subscription since its messages were read."""


class WorkerFailed(Exception):
    """The worker ends by an error of the subscription."""

    def __init__(self, error: PgError) -> None:
        super().__init__(error.message)
        self.error = error


class Receiver:
    """The session and the connection of one worker."""

    def __init__(self, session: Session, subid: int, log: ServerLog) -> None:
        """`session` says where the catalog is and which database; the work is done apart from it."""
        self.session = session.elsewhere(session.database.oid, BOOTSTRAP_SUPERUSER, apart=True)
        self.session.on_report = log.report
        self.subid = subid
        self.log = log
        self._publisher: Publisher | None = None
        self._connected_as: tuple[str, bool] | None = None

    def close(self) -> None:
        self.disconnect()
        self.session.close()

    # --- the subscription ---------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Row]:
        """A transaction in which the subscription is there and enabled; it only reads until it is told to `lock`."""
        transaction = self.session.transaction
        transaction.begin_statement()
        try:
            subscription = self.subscription()
            if subscription is None or not subscription.subenabled or not subscription.subslotname:
                raise SubscriptionChanged
            yield subscription
            transaction.end_statement()
        except BaseException:
            transaction.fail_statement()
            raise

    def subscription(self) -> Row | None:
        return one(self.session, tables.pg_subscription, oid=self.subid)

    def lock(self, subscription: Row, position: int) -> None:
        """From here on the running transaction writes: nobody else does, and nothing has changed that what it has read
        depends on."""
        self.session.transaction.require_write()
        if self.subscription() != subscription or state.position(self.session, subscription.oid) != position:
            raise SubscriptionChanged

    @contextmanager
    def as_owner(self, subscription: Row) -> Iterator[None]:
        before = self.session.act_as(subscription.subowner)
        try:
            yield
        finally:
            self.session.act_as(before)

    # --- the publisher ------------------------------------------------------------------------------------------------

    def publisher(self, subscription: Row) -> Publisher:
        """The connection, which is kept as long as it leads to where the subscription says."""
        required = subscription.subpasswordrequired and not is_superuser(self.session, subscription.subowner)
        wanted = (subscription.subconninfo, bool(required))
        if self._publisher is not None and wanted == self._connected_as:
            return self._publisher
        self.disconnect()
        try:
            self._publisher = connect(self.session, wanted[0], must_use_password=wanted[1], apart=True)
        except ConnectionFailure as failure:
            raise WorkerFailed(PgError("08006", f"could not connect to the publisher: {failure}")) from None
        except PgError as error:
            raise WorkerFailed(error) from error
        self._connected_as = wanted
        return self._publisher

    def disconnect(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            with suppress(PgError, PublisherError):
                publisher.close()


def guarded(action: Callable[[], T]) -> T:
    """The result, or the subscription's error."""
    try:
        return action()
    except PgError as error:
        raise WorkerFailed(error) from error


def asked(question: Callable[[], T]) -> T:
    """What the publisher answers."""
    try:
        return question()
    except PublisherError as error:
        raise WorkerFailed(PgError("08006", f"could not receive data from WAL stream: {error}")) from None
