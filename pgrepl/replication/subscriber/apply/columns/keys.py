"""Keys as numbers: equal keys have equal numbers, in the messages and in the table's files alike.

A key of one integer column is its own number. For other keys each column's distinct values are numbered, and the
numbers of the columns are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pgrepl.ground.errors import Declined
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.ground.threads import ThreadPool
from pgrepl.lake.read import footers
from pgrepl.lake.read.bounds import Bound
from pgrepl.lake.read.file_scan import constant, locate
from pgrepl.lake.write.delete_files import joined
from pgrepl.replication.wire.batch import KEY_TYPES, comparable
from pgrepl.types import oids
from pgrepl.types.lake.arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.read.data_file import DataFile
    from pgrepl.lake.read.extent import RowsWithin, TableRows
    from pgrepl.lake.read.footers import FileColumn, Footer
    from pgrepl.lake.table import LakeTable

    Codes = npt.NDArray[np.int64]
    Truths = npt.NDArray[np.bool_]

Item = TypeVar("Item")

NOT_THERE = -1  # a row's key that no message has
_THREADS = 2
_SPARSE = 8  # an array indexed by key is made, if it has at most so many elements for each key …
_FEW_ROWS = 1 << 22  # keys of at most so many rows of a file are cached
_SMALL = 1 << 16  # … or at most so many elements
_LOT = 1 << 19  # rows that are read together where keys are not cached


class Keys:
    """The keys of one table's messages."""

    def __init__(self, table: LakeTable, attnums: Sequence[int], columns: Sequence[Sequence[pa.Array]]) -> None:
        """`columns`: the values of each key column, in parts (such as new and old keys), without NULLs."""
        self.table = table
        self.columns = [table.column(attnum) for attnum in attnums]
        for column in self.columns:
            if column.typoid not in KEY_TYPES or column.form.element is not None:
                raise Declined("the type of a key")
        columns = [
            [comparable(column, part) for part in parts] for column, parts in zip(self.columns, columns, strict=True)
        ]
        self.whole = len(attnums) == 1 and self.columns[0].typoid in oids.INTEGERS
        self._distinct: list[Any] = []
        self.codes: list[Codes] = []  # of each part
        if self.whole:
            self.codes = [_numbers(part) for part in columns[0]]
        else:
            size = 1
            for parts in columns:
                distinct = pc.unique(pa.chunked_array(parts, parts[0].type))
                self._distinct.append(distinct)
                size *= max(len(distinct), 1)
            if size >= 2**62:
                raise Declined("keys of too many columns")
            for n in range(len(columns[0])):
                self.codes.append(self._of([parts[n] for parts in columns]))
        self.distinct: Codes = np.empty(0, np.int64)  # ascending

    def in_order(self, codes: Codes) -> tuple[Codes, Truths]:
        """The order of steps by key, stable, and which of them in that order begin another key. Sets `distinct`."""
        order, codes = _sorted(codes)
        first = np.ones(len(codes), np.bool_)
        np.not_equal(codes[1:], codes[:-1], out=first[1:])
        self.distinct = codes if first.all() else codes[first]
        return order, first

    def _of(self, arrays: Sequence[pa.Array]) -> Codes:
        if self.whole:
            return _numbers(arrays[0])
        codes = np.zeros(len(arrays[0]), np.int64)
        missing = np.zeros(len(arrays[0]), np.bool_)
        for array, distinct in zip(arrays, self._distinct, strict=True):
            places = pc.index_in(array, value_set=distinct)
            missing |= places.is_null().to_numpy(zero_copy_only=False)
            codes = codes * len(distinct) + places.fill_null(0).to_numpy(zero_copy_only=False)
        codes[missing] = NOT_THERE
        return codes

    # --- in the table -------------------------------------------------------------------------------------------------

    def find(self, within: RowsWithin, *, again: bool = True) -> Places:
        """Find the table's rows that have these keys. `again`: cache the keys of files that are read, because another
        batch is likely to need them soon."""
        places = Places(len(self.distinct))
        if not len(self.distinct):
            return places
        bounds = []
        if self.whole:
            bounds.append(Bound(self.columns[0].attnum, int(self.distinct[0]), int(self.distinct[-1])))
        rows = within(self.columns, bounds)
        with ThreadPool(_THREADS) as threads:
            rows_of_files = threads.map(lambda file: self._in_file(file, rows, again=again), rows.files)
            for file, (numbers, positions, row_ids) in zip(rows.files, rows_of_files, strict=True):
                places.enter(numbers, file.data_file_id, positions, row_ids)
        self._in_catalog(rows, places)
        return places

    def _in_file(self, file: DataFile, rows: TableRows, *, again: bool) -> tuple[Codes, Codes, Codes]:
        """The rows of a file that have one of the keys: numbers of keys, positions and row ids."""
        if file.partial_max is not None and file.partial_max > rows.snapshot:
            raise Declined("a file with later rows")
        footer = footers.of(file)
        there = locate(file, footer)
        groups = self._groups(footer, there)
        if not groups:
            return (np.empty(0, np.int64),) * 3
        gone, _ = joined(file.delete_files, list(rows.deletes.get(file.data_file_id, ())), rows.snapshot)
        deleted = None
        if len(gone):
            deleted = np.zeros(file.record_count, np.bool_)
            deleted[gone] = True
        sizes = {group: footer.starts[group + 1] - footer.starts[group] for group in groups}
        is_one = again and sum(sizes.values()) <= _FEW_ROWS
        with footers.DataFileReader(footer) as reader:
            parts = [groups] if is_one else list(lots(groups, sizes.__getitem__, _LOT))
            read = [self._in_groups(file, reader, part, deleted, again=again and len(parts) == 1) for part in parts]
        numbers, positions, row_ids = (_joined(parts) for parts in zip(*read, strict=True))
        return numbers, positions, row_ids

    def _in_groups(
        self,
        file: DataFile,
        reader: footers.DataFileReader,
        groups: Sequence[int],
        deleted: Truths | None,
        *,
        again: bool,
    ) -> tuple[Codes, Codes, Codes]:
        footer = reader.footer
        there = locate(file, footer)
        rows = sum(footer.starts[group + 1] - footer.starts[group] for group in groups)
        wanted = [there[c.column_id] for c in self.columns if c.column_id in there]
        # the next batch is likely to need these row groups again
        known = reader.searched if again else reader.read
        read = iter([plain_array(array) for array in known(groups, wanted)] if wanted else [])
        arrays = []
        for column in self.columns:
            kind = plain_array(column.form.to_array([])).type
            if column.column_id in there:
                arrays.append(next(read).cast(kind))
            else:
                value = constant(column, file)
                arrays.append(plain_array(column.form.to_array([value])).take(pa.array([0] * rows)))
        numbers, places = self._hits(self._nullable(arrays))
        positions = _positions(footer, groups, places)
        if deleted is not None and len(positions):
            alive = ~deleted[positions]
            numbers, places, positions = numbers[alive], places[alive], positions[alive]
        row_ids = (file.row_id_start or 0) + positions
        ids = there.get(footers.ROW_ID)
        if ids is not None and len(positions):
            kept = plain_array(reader.read(groups, [ids])[0])
            whole = kept.fill_null(-1).to_numpy(zero_copy_only=False)[places]
            row_ids = np.where(whole < 0, row_ids, whole)
        return numbers, positions, row_ids

    def _groups(self, footer: Footer, there: Mapping[int, FileColumn]) -> list[int]:
        """The row groups that may have one of the keys."""
        column = there.get(self.columns[0].column_id)
        ranges = footers.whole_ranges(footer, column) if self.whole and column is not None else None
        if ranges is None:
            return list(footer.row_groups)
        first = np.searchsorted(self.distinct, [low for low, _ in ranges])
        behind = np.searchsorted(self.distinct, [high for _, high in ranges], side="right")
        groups: list[int] = np.flatnonzero(behind > first).tolist()
        return groups

    def _nullable(self, arrays: Sequence[pa.Array]) -> Codes:
        """The numbers of keys of rows that may hold NULL; a key with a NULL gets a number that no message has."""
        if not self.whole:
            return self._of([comparable(column, array) for column, array in zip(self.columns, arrays, strict=True)])
        array = arrays[0]
        if array.null_count:
            known = array.is_valid().to_numpy(zero_copy_only=False)
            outside = int(self.distinct[0]) - 1
            if outside < np.iinfo(np.int64).min:
                raise Declined("NULLs beside the least of all keys")
            return np.where(known, _numbers(array.fill_null(0)), outside)
        return _numbers(array)

    def _hits(self, codes: Codes) -> tuple[Codes, Codes]:
        """The keys that are among a file's codes, and the places where they stand. Ascending codes are searched for the
        keys; otherwise each code is looked up among the keys, in an array indexed by key if the keys are dense."""
        if not len(codes):
            return codes, codes
        ascending = self.whole and bool((codes[1:] > codes[:-1]).all())
        if ascending:
            low = int(np.searchsorted(self.distinct, codes[0]))
            high = int(np.searchsorted(self.distinct, codes[-1], side="right"))
            wanted = self.distinct[low:high]
            if not len(wanted):
                return wanted, wanted
            if int(codes[-1]) - int(codes[0]) == len(codes) - 1:  # none is missing
                return np.arange(low, high), wanted - codes[0]
            at = np.searchsorted(codes, wanted)
            hit = codes[np.minimum(at, len(codes) - 1)] == wanted
            return np.flatnonzero(hit) + low, at[hit]
        low, high = int(self.distinct[0]), int(self.distinct[-1])
        near = np.flatnonzero((codes >= low) & (codes <= high))
        if len(near) != len(codes):
            codes = codes[near]
        if high - low < max(_SPARSE * len(self.distinct), _SMALL):
            numbers = np.full(high - low + 1, NOT_THERE, np.int64)
            numbers[self.distinct - low] = np.arange(len(self.distinct))
            at = numbers[codes - low]
            hit = at != NOT_THERE
        else:
            at = np.searchsorted(self.distinct, codes)
            hit = self.distinct[at] == codes
        return at[hit], near[hit]

    def _in_catalog(self, rows: TableRows, places: Places) -> None:
        if not rows.inlined:
            return
        numbers, positions = self._hits(self._nullable(rows.inlined_arrays(self.columns)))
        row_ids = np.array([row.row_id for row in rows.inlined], np.int64)[positions]
        places.enter(numbers, NOT_THERE, positions, row_ids)


def _numbers(array: pa.Array) -> Codes:
    numbers: Codes = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def _sorted(codes: Codes) -> tuple[Codes, Codes]:
    """A stable sort: the order of the numbers, and the numbers in this order. Where a number and its place fit into 63
    bits, both are sorted as one integer: that takes a fraction of the time."""
    if not len(codes) or bool((codes[1:] >= codes[:-1]).all()):
        return np.arange(len(codes)), codes
    low, bits = int(codes.min()), len(codes).bit_length()
    if int(codes.max()) - low >= 1 << (63 - bits):
        order = np.argsort(codes, kind="stable")
        return order, codes[order]
    both = codes - low
    both <<= bits
    both |= np.arange(len(codes))
    both.sort()
    order = both & ((1 << bits) - 1)
    both >>= bits
    both += low
    return order, both


def lots(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Items that are done together, in order: each lot is of about this size."""
    lot: list[Item] = []
    count = 0
    for item in items:
        lot.append(item)
        count += size(item)
        if count >= most:
            yield lot
            lot, count = [], 0
    if lot:
        yield lot


def _positions(footer: Footer, groups: Sequence[int], places: Codes) -> Codes:
    """Positions in a file, from places among the rows of the row groups that were read."""
    if len(groups) == len(footer.row_groups):
        return places
    starts = np.array([footer.starts[group] for group in groups])
    sizes = np.array([footer.starts[group + 1] for group in groups]) - starts
    before = np.cumsum(sizes) - sizes
    positions: Codes = places + (starts - before)[np.searchsorted(before, places, side="right") - 1]
    return positions


class Places:
    """The places of the table's rows with the looked up keys."""

    def __init__(self, keys: int) -> None:
        self.number: Codes = np.full(keys, NOT_THERE, np.int64)  # by key: its row's number here
        self.files: list[tuple[int, int, int]] = []  # file (NOT_THERE: inlined), its first row here, behind its last
        self._positions: list[Codes] = []
        self._row_ids: list[Codes] = []
        self._count = 0

    @property
    def exists(self) -> Truths:
        exists: Truths = self.number != NOT_THERE
        return exists

    @cached_property
    def position(self) -> Codes:
        """The position of each row in its file."""
        return _joined(self._positions)

    @cached_property
    def row_id(self) -> Codes:
        return _joined(self._row_ids)

    def enter(self, keys: Codes, file_id: int, positions: Codes, row_ids: Codes) -> None:
        if not len(keys):
            return
        if (self.number[keys] != NOT_THERE).any():
            raise Declined("a key that several rows have")
        end = self._count + len(keys)
        rows = np.arange(self._count, end)
        self.number[keys] = rows
        if not bool((keys[1:] > keys[:-1]).all()) and not np.array_equal(self.number[keys], rows):
            raise Declined("a key that several rows have")
        self.files.append((file_id, self._count, end))
        self._positions.append(positions)
        self._row_ids.append(row_ids)
        self._count = end


def _joined(parts: Sequence[Codes]) -> Codes:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
