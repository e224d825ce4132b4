"""The messages of a slot as received: whole transactions, in memory or in a file, and those in progress (`streaming =
on`).

    S xid   messages, each with the XID of its subtransaction   E    a part of a transaction
    A xid subxid                                                     a subtransaction, or all of it, is aborted
    c xid                                                            it commits: now it stands in the stream's order

They serve both ways of applying, as columns and one by one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from struct import Struct

import numpy.typing as npt

from pgrepl.engine import spark_options
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np
from pgrepl.replication.publisher.definitions import told
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.wire import messages, pgoutput
from pgrepl.replication.wire.batch import BatchTransaction, Transactions
from pgrepl.replication.wire.messages import Emitted, Message, TruncateMessage, WireTransaction
from pgrepl.replication.wire.pgoutput import (
    BEGIN_PREPARE_TYPE,
    BEGIN_TYPE,
    COMMIT_PREPARED_TYPE,
    END_LSN_AT,
    MESSAGE_TYPE,
    ORIGIN_TYPE,
    PREPARE_TYPE,
    RELATION_TYPE,
    ROLLBACK_PREPARED_TYPE,
    TRUNCATE_TYPE,
    ProtocolError,
)
from pgrepl.replication.wire.pgoutput_read import (
    PADDING,
    Bytes,
    Numbers,
    Relations,
    changes,
    integers,
    read_begin_prepare,
    read_emitted,
    read_origin,
)
from pgrepl.replication.wire.pgoutput_read import transactions as read_transactions

_HELD = 4 << 20  # bytes of messages that are kept in memory
_IS_CHANGE = np.zeros(256, np.bool_)
_IS_CHANGE[[*pgoutput.CHANGES, TRUNCATE_TYPE]] = True
# where messages that begin a transaction, or are all of one, have its LSN, time and XID
_OF_BEGIN = np.zeros((256, 3), np.int64)
_BEGINS, _ENDS, _ENDS_WHOLE = (np.zeros(256, np.bool_) for _ in range(3))
for _layout in (pgoutput.BEGIN, pgoutput.BEGIN_PREPARE, pgoutput.COMMIT_PREPARED, pgoutput.ROLLBACK_PREPARED):
    _lsn = "lsn" if "lsn" in _layout.at else "end_lsn"  # a rollback says where it ends only
    _OF_BEGIN[_layout.letter] = [_layout.at[_field] for _field in (_lsn, "time", "xid")]
    _BEGINS[_layout.letter] = True
for _layout in pgoutput.ENDS:
    _ENDS[_layout.letter] = True
    _ENDS_WHOLE[_layout.letter] = _layout.letter != PREPARE_TYPE


@frozen
class MessagePortion:
    """Messages in one buffer, with PADDING behind the last."""

    data: bytes
    raw: Bytes
    at: Numbers  # where each begins
    kind: Bytes
    first: int  # the number of the first message

    def part(self, first: int, until: int) -> MessagePortion:
        """The messages of these numbers."""
        here = slice(max(first - self.first, 0), until - self.first)
        return MessagePortion(self.data, self.raw, self.at[here], self.kind[here], max(first, self.first))


@frozen
class _Kept:
    """Messages in one buffer. In a file the places where they begin stand behind them."""

    first: int
    count: int
    data: bytes | None  # None: in the file
    at: npt.NDArray[np.int32] | None
    offset: int
    size: int


class Spool:
    """Messages are numbered 0, 1, …; `count` of them, `changes` of which concern rows."""

    def __init__(self, known: Sequence[bytes] = ()) -> None:
        """`known`: the RELATION messages before."""
        self._known = list(known)
        self._kept: list[_Kept] = []
        self._held = 0
        self._end = 0  # of the file
        self._folder: str | None = None
        self._file = -1
        self._begun: list[tuple[Numbers, ...]] = []  # finish LSN, time, xid, message
        self._ended: list[tuple[Numbers, ...]] = []  # end LSN, message
        self._relations: list[tuple[int, bytes]] = []
        self._origins: list[tuple[int, str]] = []  # by message
        self.count = 0
        self.changes = 0
        self.transactions = Transactions.of([], [], [], [], [], [])
        self.apart: Numbers = np.zeros(0, np.int64)  # the places of transactions that are applied one by one
        self._emitted: list[int] = []  # logical messages
        self._late: set[int] = set()
        self._large: list[int] = []  # the places of transactions with many messages

    def close(self) -> None:
        self._kept = []
        if self._folder is not None:
            os.close(self._file)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    # --- receiving ----------------------------------------------------------------------------------------------------

    def take(self, data: bytes, at: Numbers) -> MessagePortion:
        """Add messages that follow the previous ones."""
        raw: Bytes = np.frombuffer(data, np.uint8)
        kind = raw[at]
        portion = MessagePortion(data, raw, at, kind, self.count)
        begins, ends = np.flatnonzero(_BEGINS[kind]), np.flatnonzero(_ENDS[kind])
        if len(begins):
            here, kinds = at[begins], kind[begins]
            lsn, when, xid = (here + _OF_BEGIN[kinds, part] for part in range(3))
            finish = integers(raw, lsn, ">i8") - (kinds == ROLLBACK_PREPARED_TYPE)
            parts = finish, integers(raw, when, ">i8"), integers(raw, xid, ">u4")
            self._begun.append((*parts, begins + self.count, kinds.astype(np.int64)))
        if len(ends):
            self._ended.append((integers(raw, at[ends] + END_LSN_AT, ">i8"), ends + self.count))
        self._emitted += (np.flatnonzero(kind == MESSAGE_TYPE) + self.count).tolist()
        for place in np.flatnonzero((kind == RELATION_TYPE) | (kind == ORIGIN_TYPE)).tolist():
            message = self._message(data, int(at[place]))
            if kind[place] == RELATION_TYPE:
                self._relations.append((self.count + place, message))
            else:
                self._origins.append((self.count + place, read_origin(message)))
        self._keep(portion)
        self.count += len(at)
        self.changes += int(np.count_nonzero(_IS_CHANGE[kind]))
        return portion

    @staticmethod
    def _message(data: bytes, at: int) -> bytes:
        return data[at : at + int.from_bytes(data[at - 4 : at], "big")]  # its length stands before it

    def cut(self, data: bytes, at: Numbers, count: int) -> int | None:
        """The number of these messages up to the end of the transaction with which the spool has `count` messages.
        None: that end is not among them."""
        raw: Bytes = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(_ENDS_WHOLE[raw[at]])
        place = int(np.searchsorted(ends, count - self.count - 1))
        return None if self.count + len(at) < count or place == len(ends) else int(ends[place]) + 1

    def _keep(self, portion: MessagePortion) -> None:
        size = len(portion.data)
        at = portion.at.astype(np.int32)
        self._held += size
        if self._folder is None and self._held > _HELD:
            self._folder = spark_options.make(spark_options.CHANGES)
            self._file = os.open(f"{self._folder}/messages", os.O_RDWR | os.O_CREAT, 0o600)
            kept, self._kept = self._kept, []
            for message_portion in kept:
                assert message_portion.data is not None and message_portion.at is not None
                self._file_away(message_portion.first, message_portion.data, message_portion.at)
        if self._folder is None:
            self._kept.append(_Kept(portion.first, len(at), portion.data, at, 0, size))
        else:
            self._file_away(portion.first, portion.data, at)

    def _file_away(self, first: int, data: bytes, at: npt.NDArray[np.int32]) -> None:
        self._kept.append(_Kept(first, len(at), None, None, self._end, len(data)))
        for part in (data, at.tobytes()):
            self._write(part)
            self._end += len(part)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while len(left):
            left = left[os.write(self._file, left) :]

    def finish(self, begin: int = 0) -> None:
        """Note that no more messages come; they were requested from LSN `begin` on."""
        if not self._begun and not self._ended:
            return
        finish, when, xid, first, kinds = (np.concatenate(parts) for parts in zip(*self._begun, strict=True))
        if len(self._begun) and sum(len(ended[0]) for ended in self._ended) != len(finish):
            raise PublisherError("08P01", "the last transaction is not complete")
        until, last = (np.concatenate(parts) for parts in zip(*self._ended, strict=True))
        numbers = np.searchsorted(first, [number for number, _ in self._origins], "right") - 1
        origins = dict(zip(numbers.tolist(), [name for _, name in self._origins], strict=True))
        self._emitted = [number for number in self._emitted if self._tells(number)]
        telling = np.searchsorted(first, self._emitted, "right") - 1
        self.apart = np.union1d(np.flatnonzero(kinds != BEGIN_TYPE), telling)  # phases, and those that tell definitions
        self._large = np.flatnonzero(last - first - 1 > messages.PORTION).tolist()
        self._put_late(begin, kinds, finish, until)
        self.transactions = Transactions.of(xid, finish, until, when, first, last, origins)

    def _tells(self, number: int) -> bool:
        return bool(told([read_emitted(next(self.messages(number, number + 1)), 0)]))

    def _put_late(self, begin: int, kinds: Numbers, finish: Numbers, until: Numbers) -> None:
        """A transaction that was prepared before the slot sent PREPARE comes at its commit, with the LSNs of its
        PREPARE. It gets the LSNs of its commit, together with which it is applied."""
        for place in np.flatnonzero(kinds[:-1] == BEGIN_PREPARE_TYPE).tolist():
            before = max(begin, int(until[place - 1]) if place else 0)
            if finish[place] < before and kinds[place + 1] == COMMIT_PREPARED_TYPE:
                finish[place] = until[place] = finish[place + 1]
                self._late.add(place)

    # --- reading ------------------------------------------------------------------------------------------------------

    def portions(self, first: int, until: int) -> Iterator[MessagePortion]:
        """The messages of these numbers."""
        for kept in self._kept:
            if kept.first >= until:
                return
            if kept.first + kept.count <= first:
                continue
            data, begins = kept.data, kept.at
            if data is None or begins is None:
                data = _read(self._file, kept.offset, kept.size)
                begins = np.frombuffer(_read(self._file, kept.offset + kept.size, 4 * kept.count), np.int32)
            raw: Bytes = np.frombuffer(data, np.uint8)
            at = begins.astype(np.int64)
            yield MessagePortion(data, raw, at, raw[at], kept.first).part(first, until)

    def relations(self, before: int | None = None) -> list[bytes]:
        """The RELATION messages before a message, or all of them; the last one of each relation."""
        here = [message for number, message in self._relations if before is None or number < before]
        latest = {message[: pgoutput.RELATION.size]: message for message in [*self._known, *here]}
        return list(latest.values())

    def one_by_one(self, start: int, end: int) -> Iterator[WireTransaction]:
        """The transactions that finish at `start` or later and before `end`, empty ones left out."""
        place, until = self.transactions.since(start), self.transactions.since(end)
        for large in [*(n for n in self._large if place <= n < until), until]:
            if place < large:
                yield from self._small(place, large)
            if large < until:
                yield self._lazily(self.transactions[large])
            place = large + 1

    def _small(self, place: int, until: int) -> Iterator[WireTransaction]:
        first, last = self.transactions[place].first_seq, self.transactions[until - 1].last_seq
        try:
            transactions = read_transactions(self.messages(first, last + 1), self.known(first))
            for number, transaction in enumerate(transactions, place):
                if transaction.size or transaction.emitted or transaction.phase is not None:
                    yield self._placed(number, transaction)
        except ProtocolError as problem:
            raise PublisherError("08P01", str(problem)) from problem

    def _placed(self, number: int, transaction: WireTransaction) -> WireTransaction:
        if number not in self._late:
            return transaction
        place = self.transactions[number]
        assert transaction.phase is not None
        phase = replace(transaction.phase, is_late=True)
        return replace(transaction, finish_lsn=place.finish_lsn, end_lsn=place.end_lsn, phase=phase)

    def _lazily(self, transaction: BatchTransaction) -> WireTransaction:
        messages = _Spooled(self, transaction)
        begin = next(self.messages(transaction.first_seq, transaction.first_seq + 1))
        phase = read_begin_prepare(begin)[1] if begin[0] == BEGIN_PREPARE_TYPE else None
        emitted = [
            self._placed_within(transaction, n)
            for n in self._emitted
            if transaction.first_seq < n < transaction.last_seq
        ]
        return WireTransaction(
            transaction.xid,
            transaction.finish_lsn,
            transaction.end_lsn,
            transaction.committed_at,
            messages,
            transaction.origin,
            tuple(emitted),
            phase=phase,
        )

    def _placed_within(self, transaction: BatchTransaction, number: int) -> Emitted:
        before = self.portions(transaction.first_seq, number)
        after = sum(int(np.count_nonzero(_IS_CHANGE[portion.kind])) for portion in before)
        return read_emitted(next(self.messages(number, number + 1)), after)

    def known(self, before: int) -> Relations:
        """The relations as described before a message."""
        known = Relations()
        for message in self.relations(before):
            known.learn(message)
        return known

    def messages(self, first: int, until: int) -> Iterator[bytes]:
        for portion in self.portions(first, until):
            for at in portion.at.tolist():
                yield self._message(portion.data, at)


class _Spooled:
    """The messages of one transaction, read when they are iterated."""

    def __init__(self, spool: Spool, transaction: BatchTransaction) -> None:
        self._spool = spool
        self._first, self._last = transaction.first_seq, transaction.last_seq
        self.size = self._last - self._first - 1

    def __iter__(self) -> Iterator[Message | TruncateMessage]:
        try:
            yield from changes(self._spool.messages(self._first, self._last), self._spool.known(self._first))
        except ProtocolError as problem:
            raise PublisherError("08P01", str(problem)) from problem


def _read(file: int, offset: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        parts.append(os.pread(file, size, offset))
        offset, size = offset + len(parts[-1]), size - len(parts[-1])
        assert parts[-1], "the file is as long as what was written"
    return parts[0] if len(parts) == 1 else b"".join(parts)


# --- in progress ------------------------------------------------------------------------------------------------------


START, STOP, COMMIT, PREPARE, ABORT = b"SEcpA"
_XID = Struct(">I")
_COMMIT = Struct(">xIBQQq")  # xid, flags, LSN, end, time
_PREPARE = Struct(">xBQQqI")  # flags, LSN, end, time, xid; the GID follows
_ABORT = Struct(">xII")  # xid, subxid
_AT = 4  # bytes before a message: its length

IS_MARK: npt.NDArray[np.bool_] = np.zeros(256, np.bool_)
IS_MARK[[START, STOP, COMMIT, PREPARE, ABORT]] = True

Portion = tuple[bytes, Numbers]  # messages in a buffer, and where each begins


@dataclass
class _Transaction:
    messages: Spool = field(default_factory=Spool)
    aborted: set[int] = field(default_factory=set)  # its subtransactions


class InProgress:
    """The transactions that have begun to come."""

    def __init__(self) -> None:
        self._open: dict[int, _Transaction] = {}
        self._xid: int | None = None  # of the part that is coming

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].messages.close()

    def sort(self, data: bytes, at: Numbers) -> Iterator[Portion]:
        """Keep the messages of transactions in progress. The others come back, in order, and with them the transactions
        that commit among these."""
        raw: Bytes = np.frombuffer(data, np.uint8)
        kind = raw[at]
        begin = 0
        for mark in [*np.flatnonzero(IS_MARK[kind]).tolist(), len(at)]:
            if mark > begin:
                if self._xid is None:
                    yield data, at[begin:mark]
                else:
                    self._transaction(self._xid).messages.take(data, at[begin:mark])
            if mark < len(at):
                yield from self._heed(data[int(at[mark]) :][: _length(data, int(at[mark]))])
            begin = mark + 1

    def _transaction(self, xid: int) -> _Transaction:
        return self._open.setdefault(xid, _Transaction())

    def _heed(self, message: bytes) -> Iterator[Portion]:
        kind = message[0]
        if kind == START:
            (self._xid,) = _XID.unpack_from(message, 1)
        elif kind == STOP:
            self._xid = None
        elif kind == ABORT:
            xid, subxid = _ABORT.unpack_from(message)
            if xid == subxid:
                self._transaction(xid).messages.close()
                del self._open[xid]
            else:
                self._transaction(xid).aborted.add(subxid)
        elif kind == COMMIT:
            xid, flags, lsn, end, when = _COMMIT.unpack_from(message)
            first, last = pgoutput.BEGIN.pack(lsn, when, xid), pgoutput.COMMIT.pack(flags, lsn, end, when)
            yield from self._whole(xid, first, last)
        else:
            flags, lsn, end, when, xid = _PREPARE.unpack_from(message)
            gid = message[_PREPARE.size :]
            first = pgoutput.BEGIN_PREPARE.pack(lsn, end, when, xid) + gid
            yield from self._whole(xid, first, pgoutput.PREPARE.pack(flags, lsn, end, when, xid) + gid)

    def _whole(self, xid: int, first: bytes, last: bytes) -> Iterator[Portion]:
        transaction = self._open.pop(xid, None)
        if transaction is None:
            raise PublisherError("08P01", f"transaction {xid} has not been streamed")
        yield _alone(first)
        try:
            for portion in transaction.messages.portions(0, transaction.messages.count):
                yield _without_xid(portion.data, portion.at, portion.kind, transaction.aborted)
        finally:
            transaction.messages.close()
        yield _alone(last)


class Prepares:
    """The prepared transactions among whole ones. Of an empty one some servers of release 18 send PREPARE alone: it
    gets its BEGIN PREPARE."""

    def __init__(self) -> None:
        self._is_begun = False

    def complete(self, data: bytes, at: Numbers) -> Iterator[Portion]:
        kind = np.frombuffer(data, np.uint8)[at]
        begin = 0
        for mark in np.flatnonzero((kind == BEGIN_PREPARE_TYPE) | (kind == PREPARE_TYPE)).tolist():
            is_end = kind[mark] == PREPARE_TYPE
            if is_end and not self._is_begun:
                if mark > begin:
                    yield data, at[begin:mark]
                message = data[int(at[mark]) :][: _length(data, int(at[mark]))]
                _, *numbers = pgoutput.PREPARE.unpack(message)
                yield _alone(pgoutput.BEGIN_PREPARE.pack(*numbers) + message[pgoutput.PREPARE.size :])
                begin = mark
            self._is_begun = not is_end
        yield data, at[begin:]


def _length(data: bytes, at: int) -> int:
    return int.from_bytes(data[at - _AT : at], "big")


def _alone(message: bytes) -> Portion:
    return _XID.pack(len(message)) + message + bytes(PADDING), np.array([_AT], np.int64)


def _without_xid(data: bytes, at: Numbers, kind: Bytes, aborted: set[int]) -> Portion:
    """The messages without the XID behind their letter, and without those of aborted subtransactions."""
    raw: Bytes = np.frombuffer(data, np.uint8).copy()
    has_xid = kind != ORIGIN_TYPE
    if aborted:
        xid = integers(raw, at + 1, ">u4")
        kept = ~(has_xid & np.isin(xid, np.fromiter(aborted, np.int64)))
        at, kind, has_xid = at[kept], kind[kept], has_xid[kept]
    places = at[has_xid]
    length = integers(raw, places - _AT, ">i4") - _AT
    raw[places[:, None] + np.arange(_AT)] = length.astype(">u4").view(np.uint8).reshape(-1, _AT)
    raw[places + _AT] = kind[has_xid]
    return raw.tobytes(), at + np.where(has_xid, _AT, 0)
