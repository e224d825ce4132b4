"""Pieces of a slot's stream: whole transactions as messages and, if possible, as columns; a large batch is kept in
files.

A batch ends before a transaction with a new RELATION message of a relation that it has messages of.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from pgrepl.ground.errors import Declined
from pgrepl.ground.lazy import np, pa
from pgrepl.ground.threads import ThreadPool
from pgrepl.replication.publisher.postgres.copy_rows import portions
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.spool import MessagePortion, Prepares, Spool
from pgrepl.replication.wire import pgoutput_read
from pgrepl.replication.wire.batch import WireBatch
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.replication.wire.message_files import Decoded, MessageFolder, MessageWriter, is_typed, typed_array
from pgrepl.replication.wire.messages import SentRelation, TruncateMessage, WireTransaction
from pgrepl.replication.wire.pgoutput import CHANGES, RELATION_TYPE, RELID_AT, TRUNCATE_TYPE, ProtocolError
from pgrepl.replication.wire.pgoutput_read import Numbers, Relations, integers, read_relation, read_truncate

IN_FILE = 250_000  # messages of a relation
_IS_ROW = np.zeros(256, np.bool_)
_IS_ROW[[*CHANGES]] = True


class Redefined(Exception):
    """The message with this number is a new RELATION message of a relation that has messages in the batch."""

    def __init__(self, message: int) -> None:
        super().__init__(message)
        self.message = message


class Decoder:
    """Decodes portions into columns; it gets the RELATION messages before the first of them."""

    def __init__(self, data_path: str, spool: Spool, first: int = 0) -> None:
        """`data_path`: where Spark's machines find files; `first`: the number of the first message."""
        self.first = first
        self._folder = MessageFolder(data_path)
        self._relations = Relations()
        for message in spool.relations(first):
            self._relations.known |= {(relation := read_relation(message, is_typed)).relid: relation}
        self._writers: dict[int, MessageWriter] = {}
        self._truncates: list[tuple[int, TruncateMessage]] = []

    def take(self, portion: MessagePortion) -> None:
        """Decode messages that follow the previous ones; Declined or Redefined."""
        try:
            rows = np.flatnonzero(_IS_ROW[portion.kind])
            relids = integers(portion.raw, portion.at[rows] + RELID_AT, ">u4")
            for place in np.flatnonzero((portion.kind == RELATION_TYPE) | (portion.kind == TRUNCATE_TYPE)).tolist():
                message = portion.data[int(portion.at[place]) :]
                if portion.kind[place] == RELATION_TYPE:
                    before = relids[: np.searchsorted(rows, place)]
                    self._learn(read_relation(message, is_typed), portion.first + place, before)
                else:
                    self._truncates.append((portion.first + place, read_truncate(message, self._relations)))
            self._decode(portion, rows, relids)
        except (pa.ArrowInvalid, ProtocolError) as problem:
            raise Declined(str(problem)) from problem

    def _learn(self, relation: SentRelation, message: int, before: Numbers) -> None:
        """`before`: the relations of the rows that stand before it in its portion."""
        known = self._relations.known.get(relation.relid)
        if known is not None and known != relation and (relation.relid in before or self._has_messages_of(known)):
            raise Redefined(message)
        self._relations.known[relation.relid] = relation

    def _has_messages_of(self, relation: SentRelation) -> bool:
        return relation.relid in self._writers or any(relation in truncate.relations for _, truncate in self._truncates)

    def _decode(self, portion: MessagePortion, rows: npt.NDArray[Any], relids: Numbers) -> None:
        for relid in _distinct(relids):
            chosen = rows[relids == relid]
            writer = self._writers.get(relid)
            if writer is None:
                writer = self._writers[relid] = self._writer(self._relations.of(relid))
            columns = pgoutput_read.columns_of_changes(portion.raw, portion.at[chosen], writer.relation)
            writer.write(chosen + portion.first, _typed(columns, writer.relation))

    def close(self) -> tuple[list[MessageFiles], tuple[tuple[int, TruncateMessage], ...]]:
        files = [MessageFiles(writer.relation, writer.close()) for writer in self._writers.values()]
        return files, tuple(self._truncates)

    def _writer(self, relation: SentRelation) -> MessageWriter:
        return MessageWriter(relation, self._folder.path(relation), IN_FILE)

    def forget(self) -> None:
        """Remove the files."""
        for writer in self._writers.values():
            writer.abandon()
        self._folder.close()


def _typed(changes: Decoded, relation: SentRelation) -> Decoded:
    """Values in the types of their columns."""
    columns = relation.columns
    new = [typed_array(column, texts) for column, texts in zip(columns, changes.new, strict=True)]
    return replace(
        changes, new=new, old={place: typed_array(columns[place], texts) for place, texts in changes.old.items()}
    )


def _distinct(numbers: Numbers) -> list[int]:
    """Each once; np.unique would hash them all, where most often there is only one."""
    distinct: list[int] = []
    while len(numbers):
        distinct.append(int(numbers[0]))
        numbers = numbers[numbers != numbers[0]]
    return distinct


def decoded(data_path: str, spool: Spool, first: int, until: int) -> Decoder:
    """Decode the messages with these numbers; raises Declined or Redefined."""
    decoder = Decoder(data_path, spool, first)
    try:
        for portion in spool.portions(first, until):
            decoder.take(portion)
    except BaseException:
        decoder.forget()
        raise
    return decoder


def batch_of(decoder: Decoder, spool: Spool, first: int, until: int) -> WireBatch:
    """The decoded messages as a batch of the spool's transactions from `first` on and before `until`."""
    files, truncates = decoder.close()
    return WireBatch(spool.transactions[first:until], tuple(files), truncates, decoder.forget)


# --- pieces -----------------------------------------------------------------------------------------------------------


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
        apart = self.spool.apart
        until = min([until, *apart[apart >= first][:1].tolist()])
        if first >= until or self.spool.changes < least or self._left > 0:
            return None
        try:
            batch = self._columns(first, until, least, data_path)
        except Declined:
            self._decline()
            raise
        if batch is None:
            self._decline()
        else:
            self._offered = start
        return batch

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
            decoded_until = self._decoded(first, until, data_path)
            if decoded_until is None:
                return None
            decoder, until = decoded_until
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
            except Redefined as redefinition:
                until = transactions.holding(redefinition.message)
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
        self._prepares = Prepares()

    def take(self, data: bytes, at: Numbers) -> None:
        for portion in self._prepares.complete(data, at):
            self._take(*portion)

    def _take(self, data: bytes, at: Numbers) -> None:
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
        except (Redefined, Declined) as reason:
            self._bound = reason.message if isinstance(reason, Redefined) else None
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
