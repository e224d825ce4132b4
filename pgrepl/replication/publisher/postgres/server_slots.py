"""The slots of a server, as its walsender makes, alters and drops them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.replication.publisher.postgres import slots
from pgrepl.replication.publisher.postgres.change_stream import ServerChangeStream
from pgrepl.replication.publisher.postgres.connection import ServerConnection
from pgrepl.replication.publisher.postgres.retained import ServerProbe, retained
from pgrepl.replication.publisher.protocol import Slots
from pgrepl.replication.publisher.retained import Retained, SlotProbe
from pgrepl.replication.publisher.senders import WalSender
from pgrepl.types.lsn import parse_lsn

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


class ServerSlots(Slots):
    def __init__(self, connection: ServerConnection, stream: ServerChangeStream) -> None:
        self._connection = connection
        self._stream = stream

    def create(self, name: str, *, two_phase: bool, failover: bool) -> int:
        """Create a slot without exporting a snapshot; returns its consistent point."""
        link = self._connection.link
        command = f"CREATE_REPLICATION_SLOT {link.identifier(name)} LOGICAL pgoutput"
        if link.version >= slots.OPTIONS_IN_PARENTHESES:
            options = ["TWO_PHASE"] * two_phase + ["FAILOVER"] * failover + ["SNAPSHOT 'nothing'"]
            row = link.row(f"{command} ({', '.join(options)})")
        else:
            row = link.row(command + " TWO_PHASE" * two_phase + " NOEXPORT_SNAPSHOT")
        return parse_lsn(row[1] or "")

    def alter(self, name: str, *, failover: bool) -> None:
        link = self._connection.link
        link.rows(f"ALTER_REPLICATION_SLOT {link.identifier(name)} (FAILOVER {'true' if failover else 'false'})")

    def drop(self, name: str) -> None:
        slots.drop(self._connection.link, name)

    def occupy(self, slot: str, sender: WalSender, within: Session | None = None) -> None:
        """Check that the slot is free."""
        slots.check_free(self._connection.link, slot)
        self._stream.begin(slot, sender.options)
        self._connection.link.rename(sender.application_name)

    def leave(self, slot: str, token: str, within: Session | None = None) -> None:
        """End the reading, and send the last confirmed position. A slot that another worker reads from is taken from
        it."""
        if slot != self._stream.slot:
            slots.end_reader(self._connection.link, slot)
            return
        unconfirmed = self._stream.end()
        if unconfirmed:
            slots.advance(self._connection.link, slot, unconfirmed)

    def retained(self, slot: str) -> Retained | None:
        return retained(self._connection.link, slot)

    def probe(self, slot: str) -> SlotProbe | None:
        return ServerProbe(self._connection.link, slot)
