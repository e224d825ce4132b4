"""The session of a lake's publisher, which its parts share, and the lake's slots.

For a statement, operations in the same instance are part of its transaction; for a worker each is a transaction by
itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError, Report
from pgrepl.replication.log import LogOf, log_beside
from pgrepl.replication.publisher import senders, slots
from pgrepl.replication.publisher.protocol import Slots, refused
from pgrepl.replication.publisher.senders import Retained, WalSender

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


class LakeConnection:
    """A session in the publishing database, as the role of the connection."""

    def __init__(self, session: Session, *, own_instance: bool, apart: bool) -> None:
        """`apart`: the publisher owns the session."""
        self.session = session
        self.apart = apart
        self.own_instance = own_instance
        self.token = self.slot = ""  # of the worker that reads through this publisher
        self.statement = ""  # its START_REPLICATION
        self.log = LogOf(log_beside(session), session)
        self.copying: ExitStack | None = None  # the transaction of a copy whose rows have not all been read

    @contextmanager
    def asked(self) -> Iterator[Session]:
        self.end_copy()
        try:
            with reading(self.session):
                yield self.session
        except PgError as error:
            raise refused(error) from error

    @contextmanager
    def writing(self, within: Session | None) -> Iterator[Session]:
        """A transaction that need not be synced, as for a slot's position and its walsender."""
        if within is not None:
            try:
                yield within
            except PgError as error:
                raise refused(error) from error
        else:
            with self.asked() as session:
                if self.apart:
                    session.transaction.waits_for_disk = False
                yield session

    def flush(self) -> None:
        """Sync commits with `synchronous_commit = off` before another instance receives them: after a crash here it
        would keep changes that are lost here. Within one instance a crash loses both."""
        if not self.own_instance:
            try:
                self.session.link.flush()
            except PgError as error:
                raise refused(error) from error

    def end_copy(self) -> None:
        transaction, self.copying = self.copying, None
        if transaction is not None:
            transaction.close()

    def close(self) -> None:
        self.end_copy()
        if self.apart:
            self.session.close()
        if not self.own_instance:
            self.session.catalog.close()

    # --- the publisher's log ------------------------------------------------------------------------------------------

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Write errors for the worker into the publisher's log, too."""
        try:
            yield
        except PgError as error:
            self.tell(error.report)
            raise

    def tell(self, report: Report) -> None:
        with suppress(OSError):  # the log may be another user's
            if self.statement:
                self.log.report(report, self.statement if report.severity in ("ERROR", "FATAL") else None)


def count_sent(session: Session, slot: str, transactions: int, size: int) -> None:
    statistics.count(session, statistics.SLOT, slot, total_txns=transactions, total_bytes=size)


class LakeSlots(Slots):
    def __init__(self, connection: LakeConnection) -> None:
        self._connection = connection

    @contextmanager
    def _changing(self) -> Iterator[Session]:
        """A transaction that is synced, as the files of PostgreSQL's slots are."""
        with self._connection.asked() as session:
            session.transaction.waits_for_disk = True
            yield session

    def create(self, name: str, *, two_phase: bool, failover: bool) -> int:
        with self._changing() as session:
            slots.check_decoding_requirements(session)
            slot = slots.create_slot(session, name, two_phase=two_phase, failover=failover)
            return slot.confirmed_flush_lsn or 0

    def alter(self, name: str, *, failover: bool | None, two_phase: bool | None) -> None:
        with self._changing() as session:
            slots.alter_slot(session, name, failover=failover, two_phase=two_phase)

    def drop(self, name: str) -> None:
        with self._changing() as session:
            slots.drop_slot(session, name)

    def occupy(self, slot: str, sender: WalSender, within: Session | None = None) -> None:
        connection = self._connection
        connection.statement = sender.statement
        with connection.writing(within) as session, connection.telling():
            slots.occupy(session, slot, replace(sender, role=connection.session.role))
        connection.token, connection.slot = sender.token, slot

    def leave(self, slot: str, token: str, within: Session | None = None) -> None:
        with self._connection.writing(within) as session:
            senders.leave(session, slot, token)

    def retained(self, slot: str) -> Retained | None:
        from pgrepl.replication.publisher.lake.transactions import retained

        with self._connection.asked() as session:
            row = slots.slot_or_none(session, slot)
            return None if row is None else retained(session, row)

    def probe(self, slot: str) -> None:
        return None
