"""What is to be had from a slot between two LSNs, read piece by piece, each message once.

A little is peeked from the slot itself. Much is read ahead: a thread reads the next piece on a connection of its own,
and another decodes it, while this one is applied. It reads from a temporary copy of the slot, which it may consume, and
which goes when the connection does; the slot itself stays where it is until what was read is committed here. A server
that has no room for the copy is peeked piece by piece.

    piece     whole transactions, until the number of messages is full or everything is there
    ahead     one piece is being applied, one is ready, one is being read: more are not asked for
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from queue import Empty, Full, Queue
from threading import Event, Thread

from pgrepl.frozen import frozen
from pgrepl.replication.bulk.batch import WireBatch
from pgrepl.replication.endpoints import ConnectionFailure
from pgrepl.replication.postgres import slots
from pgrepl.replication.postgres.bulk_changes import Decoder, NoColumns, Redefined, batch_of, decoded
from pgrepl.replication.postgres.changes import changes_of, portions
from pgrepl.replication.postgres.columns import Numbers
from pgrepl.replication.postgres.link import Link
from pgrepl.replication.postgres.spool import Spool
from pgrepl.replication.publisher import PublisherError
from pgrepl.replication.sending.wire import WireTransaction

MESSAGES = 1_000_000  # of a piece; a larger transaction is one piece
FIRST_MESSAGES = 250_000  # that are asked for at first, as everybody has to wait for them; then twice as many …
MOST_MESSAGES = 2_000_000  # … and so on up to these, as the server reads its log again each time, and keeps the answer
_PLAYED = 20_000  # changes that are played after columns could not be applied
AHEAD = 16 << 20  # bytes of log from which on it is worth another connection
_LOOK = 0.2  # seconds between two looks whether it is still wanted
_COPY = "pgrepl_read_{}"  # by the process of the server that reads from it


@frozen
class Wanted:
    """What is read: a round of a worker asks for the same until it is through."""

    slot: str
    publications: tuple[str, ...]
    end: int
    local_only: bool


class Piece:
    """Whole transactions; nothing else finishes from `begin` on and before `reached`.

    After columns of it could not be applied, it is played one by one for so many changes, and each time for twice as
    many, before columns are tried again.
    """

    def __init__(self, begin: int, reached: int, spool: Spool, decoder: Decoder | None, bound: int | None) -> None:
        """`decoder`: all of it is decoded. `bound`: the message that describes a relation anew."""
        self.begin = begin
        self.reached = reached
        self.spool = spool
        self._decoder = decoder
        self._bound = bound
        self._offered: int | None = None  # columns from this LSN on
        self._wait, self._left = _PLAYED, 0

    def close(self) -> None:
        if self._decoder is not None:
            self._decoder.forget()
        self.spool.close()

    def batch(self, start: int, end: int, least: int, data_path: str) -> tuple[WireBatch, int] | None:
        """See Publisher.bulk."""
        transactions = self.spool.transactions
        first, until = transactions.since(start), transactions.since(end)
        if first >= until or self.spool.changes < least or self._left > 0:
            return None
        found = self._columns(first, until, least, data_path)
        if found is None:
            self._decline()
        else:
            self._offered = start
        return found

    def one_by_one(self, start: int, end: int) -> Iterator[WireTransaction]:
        """The transactions that finish at `start` or later and before `end`, empty ones left out."""
        if start == self._offered:
            self._decline()
        for transaction in self.spool.one_by_one(start, end):
            self._left -= len(transaction.messages)
            yield transaction

    def _decline(self) -> None:
        self._offered = None
        self._left, self._wait = self._wait, 2 * self._wait

    def _columns(self, first: int, until: int, least: int, data_path: str) -> tuple[WireBatch, int] | None:
        transactions = self.spool.transactions
        seq = transactions[first].first_seq
        if self._decoder is not None and self._decoder.first == seq and until == len(transactions):
            decoder, self._decoder = self._decoder, None
        else:
            if self._bound is not None and self._bound > seq:
                until = min(until, transactions.holding(self._bound))
            made = self._decoded(first, until, data_path)
            if made is None:
                return None
            decoder, until = made
        batch = batch_of(decoder, self.spool, first, until)
        if batch.count < least:
            batch.discard()
            return None
        return batch, self.reached if until == len(transactions) else transactions[until - 1].end_lsn

    def _decoded(self, first: int, until: int, data_path: str) -> tuple[Decoder, int] | None:
        """The transactions from one number on, and how many could be had as columns. None: not one."""
        transactions = self.spool.transactions
        while first < until:
            seq = transactions[first].first_seq
            try:
                return decoded(data_path, self.spool, seq, transactions[until - 1].last_seq + 1), until
            except Redefined as found:
                until = transactions.holding(found.message)
            except NoColumns:
                return None
        return None


class _Taking:
    """A piece that is on its way. With a `data_path` it is decoded by a thread, one portion behind what comes."""

    def __init__(
        self, begin: int, data_path: str | None, decoding: ThreadPoolExecutor | None, known: list[bytes]
    ) -> None:
        self._begin = begin
        self.spool = Spool(known)
        self._decoding = decoding
        self._decoder = None if data_path is None else Decoder(data_path, self.spool)
        self._bound: int | None = None
        self._running: Future[None] | None = None

    def take(self, data: bytes, at: Numbers) -> None:
        portion = self.spool.take(data, at)
        self._settle()
        if self._decoder is not None and self._decoding is not None:
            self._running = self._decoding.submit(self._decoder.take, portion)

    def _settle(self) -> None:
        running, self._running = self._running, None
        if running is None or self._decoder is None:
            return
        try:
            running.result()
        except (Redefined, NoColumns) as found:
            self._bound = found.message if isinstance(found, Redefined) else None
            self._decoder.forget()
            self._decoder = None

    def done(self, end: int | None) -> Piece:
        """The piece; `end`: there is nothing more before that."""
        self._settle()
        self.spool.finish()
        last = self.spool.transactions[-1].end_lsn if len(self.spool.transactions) else self._begin
        return Piece(self._begin, last if end is None else max(end, last), self.spool, self._decoder, self._bound)

    def give_up(self) -> None:
        if self._running is not None:
            wait([self._running])
        if self._decoder is not None:
            self._decoder.forget()
        self.spool.close()


def _pieces(
    link: Link,
    command: str,
    begin: int,
    end: int,
    limit: int,
    *,
    data_path: str | None = None,
    decoding: ThreadPoolExecutor | None = None,
    cut: int | None = None,
) -> Generator[Piece, None, None]:
    """What one COPY sends, cut behind the transaction that makes a number of messages full."""
    count = 0
    taking = _Taking(begin, data_path, decoding, [])
    try:
        for data, at in portions(link.copy_out(command)):
            count += len(at)
            while cut is not None and (behind := taking.spool.cut(data, at, cut)) is not None:
                taking.take(data, at[:behind])
                known = taking.spool.relations()
                piece = taking.done(None)
                taking = _Taking(piece.reached, data_path, decoding, known)
                yield piece
                at = at[behind:]
            taking.take(data, at)
        yield taking.done(None if count >= limit else end)
    except BaseException:
        taking.give_up()
        raise


class Reading:
    """The pieces one after the other."""

    def __init__(self, link: Link, wanted: Wanted, start: int, data_path: str, *, as_columns: bool) -> None:
        self.wanted = wanted
        self._link = link
        self._position = start
        self._data_path = data_path
        self._piece: Piece | None = None
        self._ahead = _ahead(link, wanted, start, data_path if as_columns else None)

    @property
    def is_ahead(self) -> bool:
        """Does it read from a copy of the slot?"""
        return self._ahead is not None

    def covers(self, wanted: Wanted, start: int) -> bool:
        """Can it say what there is from `start` on?"""
        begin = self._position if self._piece is None else self._piece.begin
        return wanted == self.wanted and begin <= start

    def piece(self, start: int) -> Piece | None:
        """The first that reaches beyond `start`; None: there is nothing more."""
        while self._piece is None or self._piece.reached <= start:
            if self._position >= self.wanted.end:
                return None
            if self._piece is not None:
                self._piece.close()
                self._piece = None
            self._piece = self._next()
            self._position = self._piece.reached
        return self._piece

    def _next(self) -> Piece:
        if self._ahead is not None:
            return self._ahead.piece()
        command = _command(self._link, self.wanted.slot, self.wanted, MESSAGES, consume=False)
        (piece,) = _pieces(self._link, command, self._position, self.wanted.end, MESSAGES)
        return piece

    def interrupt(self) -> None:
        if self._ahead is not None:
            self._ahead.interrupt()

    def close(self) -> None:
        if self._piece is not None:
            self._piece.close()
            self._piece = None
        if self._ahead is not None:
            self._ahead.close()


def _command(link: Link, slot: str, wanted: Wanted, limit: int, *, consume: bool) -> str:
    return changes_of(link, slot, wanted.publications, wanted.end, limit, local_only=wanted.local_only, consume=consume)


# --- ahead ------------------------------------------------------------------------------------------------------------


def _ahead(link: Link, wanted: Wanted, start: int, data_path: str | None) -> _Ahead | None:
    """None: it is not worth it, or the server has no room."""
    if wanted.end - start < AHEAD:
        return None
    try:
        other = link.another()
    except ConnectionFailure:
        return None
    slot = _COPY.format(other.backend)
    try:
        slots.copy(other, wanted.slot, slot, start)
    except PublisherError:
        other.close()
        return None
    except BaseException:
        other.close()
        raise
    return _Ahead(other, slot, wanted, start, data_path)


class _Ahead:
    """A thread that reads."""

    def __init__(self, link: Link, slot: str, wanted: Wanted, start: int, data_path: str | None) -> None:
        self._link = link
        self._slot = slot
        self._wanted = wanted
        self._data_path = data_path
        self._read: Queue[Piece | BaseException] = Queue(1)
        self._unwanted = Event()
        self._thread = Thread(target=self._run, args=[start], name="pgrepl-read", daemon=True)
        self._thread.start()

    def _run(self, start: int) -> None:
        limit = FIRST_MESSAGES
        end, path = self._wanted.end, self._data_path
        decoding = ThreadPoolExecutor(1, "pgrepl-decode")
        try:
            while start < end and not self._unwanted.is_set():
                command = _command(self._link, self._slot, self._wanted, limit, consume=True)
                pieces = _pieces(
                    self._link, command, start, end, limit, data_path=path, decoding=decoding, cut=MESSAGES
                )
                with closing(pieces):
                    for piece in pieces:
                        start = piece.reached
                        if not self._give(piece):
                            piece.close()
                            return
                limit = min(2 * limit, MOST_MESSAGES)
        except BaseException as problem:
            self._give(problem)
        finally:
            decoding.shutdown()
            self._link.close()

    def _give(self, found: Piece | BaseException) -> bool:
        while not self._unwanted.is_set():
            with suppress(Full):
                self._read.put(found, timeout=_LOOK)
                return True
        return False

    def piece(self) -> Piece:
        while True:
            with suppress(Empty):
                found = self._read.get(timeout=_LOOK)
                if isinstance(found, Piece):
                    return found
                raise found
            if not self._thread.is_alive() and self._read.empty():
                raise PublisherError("57014", "canceling statement due to user request")

    def interrupt(self) -> None:
        """From another thread."""
        self._unwanted.set()
        self._link.interrupt()

    def close(self) -> None:
        self.interrupt()
        self._thread.join()
        with suppress(Empty):
            left = self._read.get_nowait()
            if isinstance(left, Piece):
                left.close()
