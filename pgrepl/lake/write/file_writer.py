"""Writing data files with pyarrow; their checksums and statistics.

The catalog keeps two checksums of each file: of the footer, compared whenever it is read, and of the whole, compared
by `pgrepl verify` and VACUUM. Readers skip files by bounds: without right ones in the footer there are none.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import pa, pc, pq
from pgrepl.lake import storage
from pgrepl.lake.read import footers
from pgrepl.lake.read.data_file import NewFile
from pgrepl.lake.read.footers import ROWS_IN_GROUP
from pgrepl.lake.storage import crash_point, make_table_folder
from pgrepl.lake.write.statistics import ColumnStatistics, cut_high, cut_low, is_text, leaves, of_array, together
from pgrepl.types.lake.arrays import plain_array

if TYPE_CHECKING:
    from pgrepl.lake.read.data_file import DataFile, DeleteFile
    from pgrepl.lake.read.footers import Footer
    from pgrepl.lake.table import LakeField, LakeTable
    from pgrepl.types.lake.arrays import Form

IDENTITY = "pgrepl.file"  # the key under which a file's footer has its name: footers of different files differ
_PORTION = 1 << 22


class SummedOutput:
    """A stream to a new file, for pyarrow to write to, with the checksum of its bytes."""

    def __init__(self, path: str) -> None:
        self._stream = storage.open_output(path)
        self.checksum = 0

    def write(self, data: Any) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        return int(self._stream.write(data) or len(data))

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)


def of_file(path: str) -> int:
    """The checksum of a whole file."""
    checksum = 0
    with storage.reading(path), storage.open_input(path) as file:
        while data := file.read(_PORTION):
            checksum = zlib.crc32(data, checksum)
    return checksum


def compare(file: DataFile | DeleteFile) -> None:
    """Raise XX001 if the file has another checksum than the catalog; without one it is not compared."""
    if file.checksum is None:
        return
    statistics = of_file(file.path)
    if statistics != file.checksum:
        raise PgError(
            "XX001",
            f'could not read file "{file.path}"',
            detail=f"It has checksum {statistics:08x} instead of {file.checksum:08x}.",
        )


# --- stage statistics -------------------------------------------------------------------------------------------------


def of_footer(footer: Footer, table: LakeTable) -> dict[int, ColumnStatistics]:
    """The statistics by column id; not of floats, as NaN is not in those of Parquet."""
    statistics = {}
    for column, leaf in leaves(table):
        in_file = footer.by_id.get(column.column_id)
        if in_file is not None and in_file.leaves == 1:
            statistics[leaf.column_id] = _of_leaf(footer, in_file.first_leaf, leaf.form)
    return statistics


def _of_leaf(footer: Footer, position: int, form: Form) -> ColumnStatistics:
    size = values = nulls = 0
    low: Any = None
    high: Any = None
    sure = True
    scale = footer.metadata.schema.column(position).scale
    for group in footer.row_groups:
        chunk = footer.metadata.row_group(group).column(position)
        size += chunk.total_compressed_size
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            nulls += chunk.num_values
            values += chunk.num_values
            sure = False
            continue
        nulls += statistics.null_count
        values += chunk.num_values - statistics.null_count
        if statistics.has_min_max:
            least, most = (_bound(form, raw, scale) for raw in (statistics.min_raw, statistics.max_raw))
            low = least if low is None or least < low else low
            high = most if high is None or most > high else high
        elif chunk.num_values > statistics.null_count:
            sure = False  # too long a text
    texts = _texts(form, low, high) if sure else (None, None)
    return ColumnStatistics(values, nulls, *texts, size=size)


def _bound(form: Form, raw: Any, scale: int) -> Any:
    """A bound as a value in DuckLake's order, which is that of text for types that are stored as text."""
    if is_text(form):
        return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    return form.from_raw(raw, scale)


def _texts(form: Form, low: Any, high: Any) -> tuple[str | None, str | None]:
    if low is None or high is None:
        return None, None
    texts = (cut_low(low), cut_high(high)) if is_text(form) else (form.to_stat(low), form.to_stat(high))
    return (None, None) if None in texts else texts


_SAMPLE = 20_000  # first rows by which `_encodings` judges


def field_id(number: int) -> dict[bytes, bytes]:
    return {b"PARQUET:field_id": str(number).encode()}


def schema_of(table: LakeTable, *, row_ids: bool) -> pa.Schema:
    fields = [
        pa.field(c.name, _with_ids(c.form.arrow(), c.fields), metadata=field_id(c.column_id)) for c in table.columns
    ]
    if row_ids:
        fields.append(pa.field(footers.ROW_ID_NAME, pa.int64(), metadata=field_id(footers.ROW_ID)))
    return pa.schema(fields)


def _with_ids(kind: pa.DataType, fields: Sequence[LakeField]) -> pa.DataType:
    """A nested type whose inner fields have ids, too."""

    def inner(field: pa.Field, of: LakeField) -> pa.Field:
        return field.with_type(_with_ids(field.type, of.fields)).with_metadata(field_id(of.column_id))

    if pa.types.is_list(kind):
        return pa.list_(inner(kind.value_field, fields[0]))
    if pa.types.is_map(kind):
        return pa.map_(inner(kind.key_field, fields[0]), inner(kind.item_field, fields[1]))
    if pa.types.is_struct(kind):
        return pa.struct([inner(kind.field(i), of) for i, of in enumerate(fields)])
    return kind


def _encodings(table: LakeTable, arrays: Sequence[Any], *, row_ids: bool) -> dict[str, Any]:
    """Arguments for pyarrow's writer: the encodings that pay for rows that begin with these. Values that are often the
    same get a dictionary; numbers that ascend, such as keys, are written as differences, small and quickly read."""
    dictionaries: list[str] = []
    differences = [footers.ROW_ID_NAME] if row_ids else []
    for column, array in zip(table.columns, arrays, strict=False):  # row ids stand behind
        first, name, kind = array[:_SAMPLE], column.name, column.form.element
        if kind is not None and kind.element is None and not kind.children:
            first, name = first.flatten()[:_SAMPLE], f"{name}.list.element"
        elif column.fields:
            continue
        if isinstance(first.type, pa.BaseExtensionType):
            continue
        if len(first.unique()) * 4 <= len(first):
            dictionaries.append(name)
        elif kind is None and _ascends(first):
            differences.append(column.name)
    return {"use_dictionary": dictionaries, "column_encoding": dict.fromkeys(differences, "DELTA_BINARY_PACKED")}


def _ascends(array: pa.Array) -> bool:
    kind = array.type
    if array.null_count or not (pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return False
    return pc.all(pc.less_equal(array[:-1], array[1:])).as_py() is not False


class DataFileWriter:
    """Writes a data file from rows in portions."""

    def __init__(
        self, table: LakeTable, *, row_ids: bool = False, folder: str | None = None, bounds_by_footer: bool = False
    ) -> None:
        """`folder`: an existing one in the table's. `bounds_by_footer`: take bounds from Parquet's statistics where
        they suffice; texts of some kilobytes then have none."""
        self.table = table
        self.name = storage.new_name() if folder is None else f"{folder}/{storage.new_name()}"
        self.path = table.location + self.name
        self._has_row_ids = row_ids
        self._schema = schema_of(table, row_ids=row_ids)
        self._statistics: dict[int, ColumnStatistics] = {}
        self._leaves = leaves(table)
        self._by_footer = {leaf.column_id for c, leaf in self._leaves if bounds_by_footer and _finds_bounds(c.form)}
        self._footers: list[Any] = []
        self._count = 0
        if folder is None:
            make_table_folder(table)
        crash_point("stage.open")
        with storage.writing(self.path):
            self._sink = SummedOutput(self.path)
        self._opened: Any = None  # pyarrow's writer: how it is to write is known with the first rows

    def _writer(self, arrays: Sequence[Any]) -> Any:
        if self._opened is None:
            self._opened = pq.ParquetWriter(
                self._sink,
                self._schema,
                compression=self.table.compression,
                store_schema=False,
                **_encodings(self.table, arrays, row_ids=self._has_row_ids),
                write_statistics=with_statistics(self.table),
                metadata_collector=self._footers,
                write_page_checksum=True,
            )
            self._opened.add_key_value_metadata({IDENTITY: self.name})
        return self._opened

    def write(self, rows: Sequence[Sequence[Any]], row_ids: Sequence[int] | None = None) -> None:
        """Write rows with values in the order of the table's columns; with `row_ids` new versions of rows."""
        if not rows:
            return
        with self._or_nothing():
            columns = [list(column) for column in zip(*rows, strict=True)]
            arrays = [c.form.to_array(values) for c, values in zip(self.table.columns, columns, strict=True)]
            ids = None if row_ids is None else pa.array(row_ids, pa.int64())
        self.write_arrays(arrays, ids, len(rows))

    def write_arrays(self, arrays: Sequence[Any], row_ids: Any, count: int) -> None:
        """Write rows that are given as columns."""
        with self._or_nothing():
            arrays = [plain_array(array) for array in arrays]
            if row_ids is not None:
                arrays.append(row_ids)
            arrays = [a.cast(f.type) if a.type != f.type else a for a, f in zip(arrays, self._schema, strict=True)]
            self._count_in(arrays)
            with storage.writing(self.path):
                self._writer(arrays).write_table(
                    pa.Table.from_arrays(arrays, schema=self._schema), rows_in_group(count)
                )
        self._count += count
        crash_point("stage.write")

    def _count_in(self, arrays: Sequence[Any]) -> None:
        position = {column.column_id: i for i, column in enumerate(self.table.columns)}
        for column, leaf in self._leaves:
            if leaf.column_id in self._by_footer:
                continue
            array = arrays[position[column.column_id]]
            statistics = of_array(leaf.form, array if column.form.element is None else array.flatten())
            known = self._statistics.get(leaf.column_id)
            self._statistics[leaf.column_id] = statistics if known is None else together(leaf.form, known, statistics)

    def close(self) -> NewFile:
        """Finish the file and sync it to the disk."""
        with self._or_nothing(), storage.writing(self.path):
            self._writer([]).close()
            self._sink.close()
            crash_point("stage.closed")
            storage.make_durable(self.path)
        metadata = self._footers[0]
        sizes = _sizes(metadata)
        statistics = {
            leaf.column_id: replace(self._statistics[leaf.column_id], size=sizes.get(i))
            for i, leaf in self._numbered_leaves()
            if leaf.column_id in self._statistics
        }
        size, end = storage.read_footer(self.path)
        if self._by_footer:
            by_footer = of_footer(footers.footer(self.path), self.table)
            statistics |= {column_id: by_footer[column_id] for column_id in self._by_footer}
        return NewFile(
            self.name,
            self._count,
            size,
            len(end) - storage.TAIL,
            statistics,
            self._has_row_ids,
            footer_checksum=zlib.crc32(end),
            checksum=self._sink.checksum,
        )

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def _numbered_leaves(self) -> list[tuple[int, Any]]:
        """Each leaf column with its number in the file."""
        number = {column.column_id: i for i, column in enumerate(self.table.columns)}
        return [(number[column.column_id], leaf) for column, leaf in self._leaves]

    def discard(self) -> None:
        if self._opened is not None:
            with suppress(pa.ArrowException, OSError, RuntimeError):  # a full disk is full for the footer, too
                self._opened.close()
            self._opened.is_open = False
        with suppress(pa.ArrowException, OSError):
            self._sink.close()
        storage.remove(self.path)


def rows_in_group(count: int) -> int:
    """The size of row groups so that all are alike: a small one at the end costs its reader as much as a full one."""
    groups = max(round(count / ROWS_IN_GROUP), 1)
    return max(-(-count // groups), 1)


def _finds_bounds(form: Form) -> bool:
    """Are Parquet's statistics of this form right for DuckLake's?"""
    return form.element is None and not form.lake.startswith("float") and (form.ordered == "full" or is_text(form))


def with_statistics(table: LakeTable) -> list[str]:
    """The leaf columns with statistics in row groups. Not floats: Parquet's statistics leave out NaN, and a reader to
    whom NaN is the greatest value would not find it."""
    names = [footers.ROW_ID_NAME]
    for column in table.columns:
        form = column.form
        if not (form.element or form).lake.startswith("float"):
            names.append(column.name if form.element is None else f"{column.name}.list.element")
    return names


def _sizes(metadata: Any) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for i in range(row_group.num_columns):
            sizes[i] = sizes.get(i, 0) + row_group.column(i).total_compressed_size
    return sizes
