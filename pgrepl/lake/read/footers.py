"""Footers of data files and delete files: row groups, and columns by the table's column ids.

Columns are found by field id; in files with a name mapping, by name. Files never change, so footers are remembered. A
file that is not the one the catalog means, by its size, number of rows or checksum, is not read.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar
from weakref import WeakSet

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa, pq
from pgrepl.ground.threads import ThreadPool
from pgrepl.lake import storage
from pgrepl.types.lake.arrays import plain_array

if TYPE_CHECKING:
    from pgrepl.lake.read.data_file import DataFile, DeleteFile

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key. Beyond `most` of them (of their sizes together, where `size` is given) those go that were not
    asked for the longest; the last one stays, however large. For several threads."""

    def __init__(self, most: int, size: Callable[[Value], int] = lambda _: 1) -> None:
        self._most, self._size = most, size
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._total = 0
        self._lock = Lock()
        _all.add(self)

    def get(self, key: Key) -> Value | None:
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Key, value: Value) -> None:
        with self._lock:
            self._drop(key)
            self._values[key] = value
            self._total += self._size(value)
            self._shrink()

    def limit(self, most: int) -> None:
        """Keep less from now on, if `most` is less."""
        with self._lock:
            self._most = min(self._most, most)
            self._shrink()

    def _shrink(self) -> None:
        while self._total > self._most and len(self._values) > 1:
            self._drop(next(iter(self._values)))

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._total = 0

    def _drop(self, key: Key) -> None:
        value = self._values.pop(key, None)
        if value is not None:
            self._total -= self._size(value)


_all: WeakSet[Recent[Any, Any]] = WeakSet()


def forget_all() -> None:
    """Forget all files, so that from now on they are read as they are on disk."""
    for recent in list(_all):
        recent.clear()


ROW_ID = 2147483540  # field id of _ducklake_internal_row_id
SNAPSHOT_ID = 2147483539  # of _ducklake_internal_snapshot_id
FILE_PATH = 2147483546  # of a delete file's columns, as Iceberg numbers them
POSITION = 2147483545
FORMER = {
    2147483646: FILE_PATH,
    2147483645: POSITION,
}  # as DuckDB numbers them, and pgrepl did: Iceberg's _file and _pos

ROW_ID_NAME = "_ducklake_internal_row_id"
SNAPSHOT_ID_NAME = "_ducklake_internal_snapshot_id"
ROWS_IN_GROUP = 122_880  # as in DuckDB: a look-up reads a row group
_REMEMBERED = 2000
_AT_A_TIME = 8
_FIELD_ID = b"PARQUET:field_id"


@frozen
class FileColumn:
    """A column of a file; a nested one has several leaves."""

    position: int  # among the file's columns
    first_leaf: int
    leaves: int
    name: str
    type: Any  # the Arrow type in which it is read


@frozen
class Footer:
    path: str
    size: int  # of the file
    footer_size: int
    checksum: int
    metadata: pq.FileMetaData
    by_id: dict[int, FileColumn]
    by_name: dict[str, FileColumn]
    starts: tuple[int, ...]  # the positions of the row groups' first rows, and the one behind the last row
    is_former: bool  # it has former field ids

    @property
    def row_groups(self) -> range:
        return range(len(self.starts) - 1)


_known: Recent[str, Footer] = Recent(_REMEMBERED)


def of(file: DataFile | DeleteFile) -> Footer:
    """The footer of a file in the catalog; XX001 if it is not the file that the catalog means."""
    known = footer(file.path)
    compare_with(file, known.size, known.checksum)
    if known.metadata.num_rows != file.rows:
        damaged(file.path, f"It has {known.metadata.num_rows} rows instead of {file.rows}.")
    if file.holds_deletes and POSITION not in known.by_id and "pos" not in known.by_name:
        damaged(file.path, "It is not a delete file.")
    if not file.holds_deletes and POSITION in known.by_id:
        damaged(file.path, "It is a delete file.")
    return known


_compared: Recent[tuple[str, int, int | None], bool] = Recent(_REMEMBERED)  # path, size and checksum in the catalog


def compare(files: Iterable[DataFile]) -> None:
    """Raise XX001 if a file is not the one that the catalog means, for files that Spark reads."""
    new = [file for file in files if not _was_compared(file)]
    if len(new) == 1:
        _compare_here(new[0])
    elif new:
        with ThreadPool(_AT_A_TIME) as threads:
            list(threads.map(_compare_here, new))


def _was_compared(file: DataFile) -> bool:
    if not _compared.get((file.path, file.file_size_bytes, file.footer_checksum)):
        return False
    return storage.local_path(file.path) is None or storage.size_of(file.path) == file.file_size_bytes


def _compare_here(file: DataFile) -> None:
    if file.footer_checksum is None:
        of(file)
    else:
        size, end = storage.read_footer(file.path)
        compare_with(file, size, zlib.crc32(end))
    _compared.put((file.path, file.file_size_bytes, file.footer_checksum), True)


def compare_with(file: DataFile | DeleteFile, size: int, checksum: int) -> None:
    """Raise XX001 if a file with this size, and checksum of its footer, is not the one that the catalog means."""
    if size != file.file_size_bytes:
        damaged(file.path, f"It has {size} bytes instead of {file.file_size_bytes}.")
    if file.footer_checksum is not None and checksum != file.footer_checksum:
        damaged(file.path, f"Its footer has checksum {checksum:08x} instead of {file.footer_checksum:08x}.")


def damaged(path: str, detail: str) -> NoReturn:
    raise PgError("XX001", f'could not read file "{path}"', detail=detail)


def footer(path: str) -> Footer:
    """The footer of a file that the catalog does not have yet."""
    known = _known.get(path)
    if known is None:
        known = _read(path)
        _known.put(path, known)
    return known


_Ranges = tuple[tuple[int, int], ...]
_ranges: Recent[str, dict[int, _Ranges | None]] = Recent(_REMEMBERED)  # by path, and by leaf


def whole_ranges(footer: Footer, column: FileColumn) -> _Ranges | None:
    """The least and the greatest value of an integer column in each row group; None: a row group has no statistics."""
    of_file = _ranges.get(footer.path)
    if of_file is None:
        of_file = {}
        _ranges.put(footer.path, of_file)
    if column.first_leaf not in of_file:
        of_file[column.first_leaf] = _read_ranges(footer, column)
    return of_file[column.first_leaf]


def _read_ranges(footer: Footer, column: FileColumn) -> _Ranges | None:
    pieces = []
    for group in footer.row_groups:
        statistics = footer.metadata.row_group(group).column(column.first_leaf).statistics
        if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
            return None
        pieces.append((statistics.min, statistics.max))
    return tuple(pieces)


def _read(path: str) -> Footer:
    size, end = storage.read_footer(path)
    with storage.reading(path), pq.ParquetFile(pa.BufferReader(end), coerce_int96_timestamp_unit="us") as file:
        metadata, schema = file.metadata, file.schema_arrow
    by_id, by_name, is_former = {}, {}, False
    leaf = 0
    for position, field in enumerate(schema):
        leaves = _leaves(field.type)
        column = FileColumn(position, leaf, leaves, field.name, field.type)
        leaf += leaves
        by_name[field.name] = column
        if field.metadata and _FIELD_ID in field.metadata:
            field_id = int(field.metadata[_FIELD_ID])
            is_former |= field_id in FORMER
            by_id[FORMER.get(field_id, field_id)] = column
    starts = [0]
    for group in range(metadata.num_row_groups):
        starts.append(starts[-1] + metadata.row_group(group).num_rows)
    if starts[-1] != metadata.num_rows:
        damaged(path, f"Its row groups have {starts[-1]} rows instead of {metadata.num_rows}.")
    return Footer(
        path, size, len(end) - storage.TAIL, zlib.crc32(end), metadata, by_id, by_name, tuple(starts), is_former
    )


def _leaves(kind: pa.DataType) -> int:
    if isinstance(kind, pa.BaseExtensionType):
        return _leaves(kind.storage_type)
    if kind.num_fields == 0 or pa.types.is_dictionary(kind):
        return 1
    return sum(_leaves(kind.field(i).type) for i in range(kind.num_fields))


_MB = 1024 * 1024


# arrays by path, row groups and column
_columns: Recent[tuple[str, tuple[int, ...], int], Any] = Recent(320 * _MB, lambda array: int(array.nbytes))


def keep_columns(most: int) -> None:
    """Let this process remember so many bytes of columns at most."""
    _columns.limit(most)


class DataFileReader:
    """A data file, opened when something is read of it, which reads columns in the wanted order."""

    def __init__(self, footer: Footer) -> None:
        self.footer = footer
        self._opened: Any = None

    @property
    def _file(self) -> Any:
        if self._opened is None:
            footer = self.footer
            with storage.reading(footer.path):
                source = storage.open_input(footer.path)
                size = source.size()
                self._opened = pq.ParquetFile(
                    source,
                    metadata=footer.metadata,
                    coerce_int96_timestamp_unit="us",
                    pre_buffer=False,
                    page_checksum_verification=True,
                )
            if size != footer.size:
                damaged(footer.path, f"It has {size} bytes instead of {footer.size}.")
        return self._opened

    def __enter__(self) -> DataFileReader:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._opened is not None:
            self._opened.close(force=True)

    def read(self, groups: Sequence[int], columns: Sequence[FileColumn]) -> list[Any]:
        """Whole columns of some row groups."""
        order, leaves = _order(columns)
        with storage.reading(self.footer.path):
            table = self._file.reader.read_row_groups(list(groups), column_indices=leaves, use_threads=len(leaves) > 1)
        self._count(groups, table.num_rows)
        return [table.column(i) for i in order]

    def searched(self, groups: Sequence[int], columns: Sequence[FileColumn]) -> list[Any]:
        """Whole columns of some row groups, each in one piece, in which rows are searched; they are remembered."""
        return self._remembered(groups, columns)

    def looked_up(self, group: int, columns: Sequence[FileColumn]) -> list[Any]:
        """Whole columns of a row group, each in one piece, for a few of its rows: others are likely to be looked up
        next."""
        return self._remembered([group], columns)

    def _remembered(self, groups: Sequence[int], columns: Sequence[FileColumn]) -> list[Any]:
        arrays = [_columns.get((self.footer.path, tuple(groups), c.position)) for c in columns]
        missing = [c for c, array in zip(columns, arrays, strict=True) if array is None]
        if missing:
            fresh = iter([plain_array(array) for array in self.read(groups, missing)])
            arrays = [next(fresh) if array is None else array for array in arrays]
        for column, array in zip(columns, arrays, strict=True):
            _columns.put((self.footer.path, tuple(groups), column.position), array)
        return arrays

    def batches(self, groups: Sequence[int], columns: Sequence[FileColumn], size: int) -> Iterator[list[Any]]:
        """Columns of some row groups in portions of rows."""
        order, leaves = _order(columns)
        source = self._file.reader.iter_batches(size, row_groups=list(groups), column_indices=leaves, use_threads=False)
        count = 0
        while True:
            with storage.reading(self.footer.path):
                batch = next(source, None)
            if batch is None:
                return self._count(groups, count)
            count += batch.num_rows
            yield [batch.column(i) for i in order]

    def _count(self, groups: Sequence[int], rows: int) -> None:
        starts = self.footer.starts
        wanted = sum(starts[group + 1] - starts[group] for group in groups)
        if rows != wanted:
            damaged(self.footer.path, f"{rows} rows were read instead of {wanted}.")


def _order(columns: Sequence[FileColumn]) -> tuple[list[int], list[int]]:
    """The places of the columns among those that Parquet reads, in the file's order and each once; and their leaves."""
    distinct = sorted({c.position: c for c in columns}.values(), key=lambda c: c.position)
    place = {c.position: i for i, c in enumerate(distinct)}
    leaves = [leaf for c in distinct for leaf in range(c.first_leaf, c.first_leaf + c.leaves)]
    return [place[c.position] for c in columns], leaves
