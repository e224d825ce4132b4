"""A few changes of a database of the subscriber's instance, read in the subscriber's own transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgrepl import engine
from pgrepl.catalog import tables
from pgrepl.replication.publisher.lake.connection import LakeConnection, count_sent
from pgrepl.replication.publisher.protocol import ChangesWithin, StreamRequest
from pgrepl.replication.wire.messages import WireTransaction, message_bytes

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_FEW, _FEW_SNAPSHOTS = 100, 10  # changes in files, and snapshots, that are applied under the catalog's write lock


class LakeChangesWithin(ChangesWithin):
    def __init__(self, connection: LakeConnection) -> None:
        self._session = connection.session
        self._log = connection.log
        self._within: tuple[Session, Session] | None = None  # a worker's session, and one of the publishing database

    def is_usual(self, slot: tables.pg_replication_slot) -> bool:
        special = slot.temporary or slot.two_phase or slot.failover or slot.synced or slot.invalidation_reason
        return slot.slot_type == "logical" and slot.datoid == self._session.database_oid and not special

    def few(self, within: Session, wanted: StreamRequest) -> list[WireTransaction] | None:
        from pgrepl.replication.publisher.lake.size import changed_rows
        from pgrepl.replication.publisher.lake.stream import ChangeError, MessageStream

        session = self._seen_within(within)
        if self._log.hears("DEBUG1") or wanted.end - wanted.start > _FEW_SNAPSHOTS:
            return None
        count = changed_rows(session, wanted.start, wanted.end)
        if count > _FEW or engine.choose_batch(within, count).engine is not engine.Engine.LOCAL:
            return None
        stream = MessageStream(session, wanted.publications, local_only=wanted.local_only, is_small=True)
        try:
            return list(stream.transactions(wanted.start, wanted.end))
        except ChangeError:
            return None

    def _seen_within(self, other: Session) -> Session:
        """A session of the publishing database in another session's transaction."""
        known = self._within
        if known is None or known[0] is not other:
            there = other.elsewhere(self._session.database_oid, self._session.role)
            there.settings.take_defaults(self._session.settings)
            known = self._within = (other, there)
        known[1].on_report = other.on_report
        return known[1]

    def has_sent(self, slot: str, transactions: Iterable[WireTransaction]) -> None:
        for transaction in transactions:
            count_sent(self._session, slot, 1, message_bytes(transaction.messages))
