"""The begin and the end of transactions in a stream of records.

* A format with marks (BEGIN and COMMIT) says it; such a transaction may go on in the next file.
* Else the records with the same transaction id that follow one another are one transaction, and so are all records of a
  file that have none. It ends with its file.

A transaction ends behind a whole record.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.replication.formats.event import BEGIN, COMMIT, NO_TIME, ChangeEvent, EventBlock, TableEvents
from pgrepl.replication.publisher.files.cursor import EndOfFile, Located
from pgrepl.replication.wire import messages
from pgrepl.replication.wire.batch import CODES, INSERT, BatchTransaction
from pgrepl.replication.wire.messages import TRUNCATE
from pgrepl.types.input_checks import is_valid_utf8

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

    def followed_by(self, boundaries: Boundaries) -> Ended | None:
        return boundaries.follow(self.kind, self.xid, self.lsn, self.seq, self.at, self.last_lsn, self.last_seq)


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

    def follow(
        self, kind: str, xid: str | None, lsn: int, seq: int, at: int | None, last_lsn: int = 0, last_seq: int = 0
    ) -> Ended | None:
        """A mark, a record, or several with the same transaction id, up to `last_lsn` and `last_seq`."""
        if kind == BEGIN:
            return self.begin(xid, lsn, seq)
        if kind == COMMIT:
            return self.commit(xid, lsn, seq, at)
        return self._change(xid, lsn, seq, at, last_lsn or lsn, last_seq or seq)

    def begin(self, xid: str | None, lsn: int, seq: int) -> Ended | None:
        before = self._open
        if before is not None and before.is_marked and not before.has_ended:
            raise PgError("08P01", f"transaction {before.xid} has no end before another one begins")
        if before is not None and before.last == lsn:  # in one record
            before.is_marked, before.has_ended = True, False
            return None
        ended = self.end()
        self._open = _Open(xid, lsn, seq, is_marked=True)
        return ended

    def commit(self, xid: str | None, lsn: int, seq: int, at: int | None) -> Ended | None:
        """A mark of the end. It has a sequence number too, and the transaction a record, if it is empty."""
        ended = None
        current = self._open
        if current is None or (current.has_ended and current.last != lsn):
            ended = self.end()
            current = self._open = _Open(xid, lsn, seq, is_marked=True)
        current.add(lsn, seq, at)
        current.has_ended = True
        return ended

    def _change(
        self, xid: str | None, lsn: int, seq: int, at: int | None, last_lsn: int, last_seq: int
    ) -> Ended | None:
        ended = None
        current = self._open
        if current is not None and current.last != lsn:
            if current.has_ended or (not current.is_marked and current.xid != xid):
                ended = self.end()
        if self._open is None:
            self._open = _Open(xid, lsn, seq, is_marked=False)
        self._open.add(last_lsn, last_seq, at)
        return ended

    def end_of_file(self, *, is_cut: bool) -> Ended | None:
        """`is_cut`: the file ends within a record, and goes on."""
        current = self._open
        if current is None or is_cut or (current.is_marked and not current.has_ended):
            return None
        return self.end()

    def end(self) -> Ended | None:
        """The open transaction, which ends because the next record is of another one."""
        taken, self._open = self._open, None
        if taken is None:
            return None
        moved = (self.file_time if taken.at is None else taken.at) - EPOCH
        transaction = BatchTransaction(
            _number(taken.xid), taken.last, taken.last + 1, moved, None, taken.first_seq, taken.last_seq
        )
        return Ended(transaction, is_file=taken.xid is None and not taken.is_marked)


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


# --- numbered block ---------------------------------------------------------------------------------------------------


Numbers = npt.NDArray[Any]
_GATHERED = 50_000  # single records that become a block


class NumberedBlock:
    """A block, or a mark or another single record, with its sequence numbers."""

    def __init__(self, located: Located, first_seq: int, skipped: int = 0) -> None:
        self.located = located
        self.first_seq = first_seq
        item = located.item
        self._block = item if isinstance(item, EventBlock) else None
        self.count = 1 if self._block is None else self._block.count
        if self._block is not None and located.record:
            skipped = max(skipped, int((self._block.number + located.before).searchsorted(located.record)))
        self.skipped = skipped  # records at its beginning that were applied before

    def behind(self, seq: int) -> NumberedBlock:
        """The records from this one on."""
        return NumberedBlock(self.located, self.first_seq, seq - self.first_seq)

    def steps(self) -> Iterator[Step]:
        block, located = self._block, self.located
        if block is None:
            event = located.item
            assert isinstance(event, ChangeEvent)
            lsn, seq = located.lsn, self.first_seq
            yield Step(event.kind, event.xid, lsn, seq, lsn, seq, event.at)
            return
        number = block.number + located.before
        starts = _runs(block, number, self.skipped)
        ends = np.append(starts[1:], block.count) - 1
        xids: Sequence[str | None] = [None] * len(starts)
        if block.xid is not None:
            xids = block.xid.take(pa.array(starts)).to_pylist()
        times: Sequence[int | None] = [None] * len(starts)
        if block.at is not None:
            times = [None if at == NO_TIME else int(at) for at in block.at[ends].tolist()]
        first, last = (located.file.lsn(0) + number[starts]).tolist(), (located.file.lsn(0) + number[ends]).tolist()
        for n, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            yield Step(
                messages.INSERT, xids[n], first[n], self.first_seq + start, last[n], self.first_seq + end, times[n]
            )


def _runs(block: EventBlock, number: Numbers, first: int) -> Numbers:
    """The numbers of the records that begin a run of one transaction id, from the first one on; not within a record."""
    if block.xid is None:
        return np.array([first], np.int64)
    codes = block.xid.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    differs = (codes[1:] != codes[:-1]) & (number[1:] != number[:-1])
    begins = np.flatnonzero(differs) + 1
    return np.concatenate([np.array([first], np.int64), begins[begins > first]])


def gathered(items: Iterable[Located | EndOfFile]) -> Iterator[Located | EndOfFile]:
    """Records that come one by one, as blocks; marks and truncations stay what they are."""
    held: list[Located] = []
    for item in items:
        if (
            isinstance(item, Located)
            and isinstance(item.item, ChangeEvent)
            and item.item.kind not in (BEGIN, COMMIT, TRUNCATE)
        ):
            held.append(item)
            if len(held) == _GATHERED:
                yield _block(held)
                held = []
        else:
            if held:
                yield _block(held)
                held = []
            yield item


def _block(held: list[Located]) -> Located:
    events = [located.item for located in held if isinstance(located.item, ChangeEvent)]
    by_table: dict[tuple[str | None, str | None], list[int]] = {}
    for n, event in enumerate(events):
        by_table.setdefault((event.schema, event.table), []).append(n)
    tables = [_table_events(schema, name, places, events) for (schema, name), places in by_table.items()]
    xids = [event.xid for event in events]
    block = EventBlock(
        held[0].file.file.shown,
        len(events),
        np.array([located.record for located in held], np.int64),
        tuple(tables),
        None if not any(xids) else pa.array(xids, pa.string()),
        None,
        np.array([NO_TIME if event.at is None else event.at for event in events], np.int64),
    )
    return Located(held[0].file, 0, 0, block)


def _table_events(
    schema: str | None, name: str | None, places: list[int], events: Sequence[ChangeEvent]
) -> TableEvents:
    mine = [events[n] for n in places]
    op = np.array([CODES[event.kind] for event in mine], np.uint8)
    new, unsent = _columns([event.new for event in mine])
    old, _ = _columns([event.old for event in mine])
    has_new = op != CODES["delete"]
    return TableEvents(
        schema,
        name,
        np.array(places, np.int64),
        op,
        np.array([event.old is not None for event in mine], np.bool_) & (op != INSERT),
        new,
        old,
        {column: flags & has_new for column, flags in unsent.items() if (flags & has_new).any()},
    )


def _columns(rows: Sequence[Mapping[str, str | None] | None]) -> tuple[dict[str, pa.Array], dict[str, Numbers]]:
    names = dict.fromkeys(name for row in rows if row is not None for name in row)
    arrays, unsent = {}, {}
    for name in names:
        values = [None if row is None else row.get(name) for row in rows]
        try:
            arrays[name] = pa.array(values, pa.string())
        except UnicodeEncodeError:  # half of a surrogate pair: refused as a NUL is, when the record is looked at alone
            arrays[name] = pa.array(
                [value if value is None or is_valid_utf8(value) else "\0" for value in values], pa.string()
            )
        unsent[name] = np.array([row is None or name not in row for row in rows], np.bool_)
    return arrays, unsent
