"""What changed in a table between two snapshots, as whole columns: lake.changes for many rows.

    found = ChangesFrame(session, oid, after, upto)
    found.snapshot, found.row_id, found.has_new, found.has_old     # numpy, an entry for every change, in order
    found.values(attnum, new=True)                           # Arrow, an entry for every change
    found.rows(attnums, numbers)                             # Spark: the new rows

Which rows came and went is worked out on positions, with numpy; columns are read where somebody asks for them. Rows
themselves are for Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.lake import footers, inlined
from pgrepl.lake.changes import Feed
from pgrepl.lake.file_scan import constant, locate
from pgrepl.lake.scan import FileReader
from pgrepl.lake.table import lake_table
from pgrepl.types.lake_arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.lake.files import DataFile
    from pgrepl.lake.table import LakeColumn

    Numbers = npt.NDArray[Any]

AT = "at"
LEFT_OUT = -1
_THREADS = 4
_GROUPS = 4  # parts of an ordered answer, each a task


@frozen
class _Part:
    """Rows of one file, or inlined ones (`file` None: positions in the list of them)."""

    file: DataFile | None
    positions: Numbers
    row_ids: Numbers
    snapshots: Numbers


class _Side:
    """All rows that came, or all that went."""

    def __init__(self, parts: list[_Part], inlined_rows: list[inlined.InlinedRow]) -> None:
        import numpy as np

        self.parts = [part for part in parts if len(part.positions)]
        self.inlined = inlined_rows
        nothing = [np.empty(0, np.int64)]
        self.row_ids = np.concatenate([part.row_ids for part in self.parts] or nothing)
        self.snapshots = np.concatenate([part.snapshots for part in self.parts] or nothing)
        self.starts = np.cumsum([0, *[len(part.positions) for part in self.parts]])


class ChangesFrame(Feed):
    """The changes behind snapshot `after` up to `upto`; columns as they are at `upto`. Of one snapshot rows that went
    come first, then the others as they were written."""

    def __init__(self, session: Session, oid: int, after: int, upto: int) -> None:
        import numpy as np

        super().__init__(session, lake_table(session, oid, upto), after, upto)
        self.table = self._table
        self._reader = FileReader(session, self._table, self._files)
        with ThreadPoolExecutor(_THREADS) as threads:
            came = list(threads.map(self._part_that_came, self._files))
            gone = [part for parts in threads.map(self._parts_that_went, self._files) for part in parts]
        begun = [
            row
            for row in inlined.rows_begun(session, self._table, self._columns, after, upto)
            if row.begin_snapshot not in self._only_files
        ]
        ended = [
            (row, end)
            for row, end in inlined.rows_ended(session, self._table, self._columns, after, upto)
            if row.begin_snapshot < end and end not in self._only_files
        ]
        self._came = _Side([*came, _of_inlined(begun, [row.begin_snapshot for row in begun])], begun)
        self._gone = _Side(
            [*gone, _of_inlined([row for row, _ in ended], [end for _, end in ended])], [row for row, _ in ended]
        )
        self._arrange()
        assert self.count == 0 or bool(np.all(np.diff(self.snapshot) >= 0))

    def _arrange(self) -> None:
        """Pair what came with what went under one row id at one snapshot, and put all in order."""
        import numpy as np

        came, gone = self._came, self._gone
        partner = _partners(came, gone)
        paired = np.zeros(len(gone.row_ids), np.bool_)
        paired[partner[partner >= 0]] = True
        left = np.flatnonzero(~paired)
        snapshots = np.concatenate([gone.snapshots[left], came.snapshots])
        order = np.argsort(snapshots, kind="stable")  # those that only went stand before those that came
        in_came = np.concatenate([np.full(len(left), -1), np.arange(len(came.row_ids))])[order]
        in_gone = np.concatenate([left, partner])[order]
        self.count = len(order)
        self.snapshot: Numbers = snapshots[order]
        self.row_id: Numbers = np.concatenate([gone.row_ids[left], came.row_ids])[order]
        self.has_new: Numbers = in_came >= 0
        self.has_old: Numbers = in_gone >= 0
        self._in_came, self._in_gone = in_came, in_gone

    # --- which rows -------------------------------------------------------------------------------------------------

    def _part_that_came(self, file: DataFile) -> _Part:
        import numpy as np

        begun = self._in_range(file.begin_snapshot) and file.begin_snapshot not in self._only_files
        merged = file.partial_max is not None and file.partial_max > self._after
        if not begun and not merged:
            return _nothing(file)
        positions = np.arange(file.record_count, dtype=np.int64)
        row_ids, births = self._births(file, positions)
        wanted = (births > self._after) & (births <= self._upto) & (self._deaths_of(file, positions) != births)
        wanted &= ~np.isin(births, list(self._only_files))
        if wanted.all():
            return _Part(file, positions, row_ids, births)
        return _Part(file, positions[wanted], row_ids[wanted], births[wanted])

    def _parts_that_went(self, file: DataFile) -> list[_Part]:
        import numpy as np

        parts = []
        positions, at = self._deaths.get(file.data_file_id, (None, None))
        only_files = list(self._only_files)
        if positions is not None:
            chosen = (at > self._after) & ~np.isin(at, only_files)
            if chosen.any():
                here, deaths = positions[chosen], at[chosen]
                row_ids, births = self._births(file, here)
                fine = births < deaths
                parts.append(_Part(file, here[fine], row_ids[fine], deaths[fine]))
        end = file.end_snapshot
        if end is not None and self._in_range(end) and end not in self._only_files:
            here = np.arange(file.record_count, dtype=np.int64)
            row_ids, births = self._births(file, here)
            fine = (self._deaths_of(file, here) == 0) & (births < end)
            parts.append(_Part(file, here[fine], row_ids[fine], np.full(int(fine.sum()), end, np.int64)))
        return parts

    def _births(self, file: DataFile, positions: Numbers) -> tuple[Numbers, Numbers]:
        """Row ids of rows of a file, and the snapshots at which they came."""
        import numpy as np

        footer = footers.footer(file.path)
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

    def values(self, attnum: int, *, new: bool) -> pa.Array:
        """A column of new or of old rows, an entry for every change; NULL where there is no such row."""
        import pyarrow as pa

        side, index = (self._came, self._in_came) if new else (self._gone, self._in_gone)
        column = self._table.column(attnum)
        with ThreadPoolExecutor(_THREADS) as threads:
            arrays = list(threads.map(lambda part: self._column(side, part, column), side.parts))
        kind = plain_array(column.form.to_array([])).type
        whole = pa.chunked_array([array.cast(kind) for array in arrays], kind).combine_chunks()
        if isinstance(whole, pa.ChunkedArray):
            whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], kind)
        return whole.take(pa.array(index, mask=index < 0))

    def _column(self, side: _Side, part: _Part, column: LakeColumn) -> Any:
        import pyarrow as pa

        if part.file is None:
            place = self._columns.index(column)
            return plain_array(column.form.to_array([side.inlined[n].values[place] for n in part.positions.tolist()]))
        footer = footers.footer(part.file.path)
        own = locate(part.file, footer).get(column.column_id)
        if own is None:
            value = constant(column, part.file)
            return plain_array(column.form.to_array([value] * len(part.positions)))
        with footers.Reader(footer) as reader:
            array = plain_array(reader.read(footer.row_groups, [own])[0])
        if len(part.positions) == len(array):
            return array
        return array.take(pa.array(part.positions))

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
        of_came[self._in_came[self.has_new]] = numbers[self.has_new]
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

    def _in_order(self, parts: list[_Part], at: list[Numbers], columns: Sequence[LakeColumn]) -> DataFrame:
        """Files one after the other, in a few groups of about the same size: nothing has to be shuffled."""
        size = -(-sum(len(numbers) for numbers in at) // _GROUPS)
        frames, begin, count = [], 0, 0
        for n, numbers in enumerate(at, 1):
            count += len(numbers)
            if count >= size or n == len(at):
                frames.append(self._of_files(parts[begin:n], at[begin:n], columns).coalesce(1).sortWithinPartitions(AT))
                begin, count = n, 0
        return reduce(lambda all_rows, more: all_rows.unionAll(more), frames)

    def _inlined(self, part: _Part, columns: Sequence[LakeColumn], at: Numbers) -> DataFrame:
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

    def _of_files(self, parts: list[_Part], at: list[Numbers], columns: Sequence[LakeColumn]) -> DataFrame:
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


def _nothing(file: DataFile | None) -> _Part:
    import numpy as np

    nothing = np.empty(0, np.int64)
    return _Part(file, nothing, nothing, nothing)


def _of_inlined(found: list[inlined.InlinedRow], snapshots: list[int]) -> _Part:
    import numpy as np

    row_ids = np.array([row.row_id for row in found], np.int64)
    return _Part(None, np.arange(len(found), dtype=np.int64), row_ids, np.array(snapshots, np.int64))


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


def _partners(came: _Side, gone: _Side) -> Numbers:
    """For each row that came the number of the one that went under its row id at its snapshot; -1: none."""
    import numpy as np

    partner = np.full(len(came.row_ids), -1, np.int64)
    if not len(came.row_ids) or not len(gone.row_ids):
        return partner
    span = int(max(came.row_ids.max(), gone.row_ids.max())) + 1
    first = int(min(came.snapshots.min(), gone.snapshots.min()))
    ours = (came.snapshots - first) * span + came.row_ids
    theirs = (gone.snapshots - first) * span + gone.row_ids
    order = np.argsort(theirs, kind="stable")
    theirs = theirs[order]
    places = np.searchsorted(theirs, ours, side="right") - 1
    hit = (places >= 0) & (theirs[np.maximum(places, 0)] == ours)
    partner[hit] = order[places[hit]]
    return partner
