"""The writer of pgoutput's messages, one by one (logicalrep_write_*) and for a whole batch as columns of bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.lake.changes.history import COMMIT, PREPARE
from pgrepl.replication.wire import pgoutput
from pgrepl.replication.wire.batch import DELETE as BATCH_DELETE
from pgrepl.replication.wire.batch import columns_of
from pgrepl.replication.wire.messages import (
    DELETE,
    INSERT,
    UNCHANGED,
    UPDATE,
    Emitted,
    Message,
    Phase,
    Row,
    SentRelation,
    TruncateMessage,
    WireTransaction,
)
from pgrepl.replication.wire.pgoutput import (
    BINARY_VALUE,
    CASCADE,
    COLUMN_COUNT,
    COLUMN_TYPE,
    IS_KEY,
    KEY_TUPLE,
    NEW_TUPLE,
    NULL_VALUE,
    OLD_TUPLE,
    RESTART_IDENTITY,
    TEXT_HEAD,
    TEXT_VALUE,
    TRANSACTIONAL,
    UINT16,
    UINT32,
    UNCHANGED_VALUE,
)
from pgrepl.types.binary import sends
from pgrepl.types.input_checks import UTF8, text_to_bytes
from pgrepl.types.lake.arrays import joined, records
from pgrepl.types.lake.column_text import column_text
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.replication.wire.batch import BatchTransaction, RelationChanges, WireBatch
    from pgrepl.replication.wire.messages import SentColumn

    Numbers = npt.NDArray[Any]

_CHANGES = {
    INSERT: pgoutput.CHANGES[pgoutput.INSERT_TYPE],
    UPDATE: pgoutput.CHANGES[pgoutput.UPDATE_TYPE],
    DELETE: pgoutput.CHANGES[pgoutput.DELETE_TYPE],
}
_NEW, _NULL, _UNCHANGED = (bytes([kind]) for kind in (NEW_TUPLE, NULL_VALUE, UNCHANGED_VALUE))

Line = tuple[int, int, bytes]  # lsn, xid, data


class Encoder:
    """Writes the messages of one stream. A Relation message comes before a relation's first change, and again when the
    relation has changed. A TRUNCATE changes it, too (its relfilenode is new): a Relation message comes before the
    Truncate message, and before the first change after the transaction."""

    def __init__(self, style: TextStyle, *, binary: bool = False, encoding: str = UTF8) -> None:
        """`binary`: values are sent by their types' send functions, where there are any. `encoding`: of all texts."""
        self.style = style
        self._binary = binary
        self._encoding = encoding
        self._encode = str.encode if encoding == UTF8 else partial(text_to_bytes, encoding=encoding)
        self._described: dict[int, tuple[SentRelation, bytes]] = {}

    def lines(self, transaction: WireTransaction) -> Iterator[Line]:
        xid, commit, end = transaction.xid, transaction.finish_lsn, transaction.end_lsn
        when = transaction.committed_at
        emitted = [logical for logical in transaction.emitted if logical.message.transactional]
        for emission in transaction.emitted:
            if not emission.message.transactional:
                yield emission.lsn + 1, 0, self._logical(emission)
        phase = transaction.phase
        if phase is not None and phase.kind != PREPARE:
            yield end, xid, self._ended(transaction, phase)
            return
        if phase is not None:
            about, gid = (commit, phase.prepare_end_lsn, when, xid), self._text(phase.gid)
            yield commit, xid, pgoutput.BEGIN_PREPARE.pack(*about) + gid
        elif not emitted and not transaction.size:
            return
        else:
            yield commit, xid, pgoutput.BEGIN.pack(commit, when, xid)
        if transaction.origin:
            yield commit, xid, pgoutput.ORIGIN.pack(transaction.origin_lsn) + self._text(transaction.origin)
        truncated: set[int] = set()
        for number, message in enumerate(transaction.messages):
            while emitted and emitted[0].after == number:
                yield emitted[0].lsn, xid, self._logical(emitted.pop(0))
            relations: tuple[SentRelation, ...]
            if isinstance(message, TruncateMessage):
                relations = message.relations
                truncated.update(self.forget(relation.relid for relation in relations))
            else:
                relations = (message.relation,)
            for relation in relations:
                for described in self.described(relation):
                    yield commit, xid, described
            yield commit, xid, self.truncate(message) if isinstance(message, TruncateMessage) else self._row(message)
        for emission in emitted:
            yield emission.lsn, xid, self._logical(emission)
        self.forget(truncated)
        if phase is not None:
            yield end, xid, pgoutput.PREPARE.pack(0, *about) + gid
        else:
            yield end, xid, pgoutput.COMMIT.pack(0, commit, end, when)

    def described(self, relation: SentRelation) -> Iterator[bytes]:
        """The Relation message, unless it stands."""
        known, message = self._described.get(relation.relid, (None, b""))
        if known != relation:
            written = self._relation(relation)
            self._described[relation.relid] = relation, written
            if written != message:
                yield written

    def forget(self, relids: Iterable[int]) -> list[int]:
        """Have the relations described anew before their next change."""
        forgotten = list(relids)
        for relid in forgotten:
            self._described.pop(relid, None)
        return forgotten

    @staticmethod
    def truncate(message: TruncateMessage) -> bytes:
        flags = message.cascade * CASCADE | message.restart_identity * RESTART_IDENTITY
        relids = [UINT32.pack(relation.relid) for relation in message.relations]
        return pgoutput.TRUNCATE.pack(len(relids), flags) + b"".join(relids)

    def _row(self, message: Message) -> bytes:
        relid, types = message.relation.relid, [column.type for column in message.relation.columns]
        layout = _CHANGES[message.operation]
        if message.old is None:
            assert message.new is not None
            return layout.pack(relid, NEW_TUPLE) + self._tuple(types, message.new)
        data = layout.pack(relid, OLD_TUPLE if message.whole_old else KEY_TUPLE) + self._tuple(types, message.old)
        return data if message.new is None else data + _NEW + self._tuple(types, message.new)

    def _tuple(self, types: Sequence[int], row: Row) -> bytes:
        parts = [COLUMN_COUNT.pack(len(types))]
        for typoid, value in zip(types, row, strict=True):
            if value is None:
                parts.append(_NULL)
            elif value is UNCHANGED:
                parts.append(_UNCHANGED)
            elif self._binary and (send := sends(typoid, self._encoding)) is not None:
                sent = send(value)
                parts.append(TEXT_HEAD.pack(BINARY_VALUE, len(sent)) + sent)
            else:
                written = self._encode(write_text(value, typoid, self.style))
                parts.append(TEXT_HEAD.pack(TEXT_VALUE, len(written)) + written)
        return b"".join(parts)

    def _text(self, value: str) -> bytes:
        """A string as pq_sendstring writes it."""
        return self._encode(value) + b"\0"

    def _ended(self, transaction: WireTransaction, phase: Phase) -> bytes:
        """A Commit Prepared or Rollback Prepared message."""
        xid, end, when = transaction.xid, transaction.end_lsn, transaction.committed_at
        if phase.kind == COMMIT:
            said = pgoutput.COMMIT_PREPARED.pack(0, transaction.finish_lsn, end, when, xid)
        else:
            said = pgoutput.ROLLBACK_PREPARED.pack(0, phase.prepare_end_lsn, end, phase.prepared_at, when, xid)
        return said + self._text(phase.gid)

    def _relation(self, relation: SentRelation) -> bytes:
        parts = [
            pgoutput.RELATION.pack(relation.relid),
            self._text(relation.schema),
            self._text(relation.name),
            relation.replident.encode(),
            UINT16.pack(len(relation.columns)),
        ]
        for column in relation.columns:
            parts.append(bytes([column.is_key * IS_KEY]) + self._text(column.name))
            parts.append(COLUMN_TYPE.pack(column.type, column.typmod))
        return b"".join(parts)

    def _logical(self, emitted: Emitted) -> bytes:
        message = emitted.message
        head = pgoutput.MESSAGE.pack(message.transactional * TRANSACTIONAL, emitted.lsn)
        return head + self._text(message.prefix) + UINT32.pack(len(message.content)) + message.content


# --- pgoutput write columns -------------------------------------------------------------------------------------------


FIRST, MOST = 1 << 10, 1 << 16  # changes that are written at a time: at first, and at most
_BYTES = 8 << 20  # of messages that are written at a time, about
_AHEAD = 64 << 20  # bytes of new rows that may be read ahead

# The order of lines with the same sequence number; a line's place is that number times _LINES and this.
_BEGIN, _ORIGIN, _RELATION, _CHANGE, _COMMIT, _LINES = 0, 1, 2, 3, 4, 8

_BEGIN_FIELDS = np.dtype([("letter", "u1"), ("lsn", ">u8"), ("time", ">i8"), ("xid", ">u4")])
_COMMIT_FIELDS = np.dtype([("letter", "u1"), ("flags", "u1"), ("lsn", ">u8"), ("end", ">u8"), ("time", ">i8")])
_CHANGE_FIELDS = np.dtype([("letter", "u1"), ("relid", ">u4")])
_TEXT_FIELDS = np.dtype([("kind", "u1"), ("length", ">u4")])


@frozen
class MessageColumn:
    """Messages that follow one another. `behind`: the LSN behind the last transaction that ends here, if any does."""

    behind: int
    transactions: int  # that end here
    lsn: Numbers
    data: pa.LargeBinaryArray


def message_columns(encoder: Encoder, batch: WireBatch) -> Iterator[MessageColumn]:
    """All messages of a batch. `encoder` knows the relations that the stream has described."""
    changes = [messages.whole() for messages in batch.changes]
    for whole in changes:
        whole.prepare(range(len(whole.relation.columns)), _AHEAD)
    written = _Batch(encoder, batch.transactions, changes)
    truncates = dict(batch.truncates)
    forgotten: dict[int, list[int]] = {}  # relations to forget at the end of a transaction, by its last number
    for seq, message in batch.truncates:
        end = int(written.last[written.last.searchsorted(seq)])
        forgotten.setdefault(end + 1, []).extend(relation.relid for relation in message.relations)
    seqs = np.sort(np.concatenate([np.zeros(0, np.int64), *[messages.seq for messages in changes]]))
    cuts = sorted({*truncates, *forgotten})
    start, size = 0, FIRST
    while True:
        place = int(seqs.searchsorted(start)) + size
        cut = bisect_right(cuts, start)
        stops = [*cuts[cut : cut + 1], *([int(seqs[place])] if place < len(seqs) else [])]
        stop = min(stops, default=None)
        for column in written.lines(start, stop, truncates.get(start)):
            size = max(1, min(MOST, _BYTES * len(column.data) // (column.data.nbytes + 1)))
            yield column
        if stop is None:
            return
        encoder.forget(forgotten.get(stop, ()))
        start = stop


class _Batch:
    def __init__(
        self, encoder: Encoder, transactions: Sequence[BatchTransaction], changes: Sequence[RelationChanges]
    ) -> None:
        self._encoder = encoder
        self._changes = changes
        self._xid, self._finish, self._end, self._time, self._first, self.last = columns_of(transactions).T
        self._origins = [(n, t.origin, t.origin_lsn) for n, t in enumerate(transactions) if t.origin]

    def lines(self, start: int, stop: int | None, truncate: TruncateMessage | None) -> Iterator[MessageColumn]:
        """The messages with sequence numbers from `start` to before `stop`; `truncate` has the first of them."""
        encoder = self._encoder
        lines = _Lines()
        if truncate is not None:
            encoder.forget(relation.relid for relation in truncate.relations)
            described = [line for relation in truncate.relations for line in encoder.described(relation)]
            lines.add([start * _LINES + _RELATION] * len(described), described)
            lines.add([start * _LINES + _CHANGE], [encoder.truncate(truncate)])
        for changes in self._changes:
            low, high = self._within(changes.seq, start, stop)
            if low < high:
                seq = changes.seq[low:high]
                described = list(encoder.described(changes.relation))
                lines.add([int(seq[0]) * _LINES + _RELATION] * len(described), described)
                lines.add(seq * _LINES + _CHANGE, _changes(changes, low, high, encoder.style))
        begins, ends = slice(*self._within(self._first, start, stop)), slice(*self._within(self.last, start, stop))
        lines.add(
            self._first[begins] * _LINES + _BEGIN,
            _fixed(_BEGIN_FIELDS, pgoutput.BEGIN_TYPE, begins, lsn=self._finish, time=self._time, xid=self._xid),
        )
        lines.add(
            self.last[ends] * _LINES + _COMMIT,
            _fixed(_COMMIT_FIELDS, pgoutput.COMMIT_TYPE, ends, lsn=self._finish, end=self._end, time=self._time),
        )
        for number, origin, lsn in self._origins:
            if begins.start <= number < begins.stop:
                said = pgoutput.ORIGIN.pack(lsn) + pgoutput.text(origin)
                lines.add([int(self._first[number]) * _LINES + _ORIGIN], [said])
        places, data = lines.in_order()
        if len(places):
            number = self.last.searchsorted(places // _LINES)
            lsn = np.where(places % _LINES == _COMMIT, self._end[number], self._finish[number])
            behind = int(self._end[ends.stop - 1]) if ends.stop > ends.start else 0
            yield MessageColumn(behind, ends.stop - ends.start, lsn, data)

    @staticmethod
    def _within(numbers: Numbers, start: int, stop: int | None) -> tuple[int, int]:
        low = int(numbers.searchsorted(start))
        return low, len(numbers) if stop is None else int(numbers.searchsorted(stop))


def _fixed(kind: Any, letter: int, chosen: slice, **columns: Numbers) -> pa.LargeBinaryArray:
    """Messages of one kind, whose fields have fixed widths, for the chosen transactions."""
    fields = np.zeros(chosen.stop - chosen.start, kind)
    fields["letter"] = letter
    for name, numbers in columns.items():
        fields[name] = numbers[chosen]
    return records(fields)


class _Lines:
    """Messages and their places."""

    def __init__(self) -> None:
        self._places: list[Numbers] = []
        self._data: list[pa.LargeBinaryArray] = []

    def add(self, places: Numbers | Sequence[int], data: pa.LargeBinaryArray | Sequence[bytes]) -> None:
        if len(places):
            self._places.append(np.asarray(places, np.int64))
            self._data.append(data if isinstance(data, pa.Array) else pa.array(data, pa.large_binary()))

    def in_order(self) -> tuple[Numbers, pa.LargeBinaryArray]:
        if not self._places:
            return np.zeros(0, np.int64), pa.array([], pa.large_binary())
        places, data = np.concatenate(self._places), pa.concat_arrays(self._data)
        order = np.argsort(places, kind="stable")
        return places[order], data.take(pa.array(order))


# --- changes ----------------------------------------------------------------------------------------------------------


def _changes(changes: RelationChanges, low: int, high: int, style: TextStyle) -> pa.LargeBinaryArray:
    """The Insert, Update and Delete messages number `low` to before `high` of a relation."""
    relation = changes.relation
    places = range(len(relation.columns))
    op, has_old, numbers = changes.op[low:high], changes.has_old[low:high], np.arange(low, high)
    has_new = op != BATCH_DELETE
    heads = np.zeros(high - low, _CHANGE_FIELDS)
    heads["letter"], heads["relid"] = op, relation.relid
    tuples = []
    if has_old.any():
        tag = pgoutput.OLD_TUPLE if relation.replident == "f" else pgoutput.KEY_TUPLE
        olds = changes.pick(places, numbers[has_old], old=True)
        tuples.append(_spread(_tuples(tag, relation.columns, olds, {}, style), has_old))
    if has_new.any():
        news = changes.pick(places, numbers[has_new])
        unchanged = {place: flags[low:high][has_new] for place, flags in changes.unchanged.items()}
        tuples.append(_spread(_tuples(pgoutput.NEW_TUPLE, relation.columns, news, unchanged, style), has_new))
    return joined([records(heads), *tuples])


def _spread(tuples: pa.LargeBinaryArray, there: Numbers) -> pa.LargeBinaryArray:
    """The tuples at the places where they are; nothing elsewhere."""
    if there.all():
        return tuples
    return tuples.take(pa.array(np.cumsum(there) - 1, mask=~there)).fill_null(b"")


def _tuples(
    tag: int, columns: Sequence[SentColumn], arrays: Sequence[Any], unchanged: dict[int, Numbers], style: TextStyle
) -> pa.LargeBinaryArray:
    parts: list[Any] = [bytes([tag]) + pgoutput.COLUMN_COUNT.pack(len(columns))]
    for place, (column, array) in enumerate(zip(columns, arrays, strict=True)):
        part = _values(column_text(array, column.type, column.form, style))
        if place in unchanged:
            part = pc.if_else(pa.array(unchanged[place]), bytes([pgoutput.UNCHANGED_VALUE]), part)
        parts.append(part)
    return joined(parts)


def _values(texts: pa.LargeStringArray) -> pa.LargeBinaryArray:
    """Each text behind its kind and length; NULLs by their kind alone."""
    heads = np.zeros(len(texts), _TEXT_FIELDS)
    heads["kind"] = pgoutput.TEXT_VALUE
    heads["length"] = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    values = joined([records(heads), texts.cast(pa.large_binary())])
    return pc.fill_null(values, bytes([pgoutput.NULL_VALUE])) if texts.null_count else values
