"""The transactions of files of changes as columns, for many changes: whole blocks of records are decided at once, and
kept in files.

A batch has whole transactions. A block that cannot be decided by columns ends the work by columns for a while: its
transactions are sent message by message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pgrepl.engine import Declined
from pgrepl.errors import PgError
from pgrepl.replication.formats.event import (
    BEGIN,
    COMMIT,
    NO_TIME,
    BadRecord,
    ChangeEvent,
    EventBlock,
    Place,
    TableEvents,
)
from pgrepl.replication.publisher.files.columns import TableColumns
from pgrepl.replication.publisher.files.cursor import Cursor, EndOfFile, Located
from pgrepl.replication.publisher.files.declared import Declarations
from pgrepl.replication.publisher.files.memory import ReadFile
from pgrepl.replication.publisher.files.rejects import Rejects
from pgrepl.replication.publisher.files.stream import end_of_stream, note
from pgrepl.replication.publisher.files.transactions import Boundaries, Ended
from pgrepl.replication.wire.batch import CODES, INSERT, BatchTransaction, Transactions, WireBatch
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.replication.wire.message_files import MessageFolder, MessageWriter
from pgrepl.replication.wire.messages import TRUNCATE, TruncateMessage

if TYPE_CHECKING:
    import pyarrow as pa

    from pgrepl.catalog.session import Session

Numbers = npt.NDArray[Any]
MOST = 2_000_000  # records of a batch, about
IN_FILE = 250_000  # messages of a relation
_GATHERED = 50_000  # single records that become a block


class BatchReading:
    """Reads batch after batch from an LSN on."""

    def __init__(self, cursor: Cursor, rejects: Rejects, start: int, data_path: str) -> None:
        self.position = start  # the next batch begins here
        self.end: int | None = None  # see FileStream.end
        self._cursor = cursor
        self._rejects = rejects
        self._data_path = data_path
        self._items = _gathered(cursor)
        self._boundaries = Boundaries()
        self._seq = 0
        self._left: list[_Piece] = []  # the records behind the last batch
        self.is_over = False  # what follows has to be read anew

    def what_was_read(self) -> dict[int, ReadFile]:
        return self._cursor.what_was_read()

    def close(self) -> None:
        self._cursor.close()

    def batch(self, session: Session, declared: Declarations, end: int, least: int) -> WireBatch | None:
        """Whole transactions that finish before `end`; None: there are fewer than about `least` changes. Declined,
        PgError or NotSendable: they must be sent message by message."""
        made = _Made(session, declared, self._data_path, self._rejects)
        try:
            batch = self._read(made, end, least)
            if batch is None:
                made.forget()
            return batch
        except BaseException:
            made.forget()
            raise

    def _read(self, made: _Made, end: int, least: int) -> WireBatch | None:
        ended: list[Ended] = []
        begun = 0  # records of the batch
        left, self._left = self._left, []
        last: _Piece | None = None
        for piece in left:
            made.take(piece)
            begun += piece.count
            last = piece
        for item in self._items:
            if isinstance(item, EndOfFile):
                found = self._boundaries.end_of_file(is_cut=item.is_cut)
                ended += [] if found is None else [found]
                if item.is_last:
                    reached = ended[-1].transaction.end_lsn if ended else self.position
                    self.end = end_of_stream(item, self._boundaries, found, reached, self._cursor.is_closed)
                continue
            piece = last = _Piece(item, self._seq + 1)
            self._seq += piece.count
            ended += piece.boundaries(self._boundaries)
            made.take(piece)
            begun += piece.count
            if ended and (begun >= MOST or ended[-1].transaction.finish_lsn >= end):
                open_from = self._boundaries.begun
                if open_from is None or open_from[1] >= piece.first_seq:
                    break
        return None if begun < least else self._whole(made, ended, end, last)

    def _whole(self, made: _Made, ended: list[Ended], end: int, last: _Piece | None) -> WireBatch | None:
        found = [each.transaction for each in ended if each.transaction.finish_lsn < end]
        if len(found) < len(ended):
            self.end = None  # this reading is over: what follows is read again
            self.is_over = True
        elif last is not None:
            open_from = self._boundaries.begun
            if open_from is not None and open_from[1] >= last.first_seq:
                self._left = [last.behind(open_from[1])]
            elif open_from is not None:
                self.is_over = True  # it begins in an earlier block: only at the end of all files
        if not found:
            return None
        self.position = found[-1].end_lsn if self.end is None else max(self.end, found[-1].end_lsn)
        return made.batch(found)


class _Piece:
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

    def behind(self, seq: int) -> _Piece:
        """The records from this one on."""
        return _Piece(self.located, self.first_seq, seq - self.first_seq)

    def boundaries(self, boundaries: Boundaries) -> list[Ended]:
        import pyarrow as pa

        block, located = self._block, self.located
        if block is None:
            found = note(boundaries, located, self.first_seq)
            return [] if found is None else [found]
        boundaries.file_time = located.file.file.modified // 1000
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
        made = []
        for n, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            seq = self.first_seq + start
            found = boundaries.change(xids[n], first[n], seq, times[n], last[n], self.first_seq + end)
            if found is not None:
                made.append(found)
        return made


def _runs(block: EventBlock, number: Numbers, first: int) -> Numbers:
    """Where records with another transaction id begin, from the first one on; not within a record."""
    if block.xid is None:
        return np.array([first], np.int64)
    codes = block.xid.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    differs = (codes[1:] != codes[:-1]) & (number[1:] != number[:-1])
    found = np.flatnonzero(differs) + 1
    return np.concatenate([np.array([first], np.int64), found[found > first]])


class _Made:
    """The messages of a batch."""

    def __init__(self, session: Session, declared: Declarations, data_path: str, rejects: Rejects) -> None:
        self._session = session
        self._declared = declared
        self._rejects = rejects
        self._folder = MessageFolder(data_path)
        self._tables: dict[tuple[str | None, str | None], TableColumns] = {}
        self._writers: dict[int, MessageWriter] = {}  # by relid
        self._owners: dict[int, int] = {}  # by relid, the declared table that is sent so
        self._truncates: list[tuple[int, TruncateMessage]] = []
        self._sends: list[Numbers] = []

    def forget(self) -> None:
        for writer in self._writers.values():
            writer.abandon()
        self._folder.close()

    def take(self, piece: _Piece) -> None:
        item = piece.located.item
        if isinstance(item, EventBlock):
            for events in item.tables:
                rows = np.flatnonzero(events.places >= piece.skipped)
                if len(rows):
                    self._decide(piece, item, events if len(rows) == len(events.places) else _some(events, rows))
        elif item.kind == TRUNCATE:
            for message in self._declared.messages(item):
                assert isinstance(message, TruncateMessage)
                self._truncates.append((piece.first_seq, message))
                self._sends.append(np.array([piece.first_seq]))

    def _decide(self, piece: _Piece, block: EventBlock, events: TableEvents) -> None:
        """Decide records at once; a wrong one among them is found by halving, if rejects are written."""
        try:
            self._write(piece, events, self._table(events))
        except PgError as error:
            if not self._rejects.are_written:
                raise Declined(error.message) from error
            if len(events.places) > 1:
                half = len(events.places) // 2
                self._decide(piece, block, _some(events, np.arange(half)))
                self._decide(piece, block, _some(events, np.arange(half, len(events.places))))
                return
            number = int(block.number[events.places[0]]) + piece.located.before
            place = Place(piece.located.file.file.shown, number)
            event = _single(events, place)
            self._rejects.take(BadRecord(error.sqlstate, error.message, place), piece.located.file.lsn(number), event)

    def _table(self, events: TableEvents) -> TableColumns:
        key = events.schema, events.table
        if key not in self._tables:
            table = self._declared.table(*key)
            found = TableColumns(self._declared, table, self._session)
            if found.plan is not None:
                owner = self._owners.setdefault(found.relation.relid, table.relation.oid)
                if owner != table.relation.oid:
                    raise Declined("several tables that are sent as one")
            self._tables[key] = found
        return self._tables[key]

    def _write(self, piece: _Piece, events: TableEvents, table: TableColumns) -> None:
        made = table.decoded(events)
        if made is None:
            return
        places, decoded = made
        seq = piece.first_seq + events.places[places].astype(np.int64)
        relid = table.relation.relid
        if relid not in self._writers:
            self._writers[relid] = MessageWriter(table.relation, self._folder.path(table.relation), IN_FILE)
        self._writers[relid].write(seq, decoded)
        self._sends.append(seq)

    def batch(self, transactions: list[BatchTransaction]) -> WireBatch:
        """The messages of these transactions; those behind them are left out."""
        lasts = np.array([each.last_seq for each in transactions], np.int64)
        sends = np.zeros(len(transactions) + 1, np.bool_)
        for seq in self._sends:
            sends[np.searchsorted(lasts, seq)] = True
        kept = [each for each, has in zip(transactions, sends, strict=False) if has]
        files = [MessageFiles(writer.relation, writer.close()) for writer in self._writers.values()]
        columns = [[each.xid, each.finish_lsn, each.end_lsn, each.committed_at, each.first_seq, each.last_seq]
                   for each in kept]  # fmt: skip
        made = Transactions.of(*(np.array(columns, np.int64).reshape(-1, 6).T))
        batch = WireBatch(made, tuple(files), tuple(self._truncates), self._folder.close)
        return batch.until(transactions[-1].last_seq + 1) if kept else WireBatch((), (), (), self._folder.close)


def _some(events: TableEvents, rows: Numbers) -> TableEvents:
    import pyarrow as pa

    at = pa.array(rows)
    return TableEvents(
        events.schema,
        events.table,
        events.places[rows],
        events.op[rows],
        events.has_old[rows],
        {name: array.take(at) for name, array in events.new.items()},
        {name: array.take(at) for name, array in events.old.items()},
        {name: flags[rows] for name, flags in events.unsent.items()},
    )


def _single(events: TableEvents, place: Place) -> ChangeEvent:
    """The only one of the events, for a file of rejects."""
    kind = {code: name for name, code in CODES.items()}[int(events.op[0])]
    unsent = {name for name, flags in events.unsent.items() if flags[0]}
    new = {name: array[0].as_py() for name, array in events.new.items() if name not in unsent}
    old = {name: array[0].as_py() for name, array in events.old.items()} if events.has_old[0] else None
    return ChangeEvent(
        kind, events.schema, events.table, None if kind == "delete" else new, old, None, None, None, place
    )


# --- single records ---------------------------------------------------------------------------------------------------


def _gathered(cursor: Cursor) -> Iterator[Located | EndOfFile]:
    """Records that come one by one, as blocks; marks and truncations stay what they are."""
    held: list[Located] = []
    for found in cursor.items():
        located: Located | EndOfFile | None = found
        item = located.item if isinstance(located, Located) else None
        if (
            isinstance(located, Located)
            and isinstance(item, ChangeEvent)
            and item.kind not in (BEGIN, COMMIT, TRUNCATE)
        ):
            held.append(located)
            if len(held) < _GATHERED:
                continue
            located = None
        if held:
            yield _block(held)
            held = []
        if located is not None:
            yield located


def _block(held: list[Located]) -> Located:
    import pyarrow as pa

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
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows if row is not None for name in row)
    arrays, unsent = {}, {}
    for name in names:
        arrays[name] = pa.array([None if row is None else row.get(name) for row in rows], pa.string())
        unsent[name] = np.array([row is None or name not in row for row in rows], np.bool_)
    return arrays, unsent
