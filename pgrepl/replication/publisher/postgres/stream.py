"""The stream of a slot: START_REPLICATION, received by a thread, so that the server decodes each change once.

    thread   server ─▶ messages ─▶ pieces of whole transactions ─▶ worker, which applies them
             server ◀─ feedback: written, flushed                ◀─ what is committed here

What comes while the worker commits is its next piece. As long as the server is known to have more, a piece is not
handed out before it is worth whole columns. The thread stops to read when pieces wait for the worker, and goes on to
give feedback. The connection belongs to the thread; the worker wakes it through a socket.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from contextlib import suppress
from threading import Condition
from typing import TYPE_CHECKING

from pgrepl.ground.interrupts import JoinedThread
from pgrepl.ground.lazy import np
from pgrepl.ground.threads import ThreadPool
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.pieces import Piece, Taking
from pgrepl.replication.publisher.postgres.slots import Feedback
from pgrepl.replication.publisher.postgres.spool import ABORT, COMMIT, PREPARE, STOP, InProgress
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.wire import pgoutput
from pgrepl.replication.wire.pgoutput_read import PADDING, Numbers

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

_HEAD = pgoutput.DATA.size  # bytes before pgoutput's message
_LENGTH = 4  # bytes before a message, for its length
_PORTION = 2 << 20  # bytes that are decoded together
_MESSAGES = 1_000_000  # messages of a piece; a larger transaction is one piece
_WORTH = 250_000  # messages of a piece that is handed out though the server has more …
_PATIENCE = 0.5  # … or so many seconds after it was asked for
_WAITING = 2  # pieces that wait for the worker before the thread stops to read
_REST = 0.0005  # seconds between two looks at what has come, while the worker does not wait for it
_READS = 64  # of libpq, before the worker is heard; they end with one of few messages
_FEW = 64
_GOODBYE = 5.0  # seconds for the server to end the stream
_LOOK = 0.2  # seconds between two checks for interrupts
# behind these no transaction is open, unless it is one in progress
_ENDS = frozenset([*(layout.letter for layout in pgoutput.ENDS), COMMIT, PREPARE, ABORT, STOP])


class Stream:
    """A stream that is being received from `start` on."""

    def __init__(self, link: Link, command: str, start: int, data_path: str, feedback: Feedback, until: int) -> None:
        """`data_path`: where columns are written. `until`: the server has WAL before it."""
        self._conn: PGconn = link.start_streaming(command)
        self._link = link
        self._data_path = data_path
        self._feedback = feedback
        self._near, self._far = socket.socketpair()
        for end in (self._near, self._far):
            end.setblocking(False)
        # of the thread alone
        self._held: list[memoryview] = []  # messages that no piece has
        self._size = 0  # of them, in bytes
        self._whole = 0  # the number of those up to the end of the last transaction
        self._whole_to = start  # where that ends
        self._sent_to = start  # the server has sent everything before it
        self._open = False  # the piece has the beginning of a transaction
        self._many = False  # messages have come last time
        self._in_progress = InProgress()
        self._decoding = ThreadPool(1, "pgrepl-decode")
        self._taking = Taking(start, data_path, self._decoding, [])
        # shared
        self._changed = Condition()
        self._ready: deque[Piece] = deque()
        self._available = start  # everything before it stands in ready pieces, or in those handed out
        self._until = until
        self._wanted = False  # the worker waits for a piece …
        self._wanted_since = 0.0  # … and has not got one since
        self._asked = self._answered = 0  # requests of the worker
        self._idle_at = 0.0  # when the worker was last told of an end without transactions
        self._begin = start  # everything from here on is still to be handed out
        self._woken = False
        self._stops = False
        self._failed: BaseException | None = None
        self._thread = JoinedThread(self._run, "pgrepl-receive")
        self._thread.start()

    # --- the worker's side --------------------------------------------------------------------------------------------

    def available(self) -> int:
        """The LSN before which everything has been received."""
        with self._changed:
            self._request()
            return self._available

    def piece(self, start: int, end: int) -> Piece | None:
        """The first piece that reaches beyond `start`; None: everything before `end` has been handed out. What a piece
        has behind `end` stays for the next request."""
        with self._changed:
            self._until = max(self._until, end)
            self._wanted_since = time.monotonic()
            while True:
                while self._ready and self._ready[0].reached <= min(start, end):
                    self._begin = self._ready[0].reached
                    self._ready.popleft().close()
                if not self._ready:
                    self._request()
                if self._ready and self._ready[0].reached > start and start < end:
                    return self._ready[0]
                if self._available >= end:
                    return None
                self._await(_LOOK)

    def wait(self, start: int, seconds: float, idle: float) -> bool:
        """Wait until transactions have come, or for so long; whether they have. An end that moves without transactions
        counts if `idle` seconds have passed since it last did."""
        until = time.monotonic() + seconds
        with self._changed:
            while not self._woken:
                self._request()
                now = time.monotonic()
                if self._ready and self._ready[-1].reached > start:
                    return True
                moves = self._available > start
                if moves and now >= self._idle_at + idle:
                    self._idle_at = now
                    return True
                left = until - now
                if moves:
                    left = min(left, self._idle_at + idle - now)
                if left <= 0:
                    return False
                self._await(left)
            self._woken = False
            return False

    def wake(self) -> None:
        """End a wait, or the next one; called from another thread."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def has_from(self, lsn: int) -> bool:
        """Whether everything from `lsn` on is still to be handed out."""
        return lsn >= self._begin

    def confirm(self, lsn: int) -> None:
        """Everything before `lsn` is committed here and on disk."""
        with self._changed:
            self._feedback.flushed = max(self._feedback.flushed, lsn)
        self._wake_thread()

    def interrupt(self) -> None:
        """Fail; called from another thread."""
        self._fail(PublisherError("57014", "canceling statement due to user request"))
        self._wake_thread()

    def close(self) -> None:
        """End the stream; the link can be used again, unless the connection is lost."""
        with self._changed:
            self._stops = True
        self._wake_thread()
        self._thread.join()
        self._decoding.shutdown()
        while self._ready:
            self._ready.popleft().close()
        self._near.close()
        self._far.close()
        self._link.end_streaming()

    def _request(self) -> None:
        """Let the thread hand out what has come; the lock is held."""
        self._asked += 1
        asked, self._wanted = self._asked, True
        self._wake_thread()
        while self._answered < asked and self._failed is None:
            self._changed.wait(_LOOK)
        self._wanted = False
        if self._failed is not None and not self._ready:
            raise self._failed

    def _await(self, seconds: float) -> None:
        """Wait for the thread; the lock is held."""
        self._wanted = True
        self._changed.wait(seconds)
        self._wanted = False
        if self._failed is not None and not self._ready:
            raise self._failed

    def _wake_thread(self) -> None:
        with suppress(BlockingIOError, OSError):
            self._near.send(b"!")

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            try:
                self._receive()  # libpq may have read on beyond the start: of that the socket tells nothing
                while not self._stops and self._failed is None:
                    self._speak()
                    self._listen()
                    self._hand_out()
                self._say_goodbye()
            except PublisherError:
                self._hand_out_last()
                raise
        except BaseException as problem:
            self._fail(problem)
        finally:
            self._taking.give_up()
            self._in_progress.close()

    def _hand_out_last(self) -> None:
        """Hand out the transactions that have come before the end of the stream."""
        if self._whole:
            self._take(self._whole)
        if not self._open and self._taking.spool.count:
            self._finish_piece()

    def _fail(self, problem: BaseException) -> None:
        with self._changed:
            self._failed = self._failed or problem
            self._changed.notify_all()

    def _speak(self) -> None:
        with self._changed:
            message = self._feedback.due(time.monotonic())
        if message is not None:
            self._send(message)

    def _send(self, message: bytes) -> None:
        try:
            self._conn.put_copy_data(message)
            while self._conn.flush():
                select.select([], [self._conn.socket], [], _LOOK)
        except self._link.error as problem:
            raise self._link.lost() from problem

    def _listen(self) -> None:
        """Wait for messages, for the worker, or until feedback is due; read what has come."""
        reads = len(self._ready) < _WAITING
        poll = select.poll()
        poll.register(self._far, select.POLLIN)
        if reads:
            poll.register(self._conn.socket, select.POLLIN)
        with self._changed:
            now = time.monotonic()
            if not reads:
                self._feedback.hear(now)  # it is not the server that is silent
            seconds = self._feedback.wait(now)
        come = dict(poll.poll(seconds * 1000))
        if self._far.fileno() in come:
            with suppress(BlockingIOError):
                self._far.recv(4096)
        if self._conn.socket in come:
            with self._changed:
                waited_for = self._wanted and self._is_due()
            if not waited_for or self._many:  # a server sends each message by itself: let some come together
                time.sleep(_REST)
            held = len(self._held)
            self._receive()
            self._many = len(self._held) >= held + _FEW

    def _receive(self) -> None:
        """Read what has come. libpq takes some kilobytes at a time."""
        size = 0
        try:
            for _ in range(_READS):
                before = len(self._held)
                self._conn.consume_input()
                size, message = self._conn.get_copy_data(1)
                size = self._read(size, message)
                if size < 0 or len(self._held) < before + _FEW:
                    break
        except self._link.error as problem:
            raise self._link.lost() from problem
        with self._changed:
            self._feedback.hear(time.monotonic())
        if size < 0:
            raise self._link.stream_ended()

    def _read(self, size: int, message: memoryview) -> int:
        """Read the messages that libpq has, from this one on: 0, or less at the end of the stream."""
        get, held = self._conn.get_copy_data, self._held
        while size > 0:
            if message[0] == pgoutput.DATA_TYPE and not self._is_beside(message[_HEAD]):
                held.append(message)
                self._size += size
                if message[_HEAD] in _ENDS:
                    self._whole = len(held)
                    self._whole_to = int.from_bytes(message[1:9], "big")
            elif message[0] == pgoutput.KEEPALIVE_TYPE:
                self._keepalive(bytes(message))
            size, message = get(1)
        return size

    def _is_beside(self, kind: int) -> bool:
        """Is it a logical message of no transaction? It comes between two: one of a transaction comes within."""
        return kind == pgoutput.MESSAGE_TYPE and self._whole == len(self._held) and not self._open

    def _keepalive(self, message: bytes) -> None:
        _, end, _, asks = pgoutput.KEEPALIVE.unpack(message)
        with self._changed:
            if asks:
                self._feedback.answer()
        if self._whole == len(self._held) and (self._whole or not self._open):
            self._sent_to = end

    def _hand_out(self) -> None:
        with self._changed:
            wanted, asked = self._wanted and self._is_due(), self._asked
        if self._whole and (wanted or self._size >= _PORTION):
            self._take(self._whole)
        if not self._open and self._taking.spool.count and (wanted or self._taking.spool.count >= _MESSAGES):
            self._finish_piece()
        if self._size >= _PORTION:  # a large transaction
            if not self._open and self._taking.spool.count:
                self._finish_piece()
            self._open = True
            self._take(len(self._held))
        with self._changed:
            before = self._available, self._answered
            if not (self._held or self._open or self._taking.spool.count):
                self._reach(self._sent_to)
            self._answered = asked
            if (self._available, self._answered) != before:  # else the worker would ask again for each read
                self._changed.notify_all()

    def _is_due(self) -> bool:
        """Whether a piece is handed out to a worker that waits; the lock is held."""
        if max(self._sent_to, self._whole_to) >= self._until or len(self._held) + self._taking.spool.count >= _WORTH:
            return True
        return not self._ready and time.monotonic() >= self._wanted_since + _PATIENCE

    def _reach(self, end: int) -> None:
        """Everything before `end` has been received; the lock is held."""
        self._feedback.written = max(self._feedback.written, end)
        self._available = max(self._available, end)

    def _take(self, count: int) -> None:
        """Add held messages to the piece."""
        messages, self._held = self._held[:count], self._held[count:]
        if count == self._whole:
            self._open = False
        self._whole = 0
        data, at = _joined(messages)
        self._size -= len(data) - PADDING
        for portion in self._in_progress.sort(data, at):
            self._taking.take(*portion)

    def _finish_piece(self) -> None:
        known = self._taking.spool.relations()
        piece = self._taking.done(None if self._held else self._sent_to)
        self._taking = Taking(piece.reached, self._data_path, self._decoding, known)
        with self._changed:
            self._ready.append(piece)
            self._reach(piece.reached)
            self._changed.notify_all()

    def _say_goodbye(self) -> None:
        """Tell the last positions, and end both ways of the COPY (walrcv_endstreaming). The server gives the slot free
        between the end of its COPY and that of the command: the next reader must not come before."""
        if self._failed is not None:
            return
        self._feedback.answer()
        self._speak()
        conn, size = self._conn, 0
        with suppress(self._link.error):
            conn.put_copy_end()
            conn.flush()
            until = time.monotonic() + _GOODBYE
            while (left := until - time.monotonic()) > 0:
                if size >= 0:
                    size, _ = conn.get_copy_data(1)
                if size < 0 and not conn.is_busy():
                    if conn.get_result() is None:
                        return
                elif size <= 0:
                    select.select([conn.socket], [], [], left)
                    conn.consume_input()


def _joined(messages: list[memoryview]) -> tuple[bytes, Numbers]:
    """pgoutput's messages in one buffer, with padding behind them, and where each begins; its length stands before it,
    in place of the time when it was sent."""
    data = bytearray(b"".join(messages))
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    at = np.cumsum(sizes) - sizes + _HEAD
    raw = np.frombuffer(data, np.uint8)
    lengths = (sizes - _HEAD).astype(">u4").view(np.uint8).reshape(-1, _LENGTH)
    raw[at[:, None] + np.arange(-_LENGTH, 0)] = lengths
    del raw
    data += bytes(PADDING)
    return bytes(data), at
