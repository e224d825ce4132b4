"""Changes of a table between two snapshots: each with the old and the new row.

Rows of a file are inserted at the file's snapshot, or at the one that a merged file has for each; they are deleted at
the snapshot of a delete, at the end of the file, or at the end of the inlined row. An insertion and a deletion with one
row id at one snapshot are an update. A row that is inserted and deleted at the same snapshot is no change, and
snapshots that only rearrange files have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np
from pgrepl.lake.changes.history import Snapshot, compactions
from pgrepl.lake.read import footers, inlined
from pgrepl.lake.read.data_file import DataFile, DeleteFile
from pgrepl.lake.read.files import delete_files_until, files_between
from pgrepl.lake.read.footers import Recent
from pgrepl.lake.table import LakeColumn, LakeTable, lake_table
from pgrepl.lake.write.delete_files import read_delete_file
from pgrepl.types import oids

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session


Row = tuple[Any, ...]
_REMEMBERED = 1 << 22  # deleted positions
_HERE = ("_session", "_deleted", "_all_spans", "reader")


def _deleted_positions() -> Recent[int, tuple[Any, Any]]:
    return Recent(_REMEMBERED, lambda positions_and_snapshots: len(positions_and_snapshots[0]))


@frozen
class RowChange:
    """The change of a row at a snapshot. Rows are by attribute number: column n is at n - 1."""

    snapshot: int
    row_id: int
    old: Row | None  # None: inserted
    new: Row | None  # None: deleted


@frozen
class _Event:
    snapshot: int
    row_id: int
    row: Row


def changes(
    session: Session,
    oid: int,
    after: int,
    upto: int,
    known: Sequence[Snapshot] | None = None,
    *,
    labels_then: bool = True,
) -> list[RowChange]:
    """The changes behind snapshot `after` up to `upto`, in order; columns as they are at `upto`. Of one snapshot
    deleted rows come first, then the others as they were written. `known`: all snapshots between the two, if they have
    been read. `labels_then`: enums have the labels of then (lake_table)."""
    table = lake_table(session, oid, upto, labels_then=labels_then)
    feed = Feed(session, table, after, upto, known)
    gone = {(event.snapshot, event.row_id): event.row for event in feed.deletions()}
    changed: list[RowChange] = []
    for event in feed.insertions():
        old = gone.pop((event.snapshot, event.row_id), None)
        changed.append(RowChange(event.snapshot, event.row_id, old, event.row))
    left = [RowChange(snapshot, row_id, row, None) for (snapshot, row_id), row in gone.items()]
    return sorted(left + changed, key=lambda change: change.snapshot)


def changes_at(session: Session, oid: int, snapshot: int, *, labels_then: bool = True) -> Iterator[RowChange]:
    """The changes of one snapshot. If all are insertions, rows are read one by one."""
    feed = Feed(session, lake_table(session, oid, snapshot, labels_then=labels_then), snapshot - 1, snapshot)
    if next(feed.deletions(), None) is None:
        for event in feed.insertions():
            yield RowChange(event.snapshot, event.row_id, None, event.row)
    else:
        yield from changes(session, oid, snapshot - 1, snapshot, labels_then=labels_then)


def in_order(snapshot: Snapshot, changed: Mapping[int, Iterable[RowChange]]) -> Iterator[tuple[int, RowChange]]:
    """The changes of one snapshot, given by table, in the order in which they were made. Where that is not noted,
    deleted rows of all tables come first, as of each: so a row that moves to another partition is gone before it comes
    again, whichever way others move."""
    if not snapshot.order:
        left = []
        for table, of_table in changed.items():
            changes = iter(of_table)
            first = next(changes, None)
            while first is not None and first.new is None:
                yield table, first
                first = next(changes, None)
            if first is not None:
                left.append((table, chain((first,), changes)))
        for table, others in left:
            yield from ((table, change) for change in others)
        return
    by_row = {table: {change.row_id: change for change in of_table} for table, of_table in changed.items()}
    for table, *listed in snapshot.order:
        known = by_row.get(table, {})
        yield from ((table, known[row_id]) for row_id in listed if row_id in known)


class Feed:
    """The insertions and deletions of one table."""

    def __init__(
        self, session: Session, table: LakeTable, after: int, upto: int, known: Sequence[Snapshot] | None = None
    ) -> None:
        self._session = session
        self._table = table
        self._after, self._upto = after, upto
        self._columns = list(table.columns)
        self._width = max((column.attnum for column in table.columns), default=0)
        self._only_files = (
            compactions(session, table.table_id, after, upto)
            if known is None
            else frozenset(snapshot.id for snapshot in known if snapshot.rearranges(table.table_id))
        )
        self._files = files_between(session, table, after, upto)
        self._deletes: dict[int, list[DeleteFile]] = {}  # by data file
        self._inlined_deletes = inlined.deletes(session, table, upto) if self._files else {}
        for deletes in delete_files_until(session, table, upto) if self._files else ():
            self._deletes.setdefault(deletes.data_file_id, []).append(deletes)
        self._deleted = _deleted_positions()

    def __getstate__(self) -> dict[str, Any]:
        """The state for a task of Spark, without the session and the lock."""
        assert self._in_catalog is not None
        return {name: value for name, value in self.__dict__.items() if name not in _HERE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _deleted=_deleted_positions())

    @cached_property
    def _in_catalog(self) -> tuple[list[inlined.InlinedRow], list[tuple[inlined.InlinedRow, int]]]:
        return inlined.rows_changed(self._session, self._table, self._columns, self._after, self._upto)

    def _in_range(self, snapshot: int | None) -> bool:
        return snapshot is not None and self._after < snapshot <= self._upto

    def _deleted_in(self, file_id: int) -> tuple[Any, Any] | None:
        """The deleted positions of a file, ascending, and the first snapshot of each; None: there are none."""
        deleted = self._deleted.get(file_id)
        if deleted is None:
            deleted = self._read_deleted(file_id)
            if deleted is not None:
                self._deleted.put(file_id, deleted)
        return deleted

    def _read_deleted(self, file_id: int) -> tuple[Any, Any] | None:

        parts = [read_delete_file(deletes) for deletes in self._deletes.get(file_id, ())]
        if file_id in self._inlined_deletes:
            positions, at = np.array(self._inlined_deletes[file_id], np.int64).T
            parts.append((positions, at))
        if not parts:
            return None
        positions, at = (
            arrays[0] if len(parts) == 1 else np.concatenate(arrays) for arrays in zip(*parts, strict=True)
        )
        if not bool((positions[1:] > positions[:-1]).all()):
            order = np.lexsort((at, positions))
            positions, at = positions[order], at[order]
            first = np.ones(len(positions), np.bool_)
            first[1:] = positions[1:] != positions[:-1]
            positions, at = positions[first], at[first]
        known = at <= self._upto
        return (positions, at) if known.all() else (positions[known], at[known])

    # --- insertions ------------------------------------------------------------------------------------------------

    def insertions(self) -> Iterator[_Event]:
        for file in self._files:
            yield from self._insertions_in(file)
        for row in self._in_catalog[0]:
            if row.begin_snapshot not in self._only_files:
                yield _Event(row.begin_snapshot, row.row_id, self._table.own_row(self._width, row.values))

    def _insertions_in(self, file: DataFile) -> Iterator[_Event]:
        begun = self._in_range(file.begin_snapshot) and file.begin_snapshot not in self._only_files
        merged = file.partial_max is not None and file.partial_max > self._after
        if not begun and not merged:
            return
        for positions, ids, births, rows in self._read(file):
            ended = self._deleted_at(file, positions)
            for row_id, birth, death, row in zip(ids, births, ended, rows, strict=True):
                if self._in_range(birth) and death != birth and birth not in self._only_files:
                    yield _Event(birth, row_id, row)

    # --- deletions ------------------------------------------------------------------------------------------------

    def deletions(self) -> Iterator[_Event]:
        for file in self._files:
            yield from self._deletions_in_file(file)
        for row, end in self._in_catalog[1]:
            if row.begin_snapshot < end and end not in self._only_files:
                yield _Event(end, row.row_id, self._table.own_row(self._width, row.values))

    def _deletions_in_file(self, file: DataFile) -> Iterator[_Event]:
        dead = self._deleted_in(file.data_file_id)
        if dead is not None:
            positions, at = dead
            chosen = at > self._after
            for here, row_ids, births, rows in self._read(file, positions[chosen]):
                deletions = self._deleted_at(file, here)
                for row_id, birth, death, row in zip(row_ids, births, deletions, rows, strict=True):
                    if birth < death and death not in self._only_files:
                        yield _Event(death, row_id, row)
        end = file.end_snapshot
        if end is not None and self._in_range(end) and end not in self._only_files:
            for here, row_ids, births, rows in self._read(file):
                deletions = self._deleted_at(file, here)
                for row_id, birth, death, row in zip(row_ids, births, deletions, rows, strict=True):
                    if not death and birth < end:
                        yield _Event(end, row_id, row)

    def _deleted_at(self, file: DataFile, positions: npt.NDArray[np.int64]) -> list[int]:
        """The snapshots at which the rows at these positions were deleted; 0: not deleted."""
        dead = self._deleted_in(file.data_file_id)
        if dead is None:
            return [0] * len(positions)
        deleted, at = dead
        places = np.searchsorted(deleted, positions)
        places[places == len(deleted)] = 0
        hit = deleted[places] == positions if len(deleted) else np.zeros(len(positions), np.bool_)
        snapshots: list[int] = np.where(hit, at[places] if len(at) else 0, 0).tolist()
        return snapshots

    # --- reading --------------------------------------------------------------------------------------------------

    def _read(
        self, file: DataFile, only: npt.NDArray[np.int64] | None = None
    ) -> Iterator[tuple[Any, list[int], list[int], list[Row]]]:
        """Positions, row ids, snapshots of insertion, and rows of a file, deleted ones included."""
        from pgrepl.lake.changes.side import file_rows

        births = [_BIRTH] if file.partial_max is not None else []
        columns = [*self._columns, *births]
        for portion in file_rows(file, columns, only):
            values = [
                [constant] * portion.count if array is None else column.form.from_array(array)
                for column, array, constant in zip(columns, portion.arrays, portion.constants, strict=True)
            ]
            born = values.pop() if births else [file.begin_snapshot] * portion.count
            assert portion.row_ids is not None
            row_ids = portion.row_ids.tolist()
            laid_out: list[Sequence[Any]] = [[None] * portion.count for _ in range(self._width)]
            for column, given in zip(self._columns, values, strict=True):
                laid_out[column.attnum - 1] = given
            rows = list(zip(*laid_out, strict=True)) if laid_out else [()] * portion.count
            yield portion.positions, row_ids, [file.begin_snapshot if b is None else b for b in born], rows


_BIRTH = LakeColumn(0, footers.SNAPSHOT_ID_NAME, footers.SNAPSHOT_ID, oids.INT8, -1, "int64")
