"""Pieces of a slot's stream: whole transactions that follow each other, as messages and, if possible, as columns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, wait

from pgrepl.errors import Declined
from pgrepl.replication.publisher.postgres.changes import portions
from pgrepl.replication.publisher.postgres.changes_columns import Decoder, Redefined, batch_of, decoded
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.spool import MessagePortion, Spool
from pgrepl.replication.wire.batch import WireBatch
from pgrepl.replication.wire.messages import WireTransaction
from pgrepl.replication.wire.pgoutput_columns import Numbers
from pgrepl.thread_pool import ThreadPool

_PLAYED = 20_000  # changes that are applied one by one, after columns could not be applied
_LARGE = 20_000  # messages of a piece from which on it is decoded while it comes


class Piece:
    """Whole transactions; no other transaction finishes from `begin` on and before `reached`.

    If its columns cannot be applied, _PLAYED changes are applied one by one before columns are tried again; twice as
    many after each further failure.
    """

    def __init__(self, begin: int, reached: int, spool: Spool, decoder: Decoder | None, bound: int | None) -> None:
        """`decoder`: has the whole piece as columns. `bound`: the number of the message that redefines a relation."""
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
        """See ChangeStream.batch; Declined."""
        transactions = self.spool.transactions
        first, until = transactions.since(start), transactions.since(end)
        phases = self.spool.phases  # these are applied one by one
        until = min([until, *phases[phases >= first][:1].tolist()])
        if first >= until or self.spool.changes < least or self._left > 0:
            return None
        try:
            found = self._columns(first, until, least, data_path)
        except Declined:
            self._decline()
            raise
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
            self._left -= transaction.size
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
        """Decode transactions from number `first` on: the decoder, and the number behind the last that it could decode.
        None: the first redefines a relation of its own."""
        transactions = self.spool.transactions
        while first < until:
            seq = transactions[first].first_seq
            try:
                return decoded(data_path, self.spool, seq, transactions[until - 1].last_seq + 1), until
            except Redefined as found:
                until = transactions.holding(found.message)
        return None


class Taking:
    """A piece that is being received. With a `data_path` a thread decodes it, one portion behind."""

    def __init__(self, begin: int, data_path: str | None, decoding: ThreadPool | None, known: list[bytes]) -> None:
        self._begin = begin
        self.spool = Spool(known)
        self._decoding = decoding
        self._data_path = data_path  # None: it is not decoded
        self._decoder: Decoder | None = None
        self._bound: int | None = None
        self._running: Future[None] | None = None

    def take(self, data: bytes, at: Numbers) -> None:
        portion = self.spool.take(data, at)
        self._settle()
        if self._data_path is None or self._decoding is None or self.spool.count < _LARGE:
            return
        portions: Iterable[MessagePortion] = [portion]
        if self._decoder is None:
            self._decoder = Decoder(self._data_path, self.spool)
            portions = self.spool.portions(0, self.spool.count)
        self._running = self._decoding.submit(_decode, self._decoder, portions)

    def _settle(self) -> None:
        running, self._running = self._running, None
        if running is None or self._decoder is None:
            return
        try:
            running.result()
        except (Redefined, Declined) as found:
            self._bound = found.message if isinstance(found, Redefined) else None
            self._decoder.forget()
            self._decoder = self._data_path = None

    def done(self, end: int | None) -> Piece:
        """The complete piece. `end`: the LSN before which no more transactions come, if that is known."""
        self._settle()
        self.spool.finish(self._begin)
        last = self.spool.transactions[-1].end_lsn if len(self.spool.transactions) else self._begin
        return Piece(self._begin, last if end is None else max(end, last), self.spool, self._decoder, self._bound)

    def give_up(self) -> None:
        if self._running is not None:
            wait([self._running])
        if self._decoder is not None:
            self._decoder.forget()
        self.spool.close()


def _decode(decoder: Decoder, portions: Iterable[MessagePortion]) -> None:
    for portion in portions:
        decoder.take(portion)


def pieces(
    link: Link,
    command: str,
    begin: int,
    end: int,
    limit: int,
    *,
    data_path: str | None = None,
    decoding: ThreadPool | None = None,
    cut: int | None = None,
    comes: Callable[[], None] = lambda: None,
) -> Generator[Piece, None, None]:
    """The pieces of one COPY of about `limit` messages. `cut`: a piece ends behind the transaction with which it has so
    many messages. `comes` is called when the server has decoded all messages, and begins to send."""
    count = 0
    taking = Taking(begin, data_path, decoding, [])
    try:
        for data, at in portions(link, command):
            if not count:
                comes()
            count += len(at)
            while cut is not None and (behind := taking.spool.cut(data, at, cut)) is not None:
                taking.take(data, at[:behind])
                known = taking.spool.relations()
                piece = taking.done(None)
                taking = Taking(piece.reached, data_path, decoding, known)
                yield piece
                at = at[behind:]
            taking.take(data, at)
        yield taking.done(None if count >= limit else end)
    except BaseException:
        taking.give_up()
        raise
