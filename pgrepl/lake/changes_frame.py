"""What changed in a table between two snapshots, as whole columns: lake.changes for many rows.

    found = ChangesFrame(session, oid, after, upto)
    found.snapshot, found.row_id, found.has_new, found.has_old     # numpy, an entry for every change, in order
    found.pick([attnum], numbers, new=True)                  # Arrow, an entry for each of these changes
    found.rows(attnums, numbers)                             # Spark: the new rows

Which rows came and went is worked out on positions, with numpy; columns are read where somebody asks for them. Rows
themselves are for Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pgrepl.lake import footers, inlined
from pgrepl.lake.changes import Feed
from pgrepl.lake.changes_side import NONE, Part, Side, by_threads, in_order, merged, partners
from pgrepl.lake.file_scan import locate
from pgrepl.lake.scan import FileReader
from pgrepl.lake.table import lake_table
from pgrepl.types.lake_arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.lake.data_file import DataFile
    from pgrepl.lake.table import LakeColumn

    Numbers = npt.NDArray[Any]

AT = "at"
LEFT_OUT = -1
_GROUPS = 4  # parts of an ordered answer, each a task


class ChangesFrame(Feed):
    """The changes behind snapshot `after` up to `upto`; columns as they are at `upto`. Of one snapshot rows that went
    come first, then the others as they were written."""

    def __init__(self, session: Session, oid: int, after: int, upto: int) -> None:
        import numpy as np

        super().__init__(session, lake_table(session, oid, upto), after, upto)
        self.table = self._table
        self._reader = FileReader(session, self._table, self._files)
        came = by_threads(self._part_that_came, self._files)
        gone = [part for parts in by_threads(self._parts_that_went, self._files) for part in parts]
        begun = [row for row in self._in_catalog[0] if row.begin_snapshot not in self._only_files]
        ended = [
            (row, end) for row, end in self._in_catalog[1] if row.begin_snapshot < end and end not in self._only_files
        ]
        came.append(_of_inlined(begun, [row.begin_snapshot for row in begun]))
        gone.append(_of_inlined([row for row, _ in ended], [end for _, end in ended]))
        self._came = Side(came, begun, self._columns)
        self._gone = Side(gone, [row for row, _ in ended], self._columns)
        self._arrange()
        assert self.count == 0 or bool(np.all(self.snapshot[1:] >= self.snapshot[:-1]))

    def _arrange(self) -> None:
        """Pair what came with what went under one row id at one snapshot, and put all in order."""
        import numpy as np

        came, gone = self._came, self._gone
        by_came, by_gone = in_order(came.snapshots), in_order(gone.snapshots)
        partner = partners(came, gone, by_gone)
        went = np.ones(len(gone), np.bool_)
        went[partner[partner != NONE]] = False
        left = by_gone[went[by_gone]]
        of_left, of_came = gone.snapshots[left], came.snapshots[by_came]
        # of one snapshot those that only went stand before those that came
        at_left, at_came = merged(of_left, of_came, "left"), merged(of_came, of_left, "right")
        self.count = len(left) + len(came)
        self.in_came, self.in_gone = (np.full(self.count, NONE, np.int32) for _ in range(2))
        self.snapshot: Numbers = np.empty(self.count, np.int64)
        self.in_gone[at_left], self.snapshot[at_left] = left, of_left
        self.in_came[at_came], self.in_gone[at_came], self.snapshot[at_came] = by_came, partner[by_came], of_came
        self.has_new: Numbers = self.in_came != NONE
        self.has_old: Numbers = self.in_gone != NONE

    def arrange_as(self, orders: Mapping[int, Sequence[int]]) -> None:
        """Put the changes of some snapshots in the order of these row ids."""
        import numpy as np

        for snapshot, row_ids in orders.items():
            start, end = np.searchsorted(self.snapshot, [snapshot, snapshot + 1])
            rank = {row_id: number for number, row_id in enumerate(row_ids)}
            ranks = [rank.get(row_id, len(rank)) for row_id in self.row_id[start:end].tolist()]
            order = start + np.argsort(np.array(ranks, np.int64), kind="stable")
            for column in (self.in_came, self.in_gone, self.has_new, self.has_old, self.row_id):
                column[start:end] = column[order]

    @cached_property
    def row_id(self) -> Numbers:
        import numpy as np

        found = np.empty(self.count, np.int64)
        found[self.has_old] = self._gone.row_ids[self.in_gone[self.has_old]]
        found[self.has_new] = self._came.row_ids[self.in_came[self.has_new]]
        return found

    # --- which rows -------------------------------------------------------------------------------------------------

    def _part_that_came(self, file: DataFile) -> Part:
        import numpy as np

        begun = self._in_range(file.begin_snapshot) and file.begin_snapshot not in self._only_files
        merged = file.partial_max is not None and file.partial_max > self._after
        if not begun and not merged:
            return _nothing(file)
        positions = np.arange(file.record_count, dtype=np.int64)
        row_ids, births = self._births(file, positions)
        if not merged and file.data_file_id not in self._deaths:
            return Part(file, positions, row_ids, births, file.begin_snapshot)
        wanted = (births > self._after) & (births <= self._upto) & (self._deaths_of(file, positions) != births)
        if self._only_files:
            wanted &= ~np.isin(births, list(self._only_files))
        one = None if file.partial_max is not None else file.begin_snapshot
        if wanted.all():
            return Part(file, positions, row_ids, births, one)
        return Part(file, positions[wanted], row_ids[wanted], births[wanted], one)

    def _parts_that_went(self, file: DataFile) -> list[Part]:
        import numpy as np

        parts = []
        positions, at = self._deaths.get(file.data_file_id, (None, None))
        only_files = list(self._only_files)
        if positions is not None:
            chosen = at > self._after
            if only_files:
                chosen &= ~np.isin(at, only_files)
            if chosen.any():
                here, deaths = positions[chosen], at[chosen]
                row_ids, births = self._births(file, here)
                fine = births < deaths
                parts.append(Part(file, here[fine], row_ids[fine], deaths[fine]))
        end = file.end_snapshot
        if end is not None and self._in_range(end) and end not in self._only_files:
            here = np.arange(file.record_count, dtype=np.int64)
            row_ids, births = self._births(file, here)
            fine = (self._deaths_of(file, here) == 0) & (births < end)
            parts.append(Part(file, here[fine], row_ids[fine], np.full(int(fine.sum()), end, np.int64)))
        return parts

    def _births(self, file: DataFile, positions: Numbers) -> tuple[Numbers, Numbers]:
        """Row ids of rows of a file, and the snapshots at which they came."""
        import numpy as np

        footer = footers.of(file)
        found = locate(file, footer)
        own_ids = found.get(footers.ROW_ID)
        own_births = found.get(footers.SNAPSHOT_ID) if file.partial_max is not None else None
        wanted = [column for column in (own_ids, own_births) if column is not None]
        row_ids = (file.row_id_start or 0) + positions
        births = np.full(len(positions), file.begin_snapshot, np.int64)
        if not wanted:
            return row_ids, births
        with footers.Reader(footer) as reader:
            arrays = [plain_array(array) for array in reader.read(footer.row_groups, wanted)]
        given = iter(arrays)
        if own_ids is not None:
            row_ids = _filled(next(given), positions, row_ids)
        if own_births is not None:
            births = _filled(next(given), positions, births)
        return row_ids, births

    def _deaths_of(self, file: DataFile, positions: Numbers) -> Numbers:
        """At which snapshot rows were deleted; 0: not yet."""
        import numpy as np

        if file.data_file_id not in self._deaths:
            return np.zeros(len(positions), np.int64)
        dead, at = self._deaths[file.data_file_id]
        whole = np.zeros(file.record_count, np.int64)
        whole[dead] = at
        return whole[positions]

    # --- columns ------------------------------------------------------------------------------------------------------

    def pick(self, attnums: Sequence[int], changes: Numbers, *, new: bool) -> list[pa.Array]:
        """Columns of the new or of the old rows of some changes, all of which have one."""
        side, index = (self._came, self.in_came) if new else (self._gone, self.in_gone)
        return side.pick([self._table.column(attnum) for attnum in attnums], index[changes])

    def prepare(self, attnums: Sequence[int], most: int) -> None:
        """Begin to read columns of the new rows, if that takes no more than so many bytes."""
        self._came.prepare([self._table.column(attnum) for attnum in attnums], most)

    def fits(self, attnums: Sequence[int], most: int) -> bool:
        return self._came.fits([self._table.column(attnum) for attnum in attnums], most)

    # --- rows for Spark -----------------------------------------------------------------------------------------------

    def rows(self, attnums: Sequence[int], numbers: Numbers | None = None, *, ordered: bool = False) -> DataFrame:
        """New rows: c{attnum}, and `at`, the number of the change, or the one that `numbers` has for it; changes with
        LEFT_OUT there are left out. `ordered`: in the order of these numbers."""
        import numpy as np

        from pgrepl.lake import spark

        spark.session()  # the functions of pyspark want one
        if numbers is None:
            numbers = np.arange(self.count, dtype=np.int64)
        of_came = np.full(len(self._came.row_ids), LEFT_OUT, np.int64)
        of_came[self.in_came[self.has_new]] = numbers[self.has_new]
        columns = [self._table.column(attnum) for attnum in attnums]
        files, at = [], []
        frames = []
        for n, part in enumerate(self._came.parts):
            here = of_came[self._came.starts[n] : self._came.starts[n + 1]]
            if not (here != LEFT_OUT).any():
                continue
            if part.file is None:
                frames.append(self._inlined(part, columns, here))
            else:
                files.append(part)
                at.append(here)
        if ordered and files and not frames and _ascend(at):
            return self._in_order(files, at, columns)
        if files:
            frames.insert(0, self._of_files(files, at, columns))
        if not frames:
            frames.append(self._inlined(_nothing(None), columns, np.empty(0, np.int64)))
        rows = reduce(lambda all_rows, more: all_rows.unionAll(more), frames)
        return rows.orderBy(AT) if ordered else rows

    def _in_order(self, parts: list[Part], at: list[Numbers], columns: Sequence[LakeColumn]) -> DataFrame:
        """Files one after the other, in a few groups of about the same size: nothing has to be shuffled."""
        size = -(-sum(len(numbers) for numbers in at) // _GROUPS)
        frames, begin, count = [], 0, 0
        for n, numbers in enumerate(at, 1):
            count += len(numbers)
            if count >= size or n == len(at):
                frames.append(self._of_files(parts[begin:n], at[begin:n], columns).coalesce(1).sortWithinPartitions(AT))
                begin, count = n, 0
        return reduce(lambda all_rows, more: all_rows.unionAll(more), frames)

    def _inlined(self, part: Part, columns: Sequence[LakeColumn], at: Numbers) -> DataFrame:
        import pyarrow as pa

        from pgrepl.lake.scan import arrow_frame, storage_array

        kept = at != LEFT_OUT
        found = [self._came.inlined[n] for n in part.positions[kept].tolist()]
        places = [self._columns.index(column) for column in columns]
        arrays = [
            storage_array(c.form.to_array([row.values[place] for row in found]))
            for c, place in zip(columns, places, strict=True)
        ]
        names = [AT, *[f"c{column.attnum}" for column in columns]]
        table = pa.table([pa.array(at[kept]), *arrays], names=names)
        return arrow_frame(table, ["BIGINT", *[column.form.spark for column in columns]])

    def _of_files(self, parts: list[Part], at: list[Numbers], columns: Sequence[LakeColumn]) -> DataFrame:
        """Where the numbers of a file's rows are consecutive, the first says them all."""
        import numpy as np
        import pyarrow as pa
        from pyspark.sql import functions as F

        from pgrepl.lake.scan import PLACE, arrow_frame

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
        rows = self._reader.rows(files, [column.attnum for column in columns])
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


def _ascend(at: list[Numbers]) -> bool:
    """Whether the numbers of each file are behind those of the file before."""
    last = LEFT_OUT
    for numbers in at:
        known = numbers[numbers != LEFT_OUT]
        if int(known.min()) <= last:
            return False
        last = int(known.max())
    return True


def _nothing(file: DataFile | None) -> Part:
    import numpy as np

    nothing = np.empty(0, np.int64)
    return Part(file, nothing, nothing, nothing)


def _of_inlined(found: list[inlined.InlinedRow], snapshots: list[int]) -> Part:
    import numpy as np

    row_ids = np.array([row.row_id for row in found], np.int64)
    return Part(None, np.arange(len(found), dtype=np.int64), row_ids, np.array(snapshots, np.int64))


def _filled(array: Any, positions: Numbers, otherwise: Numbers) -> Numbers:
    """The values at some positions, others where they are NULL."""
    import numpy as np

    if array.null_count == 0:
        whole: Numbers = array.to_numpy(zero_copy_only=False)
        return whole if len(positions) == len(whole) else whole[positions]
    there = array.is_valid().to_numpy(zero_copy_only=False)[positions]
    own = array.fill_null(0).to_numpy(zero_copy_only=False)[positions]
    filled: Numbers = np.where(there, own, otherwise)
    return filled
