"""The connection of a worker to its publisher, kept while the subscription's connection string stays the same."""

from __future__ import annotations

from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.roles import is_superuser
from pgrepl.errors import PgError
from pgrepl.replication.libpq.endpoints import ConnectionFailure
from pgrepl.replication.publisher.protocol import Publisher, PublisherError
from pgrepl.replication.subscriber import same_server
from pgrepl.replication.subscriber.connection import connect
from pgrepl.replication.subscriber.failures import WorkerFailed, asking

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.publisher.files.given import GivenBatch


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
        found = self.opened_for(subscription, self._session) or self._connect(subscription)
        found.choose_as(self._session)
        return found

    def opened_for(self, subscription: tables.pg_subscription, session: Session) -> Publisher | None:
        """The open connection, if it is the one that the subscription, as the session sees it, wants."""
        opened = self.opened
        if opened is not None and _wanted(subscription, session) == self._opened_as and opened.is_open:
            return opened
        return None

    def _connect(self, subscription: tables.pg_subscription) -> Publisher:
        session, wanted = self._session, _wanted(subscription, self._session)
        self.close()
        try:
            self.opened = publisher = connect(
                session, wanted[0], must_use_password=wanted[1], apart=True, subid=self._subid, given=self._given
            )
            with asking():
                same_server.check(session, subscription, publisher)
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
    return subscription.subconninfo, bool(required)
