"""The slots of a lake, which are rows of its catalog (publisher/slots.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.replication.publisher import senders, slots
from pgrepl.replication.publisher.lake.connection import LakeConnection
from pgrepl.replication.publisher.protocol import Slots
from pgrepl.replication.publisher.retained import Retained
from pgrepl.replication.publisher.senders import WalSender

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


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
            made = slots.create_slot(session, name, two_phase=two_phase, failover=failover)
            return made.confirmed_flush_lsn or 0

    def alter(self, name: str, *, failover: bool) -> None:
        with self._changing() as session:
            slots.alter_slot(session, name, failover=failover)

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
        from pgrepl.replication.publisher.lake.size import retained

        with self._connection.asked() as session:
            row = slots.slot_or_none(session, slot)
            return None if row is None else retained(session, row)

    def probe(self, slot: str) -> None:
        return None
