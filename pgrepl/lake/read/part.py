"""The rows that a part reads: data files or some of their row groups, rows of the catalog, Parquet files that are not
the lake's, or a series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pq
from pgrepl.lake import storage
from pgrepl.types.input_checks import are_texts
from pgrepl.types.lake.arrays import plain_array, storage_type
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.read.data_file import DataFile
    from pgrepl.lake.read.file_scan import Portion
    from pgrepl.lake.table import LakeColumn, LakeTable
    from pgrepl.types.lake.arrays import Form

PORTION = 32_768  # rows read at a time, so few that the next steps find them in the processor's cache


class PartWatch(Protocol):
    """The observer of a part: it counts rows, and can end the work."""

    def check(self) -> None:
        """Raise an error if the work has been cancelled."""

    def add(self, rows: int, size: int) -> None:
        """Count more rows that have been written, or bytes."""


@frozen
class Shared:
    """Plain data that many parts have in common: it is pickled once for all tasks."""

    value: Any


@frozen
class PlacedRows:
    """The places of rows: positions of a data file, or, by row id, inlined rows of the catalog."""

    file_id: int | None
    positions: Any
    row_ids: Any  # None: not read


@frozen
class FileRows:
    """The living rows of a data file at a snapshot, or of some of its row groups. `deletes` are inlined ones: position
    and snapshot. Row groups outside the bounds are left out."""

    table: LakeTable
    snapshot: int
    file: DataFile
    deletes: tuple[tuple[int, int], ...]
    groups: tuple[int, ...] | None = None
    bounds: tuple[Bound, ...] = ()

    def portions(self, attnums: Sequence[int]) -> Iterator[tuple[dict[int, Any], int]]:
        for arrays, portion in self._read(attnums, row_ids=False, skips_only=True):
            yield arrays, portion.count

    def placed(self, attnums: Sequence[int], *, row_ids: bool) -> Iterator[tuple[dict[int, Any], int, PlacedRows]]:
        """Portions with the places of their rows; single rows outside the bounds are left out, too."""
        for arrays, portion in self._read(attnums, row_ids=row_ids, skips_only=False):
            if portion.count:
                yield arrays, portion.count, PlacedRows(self.file.data_file_id, portion.positions, portion.row_ids)

    def _read(
        self, attnums: Sequence[int], *, row_ids: bool, skips_only: bool
    ) -> Iterator[tuple[dict[int, Any], Portion]]:
        from pgrepl.lake.read.file_scan import portions

        columns = [self.table.column(attnum) for attnum in attnums]
        portions_read = portions(
            self.table,
            self.file,
            columns,
            self.bounds,
            list(self.deletes),
            self.snapshot,
            row_ids,
            self.groups,
            PORTION,
            skips_only=skips_only,
        )
        for portion in portions_read:
            arrays = {}
            for column, array, value in zip(columns, portion.arrays, portion.constants, strict=True):
                if array is None:
                    arrays[column.attnum] = repeated(column.form.to_array([value]), portion.count)
                else:
                    arrays[column.attnum] = in_form(array, column)
            yield arrays, portion


@frozen
class CatalogRows:
    """Rows that stand in the catalog."""

    arrays: tuple[tuple[int, Any], ...]
    count: int
    row_ids: Any = None

    def portions(self, attnums: Sequence[int]) -> Iterator[tuple[dict[int, Any], int]]:
        known = dict(self.arrays)
        yield {attnum: known[attnum] for attnum in attnums}, self.count

    def placed(self, attnums: Sequence[int], *, row_ids: bool) -> Iterator[tuple[dict[int, Any], int, PlacedRows]]:
        for arrays, count in self.portions(attnums):
            yield arrays, count, PlacedRows(None, None, self.row_ids)


@frozen
class ForeignRows:
    """Some row groups of a Parquet file that is not the lake's, read as rows of `table`. `columns` are attribute
    numbers of the table with the columns' names in the file."""

    table: LakeTable
    path: str
    columns: tuple[tuple[int, str], ...]
    groups: tuple[int, ...]

    def portions(self, attnums: Sequence[int]) -> Iterator[tuple[dict[int, Any], int]]:
        names = dict(self.columns)
        with storage.reading(self.path), pq.ParquetFile(storage.open_input(self.path), pre_buffer=False) as file:
            wanted = [names[attnum] for attnum in attnums]
            for batch in file.iter_batches(PORTION, row_groups=list(self.groups), columns=wanted, use_threads=False):
                arrays = {n: in_form(batch.column(names[n]), self.table.column(n)) for n in attnums}
                if not all(are_texts(array) for array in arrays.values()):
                    raise Declined("a text has a NUL or invalid bytes")
                yield arrays, batch.num_rows


_SERIES = 122_880  # numbers of a series in one piece


@frozen
class SeriesRows:
    """The whole numbers of a series; they are computed, not stored."""

    type: int  # oid of the type
    first: int
    step: int
    count: int

    def divided(self) -> list[tuple[PartRows, int, int]]:
        parts: list[tuple[PartRows, int, int]] = []
        for start in range(0, self.count, _SERIES):
            count = min(_SERIES, self.count - start)
            parts.append((SeriesRows(self.type, self.first + self.step * start, self.step, count), count, 0))
        return parts

    def portions(self, attnums: Sequence[int]) -> Iterator[tuple[dict[int, Any], int]]:
        kind = storage_type(SeriesColumns(self.type).form.arrow())
        for start in range(0, self.count, PORTION):
            count = min(PORTION, self.count - start)
            numbers = self.first + self.step * np.arange(start, start + count, dtype=np.int64)
            array = pa.array(numbers).cast(kind)
            yield dict.fromkeys(attnums, array), count

    def placed(self, attnums: Sequence[int], *, row_ids: bool) -> Iterator[tuple[dict[int, Any], int, PlacedRows]]:
        for arrays, count in self.portions(attnums):
            yield arrays, count, PlacedRows(None, None, None)


@frozen
class SeriesColumns:
    """The one column of a series, under any attribute number."""

    type: int

    def column(self, attnum: int) -> SeriesColumns:
        return self

    @property
    def form(self) -> Form:
        return form(self.type, -1)


class SourceColumns(Protocol):
    """The columns of a source, by attribute number: of a table, or of a series."""

    def column(self, attnum: int) -> Any: ...


PartRows = FileRows | CatalogRows | ForeignRows | SeriesRows


def repeated(one: pa.Array, count: int) -> pa.Array:
    """The value of an array of length one, `count` times."""
    return plain_array(one).take(pa.array(np.zeros(count, np.int32)))


def in_form(array: pa.Array, column: LakeColumn) -> pa.Array:
    """A column of a file in the storage type of its form; an older file may have a narrower type."""
    array, kind = plain_array(array), storage_type(column.form.arrow())
    if array.type == kind:
        return array
    if not _is_wider(array.type, kind):
        raise Declined(f'column "{column.name}" is {array.type} in a file')
    try:
        return array.cast(kind)
    except pa.ArrowException as problem:
        raise Declined(f'column "{column.name}": {problem}') from problem


def _is_wider(of_file: Any, kind: Any) -> bool:
    from pyarrow import types

    if types.is_integer(of_file) and types.is_integer(kind):
        return True
    if types.is_float32(of_file) and types.is_float64(kind):
        return True
    if types.is_decimal(of_file) and types.is_decimal(kind):
        return bool(of_file.scale == kind.scale and of_file.precision <= kind.precision)
    if types.is_large_string(of_file) and types.is_string(kind):
        return True
    if types.is_binary(of_file) and types.is_fixed_size_binary(kind):  # uuid, as some writers keep it
        return True
    if types.is_list(of_file) and types.is_list(kind):  # the field of the items has another name
        return bool(of_file.value_type == kind.value_type)
    return False


def forms_of(table: SourceColumns, attnums: Iterable[int]) -> dict[int, Form]:
    return {attnum: table.column(attnum).form for attnum in attnums}


Kernel = Callable[[Any, PartWatch], Any]
