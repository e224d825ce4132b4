"""Checked changes of rows become writes of the lake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.lake.table import lake_table
from pgrepl.rows.changes import ModifiedRow, Row

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.write.statement import Write


def write_changes(session: Session, changes: Sequence[ModifiedRow]) -> None:
    """Write what `RowChecks.local` returned, at the running statement's snapshot; the session holds the write lock."""
    from pgrepl.lake.commit import commit

    writes = _by_table(session, changes)
    if not writes:
        return
    for write in writes.values():
        write.keeps_places |= bool(session.unsettled)
    commit.record_writes(session, list(writes.values()))
    if session.unsettled:
        for table, write in writes.items():
            for place in write.inserted:
                _touch(session, table, place.row)


def _touch(session: Session, table: int, row: int) -> None:
    """Note that a row was changed or inserted while statements around this one run."""
    session.touches += 1
    session.touched[table, row] = session.touches


def _by_table(session: Session, changes: Sequence[ModifiedRow]) -> dict[int, Write]:
    """One write for each table, in the order in which the changes come to the tables."""
    from pgrepl.lake.write.statement import Write

    writes: dict[int, Write] = {}
    arriving: dict[int, list[Row]] = {}

    def of(table: int) -> Write:
        found = writes.get(table)
        if found is None:
            found = writes[table] = Write(session, lake_table(session, table))
        return found

    for change in changes:
        if session.unsettled and change.place is not None:
            _touch(session, change.table, change.place.row)
        if change.new is not None and change.place is not None and change.to == change.table:
            write = of(change.table)
            write.update(change.place, write.table.lake_row(change.new))
            continue
        if change.place is not None:
            of(change.table).delete([change.place])
        if change.new is not None:
            write = of(change.to)
            arriving.setdefault(change.to, []).append(write.table.lake_row(change.new))
    for table, rows in arriving.items():
        of(table).insert(rows)
    return writes


def define_now(session: Session) -> None:
    """Bring the running statement's changes of definitions into the lake, before rows are read or written."""
    if session.transaction.numbering.definition_changes:
        session.define_in_lake()


def next_snapshot(session: Session) -> None:
    """Later writes of the running statement belong to a further snapshot."""
    session.transaction.numbering.store_snapshot()
