"""Records as blocks with sequence numbers, and the steps of transactions in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pgrepl.replication.formats.event import BEGIN, COMMIT, NO_TIME, ChangeEvent, EventBlock, TableEvents
from pgrepl.replication.publisher.files.cursor import EndOfFile, Located
from pgrepl.replication.publisher.files.transactions import Step
from pgrepl.replication.wire import messages
from pgrepl.replication.wire.batch import CODES, INSERT
from pgrepl.replication.wire.messages import TRUNCATE
from pgrepl.types.encoding import is_utf8

if TYPE_CHECKING:
    import pyarrow as pa

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
        import pyarrow as pa

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
    found = np.flatnonzero(differs) + 1
    return np.concatenate([np.array([first], np.int64), found[found > first]])


def gathered(items: Iterable[Located | EndOfFile]) -> Iterator[Located | EndOfFile]:
    """Records that come one by one, as blocks; marks and truncations stay what they are."""
    held: list[Located] = []
    for found in items:
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
        values = [None if row is None else row.get(name) for row in rows]
        try:
            arrays[name] = pa.array(values, pa.string())
        except UnicodeEncodeError:  # half of a surrogate pair: refused as a NUL is, when the record is looked at alone
            arrays[name] = pa.array([each if each is None or is_utf8(each) else "\0" for each in values], pa.string())
        unsent[name] = np.array([row is None or name not in row for row in rows], np.bool_)
    return arrays, unsent
