"""The writer of pgoutput's messages for a batch (wire/batch.py): the bytes that pgoutput_write.py writes one by one, as
columns of bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pgrepl.frozen import frozen
from pgrepl.replication.wire import pgoutput
from pgrepl.replication.wire.batch import DELETE
from pgrepl.types.byte_columns import joined, records
from pgrepl.types.column_text import column_text

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from pgrepl.replication.wire.batch import BatchTransaction, RelationChanges, WireBatch
    from pgrepl.replication.wire.messages import SentColumn, TruncateMessage
    from pgrepl.replication.wire.pgoutput_write import Encoder
    from pgrepl.types.style import TextStyle

    Numbers = npt.NDArray[Any]

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
    changes = [each.whole() for each in batch.changes]
    for each in changes:
        each.prepare(range(len(each.relation.columns)), _AHEAD)
    written = _Batch(encoder, batch.transactions, changes)
    truncates = dict(batch.truncates)
    forgotten: dict[int, list[int]] = {}  # relations to forget at the end of a transaction, by its last number
    for seq, message in batch.truncates:
        end = int(written.last[written.last.searchsorted(seq)])
        forgotten.setdefault(end + 1, []).extend(each.relid for each in message.relations)
    seqs = np.sort(np.concatenate([np.zeros(0, np.int64), *[each.seq for each in changes]]))
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
        columns = [(t.first_seq, t.last_seq, t.finish_lsn, t.end_lsn, t.committed_at, t.xid) for t in transactions]
        numbers = np.array(columns, np.int64).reshape(len(columns), 6).T
        self._first, self.last, self._finish, self._end, self._time, self._xid = numbers
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
        lines.add(self._first[begins] * _LINES + _BEGIN, self._begins(begins))
        lines.add(self.last[ends] * _LINES + _COMMIT, self._commits(ends))
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

    def _begins(self, chosen: slice) -> pa.LargeBinaryArray:
        made = np.zeros(chosen.stop - chosen.start, _BEGIN_FIELDS)
        made["letter"] = pgoutput.BEGIN_TYPE
        made["lsn"], made["time"], made["xid"] = self._finish[chosen], self._time[chosen], self._xid[chosen]
        return records(made)

    def _commits(self, chosen: slice) -> pa.LargeBinaryArray:
        made = np.zeros(chosen.stop - chosen.start, _COMMIT_FIELDS)
        made["letter"] = pgoutput.COMMIT_TYPE
        made["lsn"], made["end"], made["time"] = self._finish[chosen], self._end[chosen], self._time[chosen]
        return records(made)


class _Lines:
    """Messages and their places."""

    def __init__(self) -> None:
        self._places: list[Numbers] = []
        self._data: list[pa.LargeBinaryArray] = []

    def add(self, places: Numbers | Sequence[int], data: pa.LargeBinaryArray | Sequence[bytes]) -> None:
        import pyarrow as pa

        if len(places):
            self._places.append(np.asarray(places, np.int64))
            self._data.append(data if isinstance(data, pa.Array) else pa.array(data, pa.large_binary()))

    def in_order(self) -> tuple[Numbers, pa.LargeBinaryArray]:
        import pyarrow as pa

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
    has_new = op != DELETE
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
    import pyarrow as pa

    if there.all():
        return tuples
    return tuples.take(pa.array(np.cumsum(there) - 1, mask=~there)).fill_null(b"")


def _tuples(
    tag: int,
    columns: Sequence[SentColumn],
    arrays: Sequence[Any],
    unchanged: dict[int, Numbers],
    style: TextStyle,
) -> pa.LargeBinaryArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    parts: list[Any] = [bytes([tag]) + pgoutput.COLUMN_COUNT.pack(len(columns))]
    for place, (column, array) in enumerate(zip(columns, arrays, strict=True)):
        part = _values(column_text(array, column.type, column.form, style))
        if place in unchanged:
            part = pc.if_else(pa.array(unchanged[place]), bytes([pgoutput.UNCHANGED_VALUE]), part)
        parts.append(part)
    return joined(parts)


def _values(texts: pa.LargeStringArray) -> pa.LargeBinaryArray:
    """Each text behind its kind and length; NULLs by their kind alone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    heads = np.zeros(len(texts), _TEXT_FIELDS)
    heads["kind"] = pgoutput.TEXT_VALUE
    heads["length"] = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    made = joined([records(heads), texts.cast(pa.large_binary())])
    return pc.fill_null(made, bytes([pgoutput.NULL_VALUE])) if texts.null_count else made
