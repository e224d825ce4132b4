"""Changes of a table between two snapshots as whole columns (`ChangesFrame`; lake/changes/changes.py is for few); and
the positions of the rows that were inserted and deleted, by ranges of row ids (`ChangedRows`).

A row keeps its id, so all changes of a row are within one range: a range is read by itself, and takes memory for its
own rows only. In files with row ids of their own, statistics tell the row groups that may have rows of a range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pgrepl.engine import spark
from pgrepl.engine.scan_spark import PLACE, FileReader, arrow_frame, storage_array
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import F, np, pa
from pgrepl.lake.changes.changes import Feed
from pgrepl.lake.changes.side import NONE, RowsOfFile, Side, by_threads, groups_of, in_order, merged, partners
from pgrepl.lake.read import footers
from pgrepl.lake.read.file_scan import locate
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.types.lake.arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import DataFile
    from pgrepl.lake.read.footers import FileColumn, Footer
    from pgrepl.lake.read.inlined import InlinedRow
    from pgrepl.lake.table import LakeColumn

    Numbers = npt.NDArray[Any]

_FIRST, _BEHIND = 0, 1 << 62


@frozen
class RowIds:
    """The row ids from `first` on and before `behind`."""

    first: int = _FIRST
    behind: int = _BEHIND

    @property
    def are_all(self) -> bool:
        return self.first <= _FIRST and self.behind >= _BEHIND

    def hold(self, row_ids: Numbers) -> Numbers:
        within: Numbers = (row_ids >= self.first) & (row_ids < self.behind)
        return within


ALL = RowIds()


class ChangedRows(Feed):
    """The changed rows of one table behind snapshot `after` up to `upto`. Ranks are their order: rows of one file are
    together."""

    def __init__(self, session: Session, oid: int, after: int, upto: int) -> None:
        super().__init__(session, lake_table(session, oid, upto, labels_then=True), after, upto)
        self.table: LakeTable = self._table
        self.reader = FileReader(session, self._table, self._files)
        self.first = after + 1
        self.ranks = 0  # of rows in files; those of the catalog come behind them
        self._ranks: dict[int, int] = {}  # of each file's first row
        self._extents: dict[int, tuple[int, int]] = {}  # by file, row ids between which all of its rows are
        for file in self._files:
            self._ranks[file.data_file_id] = self.ranks
            self.ranks += file.record_count
        self._begun = [row for row in self._in_catalog[0] if row.begin_snapshot not in self._only_files]
        self._ended = [
            (row, end) for row, end in self._in_catalog[1] if row.begin_snapshot < end and end not in self._only_files
        ]
        self.behind = self.ranks + len(self._begun) + len(self._ended)

    def inserted_rows(self, ids: RowIds) -> Side:
        parts = by_threads(lambda file: self._inserted(file, ids), self._files)
        begun = [(row, row.begin_snapshot) for row in self._begun]
        parts.append(_of_inlined(begun, self.ranks, ids))
        return Side(parts, self._begun, self._columns)

    def deleted_rows(self, ids: RowIds) -> Side:
        parts = by_threads(lambda file: self._deleted_of(file, ids), self._files)
        parts.append(_of_inlined(self._ended, self.ranks, ids))
        return Side(parts, [row for row, _ in self._ended], self._columns)

    # --- ranges -------------------------------------------------------------------------------------------------------

    @cached_property
    def _all_spans(self) -> Numbers:
        spans = [span for file in self._files for span in self._spans(file)]
        spans += [(row.row_id, row.row_id + 1, 1.0) for row in self._begun]
        spans += [(row.row_id, row.row_id + 1, 0.5) for row, _ in self._ended]
        return np.array(spans, np.float64).reshape(-1, 3)

    @property
    def estimate(self) -> int:
        """The number of changes, about."""
        return int(self._all_spans[:, 2].sum())

    @property
    def width(self) -> int:
        """The bytes of a new row in memory, about, by the size of the files' pages."""
        size = rows = 0
        for file in self._files:
            if self._begins(file) and file.record_count:
                metadata = footers.of(file).metadata
                size += sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
                rows += file.record_count
        return 2 * size // max(rows, 1) + 8 * len(self._columns)

    def ranges(self, most: int) -> list[RowIds]:
        """Ranges of row ids with about `most` changes each, by statistics."""
        spans = self._all_spans
        total = float(spans[:, 2].sum())
        if total <= most:
            return [ALL]
        first, behind, count = spans.T
        edges = np.unique(np.concatenate([first, behind]))
        per_row_id = count / (behind - first)  # a row id
        density = np.zeros(len(edges))
        np.add.at(density, np.searchsorted(edges, first), per_row_id)
        np.add.at(density, np.searchsorted(edges, behind), -per_row_id)
        below = np.concatenate([[0.0], np.cumsum(np.cumsum(density)[:-1] * np.diff(edges))])
        wanted = np.arange(1, -(-total // most)) * most
        cuts = sorted({int(cut) for cut in np.interp(wanted, below, edges).tolist()})
        return [RowIds(first, behind) for first, behind in zip([_FIRST, *cuts], [*cuts, _BEHIND], strict=True)]

    def _spans(self, file: DataFile) -> list[tuple[int, int, float]]:
        """Spans of row ids: the first, the one behind the last, and about how many changes are in it."""
        came = self._begins(file)
        end = file.end_snapshot
        gone = file.record_count if end is not None and self._in_range(end) and end not in self._only_files else 0
        for deletes in self._deletes.get(file.data_file_id, ()):
            if (deletes.partial_max or deletes.begin_snapshot) > self._after:
                gone = max(gone, deletes.delete_count)
        if not came and not gone:
            return []
        # an updated row is inserted and deleted
        share = (came * file.record_count + gone / 2) / max(file.record_count, 1)
        footer = footers.of(file)
        start, column = file.row_id_start or 0, locate(file, footer).get(footers.ROW_ID)
        if column is None:
            self._extents[file.data_file_id] = start, start + file.record_count
            return [(start, start + file.record_count, share * file.record_count)]
        spans = []
        is_known = True
        for group in footer.row_groups:
            low, high = footer.starts[group : group + 2]
            bounds = _bounds(footer, group, column)
            is_known &= bounds is not None
            first, last = bounds or (start + low, start + high - 1)
            spans.append((first, last + 1, share * (high - low)))
        if is_known and spans:
            self._extents[file.data_file_id] = min(span[0] for span in spans), max(span[1] for span in spans)
        return spans

    def _is_outside(self, file: DataFile, ids: RowIds) -> bool:
        """Is it known that no row of the file has one of these ids? Each range looks at all files."""
        extent = self._extents.get(file.data_file_id)
        return extent is not None and (extent[0] >= ids.behind or extent[1] <= ids.first)

    # --- of one file --------------------------------------------------------------------------------------------------

    def _begins(self, file: DataFile) -> bool:
        begun = self._in_range(file.begin_snapshot) and file.begin_snapshot not in self._only_files
        return begun or (file.partial_max is not None and file.partial_max > self._after)

    def _inserted(self, file: DataFile, ids: RowIds) -> RowsOfFile:
        if self._is_outside(file, ids) or not self._begins(file):
            return nothing(file)
        merged = file.partial_max is not None and file.partial_max > self._after
        positions, row_ids, births = self._rows(file, ids, None)
        dead = self._deleted_in(file.data_file_id)
        rank = self._ranks[file.data_file_id]
        if not merged and dead is None:
            return RowsOfFile(file, positions, row_ids, births, file.begin_snapshot, rank)
        wanted = (births > self._after) & (births <= self._upto) & (_at(dead, positions) != births)
        if self._only_files:
            wanted &= ~np.isin(births, list(self._only_files))
        one = None if file.partial_max is not None else file.begin_snapshot
        return RowsOfFile(file, *_kept((positions, row_ids, births), wanted), one, rank)

    def _deleted_of(self, file: DataFile, ids: RowIds) -> RowsOfFile:
        """The file's rows that were deleted, one by one or with the whole file."""
        if self._is_outside(file, ids):
            return nothing(file)
        deleted = []
        dead = self._deleted_in(file.data_file_id)
        only_files = list(self._only_files)
        if dead is not None:
            positions, at = dead
            chosen = at > self._after
            if only_files:
                chosen &= ~np.isin(at, only_files)
            if chosen.any():
                here, row_ids, births = self._rows(file, ids, positions if chosen.all() else positions[chosen])
                deaths = _at(dead, here)
                deleted.append(_kept((here, row_ids, deaths), births < deaths))
        end = file.end_snapshot
        if end is not None and self._in_range(end) and end not in self._only_files:
            here, row_ids, births = self._rows(file, ids, None)
            deaths = np.broadcast_to(np.int64(end), len(here))
            deleted.append(_kept((here, row_ids, deaths), (_at(dead, here) == 0) & (births < end)))
        if not deleted:
            return nothing(file)
        rank = self._ranks[file.data_file_id]
        if len(deleted) == 1:
            return RowsOfFile(file, *deleted[0], rank=rank)
        positions, row_ids, deaths = (np.concatenate(columns) for columns in zip(*deleted, strict=True))
        order = np.argsort(positions)
        return RowsOfFile(file, positions[order], row_ids[order], deaths[order], rank=rank)

    def _rows(self, file: DataFile, ids: RowIds, positions: Numbers | None) -> tuple[Numbers, Numbers, Numbers]:
        """Positions, row ids and snapshots of insertion of a file's rows with these ids, or only of those at some
        positions, which ascend."""
        footer = footers.of(file)
        columns = locate(file, footer)
        own_ids = columns.get(footers.ROW_ID)
        own_births = columns.get(footers.SNAPSHOT_ID) if file.partial_max is not None else None
        start = file.row_id_start or 0
        if own_ids is None:
            edges = max(ids.first - start, 0), min(max(ids.behind - start, 0), file.record_count)
            if positions is None:
                positions = np.arange(*edges, dtype=np.int64)
            elif not ids.are_all:
                positions = positions[slice(*np.searchsorted(positions, edges))]
        else:
            groups = [g for g in footer.row_groups if _may_have(footer, g, own_ids, ids)]
            if positions is None:
                spans = [np.arange(*footer.starts[group : group + 2], dtype=np.int64) for group in groups]
                positions = np.concatenate(spans) if spans else np.empty(0, np.int64)
            elif len(groups) < len(footer.row_groups):
                group = np.searchsorted(footer.starts, positions, side="right") - 1
                positions = positions[np.isin(group, groups)]
        row_ids = start + positions
        births: Numbers = np.full(len(positions), file.begin_snapshot, np.int64)
        wanted = [column for column in (own_ids, own_births) if column is not None]
        if not wanted or not len(positions):
            return positions, row_ids, births
        groups, at = groups_of(footer, positions)
        with footers.DataFileReader(footer) as reader:
            arrays = iter([plain_array(array) for array in reader.read(groups, wanted)])
        if own_ids is not None:
            row_ids = _filled(next(arrays), at, row_ids)
        if own_births is not None:
            births = _filled(next(arrays), at, births)
        if own_ids is None or ids.are_all:
            return positions, row_ids, births
        return _kept((positions, row_ids, births), ids.hold(row_ids))


def _kept(columns: tuple[Numbers, Numbers, Numbers], wanted: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    first, second, third = columns
    return columns if wanted.all() else (first[wanted], second[wanted], third[wanted])


def _bounds(footer: Footer, group: int, column: FileColumn) -> tuple[int, int] | None:
    """The least and the greatest row id of a row group, if all of its rows have their own."""
    statistics = footer.metadata.row_group(group).column(column.first_leaf).statistics
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
        return None
    return statistics.min, statistics.max


def _may_have(footer: Footer, group: int, column: FileColumn, ids: RowIds) -> bool:
    bounds = None if ids.are_all else _bounds(footer, group, column)
    return bounds is None or (bounds[0] < ids.behind and bounds[1] >= ids.first)


def nothing(file: DataFile | None) -> RowsOfFile:
    none = np.empty(0, np.int64)
    return RowsOfFile(file, none, none, none)


def _of_inlined(inlined_rows: Sequence[tuple[InlinedRow, int]], rank: int, ids: RowIds) -> RowsOfFile:
    """Inlined rows with the snapshots at which they were inserted or deleted."""
    positions = np.arange(len(inlined_rows), dtype=np.int64)
    row_ids = np.array([row.row_id for row, _ in inlined_rows], np.int64)
    snapshots = np.array([snapshot for _, snapshot in inlined_rows], np.int64)
    if not ids.are_all:
        here = ids.hold(row_ids)
        positions, row_ids, snapshots = positions[here], row_ids[here], snapshots[here]
    return RowsOfFile(None, positions, row_ids, snapshots, rank=rank)


def _at(dead: tuple[Numbers, Numbers] | None, positions: Numbers) -> Numbers:
    """The snapshots at which rows were deleted; 0: not deleted."""
    if dead is None or not len(dead[0]) or not len(positions):
        return np.zeros(len(positions), np.int64)
    deleted, at = dead
    places = np.searchsorted(deleted, positions)
    places[places == len(deleted)] = 0
    deaths: Numbers = np.where(deleted[places] == positions, at[places], 0)
    return deaths


def _filled(array: pa.Array, at: Numbers, otherwise: Numbers) -> Numbers:
    """The values at some places, with `otherwise` for NULL."""
    if array.null_count == 0:
        whole: Numbers = array.to_numpy(zero_copy_only=False)
        return whole if len(at) == len(whole) else whole[at]
    there = array.is_valid().to_numpy(zero_copy_only=False)[at]
    own = array.fill_null(0).to_numpy(zero_copy_only=False)[at]
    filled: Numbers = np.where(there, own, otherwise)
    return filled


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
        ranks = np.empty(self.count, np.int64)
        ranks[self.has_old] = self._deleted.ranks[self.in_deleted[self.has_old]]
        ranks[self.has_new] = self._inserted.ranks[self.in_inserted[self.has_new]] + self._source.behind
        return ranks

    @cached_property
    def row_id(self) -> Numbers:
        row_ids = np.empty(self.count, np.int64)
        row_ids[self.has_old] = self._deleted.row_ids[self.in_deleted[self.has_old]]
        row_ids[self.has_new] = self._inserted.row_ids[self.in_inserted[self.has_new]]
        return row_ids

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
        inlined_rows = [self._inserted.inlined[n] for n in part.positions[kept].tolist()]
        places = [self._table.columns.index(column) for column in columns]
        arrays = [
            storage_array(c.form.to_array([row.values[place] for row in inlined_rows]))
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
        return rows if all(numbers is None for numbers in listed) else rows.filter(F.col(AT) != LEFT_OUT)
