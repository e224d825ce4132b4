"""The messages of a batch's records: decided by columns, block by block, and written to files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pgrepl.errors import Declined, PgError
from pgrepl.replication.formats.event import BadRecord, ChangeEvent, EventBlock, RecordPlace, TableEvents
from pgrepl.replication.publisher.files.columns import TableColumns
from pgrepl.replication.publisher.files.numbered_block import NumberedBlock
from pgrepl.replication.publisher.files.rejects import TakesRejects
from pgrepl.replication.wire.batch import CODES
from pgrepl.replication.wire.message_files import MessageFile, MessageWriter
from pgrepl.replication.wire.messages import TRUNCATE, SentRelation

Numbers = npt.NDArray[Any]
IN_FILE = 250_000  # messages of a relation


class DecidedMessages:
    """`tables`: what a table's name in the records means; PgError, if there is none; None: it is not known, and its
    records are left out. `path`: the prefix of the names of
    a relation's files."""

    def __init__(
        self,
        tables: Callable[[str | None, str | None], TableColumns | None],
        rejects: TakesRejects,
        path: Callable[[SentRelation], str],
    ) -> None:
        self._tables_of = tables
        self._rejects = rejects
        self._path = path
        self._tables: dict[tuple[str | None, str | None], TableColumns | None] = {}
        self._writers: dict[int, MessageWriter] = {}  # by relid
        self.owners: dict[int, int] = {}  # by relid, the declared table that is sent so
        self.truncations: list[tuple[int, ChangeEvent]] = []  # with their sequence numbers
        self.sends: list[Numbers] = []  # sequence numbers of messages

    def abandon(self) -> None:
        for writer in self._writers.values():
            writer.abandon()

    def close(self) -> Iterator[tuple[SentRelation, tuple[MessageFile, ...]]]:
        for writer in self._writers.values():
            yield writer.relation, writer.close()

    def take(self, block: NumberedBlock) -> None:
        item = block.located.item
        if isinstance(item, EventBlock):
            for events in item.tables:
                rows = np.flatnonzero(events.places >= block.skipped)
                if len(rows):
                    self._decide(block, item, events if len(rows) == len(events.places) else _some(events, rows))
        elif item.kind == TRUNCATE:
            self.truncations.append((block.first_seq, item))

    def _decide(self, block: NumberedBlock, item: EventBlock, events: TableEvents) -> None:
        """Decide records at once; a wrong one among them is found by halving, if rejects are written."""
        try:
            self._write(block, events, self._table(events))
        except PgError as error:
            if not self._rejects.are_written:
                raise Declined(error.message) from error
            if len(events.places) > 1:
                half = len(events.places) // 2
                self._decide(block, item, _some(events, np.arange(half)))
                self._decide(block, item, _some(events, np.arange(half, len(events.places))))
                return
            number = int(item.number[events.places[0]]) + block.located.before
            place = RecordPlace(block.located.file.file.shown, number)
            event = _single(events, place)
            self._rejects.take(BadRecord(error.sqlstate, error.message, place), block.located.file.lsn(number), event)

    def _table(self, events: TableEvents) -> TableColumns | None:
        key = events.schema, events.table
        if key not in self._tables:
            found = self._tables_of(*key)
            if found is not None and found.plan is not None:
                check_owner(self.owners, found.relation.relid, found.table.oid)
            self._tables[key] = found
        return self._tables[key]

    def _write(self, block: NumberedBlock, events: TableEvents, table: TableColumns | None) -> None:
        made = None if table is None else table.decoded(events)
        if table is None or made is None:
            return
        places, decoded = made
        seq = block.first_seq + events.places[places].astype(np.int64)
        relid = table.relation.relid
        if relid not in self._writers:
            self._writers[relid] = MessageWriter(table.relation, self._path(table.relation), IN_FILE)
        self._writers[relid].write(seq, decoded)
        self.sends.append(seq)


def check_owner(owners: dict[int, int], relid: int, table: int) -> None:
    """Note which declared table is sent as `relid`; there may be only one."""
    if owners.setdefault(relid, table) != table:
        raise Declined("several tables that are sent as one")


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


def _single(events: TableEvents, place: RecordPlace) -> ChangeEvent:
    """The only one of the events, for a file of rejects."""
    kind = {code: name for name, code in CODES.items()}[int(events.op[0])]
    unsent = {name for name, flags in events.unsent.items() if flags[0]}
    new = {name: array[0].as_py() for name, array in events.new.items() if name not in unsent}
    old = {name: array[0].as_py() for name, array in events.old.items()} if events.has_old[0] else None
    return ChangeEvent(
        kind, events.schema, events.table, None if kind == "delete" else new, old, None, None, None, place
    )
