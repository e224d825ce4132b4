"""Transactions in progress, which the server streams before they commit (`streaming = on`), so that it spills nothing.

    S xid   messages, each with the XID of its subtransaction   E    a part of a transaction
    A xid subxid                                                     a subtransaction, or all of it, is aborted
    c xid                                                            it commits: now it stands in the stream's order

Their messages are kept in files. A commit makes of them what pgoutput sends of a transaction that was not streamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

import numpy as np
import numpy.typing as npt

from pgrepl.replication.publisher.postgres.spool import Spool
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.wire import pgoutput
from pgrepl.replication.wire.pgoutput import ORIGIN_TYPE
from pgrepl.replication.wire.pgoutput_columns import PADDING, Bytes, Numbers, integers

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
