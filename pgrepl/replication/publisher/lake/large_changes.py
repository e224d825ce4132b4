"""The changes of a table at one snapshot, row by row and in order, where they may exceed memory: read by ranges of row
ids into files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pgrepl.engine.changes_frame import ChangedRows, ChangesFrame
from pgrepl.ground.lazy import np, pa
from pgrepl.lake.changes.changes import RowChange, changes_at
from pgrepl.lake.table import LakeTable
from pgrepl.replication.wire.batch import DELETE as BATCH_DELETE
from pgrepl.replication.wire.batch import INSERT
from pgrepl.replication.wire.batch import UPDATE as BATCH_UPDATE
from pgrepl.replication.wire.file_changes import FileChanges, MessageFiles
from pgrepl.replication.wire.message_files import Decoded, MessageFolder, MessageWriter, most_held
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.types import oids

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session

    Numbers = npt.NDArray[Any]

_ROWS = 20_000  # rows that are held as Python values at a time


def changes_in_order(session: Session, oid: int, snapshot: int) -> Iterator[RowChange]:
    """The changes in the order of lake.changes."""
    source = ChangedRows(session, oid, snapshot - 1, snapshot)
    most = most_held(session, 2 * source.width)
    ranges = source.ranges(most)
    if len(ranges) == 1:
        yield from changes_at(session, oid, snapshot)
        return
    with closing(MessageFolder(session.catalog.data_path)) as folder:
        relation = _whole_rows(source.table)
        writer = MessageWriter(relation, folder.path(relation), 1)
        for ids in ranges:
            frame = ChangesFrame(source, ids)
            if frame.count:
                writer.write(frame.rank, _decoded(frame))
        messages = MessageFiles(relation, writer.close())
        for portion in messages.in_order(min(most, _ROWS)):
            yield from _row_changes(source.table, snapshot, portion)


def _whole_rows(table: LakeTable) -> SentRelation:
    """The relation of messages with whole old and new rows, as with REPLICA IDENTITY FULL; the row id comes first."""
    columns = [SentColumn(column.name, column.typoid, column.typmod, is_key=True) for column in table.columns]
    return SentRelation(table.oid, "", "", "f", (SentColumn("row id", oids.INT8, -1, is_key=True), *columns))


def _decoded(frame: ChangesFrame) -> Decoded:
    sides = []
    for which, new in ((frame.has_new, True), (frame.has_old, False)):
        at = np.flatnonzero(which)
        columns = frame.pick([column.attnum for column in frame.table.columns], at, new=new)
        sides.append([pa.array(frame.row_id[at]), *columns])
    op = np.where(frame.has_new, np.where(frame.has_old, BATCH_UPDATE, INSERT), BATCH_DELETE).astype(np.uint8)
    return Decoded(op, frame.has_old, sides[0], dict(enumerate(sides[1])), {})


def _row_changes(table: LakeTable, snapshot: int, portion: FileChanges) -> Iterator[RowChange]:
    width = max((column.attnum for column in table.columns), default=0)
    rows: list[dict[int, tuple[Any, ...]]] = []
    row_ids = np.zeros(portion.count, np.int64)
    for which, old in ((portion.op != BATCH_DELETE, False), (portion.has_old, True)):
        at = np.flatnonzero(which)
        own, *arrays = portion.pick(range(len(table.columns) + 1), at, old=old)
        row_ids[at] = own.to_numpy()
        values = [column.form.from_array(array) for column, array in zip(table.columns, arrays, strict=True)]
        laid_out = [table.own_row(width, row) for row in zip(*values, strict=True)] if values else [()] * len(at)
        rows.append(dict(zip(at.tolist(), laid_out, strict=True)))
    new, old_rows = rows
    for n, row_id in enumerate(row_ids.tolist()):
        yield RowChange(snapshot, row_id, old_rows.get(n), new.get(n))
