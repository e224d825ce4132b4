"""What a data file says of itself: its row groups, and which of its columns are which of the table's.

Columns are found by field id; in files that DuckLake has a name mapping for, by name. Files never change, so footers
are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.lake import storage
from pgrepl.types.lake_arrays import plain_array

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROW_ID = 2147483540  # field id of _ducklake_internal_row_id
SNAPSHOT_ID = 2147483539  # of _ducklake_internal_snapshot_id
FILE_PATH = 2147483646  # of a delete file's columns
POSITION = 2147483645

ROW_ID_NAME = "_ducklake_internal_row_id"
SNAPSHOT_ID_NAME = "_ducklake_internal_snapshot_id"
_REMEMBERED = 2000
_FIELD_ID = b"PARQUET:field_id"


@frozen
class FileColumn:
    """A column of a file; a nested one has several leaves."""

    position: int  # among the file's columns
    first_leaf: int
    leaves: int
    name: str
    type: Any  # the Arrow type of what is read


@frozen
class Footer:
    path: str
    metadata: pq.FileMetaData
    by_id: dict[int, FileColumn]
    by_name: dict[str, FileColumn]
    starts: tuple[int, ...]  # the position of each row group's first row, and behind the last

    @property
    def row_groups(self) -> range:
        return range(len(self.starts) - 1)


_known: OrderedDict[str, Footer] = OrderedDict()
_lock = Lock()  # of what is remembered: files are read by several threads


def footer(path: str) -> Footer:
    with _lock:
        found = _known.get(path)
        if found is not None:
            _known.move_to_end(path)
            return found
    with storage.reading(path):
        found = _read(path)
    with _lock:
        _known[path] = found
        if len(_known) > _REMEMBERED:
            _known.popitem(last=False)
    return found


_MOST_BYTES = 256 * 1024 * 1024
_columns: OrderedDict[tuple[str, tuple[int, ...], int], Any] = OrderedDict()  # of files, never changing
_bytes = 0


def _remember(key: tuple[str, tuple[int, ...], int], array: Any) -> None:
    global _bytes
    with _lock:
        if key in _columns:
            _columns.move_to_end(key)
            return
        _columns[key] = array
        _bytes += array.nbytes
        while _bytes > _MOST_BYTES:
            _, oldest = _columns.popitem(last=False)
            _bytes -= oldest.nbytes


def forget(path: str) -> None:
    with _lock:
        _known.pop(path, None)
        _ranges.pop(path, None)


_Ranges = tuple[tuple[int, int], ...]
_ranges: OrderedDict[str, dict[int, _Ranges | None]] = OrderedDict()  # by path, and by leaf


def whole_ranges(footer: Footer, column: FileColumn) -> _Ranges | None:
    """The least and the greatest of the whole numbers in each row group; None: one does not say."""
    with _lock:
        of_file = _ranges.setdefault(footer.path, {})
        _ranges.move_to_end(footer.path)
        if len(_ranges) > _REMEMBERED:
            _ranges.popitem(last=False)
    if column.first_leaf not in of_file:
        of_file[column.first_leaf] = _read_ranges(footer, column)
    return of_file[column.first_leaf]


def _read_ranges(footer: Footer, column: FileColumn) -> _Ranges | None:
    found = []
    for group in footer.row_groups:
        statistics = footer.metadata.row_group(group).column(column.first_leaf).statistics
        if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
            return None
        found.append((statistics.min, statistics.max))
    return tuple(found)


def _read(path: str) -> Footer:
    import pyarrow.parquet as pq

    with pq.ParquetFile(storage.open_input(path), coerce_int96_timestamp_unit="us") as file:
        metadata, schema = file.metadata, file.schema_arrow
    by_id, by_name = {}, {}
    leaf = 0
    for position, field in enumerate(schema):
        leaves = _leaves(field.type)
        column = FileColumn(position, leaf, leaves, field.name, field.type)
        leaf += leaves
        by_name[field.name] = column
        if field.metadata and _FIELD_ID in field.metadata:
            by_id[int(field.metadata[_FIELD_ID])] = column
    starts = [0]
    for group in range(metadata.num_row_groups):
        starts.append(starts[-1] + metadata.row_group(group).num_rows)
    return Footer(path, metadata, by_id, by_name, tuple(starts))


def _leaves(kind: pa.DataType) -> int:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return _leaves(kind.storage_type)
    if kind.num_fields == 0 or pa.types.is_dictionary(kind):
        return 1
    return sum(_leaves(kind.field(i).type) for i in range(kind.num_fields))


class Reader:
    """An open data file. Columns come in the order they are asked for."""

    def __init__(self, footer: Footer) -> None:
        import pyarrow.parquet as pq

        self.footer = footer
        with storage.reading(footer.path):
            source = storage.open_input(footer.path)
            self._file = pq.ParquetFile(
                source, metadata=footer.metadata, coerce_int96_timestamp_unit="us", pre_buffer=False
            )

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close(force=True)

    def read(self, groups: Sequence[int], columns: Sequence[FileColumn]) -> list[Any]:
        """Whole columns of some row groups."""
        order, leaves = _order(columns)
        with storage.reading(self.footer.path):
            table = self._file.reader.read_row_groups(list(groups), column_indices=leaves, use_threads=len(leaves) > 1)
        return [table.column(i) for i in order]

    def remembered(self, groups: Sequence[int], columns: Sequence[FileColumn]) -> list[Any]:
        """The same, each column in one piece; the next look-up need not read the file."""
        found = [_columns.get((self.footer.path, tuple(groups), c.position)) for c in columns]
        missing = [c for c, array in zip(columns, found, strict=True) if array is None]
        if missing:
            fresh = iter([plain_array(array) for array in self.read(groups, missing)])
            found = [next(fresh) if array is None else array for array in found]
        for column, array in zip(columns, found, strict=True):
            _remember((self.footer.path, tuple(groups), column.position), array)
        return found

    def batches(self, groups: Sequence[int], columns: Sequence[FileColumn], size: int) -> Iterator[list[Any]]:
        """The same in portions of rows."""
        order, leaves = _order(columns)
        source = self._file.reader.iter_batches(size, row_groups=list(groups), column_indices=leaves, use_threads=False)
        while True:
            with storage.reading(self.footer.path):
                batch = next(source, None)
            if batch is None:
                return
            yield [batch.column(i) for i in order]


def _order(columns: Sequence[FileColumn]) -> tuple[list[int], list[int]]:
    """Parquet reads columns in the file's order, each once."""
    distinct = sorted({c.position: c for c in columns}.values(), key=lambda c: c.position)
    place = {c.position: i for i, c in enumerate(distinct)}
    leaves = [leaf for c in distinct for leaf in range(c.first_leaf, c.first_leaf + c.leaves)]
    return [place[c.position] for c in columns], leaves
