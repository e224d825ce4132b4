"""A database of a PostgreSQL server as a publisher: its stream, and its slots as a walsender makes, alters and drops
them.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING

from pgrepl.engine.choice import LEAST_CHANGES
from pgrepl.replication.publisher.postgres import slots
from pgrepl.replication.publisher.postgres.comparing import ServerComparing
from pgrepl.replication.publisher.postgres.connection import ServerCatalog, ServerConnection
from pgrepl.replication.publisher.postgres.copies import ServerCopies
from pgrepl.replication.publisher.postgres.link import APPLICATION, Link
from pgrepl.replication.publisher.postgres.pieces import Piece
from pgrepl.replication.publisher.postgres.prefetch import LeavesOff, Reading, ReadRequest, start_prefetch
from pgrepl.replication.publisher.postgres.slots import Feedback, ServerProbe, retained
from pgrepl.replication.publisher.postgres.stream import Stream
from pgrepl.replication.publisher.protocol import (
    ChangeStream,
    ColumnsFollow,
    Publisher,
    PublisherError,
    SlotLag,
    Slots,
    StreamRequest,
)
from pgrepl.replication.publisher.senders import Retained, SlotProbe, StreamOptions, WalSender
from pgrepl.replication.wire.messages import WireTransaction
from pgrepl.types.plain import parse_lsn

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.wire.batch import WireBatch

_STATUS_INTERVAL = 30.0  # seconds between two confirmations while much is read
_IDLE = 1.0  # seconds between two confirmations of a position behind which nothing of the publication has come
_MAY_NOT = "42501"
_LOG_OF_CHANGE = 30  # bytes of log that a change takes at least


class ServerChangeStream(ChangeStream):
    def __init__(self, connection: ServerConnection, interval: float, heartbeat: float) -> None:
        """`interval`, `heartbeat`: see to_server."""
        self._connection = connection
        self._interval = interval
        self._heartbeat = heartbeat
        self._quiet_since = 0, 0.0  # the position at which nothing has come, and since when
        self.slot = ""  # the slot that the worker reads from
        self._options: StreamOptions | None = None  # how the worker that reads from the slot wants its changes
        self._two_phase = False  # the slot sends prepared transactions at PREPARE
        self._reading: Reading | None = None
        self._unconfirmed = 0  # the position that is committed here, if the server does not know it yet
        self._confirmed_at = 0.0

    def begin(self, slot: str, options: StreamOptions | None) -> None:
        """From now on a worker reads from the slot."""
        self.slot = slot
        self._options = options
        self._two_phase = options is not None and options.two_phase

    def end(self) -> int:
        """The worker does not read any more. Returns the position that is committed here, but not confirmed."""
        self.stop()
        self._options = None
        unconfirmed, self._unconfirmed = self._unconfirmed, 0
        return unconfirmed

    def stop(self) -> None:
        self._connection.stop_streaming()
        self._stop_reading()

    def interrupt(self) -> None:
        """End the reading with an error; called from another thread."""
        reading = self._reading
        if reading is not None:
            reading.interrupt()

    # --- positions ----------------------------------------------------------------------------------------------------

    def current_lsn(self) -> int:
        if self._connection.stream is not None:
            return max(self._connection.stream.available(), self._connection.target)
        end = slots.current_lsn(self._connection.link)
        held_back = slots.sendable_lsn(self._connection.link, self.slot) if self.slot else None
        return end if held_back is None else min(end, held_back)

    def start(self, slot: str, lsn: int, *, two_phase: bool = False) -> int:
        if self._connection.stream is not None:
            if self._connection.stream.has_from(lsn) and two_phase == self._two_phase:
                return lsn
            self._connection.stop_streaming()
        prefetched = self._reading is not None and self._reading.is_prefetched
        begin = slots.start(self._connection.link, slot, lsn, tell=not prefetched)
        if two_phase and not self._two_phase and slots.can_two_phase(self._connection.link):
            self._two_phase = True
            self._begin_streaming(slot, begin, begin)  # which enables it for the slot (CreateDecodingContext)
        return begin

    def lag(self, slot: str, *, tell: bool = False) -> SlotLag | None:
        return slots.lag(self._connection.link, slot)

    def confirm(self, slot: str, lsn: int, within: Session | None = None) -> None:
        """Confirm a position. The server reads its WAL again for each confirmation; so during a long reading positions
        are confirmed only now and then, as a walreceiver does, and the last one in a thread."""
        if self._connection.stream is not None:
            self._connection.stream.confirm(lsn)
            return
        reading, now = self._reading, time.monotonic()
        if reading is not None and lsn >= reading.wanted.end:
            self._stop_reading()
        elif reading is not None and reading.is_prefetched and now - self._confirmed_at < _STATUS_INTERVAL:
            self._unconfirmed = lsn
            return
        self._unconfirmed, self._confirmed_at = 0, now
        if reading is not None and reading.is_prefetched and self._reading is None:
            self._connection.tell(slot, lsn)
        else:
            slots.advance(self._connection.link, slot, lsn)

    def wait(self, lsn: int, seconds: float, over: Event) -> bool:
        if self._options is None:
            return super().wait(lsn, seconds, over)
        if self._connection.stream is None:
            self._stop_reading()
            self._begin_streaming(self.slot, lsn, lsn)
        self._connection.close_unused()
        self._beat(lsn)
        return self._connection.stream is None or (
            not over.is_set() and self._connection.stream.wait(lsn, seconds, _IDLE)
        )

    def _beat(self, lsn: int) -> None:
        """Write a logical message where nothing has come for long. A role that may not do that is left in peace."""
        now = time.monotonic()
        if self._quiet_since[0] != lsn:
            self._quiet_since = lsn, now
        elif self._heartbeat and now - self._quiet_since[1] >= self._heartbeat:
            self._quiet_since = lsn, now
            try:
                self._connection.link.rows("SELECT pg_catalog.pg_logical_emit_message(false, 'pgrepl', '')")
            except PublisherError as refused:
                if refused.sqlstate != _MAY_NOT:
                    raise
                self._heartbeat = 0.0

    def wake(self) -> None:
        stream = self._connection.stream
        if stream is not None:
            stream.wake()

    # --- transactions -------------------------------------------------------------------------------------------------

    def transactions(self, wanted: StreamRequest, limit: int | None = None) -> Generator[WireTransaction, None, None]:
        start = wanted.start
        if start >= wanted.end:
            return
        request, any_yet = self._request(wanted), False
        while (piece := self._piece(request, start, as_columns=False)) is not None:
            if self._options is not None and any_yet and piece.spool.changes > LEAST_CHANGES:
                raise ColumnsFollow
            for transaction in piece.one_by_one(start, wanted.end):
                any_yet = True
                yield transaction
            start = piece.reached

    def batch(self, wanted: StreamRequest, least: int) -> tuple[WireBatch, int] | None:
        start, end = wanted.start, wanted.end
        if self._connection.stream is None and end - start < least * _LOG_OF_CHANGE:
            # what is streamed in progress has its log before that; a lake counts transactions
            if not self._connection.link.is_lake:
                return None
        piece = self._piece(self._request(wanted), start, as_columns=True)
        return None if piece is None else piece.batch(start, end, least, self._connection.data_path)

    def _request(self, wanted: StreamRequest) -> ReadRequest:
        binary = self._options is not None and self._options.binary
        return ReadRequest(
            wanted.slot, wanted.publications, wanted.end, wanted.local_only, self._two_phase, binary, wanted.tells
        )

    def _piece(self, wanted: ReadRequest, start: int, *, as_columns: bool) -> Piece | None:
        """The first piece that reaches beyond `start`. A worker's changes are streamed, unless much has piled up: then
        copies of its slot are read ahead, as long as that costs the server less (prefetch.py)."""
        if self._connection.stream is None:
            if self._reading is None or not self._reading.covers(wanted, start):
                self._begin_reading(wanted, start, as_columns=as_columns)
            try:
                if self._reading is not None:
                    return self._reading.piece(start)
            except LeavesOff:
                self._stop_reading()
                if self._options is None:
                    self._reading = Reading(self._connection.link, wanted, start, None)
                    return self._reading.piece(start)
            self._begin_streaming(wanted.slot, start, wanted.end)
        assert self._connection.stream is not None
        return self._connection.stream.piece(start, wanted.end)

    def _begin_reading(self, wanted: ReadRequest, start: int, *, as_columns: bool) -> None:
        self._stop_reading()
        link = self._connection.link
        self._confirmed_at = time.monotonic()
        prefetch = start_prefetch(link, wanted, start, self._connection.data_path if as_columns else None)
        if prefetch is not None or self._options is None:
            self._reading = Reading(link, wanted, start, prefetch)

    def _stop_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()

    def _begin_streaming(self, slot: str, start: int, target: int) -> None:
        assert self._options is not None
        connection, link = self._connection, self._connection.to_stream()
        options = replace(self._options, two_phase=self._two_phase)
        feedback = Feedback(start, self._interval, link.patience, time.monotonic())
        connection.target = max(connection.target, target)
        command = options.statement(slot, start, link.version, is_lake=options.tells and link.is_lake)
        connection.stream = Stream(link, command, start, connection.data_path, feedback, connection.target)


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

    def alter(self, name: str, *, failover: bool | None, two_phase: bool | None) -> None:
        link = self._connection.link
        given = {"FAILOVER": failover, "TWO_PHASE": two_phase}
        options = ", ".join(f"{word} {str(value).lower()}" for word, value in given.items() if value is not None)
        link.rows(f"ALTER_REPLICATION_SLOT {link.identifier(name)} ({options})")

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


class PostgresPublisher(Publisher):
    """An open connection to a server."""

    slots: ServerSlots
    stream: ServerChangeStream
    copies: ServerCopies

    def __init__(self, link: Link, data_path: str, interval: float = 10.0, heartbeat: float = 0.0) -> None:
        """`data_path`: where files for Spark are written. `interval`, `heartbeat`: see to_server."""
        self._connection = ServerConnection(link, data_path)
        self.catalog = ServerCatalog(self._connection)
        self.stream = ServerChangeStream(self._connection, interval, heartbeat)
        self.slots = ServerSlots(self._connection, self.stream)
        self.copies = ServerCopies(self._connection)

    @property
    def is_open(self) -> bool:
        return self._connection.opened.is_open

    @property
    def used_password(self) -> bool:
        return self._connection.link.used_password

    @cached_property
    def system_identifier(self) -> str:
        return self._connection.link.row("IDENTIFY_SYSTEM")[0] or ""

    @cached_property
    def comparing(self) -> ServerComparing:
        return ServerComparing(self._connection)

    def interrupt(self) -> None:
        self._connection.interrupt()
        self.stream.interrupt()

    def close(self) -> None:
        self.stream.stop()
        self._connection.close()


def to_server(
    options: Mapping[str, str],
    data_path: str,
    patience: float | None = None,
    *,
    interval: float = 10.0,
    heartbeat: float = 0.0,
) -> PostgresPublisher:
    """An open connection; ConnectionFailure with libpq's words. `patience`: see Link; `interval`: see Feedback;
    `heartbeat`: the seconds without a change after which a follower writes a message."""
    return PostgresPublisher(Link(options, APPLICATION, patience=patience), data_path, interval, heartbeat)
