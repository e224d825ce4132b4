"""The scan of one data file as Arrow columns: row groups skipped by statistics, deleted rows left out, bounds applied
first.

Fields of structs are found by their ids, in a file without ids by name; one that the file lacks is NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.ground.lazy import np, pa, pc
from pgrepl.lake.read import footers
from pgrepl.lake.read.bounds import Bound, Limit, limits
from pgrepl.lake.read.data_file import once, row_ids
from pgrepl.lake.write.delete_files import joined
from pgrepl.types import oids
from pgrepl.types.lake.arrays import plain_array, storage_type
from pgrepl.types.lake.lists import element_value

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.read.data_file import DataFile
    from pgrepl.lake.read.footers import FileColumn, Footer
    from pgrepl.lake.table import LakeColumn, LakeField, LakeTable

_FIELD_ID = b"PARQUET:field_id"


def with_fields(array: pa.Array, column: LakeColumn) -> pa.Array:
    """A column of a file with the fields of the table's column."""
    if _has_fields(array.type, column.fields):
        return array
    return _made(plain_array(array), column.fields, storage_type(column.form.arrow()))


def _has_fields(kind: pa.DataType, fields: Sequence[LakeField]) -> bool:
    """Are the fields of structs inside the type these, in this order?"""
    if not fields:
        return True
    inside = [kind.field(n) for n in range(kind.num_fields)]
    if pa.types.is_map(kind):
        inside = [kind.key_field, kind.item_field]
    if len(inside) != len(fields):
        return False
    for own, field in zip(inside, fields, strict=True):
        named = _id(own) == field.column_id if _id(own) is not None else own.name == field.name
        if pa.types.is_struct(kind) and not (named and own.name == field.name):
            return False
        if not _has_fields(own.type, field.fields):
            return False
    return True


def _id(field: pa.Field) -> int | None:
    number = (field.metadata or {}).get(_FIELD_ID)
    return None if number is None else int(number)


def _made(array: pa.Array, fields: Sequence[LakeField], kind: pa.DataType) -> pa.Array:
    """`kind`: the storage type of the table's column."""
    if not fields or _has_fields(array.type, fields):
        return array
    if pa.types.is_struct(array.type):
        there: dict[int | str, int] = {}
        for n, own in enumerate(array.type):
            number = _id(own)
            there[own.name if number is None else number] = n
        children, named = [], []
        for field, wanted in zip(fields, kind, strict=True):
            n = there.get(field.column_id, there.get(field.name, -1))
            inside = pa.nulls(len(array), wanted.type) if n < 0 else plain_array(array.field(n))
            children.append(_made(inside, field.fields, wanted.type))
            named.append(pa.field(wanted.name, children[-1].type))
        return pa.StructArray.from_arrays(children, fields=named, mask=array.is_null())
    if array.offset:
        array = array.take(pa.array(range(len(array))))
    if pa.types.is_map(array.type):
        keys = _made(plain_array(array.keys), fields[0].fields, kind.key_type)
        items = _made(plain_array(array.items), fields[1].fields, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null())
    items = _made(plain_array(array.values), fields[0].fields, kind.value_type)
    return pa.ListArray.from_arrays(
        array.offsets, items, type=pa.list_(pa.field(kind.value_field.name, items.type)), mask=array.is_null()
    )


_FEW = 16  # rows of a row group whose columns are remembered for the next look-up
_BATCH_OF_BOUNDS = 1 << 20  # rows whose bounded columns are read together


class Portion:
    """Some rows of a file, in order. A column that the file does not have is None in `arrays`: all rows have its
    value in `constants`."""

    __slots__ = ("arrays", "constants", "count", "positions", "row_ids")

    def __init__(
        self,
        arrays: list[Any],
        constants: list[Any],
        positions: npt.NDArray[np.int64],
        row_ids: npt.NDArray[np.int64] | None,
    ) -> None:
        self.arrays = arrays
        self.constants = constants
        self.count = len(positions)
        self.positions = positions
        self.row_ids = row_ids

    def whole(self, columns: Sequence[LakeColumn]) -> list[Any]:
        """All columns as arrays of the table's Arrow types."""
        arrays = []
        for column, array, constant in zip(columns, self.arrays, self.constants, strict=True):
            kind = storage_type(column.form.arrow())
            if array is None:
                one = plain_array(column.form.to_array([constant]))
                arrays.append(one.take(pa.repeat(pa.scalar(0), self.count)))
            else:
                array = plain_array(array)
                arrays.append(array if array.type == kind else array.cast(kind))
        return arrays


def portions(
    table: LakeTable,
    file: DataFile,
    columns: Sequence[LakeColumn],
    bounds: Sequence[Bound],
    deletes: list[tuple[int, int]],
    snapshot: int,
    row_ids: bool,
    groups: Sequence[int] | None = None,
    size: int = footers.ROWS_IN_GROUP,
    skips_only: bool = False,
) -> Iterator[Portion]:
    """The rows within the bounds, of all row groups or of `groups`. `deletes` are the file's inlined deletes: position
    and snapshot. `skips_only`: bounds skip row groups, but leave out no rows of others."""
    footer = footers.of(file)
    file_columns = locate(file, footer)
    limited, groups = _within(table, file, footer, bounds, footer.row_groups if groups is None else groups)
    if not groups:
        return
    scan = _Scan(footer, file, file_columns, columns, [] if skips_only else limited, snapshot, row_ids, size)
    scan.constants = [None if c.column_id in file_columns else constant(c, file) for c in columns]
    scan.deleted = once(joined(file.delete_files, deletes, snapshot)[0])
    with footers.DataFileReader(footer) as reader:
        yield from scan.all_of(reader, groups) if not scan.limited else scan.within(reader, groups)


def groups_within(table: LakeTable, file: DataFile, bounds: Sequence[Bound]) -> tuple[Footer, list[int]]:
    """The row groups that may have rows within the bounds, and the footer that says so."""
    footer = footers.of(file)
    return footer, _within(table, file, footer, bounds, footer.row_groups)[1]


def _within(
    table: LakeTable, file: DataFile, footer: Footer, bounds: Sequence[Bound], groups: Sequence[int]
) -> tuple[list[Limit], list[int]]:
    """The bounds that rows are to be compared with, and those of the row groups that may have rows within them."""
    columns, limited = locate(file, footer), limits(table, bounds)
    for limit in limited:
        if limit.column.column_id not in columns and _misses_all(limit, constant(limit.column, file)):
            return [], []
    limited = [limit for limit in limited if limit.column.column_id in columns]
    left = [g for g in groups if not any(_misses(footer, g, limit, columns) for limit in limited)]
    return [limit for limit in limited if limit.says_something], left


def locate(file: DataFile, footer: Footer) -> dict[int, FileColumn]:
    """The file's columns by the table's column ids."""
    if file.names is None:
        return footer.by_id
    return {i: footer.by_name[name] for i, name in file.names.names.items() if name in footer.by_name}


def constant(column: LakeColumn, file: DataFile) -> Any:
    """The value of all rows in a column that the file does not have."""
    names = file.names
    if names is None or column.column_id not in names.partitions:
        return column.missing
    text = names.partition_text(file.path, column.column_id)
    return None if text is None else element_value(column.form, text)


def _misses_all(limit: Limit, value: Any) -> bool:
    if value is None or limit.is_null:
        return (value is None) is not limit.is_null
    return limit.misses(value, value, may_have_nan=value != value)


def _misses(footer: Footer, group: int, limit: Limit, file_columns: dict[int, FileColumn]) -> bool:
    column = file_columns[limit.column.column_id]
    chunk = footer.metadata.row_group(group).column(column.first_leaf)
    statistics = chunk.statistics
    if statistics is None or column.leaves != 1:
        return False
    if statistics.has_null_count and statistics.null_count == (0 if limit.is_null else chunk.num_values):
        return True
    if limit.form.ordered == "none" or not statistics.has_min_max:
        return False
    scale = getattr(column.type, "scale", 0)
    try:
        low, high = (limit.form.from_raw(raw, scale) for raw in (statistics.min_raw, statistics.max_raw))
    except (ValueError, TypeError):
        return False
    floating = limit.column.typoid in (oids.FLOAT4, oids.FLOAT8)
    return limit.misses(low, high, may_have_nan=floating)


class _Scan:
    def __init__(
        self,
        footer: Footer,
        file: DataFile,
        file_columns: dict[int, FileColumn],
        columns: Sequence[LakeColumn],
        limited: Sequence[Limit],
        snapshot: int,
        row_ids: bool,
        size: int,
    ) -> None:
        self.footer = footer
        self.file = file
        self.lake_columns = columns
        self.columns = [file_columns.get(c.column_id) for c in columns]
        self.limited = limited
        self.limit_columns = [file_columns[limit.column.column_id] for limit in limited]
        self.snapshot = snapshot
        self.row_ids = row_ids
        self.size = size
        self.row_id_column = file_columns.get(footers.ROW_ID) if row_ids else None
        partial = file.partial_max is not None and file.partial_max > snapshot
        self.snapshot_column = file_columns.get(footers.SNAPSHOT_ID) if partial else None
        self.deleted: Any = np.empty(0, np.int64)
        self.constants: list[Any] = []

    @property
    def wanted(self) -> list[FileColumn]:
        """The columns that are read for the rows that are kept."""
        columns = [c for c in self.columns if c is not None]
        if self.row_id_column is not None:
            columns.append(self.row_id_column)
        return columns

    def all_of(self, reader: footers.DataFileReader, groups: Sequence[int]) -> Iterator[Portion]:
        wanted = self.wanted
        first = [] if self.snapshot_column is None else [self.snapshot_column]
        if not wanted and not first:
            for group in groups:
                yield self.portion([], self.alive(self.span(group), []))
            return
        positions = _Positions([(self.footer.starts[group], self.footer.starts[group + 1]) for group in groups])
        for arrays in reader.batches(groups, first + wanted, self.size):
            here = positions.next(len(arrays[0]))
            kept = self.alive(here, arrays[: len(first)])
            yield self.portion(_taken(arrays[len(first) :], here, kept), kept)

    def within(self, reader: footers.DataFileReader, groups: Sequence[int]) -> Iterator[Portion]:
        """Read bounded columns first, and the others only of row groups in which rows are left."""
        wanted = self.wanted
        rest = [c for c in wanted if c not in self.limit_columns]
        for some in self.lots(groups):
            arrays = reader.searched(some, self.limit_columns)
            mask = self.limited[0].mask(arrays[0])
            for limit, array in zip(self.limited[1:], arrays[1:], strict=True):
                mask = pc.and_(mask, limit.mask(array))
            chosen = pc.indices_nonzero(mask).to_numpy().astype(np.int64)
            if not len(chosen):
                continue
            have = dict(zip([c.position for c in self.limit_columns], arrays, strict=True))
            sizes = [self.footer.starts[group + 1] - self.footer.starts[group] for group in some]
            edges = np.searchsorted(chosen, np.cumsum([0, *sizes]))
            before = 0
            for number, group in enumerate(some):
                inside = chosen[edges[number] : edges[number + 1]]
                shift = self.footer.starts[group] - before
                before += sizes[number]
                if len(inside):
                    yield from self.of_group(reader, group, inside, shift, have, rest, wanted)

    def of_group(
        self,
        reader: footers.DataFileReader,
        group: int,
        inside: Any,
        shift: int,
        have: dict[int, Any],
        rest: Sequence[FileColumn],
        wanted: Sequence[FileColumn],
    ) -> Iterator[Portion]:
        """The rows of one row group. `inside` are row numbers in the lot; with `shift` they are positions in the
        file."""
        start = self.footer.starts[group]
        born = []
        if self.snapshot_column is not None:
            born = [_take(reader.read([group], [self.snapshot_column])[0], inside + (shift - start))]
        kept = self.alive(inside + shift, born)
        if not len(kept):
            return
        if not rest:
            arrays = []
        elif len(kept) <= _FEW:
            arrays = reader.looked_up(group, rest)
        else:
            arrays = reader.read([group], rest)
        more = dict(zip([c.position for c in rest], arrays, strict=True))
        taken = [
            _take(more[c.position], kept - start) if c.position in more else _take(have[c.position], kept - shift)
            for c in wanted
        ]
        yield self.portion(taken, kept)

    def lots(self, groups: Sequence[int]) -> Iterator[list[int]]:
        """Lots of row groups that are read together; their limits do not depend on the wanted ones."""
        wanted = set(groups)
        lot: list[int] = []
        count = 0
        for group in self.footer.row_groups:
            if group in wanted:
                lot.append(group)
            count += self.footer.starts[group + 1] - self.footer.starts[group]
            if count >= _BATCH_OF_BOUNDS:
                if lot:
                    yield lot
                lot, count = [], 0
        if lot:
            yield lot

    def span(self, group: int) -> Any:
        return np.arange(self.footer.starts[group], self.footer.starts[group + 1], dtype=np.int64)

    def alive(self, positions: Any, snapshots: Sequence[Any]) -> Any:
        """The positions, ascending, without those deleted at the snapshot or inserted later."""
        if not len(positions):
            return positions
        low, high = np.searchsorted(self.deleted, [positions[0], positions[-1] + 1])
        deleted = self.deleted[low:high]
        keep = None
        if len(deleted):
            keep = ~np.isin(positions, deleted, assume_unique=True)
        for column in snapshots:
            came = column.to_numpy(zero_copy_only=False) <= self.snapshot
            keep = came if keep is None else keep & came
        return positions if keep is None else positions[keep]

    def portion(self, arrays: list[Any], positions: Any) -> Portion:
        """`arrays` are those of `wanted`."""
        ids = None
        if self.row_ids:
            own_ids = arrays.pop() if self.row_id_column is not None else None
            ids = row_ids(self.file.row_id_start, positions, own_ids)
        given = iter(arrays)
        own = [
            None if c is None else with_fields(next(given), column)
            for c, column in zip(self.columns, self.lake_columns, strict=True)
        ]
        return Portion(own, self.constants, positions, ids)


class _Positions:
    """The positions of rows that are read in portions across row groups."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        self._spans = iter(spans)
        self._at = self._end = 0

    def next(self, count: int) -> Any:
        positions = []
        while count:
            if self._at == self._end:
                self._at, self._end = next(self._spans)
            upto = min(self._end, self._at + count)
            positions.append(np.arange(self._at, upto, dtype=np.int64))
            count -= upto - self._at
            self._at = upto
        return positions[0] if len(positions) == 1 else np.concatenate(positions)


def _taken(arrays: Sequence[Any], here: Any, kept: Any) -> list[Any]:
    if len(kept) == len(here):
        return list(arrays)
    indexes = np.searchsorted(here, kept)
    return [_take(array, indexes) for array in arrays]


def _take(array: pa.Array, indexes: Any) -> pa.Array:
    # pa.array would load numpy.ma, which takes a tenth of a small question's time
    numbers = pa.Array.from_buffers(pa.int64(), len(indexes), [None, pa.py_buffer(indexes)])
    return plain_array(array).take(numbers)
