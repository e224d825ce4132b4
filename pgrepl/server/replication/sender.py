"""START_REPLICATION: sends a slot's changes as they are committed (XLogSendLogical, ProcessRepliesIfAny).

The connection is in both-ways COPY: this side sends changes and keepalives, the subscriber says up to where it has
written and flushed them. What it has flushed is confirmed in the slot.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.sync_rep import names_now
from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError, Report
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.ground.lazy import np, pc
from pgrepl.replication.decoding import Line, SlotDecoder
from pgrepl.replication.publisher import senders, slots
from pgrepl.replication.publisher.senders import Positions, WalSender
from pgrepl.replication.publisher.standby_slots import sendable_lsn
from pgrepl.replication.wire import pgoutput
from pgrepl.server.backend_loop import Backend, SenderDone
from pgrepl.server.channel import LARGE_MESSAGE, Body, ConnectionLost
from pgrepl.server.replication.grammar import Command
from pgrepl.types.lake.arrays import content, joined, records

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.wire.pgoutput_write import MessageColumn

# a message of COPY with a change in it, as numpy writes it
_FRAME = [("message", "u1"), ("length", ">u4"), ("kind", "u1"), ("start", ">u8"), ("end", ">u8"), ("sent", ">i8")]
SPEAK = 5.0  # seconds between two keepalives while a batch is read
_LOOK = 0.01  # seconds between two looks whether something was committed
_CONFIRM = 0.5  # seconds between two notes of a position that moves on


class Sender:
    """One walsender."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._channel = backend.channel
        session = backend.session
        # apart from the client's session, whose transaction may be open
        self._session: Session = session.elsewhere(session.database_oid, session.role, apart=True)
        self._token = lock_file.new_token()
        self._slot = ""
        self._sent = 0  # all before it was sent
        self._told = 0  # the position that the subscriber knows
        self._confirmed = 0
        self._flushed = 0  # by the subscriber
        self._said = Positions(0, 0, 0)  # by the subscriber
        self._noted = Positions(0, 0, 0)
        self._noted_at = 0.0
        self._heard_at = time.monotonic()
        self._asked = False  # the subscriber to answer
        self._ends = False  # the subscriber has sent CopyDone
        self._held_back: Report | None = None

    def start(self, command: Command) -> None:
        if command.kind != "LOGICAL":
            self._refuse_physical(command)
        self._slot = command.slot
        try:
            decoder = self._begin(command)
            self._backend.log.slot("acquired", self._slot)
            self._channel.send(b"W", struct.pack("!bh", 0, 0))
            self._channel.flush()
            self._backend.replicates = True
            done = False
            try:
                self._stream(decoder)
                done = not self._ends
            finally:
                self._backend.replicates = done  # the postmaster may tell it to stop once more until it has ended
                self._leave()
            if not self._ends:  # WalSndDone says that much, and ends the session
                self._backend.complete("COPY 0")
                raise SenderDone
            self._channel.send(b"c")
            self._backend.complete("COPY 0")  # libpqrcv_endstreaming expects it before the command's own tag
        finally:
            lock_file.retire(self._token)
            self._session.close()

    def _refuse_physical(self, command: Command) -> NoReturn:
        """There is no physical replication. An error of the slot comes first (StartReplication)."""
        if command.slot:
            with reading(self._session):
                if slots.acquire(self._session, command.slot).slot_type == "logical":
                    raise PgError("55000", "cannot use a logical replication slot for physical replication")
        raise PgError("0A000", "physical replication is not supported")

    def _begin(self, command: Command) -> SlotDecoder:
        """Take the slot, and go to the position that the subscriber asks for, or the slot's if that is later
        (StartLogicalReplication)."""
        session = self._session
        given = [(o.name, "true" if o.value is None else str(o.value)) for o in command.options]
        with reading(session):
            slots.check_slot_permissions(session)
            slots.check_decoding_requirements(session)
            row = slots.acquire(session, command.slot, self._token)
            slots.check_decodable(session, row)
            start = max(row.confirmed_flush_lsn or 0, command.lsn)
            slots.check_retained(session, row, start)
            decoder = SlotDecoder(session, row, given, session.text_style, self._backend.session)
        name = self._backend.session.settings.get("application_name")
        sender = WalSender(self._token, name, self._backend.session.query, session.role)
        with slots.at_once(session) as there:
            slots.occupy(there, command.slot, sender)
        if decoder.asks_two_phase:
            slots.enable_two_phase(session, row, start)
        self._sent = start
        self._confirmed = self._flushed = row.confirmed_flush_lsn or 0  # may be before what the subscriber asks for
        return decoder

    def _leave(self) -> None:
        """Give the slot back, with the last position that was confirmed."""
        with slots.at_once(self._session) as there:
            slots.confirm(there, self._slot, self._flushed)
            senders.leave(there, self._slot, self._token)
        self._backend.log.slot("released", self._slot)

    # --- sending --------------------------------------------------------------------------------------------------

    def _stream(self, decoder: SlotDecoder) -> None:
        link = self._session.link
        seen = -1  # of the catalog, so that the first look tells the subscriber where it is, if nothing else
        while not self._ends:
            version = link.version()
            if version != seen:
                seen = version
                self._send_changes(decoder)
            self._listen(_LOOK)
            self._note()
            self._check_alive()
            if self._backend.is_stopping and link.version() == seen and self._is_done():
                return

    def _is_done(self) -> bool:
        """Whether the subscriber has all that there is; it is asked (WalSndDone)."""
        done = self._flushed >= self._sent and self._held_back is None
        if not done and not self._asked:
            self._keepalive(ask=True)
        return done

    def _send_changes(self, decoder: SlotDecoder) -> None:
        session = self._session
        with reading(session):
            row = slots.slot_or_none(session, self._slot)
            if row is None:
                raise PgError("42704", f'replication slot "{self._slot}" does not exist')
            slots.check_usable(row)
            end, held_back = sendable_lsn(session, row)
            if held_back is not None and held_back != self._held_back:
                session.report(held_back)
            self._held_back = held_back
            for change in decoder.changes(self._sent, end, slots.two_phase_at(row), self.speaking):
                if isinstance(change, tuple):
                    self._send_portion(*change)
                else:
                    self._send_column(change)
                if self._ends:
                    return
            moved = max(self._sent, end) > self._told
            self._sent = self._told = max(self._sent, end)
        if moved:  # it says how far that is, behind the last commit, too (WalSndWaitForWal)
            self._keepalive(ask=False)
        self._channel.flush()

    def _send_portion(self, behind: int, lines: Iterable[Line]) -> None:
        """Send a transaction."""
        size = 0
        for lsn, _, data in lines:
            self._send(lsn, data)
            size += len(data)
            if self._channel.has_input(0):
                self._listen(0)
        statistics.count(self._session, statistics.SLOT, self._slot, total_txns=1, total_bytes=size)
        self._sent = behind

    def _send_column(self, column: MessageColumn) -> None:
        sizes = pc.binary_length(column.data).to_numpy()
        heads = np.zeros(len(sizes), _FRAME)
        heads["message"], heads["length"] = ord("d"), sizes + pgoutput.DATA.size + 4
        heads["kind"], heads["start"], heads["end"], heads["sent"] = ord("w"), column.lsn, column.lsn, pgoutput.now()
        count, size = column.transactions, int(sizes.sum())
        self._channel.send_raw(content(joined([records(heads), column.data])))
        statistics.count(self._session, statistics.SLOT, self._slot, total_txns=count, total_bytes=size)
        self._sent = max(self._sent, column.behind)
        if self._channel.has_input(0):
            self._listen(0)

    def _send(self, lsn: int, data: bytes) -> None:
        self._channel.send(b"d", pgoutput.DATA.pack(b"w", lsn, lsn, pgoutput.now()) + data)

    def _keepalive(self, *, ask: bool) -> None:
        self._channel.send(b"d", pgoutput.KEEPALIVE.pack(b"k", self._sent, pgoutput.now(), ask))
        self._channel.flush()
        self._asked = self._asked or ask

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Send keepalives while a batch is read, which may take longer than the subscriber waits. Nothing else uses the
        connection meanwhile."""
        done = threading.Event()

        def speak() -> None:
            with suppress(ConnectionLost):  # the next message will find out
                while not done.wait(SPEAK):
                    self._keepalive(ask=False)

        thread = JoinedThread(speak, "pgrepl-keepalive")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    # --- what the subscriber says -----------------------------------------------------------------------------------

    def _listen(self, seconds: float) -> None:
        """Read what has come, waiting so long at most for the first message."""
        channel = self._channel
        while channel.has_input(seconds):
            seconds = 0
            kind = channel.read_kind()
            body = Body(channel.read_body(LARGE_MESSAGE))
            self._heard_at, self._asked = time.monotonic(), False
            if kind == b"d":
                self._reply(body)
            elif kind == b"c":
                self._ends = True
                return
            elif kind == b"X":
                raise ConnectionLost
            else:
                said = f'unexpected standby message type "{kind.decode("latin-1")}"'
                raise PgError("08P01", said, severity="FATAL")

    def _reply(self, body: Body) -> None:
        kind = body.byte()
        if kind == b"r":
            written, flushed, applied, _at = body.int64(), body.int64(), body.int64(), body.int64()
            self._flushed = max(self._flushed, min(flushed, self._sent))
            self._said = Positions(min(written, self._sent), self._flushed, min(applied, self._sent))
            if body.byte() != b"\0":
                self._keepalive(ask=False)
        elif kind != b"h":
            raise PgError("08P01", f'unexpected message type "{kind.decode("latin-1")}"', severity="FATAL")

    def _note(self) -> None:
        """Enter the positions, now and then; at once where commits wait for them."""
        now = time.monotonic()
        due = now - self._noted_at >= _CONFIRM or self._flushed >= self._sent
        if (self._flushed > self._confirmed and due) or (self._said != self._noted and names_now(self._session)):
            with slots.at_once(self._session) as there:
                there.transaction.waits_for_disk = False
                slots.confirm(there, self._slot, self._flushed, self._said)
            self._confirmed, self._noted, self._noted_at = self._flushed, self._said, now

    def _check_alive(self) -> None:
        """End a connection that has been silent for too long; ask first (WalSndKeepaliveIfNecessary)."""
        timeout = int(self._session.settings.value("wal_sender_timeout")) / 1000
        silent = time.monotonic() - self._heard_at
        if timeout and silent >= timeout:
            raise PgError("57014", "terminating walsender process due to replication timeout", severity="FATAL")
        if timeout and silent >= timeout / 2 and not self._asked:
            self._keepalive(ask=True)
