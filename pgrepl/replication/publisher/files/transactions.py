"""The begin and the end of transactions in a stream of records.

* A format with marks (BEGIN and COMMIT) says it; such a transaction may go on in the next file.
* Else the records with the same transaction id that follow one another are one transaction, and so are all records of a
  file that have none. It ends with its file.

A transaction ends behind a whole record: two that end in one record are one.
"""

from __future__ import annotations

import zlib

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.replication.formats.event import BEGIN, COMMIT
from pgrepl.replication.wire.batch import BatchTransaction

EPOCH = 946_684_800_000_000  # 2000-01-01 in microseconds since 1970


@frozen
class Step:
    """A mark, or records with the same transaction id that follow one another. `kind`: BEGIN, COMMIT, or what the first
    of the records does."""

    kind: str
    xid: str | None
    lsn: int
    seq: int
    last_lsn: int
    last_seq: int
    at: int | None

    def moved(self, lsn: int) -> Step:
        """The step with the positions that it has where `lsn` is 0 to it."""
        return Step(self.kind, self.xid, self.lsn + lsn, self.seq, self.last_lsn + lsn, self.last_seq, self.at)


@frozen
class Ended:
    """A transaction that has ended. `is_file`: it is all records of its file."""

    transaction: BatchTransaction
    is_file: bool = False


class Boundaries:
    """Follows the records of a stream, which are numbered 0, 1, …; an `Ended` is returned before the record that no
    more belongs to it."""

    def __init__(self) -> None:
        self._open: _Open | None = None
        self.file_time = 0  # of transactions that have no time

    @property
    def begun(self) -> tuple[int, int] | None:
        """The LSN and the sequence number at which the open transaction begins; None: there is none."""
        return None if self._open is None else (self._open.first, self._open.first_seq)

    @property
    def xid(self) -> str | None:
        """The transaction id of the open transaction."""
        return None if self._open is None else self._open.xid

    @property
    def is_within_marks(self) -> bool:
        """Whether the open transaction has begun with a mark, so that only a mark ends it."""
        return self._open is not None and self._open.is_marked and not self._open.has_ended

    def follow(self, step: Step) -> Ended | None:
        if step.kind == BEGIN:
            return self.begin(step.xid, step.lsn, step.seq)
        if step.kind == COMMIT:
            return self.commit(step.xid, step.lsn, step.seq, step.at)
        return self.change(step.xid, step.lsn, step.seq, step.at, step.last_lsn, step.last_seq)

    def end(self) -> Ended | None:
        """The open transaction, which ends because the next record is of another one."""
        return self._take()

    def begin(self, xid: str | None, lsn: int, seq: int) -> Ended | None:
        before = self._open
        if before is not None and before.is_marked and not before.has_ended:
            raise PgError("08P01", f"transaction {before.xid} has no end before another one begins")
        if before is not None and before.last == lsn:  # in one record
            before.is_marked, before.has_ended = True, False
            return None
        ended = self._take()
        self._open = _Open(xid, lsn, seq, is_marked=True)
        return ended

    def commit(self, xid: str | None, lsn: int, seq: int, at: int | None) -> Ended | None:
        """A mark of the end. It has a sequence number too, and the transaction a record, if it is empty."""
        ended = None
        current = self._open
        if current is None or (current.has_ended and current.last != lsn):
            ended = self._take()
            current = self._open = _Open(xid, lsn, seq, is_marked=True)
        current.add(lsn, seq, at)
        current.has_ended = True
        return ended

    def change(self, xid: str | None, lsn: int, seq: int, at: int | None, last_lsn: int = 0, last_seq: int = 0) -> (
        Ended | None
    ):  # fmt: skip
        """A record, or several with the same transaction id, up to `last_lsn` and `last_seq`."""
        ended = None
        current = self._open
        if current is not None and current.last != lsn:
            if current.has_ended or (not current.is_marked and current.xid != xid):
                ended = self._take()
        if self._open is None:
            self._open = _Open(xid, lsn, seq, is_marked=False)
        self._open.add(last_lsn or lsn, last_seq or seq, at)
        return ended

    def end_of_file(self, *, is_cut: bool) -> Ended | None:
        """`is_cut`: the file ends within a record, and goes on."""
        current = self._open
        if current is None or is_cut or (current.is_marked and not current.has_ended):
            return None
        return self._take()

    def _take(self) -> Ended | None:
        taken, self._open = self._open, None
        if taken is None:
            return None
        moved = (self.file_time if taken.at is None else taken.at) - EPOCH
        made = BatchTransaction(
            _number(taken.xid), taken.last, taken.last + 1, moved, None, taken.first_seq, taken.last_seq
        )
        return Ended(made, is_file=taken.xid is None and not taken.is_marked)


class _Open:
    def __init__(self, xid: str | None, lsn: int, seq: int, *, is_marked: bool) -> None:
        self.xid = xid
        self.first = self.last = lsn
        self.first_seq = self.last_seq = seq
        self.at: int | None = None
        self.is_marked = is_marked
        self.has_ended = False

    def add(self, lsn: int, seq: int, at: int | None) -> None:
        self.last, self.last_seq = lsn, seq
        self.at = self.at if at is None else at


def _number(xid: str | None) -> int:
    """The transaction id as PostgreSQL shows it; one that is no number gets one."""
    if xid is None:
        return 0
    return int(xid) & 0xFFFFFFFF if xid.isdecimal() and len(xid) < 20 else zlib.crc32(xid.encode())
