"""The rows that were inserted into a table between two snapshots, or deleted from it: their positions and columns.

Rows are numbered over all parts. Columns that are wanted together are read once, file by file. Picked rows that follow
each other, as those of a transaction do, are sliced in one piece. `file_rows` reads whole files, with deleted rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.ground.threads import ThreadPool
from pgrepl.lake.read import footers
from pgrepl.lake.read.data_file import DataFile, row_ids
from pgrepl.lake.read.file_scan import Portion, constant, locate, with_fields
from pgrepl.lake.table import LakeColumn
from pgrepl.types.lake.arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.read.footers import Footer
    from pgrepl.lake.read.inlined import InlinedRow

    Numbers = npt.NDArray[Any]

NONE = -1  # no row
_THREADS = 2
_CHUNKS = 8  # for each thread
_LONG = 32  # average length of stretches from which on they are sliced and not picked row by row

One = TypeVar("One")
Other = TypeVar("Other")


@frozen
class RowsOfFile:
    """Rows of one file, or inlined ones (`file` None: positions in the list of them)."""

    file: DataFile | None
    positions: Numbers
    row_ids: Numbers
    snapshots: Numbers
    snapshot: int | None = None  # if it is the same for all
    rank: int = 0  # of position 0


def groups_of(footer: Footer, positions: Numbers) -> tuple[list[int], Numbers]:
    """The row groups of a file that have these positions, which ascend, and the positions among the rows of these row
    groups."""
    if len(footer.row_groups) == 1:  # as in the many small files of a batch's transactions
        return ([0] if len(positions) else []), positions
    edges = np.searchsorted(positions, footer.starts)
    groups: list[int] = np.flatnonzero(edges[1:] > edges[:-1]).tolist()
    if len(groups) == len(footer.row_groups):
        return groups, positions
    starts = np.array([footer.starts[group] for group in groups], np.int64)
    sizes = np.array([footer.starts[group + 1] for group in groups], np.int64) - starts
    shift = starts - (np.cumsum(sizes) - sizes)
    return groups, positions - np.repeat(shift, [int(edges[group + 1] - edges[group]) for group in groups])


def by_threads(work: Callable[[One], Other], items: Sequence[One]) -> list[Other]:
    """The results of many small tasks, which threads do in a few portions."""
    size = max(1, -(-len(items) // (_THREADS * _CHUNKS)))
    chunks = [items[start : start + size] for start in range(0, len(items), size)]
    if len(chunks) == 1:
        return [work(item) for item in items]
    with ThreadPool(_THREADS) as threads:
        return list(chain.from_iterable(threads.map(lambda chunk: [work(item) for item in chunk], chunks)))


class Side:
    """All inserted rows, or all deleted ones."""

    def __init__(
        self, parts: Iterable[RowsOfFile], inlined_rows: list[InlinedRow], columns: Sequence[LakeColumn]
    ) -> None:
        """`columns` are the columns of inlined rows."""
        self.parts = [part for part in parts if len(part.positions)]
        self.inlined = inlined_rows
        self._columns = list(columns)
        nothing = [np.empty(0, np.int64)]
        self.row_ids = np.concatenate([part.row_ids for part in self.parts] or nothing)
        self.snapshots = np.concatenate([part.snapshots for part in self.parts] or nothing)
        self.starts: list[int] = np.cumsum([0, *[len(part.positions) for part in self.parts]]).tolist()
        self._kinds: dict[int, pa.DataType] = {}
        self._read: dict[int, list[Any]] = {}  # by column id the array of each part
        self._whole: dict[int, Any] = {}  # by column id, the arrays of all parts in one piece
        self._prefetch: Future[bool] | None = None

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def ranks(self) -> Numbers:
        """The order of the rows of one snapshot, in all ranges of row ids."""
        return np.concatenate([part.rank + part.positions for part in self.parts] or [np.empty(0, np.int64)])

    # --- reading ------------------------------------------------------------------------------------------------------

    def prepare(self, columns: Sequence[LakeColumn], most: int) -> None:
        """Begin to read columns in a thread, up to `most` bytes."""
        missing = self._missing(columns)
        if missing and self._prefetch is None:
            threads = ThreadPool(1)
            self._prefetch = threads.submit(self._load, missing, most)
            threads.shutdown(wait=False)

    def fits(self, columns: Sequence[LakeColumn], most: int) -> bool:
        """Do the prepared columns take no more than `most` bytes?"""
        if self._prefetch is not None:
            running, self._prefetch = self._prefetch, None
            if not running.result():
                return False
        self._have(columns)
        size: int = sum(array.nbytes for column in columns for array in self._read[column.column_id])
        return size <= most

    def _missing(self, columns: Sequence[LakeColumn]) -> list[LakeColumn]:
        return [column for column in columns if column.column_id not in self._read]

    def _have(self, columns: Sequence[LakeColumn]) -> None:
        missing = self._missing(columns)
        if missing and self._prefetch is not None:
            running, self._prefetch = self._prefetch, None
            running.result()
            missing = self._missing(columns)
        if missing:
            loaded = by_threads(lambda part: self._of_part(part, missing), self.parts)
            self._keep(missing, loaded)

    def _load(self, columns: Sequence[LakeColumn], most: int) -> bool:
        loaded, size = [], 0
        for part in self.parts:
            loaded.append(self._of_part(part, columns))
            size += sum(array.nbytes for array in loaded[-1])
            if size > most:
                return False
        self._keep(columns, loaded)
        return True

    def _keep(self, columns: Sequence[LakeColumn], groups: Sequence[Sequence[Any]]) -> None:
        for n, column in enumerate(columns):
            self._read[column.column_id] = [arrays[n] for arrays in groups]

    def _of_part(self, part: RowsOfFile, columns: Sequence[LakeColumn]) -> list[Any]:
        if part.file is None:
            rows = [self.inlined[n].values for n in part.positions.tolist()]
            places = [self._columns.index(column) for column in columns]
            listed = [[row[place] for row in rows] for place in places]
            return [self._kept(c.form.to_array(values), c) for c, values in zip(columns, listed, strict=True)]
        footer = footers.of(part.file)
        there = locate(part.file, footer)
        own = [there[column.column_id] for column in columns if column.column_id in there]
        read = iter(())
        groups, at = groups_of(footer, part.positions)
        is_whole = len(at) == sum(footer.starts[group + 1] - footer.starts[group] for group in groups)
        if own:
            with footers.DataFileReader(footer) as reader:
                read = iter(reader.read(groups, own))
        arrays = []
        for column in columns:
            if column.column_id not in there:
                value = constant(column, part.file)
                arrays.append(self._kept(column.form.to_array([value] * len(part.positions)), column))
                continue
            array = self._kept(next(read), column)
            arrays.append(array if is_whole else array.take(pa.array(at)))
        return arrays

    # --- picking ------------------------------------------------------------------------------------------------------

    def pick(self, columns: Sequence[LakeColumn], at: Numbers) -> list[pa.Array]:
        """Columns of some rows, in this order."""
        self._have(columns)
        pieces = stretches(at, self.starts)
        if pieces is None:
            numbers = pa.array(at)
            return [self._in_one_piece(column).take(numbers) for column in columns]
        picked = []
        for column in columns:
            arrays = self._read[column.column_id]
            cut = [arrays[part].slice(first, count) for part, first, count in pieces]
            picked.append(pa.concat_arrays(cut) if cut else pa.array([], self._kind(column)))
        return picked

    def _in_one_piece(self, column: LakeColumn) -> pa.Array:
        if column.column_id not in self._whole:
            arrays = self._read[column.column_id]
            self._whole[column.column_id] = pa.concat_arrays(arrays) if arrays else pa.array([], self._kind(column))
        return self._whole[column.column_id]

    def _kind(self, column: LakeColumn) -> pa.DataType:
        """The Arrow type of a column's arrays here."""
        kind = self._kinds.get(column.column_id)
        if kind is None:
            kind = self._kinds[column.column_id] = plain_array(column.form.to_array([])).type
        return kind

    def _kept(self, array: pa.Array, column: LakeColumn) -> pa.Array:
        array, kind = plain_array(with_fields(array, column)), self._kind(column)
        return array if array.type == kind else array.cast(kind)


def stretches(at: Numbers, starts: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """The stretches of rows that follow each other: part, first row and number of rows. Rows are numbered over parts
    that begin at `starts`. None: the stretches are short."""
    if not len(at):
        return []
    breaks = np.flatnonzero(at[1:] - at[:-1] != 1) + 1
    if len(breaks) * _LONG > len(at):
        return None
    begins = at[np.concatenate([[0], breaks])].tolist()
    counts = np.diff(np.concatenate([[0], breaks, [len(at)]])).tolist()
    pieces = []
    for begin, count in zip(begins, counts, strict=True):
        part = bisect_right(starts, begin) - 1
        while count:
            here = min(count, starts[part + 1] - begin)
            if here:
                pieces.append((part, begin - starts[part], here))
            begin, count, part = begin + here, count - here, part + 1
    return pieces


# --- order and pairs --------------------------------------------------------------------------------------------------


def in_order(snapshots: Numbers) -> Numbers:
    """The numbers of rows in the order of their snapshots (a stable sort)."""
    if not len(snapshots) or bool((snapshots[1:] >= snapshots[:-1]).all()):
        return np.arange(len(snapshots))
    first, last = int(snapshots.min()), int(snapshots.max())
    if last - first < 1 << 16:  # numpy sorts 16 bits by radix
        snapshots = (snapshots - first).astype(np.uint16)
    return np.argsort(snapshots, kind="stable")


def _starts(snapshots: Numbers) -> Numbers:
    """The places where another snapshot begins."""
    return np.flatnonzero(np.concatenate([[True], snapshots[1:] != snapshots[:-1]])) if len(snapshots) else snapshots


def merged(ours: Numbers, others: Numbers, side: Literal["left", "right"]) -> Numbers:
    """The places of `ours` when they are merged with `others`; both ascend."""
    starts = _starts(ours)
    before = np.searchsorted(others, ours[starts], side=side)
    return np.arange(len(ours)) + np.repeat(before, np.diff(np.append(starts, len(ours))))


def partners(inserted: Side, deleted: Side, by_deleted: Numbers) -> Numbers:
    """The numbers, for each inserted row, of the one that was deleted with its row id at its snapshot."""
    partner = np.full(len(inserted), NONE, np.int64)
    if not len(inserted) or not len(deleted):
        return partner
    snapshots, row_ids = deleted.snapshots[by_deleted], deleted.row_ids[by_deleted]
    starts = _starts(snapshots)
    edges = dict(zip(snapshots[starts].tolist(), pairwise([*starts.tolist(), len(snapshots)]), strict=True))
    mixed = []
    for part, start in zip(inserted.parts, inserted.starts, strict=False):
        if part.snapshot is None:
            mixed.append(np.arange(start, start + len(part.row_ids)))
        elif part.snapshot in edges:
            first, last = edges[part.snapshot]
            places = _places(part.row_ids, row_ids[first:last])
            partner[start : start + len(places)] = np.where(places == NONE, NONE, by_deleted[first + places])
    if mixed:
        rows = np.concatenate(mixed)
        span = int(max(inserted.row_ids.max(), row_ids.max())) + 1
        since = int(snapshots[0])
        ours = (inserted.snapshots[rows] - since) * span + inserted.row_ids[rows]
        places = _places(ours, (snapshots - since) * span + row_ids)
        partner[rows] = np.where(places == NONE, NONE, by_deleted[places])
    return partner


def _places(ours: Numbers, theirs: Numbers) -> Numbers:
    """The place of each of `ours` among `theirs`, which are distinct."""
    order = None
    if not bool((theirs[1:] > theirs[:-1]).all()):
        order = np.argsort(theirs, kind="stable")
        theirs = theirs[order]
    places = np.searchsorted(theirs, ours, side="right") - 1
    hit = (places >= 0) & (theirs[places] == ours)
    return np.where(hit, places if order is None else order[places], NONE)


def file_rows(
    file: DataFile, columns: Sequence[LakeColumn], only: npt.NDArray[np.int64] | None = None
) -> Iterator[Portion]:
    """The rows of a file with their row ids, a row group at a time, or only those at positions, which ascend."""
    footer = footers.of(file)
    by_id = locate(file, footer)
    there = [by_id.get(column.column_id) for column in columns]
    constants = [constant(c, file) if own is None else None for c, own in zip(columns, there, strict=True)]
    own_ids = by_id.get(footers.ROW_ID)
    wanted = [column for column in there if column is not None] + ([own_ids] if own_ids is not None else [])
    with footers.DataFileReader(footer) as reader:
        for group in footer.row_groups:
            start, stop = footer.starts[group], footer.starts[group + 1]
            positions = np.arange(start, stop, dtype=np.int64)
            if only is not None:
                low, high = np.searchsorted(only, [start, stop])
                positions = only[low:high]
            if not len(positions):
                continue
            arrays: list[Any] = reader.read([group], wanted) if wanted else []
            arrays = [plain_array(array) for array in arrays]
            if len(positions) < stop - start:
                indexes = pa.array(positions - start)
                arrays = [array.take(indexes) for array in arrays]
            ids = row_ids(file.row_id_start, positions, arrays.pop() if own_ids is not None else None)
            given = iter(arrays)
            own = [
                None if c is None else with_fields(next(given), column)
                for c, column in zip(there, columns, strict=True)
            ]
            yield Portion(own, constants, positions, ids)
