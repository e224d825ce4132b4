"""The events of a block, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgrepl.replication.formats.event import NO_TIME, BadRecord, ChangeEvent, EventBlock, RecordPlace, TableEvents
from pgrepl.replication.wire import batch
from pgrepl.replication.wire.messages import DELETE, INSERT, UPDATE

_KINDS = {batch.INSERT: INSERT, batch.UPDATE: UPDATE, batch.DELETE: DELETE}


def one_by_one(found: Iterator[EventBlock | ChangeEvent | BadRecord]) -> Iterator[ChangeEvent | BadRecord]:
    for each in found:
        if isinstance(each, EventBlock):
            yield from events_in(each)
        else:
            yield each


def events_in(block: EventBlock) -> Iterator[ChangeEvent]:
    xid = [None] * block.count if block.xid is None else block.xid.to_pylist()
    lsn = [-1] * block.count if block.lsn is None else block.lsn.tolist()
    at = [NO_TIME] * block.count if block.at is None else block.at.tolist()
    snapshot = [False] * block.count if block.snapshot is None else block.snapshot.tolist()
    rows: list[Any] = [None] * block.count
    for table in block.tables:
        for place, row in zip(table.places.tolist(), _rows(table), strict=True):
            rows[place] = row
    for place, number in enumerate(block.number.tolist()):
        schema, name, kind, new, old = rows[place]
        yield ChangeEvent(
            kind, schema, name, new, old, xid[place], lsn[place] if lsn[place] >= 0 else None,
            at[place] if at[place] != NO_TIME else None, RecordPlace(block.file, number), snapshot[place],
        )  # fmt: skip


def _rows(table: TableEvents) -> Iterator[tuple[Any, ...]]:
    new = {name: array.to_pylist() for name, array in table.new.items()}
    old = {name: array.to_pylist() for name, array in table.old.items()}
    unsent = {name: flags.tolist() for name, flags in table.unsent.items()}
    unsent_old = {name: flags.tolist() for name, flags in (table.unsent_old or {}).items()}
    has_old = table.has_old.tolist()
    for at, code in enumerate(table.op.tolist()):
        kind = _KINDS[code]
        row = before = None
        if kind != DELETE:
            row = {name: values[at] for name, values in new.items() if not (name in unsent and unsent[name][at])}
        if has_old[at]:
            before = {
                name: values[at] for name, values in old.items() if not (name in unsent_old and unsent_old[name][at])
            }
        yield table.schema, table.table, kind, row, before
