"""Reading ahead: the next pieces of a slot's changes are read and decoded while one is applied.

The slot moves only when changes are committed here; they are read from temporary copies of it. There are two lanes,
each with a thread, a connection and a copy; while the server sends to one, it decodes for the other:

    lane 0   asks ── decoded, sends ────────┐ asks ── decoded, sends …
    lane 1           copies lane 0's slot, asks ── decoded, sends ─────── copies …

Each request decodes again from its slot's restart point. A server that streams sends each message by itself, which
costs it more: reading ahead leaves off once it has decoded twice as much again as it has sent, and the rest is
streamed.
"""

from __future__ import annotations

from contextlib import closing, suppress
from functools import partial
from queue import Empty, Full, Queue
from threading import Event

from pgrepl.ground.frozen import frozen
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.ground.threads import ThreadPool
from pgrepl.replication.conninfo import ConnectionFailure
from pgrepl.replication.publisher.postgres import slots
from pgrepl.replication.publisher.postgres.copy_rows import changes_of
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.pieces import Piece, pieces
from pgrepl.replication.publisher.protocol import PublisherError

MESSAGES = 1_000_000  # messages of a piece; a larger transaction is one piece
FIRST_MESSAGES = 250_000  # messages of the first request, for which the worker has to wait; then twice as many …
MOST_MESSAGES = 2_000_000  # … up to these: for each request the server reads its log again, and holds the answer
AHEAD = 16 << 20  # bytes of log from which on reading ahead is worth more connections
_AGAIN = 16 << 20  # bytes of log that the server may decode again, besides _SHARE of what it has sent
_SHARE = 2
_LOOK = 0.2  # seconds between two checks whether reading goes on
_COPY = "pgrepl_read_{}"  # name of a slot's copy, by the PID of the walsender that reads from it


class LeavesOff(Exception):
    """Reading ahead ends before all has been read, or with an error."""


@frozen
class ReadRequest:
    """The changes to read. A worker repeats the request until it has applied them all."""

    slot: str
    publications: tuple[str, ...]
    end: int
    local_only: bool
    two_phase: bool = False
    binary: bool = False
    tells: bool = False

    def command(self, link: Link, slot: str, limit: int, *, consume: bool) -> str:
        """The COPY of about so many messages, from this slot or a copy of it."""
        return changes_of(
            link, slot, self.publications, self.end, limit, local_only=self.local_only, two_phase=self.two_phase,
            binary=self.binary, tells=self.tells, consume=consume,
        )  # fmt: skip


def start_prefetch(link: Link, wanted: ReadRequest, start: int, data_path: str | None) -> Prefetch | None:
    """Begin to read ahead. None: there is too little to read, the server would decode much of it twice, or it has no
    free connection or slot."""
    if wanted.end - start < AHEAD:
        return None
    position = slots.position(link, wanted.slot)
    if position is None or position.confirmed - position.restart > _AGAIN:
        return None
    try:
        other = link.another()
    except ConnectionFailure:
        return None
    slot = _COPY.format(other.backend)
    try:
        slots.copy(other, wanted.slot, slot)
        slots.advance(other, slot, start)
    except PublisherError:
        other.close()
        return None
    except BaseException:
        other.close()
        raise
    return Prefetch(link, other, slot, wanted, start, data_path)


@frozen
class _Turn:
    """The right to send the next request: for `limit` messages behind the position of this slot."""

    slot: str
    limit: int


class _Lane:
    """A thread's queues: turns to take, and the ready pieces in order, with None behind those of each turn."""

    def __init__(self, link: Link | None, slot: str) -> None:
        self.link = link
        self.slot = slot
        self.turns: Queue[_Turn] = Queue()
        self.ready: Queue[Piece | BaseException | None] = Queue(1)
        self.thread: JoinedThread | None = None


class Prefetch:
    """Reads ahead by two lanes, and hands out their pieces in order."""

    def __init__(
        self, main: Link, first: Link, slot: str, wanted: ReadRequest, start: int, data_path: str | None
    ) -> None:
        """`data_path`: decode pieces into columns, too; files for Spark are written below this path."""
        self._main = main
        self._wanted = wanted
        self._data_path = data_path
        self._unwanted = Event()
        self._through = Event()  # all changes have been read
        self._decoding = ThreadPool(1, "pgrepl-decode")
        self._lanes = [_Lane(first, slot), _Lane(None, "")]
        self._start = start
        self._again = 0  # bytes of log that the server has decoded again
        self._failed: BaseException | None = None
        self._from = 0  # the lane that has the next piece
        self._lanes[0].turns.put(_Turn(slot, FIRST_MESSAGES))
        for number, lane in enumerate(self._lanes):
            lane.thread = JoinedThread(partial(self._run, number), "pgrepl-read")
            lane.thread.start()

    # --- in the threads -----------------------------------------------------------------------------------------------

    def _run(self, number: int) -> None:
        lane = self._lanes[number]
        try:
            if number:
                self._connect(lane)
            while (turn := self._turn(lane)) is not None:
                self._read(lane, self._lanes[1 - number], turn)
        except PublisherError as problem:
            # what the server has decoded before its error is lost with the request; the stream sends that first
            can_stream = lane.link is not None and lane.link.is_open
            self._give(lane, LeavesOff() if can_stream else problem)
        except BaseException as problem:
            self._give(lane, problem)
        finally:
            if lane.link is not None:
                lane.link.close()

    def _connect(self, lane: _Lane) -> None:
        with suppress(ConnectionFailure):
            link = self._main.another()
            lane.slot = _COPY.format(link.backend)
            lane.link = link

    def _turn(self, lane: _Lane) -> _Turn | None:
        while not (self._unwanted.is_set() or self._through.is_set()):
            with suppress(Empty):
                return lane.turns.get(timeout=_LOOK)
        return None

    def _read(self, lane: _Lane, other: _Lane, turn: _Turn) -> None:
        """Read one turn's pieces. The next turn goes to the other lane as soon as the server has decoded this one."""
        link = lane.link
        if link is None or not self._copied(lane, link, turn):
            other.turns.put(turn)
            self._give(lane, None)
            return
        self._check_decoding(link, lane.slot)
        count, limit = 0, turn.limit
        following = _Turn(lane.slot, min(2 * limit, MOST_MESSAGES))
        command = self._wanted.command(link, lane.slot, limit, consume=True)
        coming = pieces(
            link,
            command,
            0,
            self._wanted.end,
            limit,
            data_path=self._data_path,
            decoding=self._decoding,
            cut=MESSAGES,
            comes=lambda: other.turns.put(following),
        )
        with closing(coming):
            for piece in coming:
                count += piece.spool.count
                if not self._give(lane, piece):
                    piece.close()
                    return
        if count < limit:
            self._through.set()
        self._give(lane, None)

    def _check_decoding(self, link: Link, slot: str) -> None:
        position = slots.position(link, slot)
        if position is not None:
            self._again += position.confirmed - position.restart
            if self._again > _AGAIN + _SHARE * (position.confirmed - self._start):
                raise LeavesOff

    @staticmethod
    def _copied(lane: _Lane, link: Link, turn: _Turn) -> bool:
        """Bring the lane's slot to the position of the turn's slot; whether that succeeded."""
        if lane.slot == turn.slot:
            return True
        try:
            slots.drop_copy(link, lane.slot)
            slots.copy(link, turn.slot, lane.slot)
        except PublisherError:
            if not link.is_open:
                raise
            return False
        return True

    def _give(self, lane: _Lane, piece: Piece | BaseException | None) -> bool:
        while not self._unwanted.is_set():
            with suppress(Full):
                lane.ready.put(piece, timeout=_LOOK)
                return True
        return False

    # --- for whom it is read ------------------------------------------------------------------------------------------

    def piece(self) -> Piece:
        """The next piece, or LeavesOff; after the failure of a lane each call raises its error."""
        while True:
            if self._failed is not None:
                raise self._failed
            lane = self._lanes[self._from]
            try:
                piece = lane.ready.get(timeout=_LOOK)
            except Empty:
                if self._unwanted.is_set():
                    raise PublisherError("57014", "canceling statement due to user request") from None
                continue
            if piece is None:
                self._from = 1 - self._from
            elif isinstance(piece, Piece):
                return piece
            else:
                self._failed = piece

    def interrupt(self) -> None:
        """Stop reading; called from another thread."""
        self._unwanted.set()
        for lane in self._lanes:
            if lane.link is not None:
                lane.link.interrupt()

    def close(self) -> None:
        self.interrupt()
        for lane in self._lanes:
            if lane.thread is not None:
                lane.thread.join()
        self._decoding.shutdown()
        for lane in self._lanes:
            with suppress(Empty):
                left = lane.ready.get_nowait()
                if isinstance(left, Piece):
                    left.close()


_MORE = 4  # times as many messages, if all that came are applied already


class Reading:
    """One reading of a slot, which hands out its pieces in order."""

    def __init__(self, link: Link, wanted: ReadRequest, start: int, prefetch: Prefetch | None) -> None:
        self.wanted = wanted
        self._link = link
        self._position = start
        self._piece: Piece | None = None
        self._prefetch = prefetch

    @property
    def is_prefetched(self) -> bool:
        """Whether the changes are read ahead, from copies of the slot."""
        return self._prefetch is not None

    def covers(self, wanted: ReadRequest, start: int) -> bool:
        """Whether this reading has the requested changes from `start` on."""
        begin = self._position if self._piece is None else self._piece.begin
        return wanted == self.wanted and begin <= start

    def piece(self, start: int) -> Piece | None:
        """The first piece that reaches beyond `start`; None: there is nothing more."""
        while self._piece is None or self._piece.reached <= start:
            if self._position >= self.wanted.end:
                return None
            if self._piece is not None:
                self._piece.close()
                self._piece = None
            self._piece = self._next()
            self._piece.begin = self._position
            self._position = self._piece.reached = max(self._piece.reached, self._position)
        return self._piece

    def _next(self) -> Piece:
        if self._prefetch is not None:
            return self._prefetch.piece()
        limit = MESSAGES
        while True:  # the slot sends all changes again that have not been confirmed
            command = self.wanted.command(self._link, self.wanted.slot, limit, consume=False)
            (piece,) = pieces(self._link, command, self._position, self.wanted.end, limit)
            if piece.reached > self._position:
                return piece
            piece.close()
            limit *= _MORE

    def interrupt(self) -> None:
        if self._prefetch is not None:
            self._prefetch.interrupt()

    def close(self) -> None:
        if self._piece is not None:
            self._piece.close()
            self._piece = None
        if self._prefetch is not None:
            self._prefetch.close()
