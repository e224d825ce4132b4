"""Changes of a table between two snapshots as whole columns; lake/changes/changes.py is for few.

found = ChangesFrame(ChangedRows(session, oid, after, upto))
found.snapshot, found.row_id, found.has_new, found.has_old     # numpy, an entry for every change, in order
found.pick([attnum], numbers, new=True)                  # Arrow, an entry for each of these changes
found.rows(attnums, numbers)                             # Spark: the new rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pgrepl.engine import spark
from pgrepl.engine.changed_positions import ALL, ChangedRows, RowIds, nothing
from pgrepl.engine.scan_spark import PLACE, arrow_frame, storage_array
from pgrepl.ground.lazy import F, np, pa
from pgrepl.lake.changes.side import NONE, RowsOfFile, in_order, merged, partners

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from pgrepl.lake.table import LakeColumn

    Numbers = npt.NDArray[Any]

AT = "at"
LEFT_OUT = -1
_BEHIND_ALL = 1 << 34  # the rank of rows that an order does not name


class ChangesFrame:
    """The changes of rows with some row ids; columns as they are at the last snapshot. Of one snapshot deleted rows
    come first, then the others as they were written."""

    def __init__(self, source: ChangedRows, ids: RowIds = ALL) -> None:
        self.table = self._table = source.table
        self._source = source
        self._inserted, self._deleted = source.inserted_rows(ids), source.deleted_rows(ids)
        self._arrange()
        assert self.count == 0 or bool(np.all(self.snapshot[1:] >= self.snapshot[:-1]))

    def _arrange(self) -> None:
        """Pair insertions and deletions with one row id at one snapshot, and put all in order."""
        inserted, deleted = self._inserted, self._deleted
        by_inserted, by_deleted = in_order(inserted.snapshots), in_order(deleted.snapshots)
        partner = partners(inserted, deleted, by_deleted)
        alone = np.ones(len(deleted), np.bool_)
        alone[partner[partner != NONE]] = False
        left = by_deleted[alone[by_deleted]]
        of_left, of_inserted = deleted.snapshots[left], inserted.snapshots[by_inserted]
        # of one snapshot deletions come before insertions and updates
        at_left, at_inserted = merged(of_left, of_inserted, "left"), merged(of_inserted, of_left, "right")
        self.count = len(left) + len(inserted)
        self.in_inserted, self.in_deleted = (np.full(self.count, NONE, np.int32) for _ in range(2))
        self.snapshot: Numbers = np.empty(self.count, np.int64)
        self.in_deleted[at_left], self.snapshot[at_left] = left, of_left
        self.in_inserted[at_inserted], self.in_deleted[at_inserted], self.snapshot[at_inserted] = (
            by_inserted,
            partner[by_inserted],
            of_inserted,
        )
        self.has_new: Numbers = self.in_inserted != NONE
        self.has_old: Numbers = self.in_deleted != NONE

    def arrange_as(self, orders: Mapping[int, Mapping[int, int]]) -> None:
        """Give the changes of some snapshots these ranks, by row id. Others come behind them."""
        for snapshot, rank in orders.items():
            start, end = np.searchsorted(self.snapshot, [snapshot, snapshot + 1])
            ranks = [rank.get(row_id, _BEHIND_ALL) for row_id in self.row_id[start:end].tolist()]
            order = np.argsort(np.array(ranks, np.int64), kind="stable")
            for column in (self.in_inserted, self.in_deleted, self.has_new, self.has_old, self.row_id):
                column[start:end] = column[start + order]
            own = np.array(ranks, np.int64)[order]
            self.rank[start:end] = np.where(own < _BEHIND_ALL, own, _BEHIND_ALL + self.rank[start:end][order])

    @cached_property
    def rank(self) -> Numbers:
        """The order of the changes of one snapshot, also in comparison with those of other ranges of row ids."""
        found = np.empty(self.count, np.int64)
        found[self.has_old] = self._deleted.ranks[self.in_deleted[self.has_old]]
        found[self.has_new] = self._inserted.ranks[self.in_inserted[self.has_new]] + self._source.behind
        return found

    @cached_property
    def row_id(self) -> Numbers:
        found = np.empty(self.count, np.int64)
        found[self.has_old] = self._deleted.row_ids[self.in_deleted[self.has_old]]
        found[self.has_new] = self._inserted.row_ids[self.in_inserted[self.has_new]]
        return found

    # --- columns ------------------------------------------------------------------------------------------------------

    def pick(self, attnums: Sequence[int], changes: Numbers, *, new: bool) -> list[pa.Array]:
        """Columns of the new, or of the old, rows of some changes, which all have one."""
        side, index = (self._inserted, self.in_inserted) if new else (self._deleted, self.in_deleted)
        return side.pick([self._table.column(attnum) for attnum in attnums], index[changes])

    def prepare(self, attnums: Sequence[int], most: int) -> None:
        """Begin to read columns of the new rows, unless that takes more than `most` bytes."""
        self._inserted.prepare([self._table.column(attnum) for attnum in attnums], most)

    def fits(self, attnums: Sequence[int], most: int) -> bool:
        return self._inserted.fits([self._table.column(attnum) for attnum in attnums], most)

    # --- rows for Spark -----------------------------------------------------------------------------------------------

    def rows(self, attnums: Sequence[int], numbers: Numbers | None = None) -> DataFrame:
        """New rows: c{attnum}, and `at`, the number of the change, or the one that `numbers` has for it; changes with
        LEFT_OUT there are left out."""
        spark.session()  # the functions of pyspark want one
        if numbers is None:
            numbers = np.arange(self.count, dtype=np.int64)
        of_inserted = np.full(len(self._inserted.row_ids), LEFT_OUT, np.int64)
        of_inserted[self.in_inserted[self.has_new]] = numbers[self.has_new]
        columns = [self._table.column(attnum) for attnum in attnums]
        files, at = [], []
        frames = []
        for n, part in enumerate(self._inserted.parts):
            here = of_inserted[self._inserted.starts[n] : self._inserted.starts[n + 1]]
            if not (here != LEFT_OUT).any():
                continue
            if part.file is None:
                frames.append(self._inlined(part, columns, here))
            else:
                files.append(part)
                at.append(here)
        if files:
            frames.insert(0, self._of_files(files, at, columns))
        if not frames:
            frames.append(self._inlined(nothing(None), columns, np.empty(0, np.int64)))
        return reduce(lambda all_rows, more: all_rows.unionAll(more), frames)

    def _inlined(self, part: RowsOfFile, columns: Sequence[LakeColumn], at: Numbers) -> DataFrame:
        kept = at != LEFT_OUT
        found = [self._inserted.inlined[n] for n in part.positions[kept].tolist()]
        places = [self._table.columns.index(column) for column in columns]
        arrays = [
            storage_array(c.form.to_array([row.values[place] for row in found]))
            for c, place in zip(columns, places, strict=True)
        ]
        names = [AT, *[f"c{column.attnum}" for column in columns]]
        table = pa.table([pa.array(at[kept]), *arrays], names=names)
        return arrow_frame(table, ["BIGINT", *[column.form.spark for column in columns]])

    def _of_files(self, parts: list[RowsOfFile], at: list[Numbers], columns: Sequence[LakeColumn]) -> DataFrame:
        """The rows of files. If the numbers of a file's rows are consecutive, only the first is passed to Spark."""
        first: list[int | None] = []
        listed: list[Any] = []
        for part, numbers in zip(parts, at, strict=True):
            assert part.file is not None
            whole = len(numbers) == part.file.record_count and numbers[0] >= 0
            if whole and bool((np.diff(numbers) == 1).all()):
                first.append(int(numbers[0]))
                listed.append(None)
                continue
            all_of = np.full(part.file.record_count, LEFT_OUT, np.int64)
            all_of[part.positions] = numbers
            first.append(None)
            listed.append(all_of)
        files = [part.file for part in parts if part.file is not None]
        rows = self._source.reader.rows(files, [column.attnum for column in columns])
        known = {
            "__id": pa.array([file.data_file_id for file in files], pa.int64()),
            "__first": pa.array(first, pa.int64()),
            "__listed": pa.array(listed, pa.list_(pa.int64())),
        }
        file, position = F.col(f"{PLACE}.file"), F.col(f"{PLACE}.pos")
        rows = rows.join(F.broadcast(arrow_frame(pa.table(known))), file == F.col("__id"))
        at_column = F.coalesce(F.col("__first") + position, F.expr(f"__listed[CAST({PLACE}.pos AS INT)]")).alias(AT)
        rows = rows.select(at_column, *[f"c{column.attnum}" for column in columns])
        return rows if all(each is None for each in listed) else rows.filter(F.col(AT) != LEFT_OUT)
