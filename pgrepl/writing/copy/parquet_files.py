"""The Parquet files that COPY FROM names, their columns' types in PostgreSQL, and how each engine reads them; and those
that COPY TO writes: one file, or a folder where the name ends in a slash, with types as in tables of the lake.

Files whose columns are the same are read together. Nested values other than lists of scalars are jsonb; for columns
of composite types they are texts that the input function reads.
"""

from __future__ import annotations

import glob
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import F, fs, pa, pc, pq
from pgrepl.ground.threads import ThreadPool
from pgrepl.lake import storage
from pgrepl.lake.read.footers import ROWS_IN_GROUP
from pgrepl.lake.write.file_writer import rows_in_group
from pgrepl.query.rowset import PassingRows, SparkRows
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, element_type, type_by_oid
from pgrepl.types.input_checks import invalid_bytes
from pgrepl.types.lake.arrays import Form
from pgrepl.types.lake.foreign import Field
from pgrepl.types.lake.forms import form, is_row_type, row_type_in
from pgrepl.types.lake.nested_words import nested_texts
from pgrepl.types.lake.structs import file_form, has_renamed_labels, read_form
from pgrepl.types.text import write_text
from pgrepl.types.user_types import composite_type
from pgrepl.writing.copy.endpoints import Outgoing, file_error, not_readable

if TYPE_CHECKING:
    from pgrepl.types.lake.foreign import Nested
    from pgrepl.types.lake.nested_words import RowTypes


@frozen
class CopyFileColumn:
    """A column of a file. Spark reads it with the type `spark` (empty: not at all), and the SQL `made` turns that value
    into one of the type `shipped`."""

    name: str
    lake: str  # DuckLake's type
    fields: tuple[Nested, ...] = ()
    spark: str = ""
    made: str = "{0}"
    shipped: int = 0
    json: bool = False  # it is JSON in text
    target: int = 0  # the type whose input function reads the texts of its lists and structs; 0: they are none

    @property
    def typmod(self) -> int:
        return -1 if self.target else self.form.typmod

    @property
    def has_texts(self) -> bool:
        """Whether its values are texts, or have some in them."""
        return self.lake in ("varchar", "json", "list", "map", "struct")

    @property
    def form(self) -> Form:
        return read_form(self.lake, self.fields)


def file_column(path: str, file: pq.ParquetFile, number: int) -> CopyFileColumn:
    field = file.schema_arrow.field(number)
    int96 = _is_int96(file, field.name)
    lake_type = _lake_type("timestamptz" if int96 else field.type)
    if lake_type is None:
        raise PgError(
            "0A000", f'column "{field.name}" of file "{path}" is of type {field.type}, which is not supported'
        )
    lake, fields = lake_type
    form = read_form(lake, fields)
    spark, expr, shipped = form.spark, "{0}", form.typoid
    if str(field.type) == "null":
        spark, expr = "", "CAST(NULL AS STRING)"
    elif not int96 and str(field.type).startswith("timestamp[ns"):
        # Spark reads nanoseconds as whole numbers or not at all
        spark = "BIGINT"
        expr = f"CAST(timestamp_micros(({{0}} - pmod({{0}}, 1000)) div 1000) AS {form.spark})"
    nested = form.typoid == oids.JSONB and lake != "json"
    if nested:
        expr, shipped = "to_json({0}, map('ignoreNullFields', 'false'))", oids.TEXT
    return CopyFileColumn(field.name, lake, fields, spark, expr, shipped, nested)


def as_type(column: CopyFileColumn, typoid: int, row_types: RowTypes) -> CopyFileColumn:
    """The column for a column of the table: sixteen bytes are a uuid where one is wanted."""
    if _by_text(column.lake, column.fields, typoid, row_types):
        return replace(column, shipped=oids.TEXT, json=False, target=typoid)
    if typoid != oids.UUID or column.lake != "blob":
        return column
    form = read_form("uuid")
    return CopyFileColumn(column.name, "uuid", (), form.spark, "{0}", form.typoid)


def _by_text(lake: str, fields: tuple[Nested, ...], typoid: int, row_types: RowTypes) -> bool:
    typoid = base_type(typoid)
    if lake == "struct":
        return row_types(typoid) is not None
    element = element_type(typoid)
    if lake != "list" or not element:
        return False
    inside, kind = fields[0], type_by_oid(element)
    if inside.type == "varchar":
        return kind is None or kind.category != "S" or element == oids.CHAR
    return (inside.type == "blob" and element == oids.UUID) or _by_text(inside.type, inside.fields, element, row_types)


def values(column: CopyFileColumn, array: pa.Array, row_types: RowTypes) -> list[Any]:
    """A column of a file as Python values."""
    if column.target:
        return list(nested_texts(array, column.target, row_types, lambda inside, to: _texts(inside, to, row_types)))
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        array = pc.floor_temporal(array, unit="microsecond").cast(pa.timestamp("us", array.type.tz))
    try:
        return column.form.from_array(array)
    except UnicodeDecodeError as problem:
        raise invalid_bytes(problem.object, problem.start) from None


def _texts(array: pa.Array, typoid: int, row_types: RowTypes) -> list[str | None]:
    lake, fields = _lake_type(array.type) or ("varchar", ())  # `file_column` has refused what is none
    column = as_type(CopyFileColumn("", lake, fields), typoid, row_types)
    form = column.form
    return [None if value is None else write_text(value, form.typoid) for value in values(column, array, row_types)]


def _is_int96(file: pq.ParquetFile, name: str) -> bool:
    """Spark's and Hive's old form of timestamps, which are in UTC."""
    for number in range(len(file.schema)):
        column = file.schema.column(number)
        if column.path == name:
            return bool(column.physical_type == "INT96")
    return False


_NAMES = {
    "bool": "boolean", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
    "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float": "float32", "double": "float64",
    "string": "varchar", "large_string": "varchar", "string_view": "varchar", "binary": "blob",
    "large_binary": "blob", "binary_view": "blob", "date32[day]": "date", "date64[ms]": "date",
    "time32[s]": "time", "time32[ms]": "time", "time64[us]": "time", "null": "varchar",
    "timestamptz": "timestamptz",
}  # fmt: skip
_TIMESTAMPS = {"s": "timestamp_s", "ms": "timestamp_ms", "us": "timestamp", "ns": "timestamp"}


def _lake_type(kind: pa.DataType | str) -> tuple[str, tuple[Nested, ...]] | None:
    """DuckLake's name of an Arrow type, None if it has none."""
    if str(kind) in _NAMES:
        return _NAMES[str(kind)], ()
    assert not isinstance(kind, str)
    if isinstance(kind, pa.BaseExtensionType):
        name = {"arrow.uuid": "uuid", "arrow.json": "json"}.get(kind.extension_name)
        return (name, ()) if name is not None else _lake_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _lake_type(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return "blob", ()
    if pa.types.is_decimal(kind):
        return (f"decimal({kind.precision},{kind.scale})", ()) if 0 <= kind.scale <= kind.precision <= 38 else None
    if pa.types.is_timestamp(kind):
        return (_TIMESTAMPS[kind.unit] if kind.tz is None else "timestamptz"), ()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _nested("list", [kind.value_field])
    if pa.types.is_map(kind):
        return _nested("map", [kind.key_field, kind.item_field])
    if pa.types.is_struct(kind):
        return _nested("struct", [kind.field(n) for n in range(kind.num_fields)])
    return None


def _nested(lake: str, fields: list[Any]) -> tuple[str, tuple[Nested, ...]] | None:
    inner = []
    for field in fields:
        # where there are only NULLs, Parquet has them as whole numbers
        lake_type = ("int32", ()) if str(field.type) == "null" else _lake_type(field.type)
        if lake_type is None:
            return None
        inner.append(Field(field.name, *lake_type))
    return lake, tuple(inner)


_AT_A_TIME = 8
_PATTERN = re.compile(r"[*?\[]")
_SUFFIXES = (".parquet", ".parq", ".pq")


@frozen
class ParquetGroup:
    """Files with the same columns."""

    columns: tuple[CopyFileColumn, ...]
    paths: tuple[str, ...]
    rows: int

    def column(self, name: str) -> CopyFileColumn | None:
        return next((column for column in self.columns if column.name == name), None)


def parquet_groups(name: str) -> list[ParquetGroup]:
    """The files that the name stands for, in the order of their names. Only their footers are read."""
    return groups_of(parquet_paths(name))


def groups_of(paths: Sequence[str]) -> list[ParquetGroup]:
    with ThreadPool(_AT_A_TIME) as threads:
        described = list(threads.map(_described, paths))
    together: dict[tuple[CopyFileColumn, ...], tuple[list[str], int]] = {}
    for path, (columns, rows) in zip(paths, described, strict=True):
        same, count = together.get(columns, ([], 0))
        together[columns] = ([*same, path], count + rows)
    return [ParquetGroup(columns, tuple(same), count) for columns, (same, count) in together.items()]


def _described(path: str) -> tuple[tuple[CopyFileColumn, ...], int]:
    with opened(path) as file:
        return tuple(file_column(path, file, n) for n in range(len(file.schema_arrow))), file.metadata.num_rows


class opened:
    """A Parquet file, with errors that name it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._reading = storage.reading(path)

    def __enter__(self) -> pq.ParquetFile:
        self._reading.__enter__()
        try:
            self._file = pq.ParquetFile(storage.open_input(self._path), coerce_int96_timestamp_unit="us")
        except BaseException as problem:
            self._reading.__exit__(type(problem), problem, problem.__traceback__)
            raise
        return self._file

    def __exit__(self, *reason: Any) -> None:
        self._file.close()
        self._reading.__exit__(*reason)


# --- names ------------------------------------------------------------------------------------------------------------


def parquet_paths(name: str) -> list[str]:
    if storage.local_path(name) is None:
        paths = _remote(name)
    else:
        paths = _local(storage.local_path(name) or name)
    if not paths:
        raise PgError("58P01", f'no Parquet file is at "{name}"')
    return paths


def _local(name: str) -> list[str]:
    if os.path.isdir(name):
        return sorted(_in_folder(name))
    if os.path.exists(name) or not _PATTERN.search(name):
        try:
            with open(name, "rb"):
                return [os.path.abspath(name)]
        except OSError as error:
            raise not_readable(name, error) from error
    paths: list[str] = []
    for path in sorted(glob.glob(name, recursive=True)):
        paths += sorted(_in_folder(path)) if os.path.isdir(path) else [os.path.abspath(path)]
    return list(dict.fromkeys(paths))


def _in_folder(folder: str) -> Iterator[str]:
    """The Parquet files in a folder, without hidden files and markers such as _SUCCESS."""
    for base, folders, files in os.walk(os.path.abspath(folder)):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for file in files:
            if file.endswith(_SUFFIXES) and not file.startswith((".", "_")):
                yield os.path.join(base, file)


def _remote(name: str) -> list[str]:
    system, inside = storage.file_system(name)
    scheme = name.partition("://")[0]
    if _PATTERN.search(inside):
        root = inside[: _PATTERN.search(inside).start()].rpartition("/")[0]  # type: ignore[union-attr]
        listed = system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        paths = [entry.path for entry in listed if entry.type == fs.FileType.File and fnmatchcase(entry.path, inside)]
    else:
        info = system.get_file_info(inside)
        if info.type != fs.FileType.Directory:
            return [name]
        listed = system.get_file_info(fs.FileSelector(inside, recursive=True))
        paths = [entry.path for entry in listed if entry.base_name.endswith(_SUFFIXES)]
    return sorted(f"{scheme}://{path}" for path in paths)


# --- writing ----------------------------------------------------------------------------------------------------------


@frozen
class ParquetColumn:
    name: str
    form: Form
    kept: Form | None = None  # the lake's, where it has other values


def parquet_columns(
    names: Sequence[str], types: Sequence[tuple[int, int]], row_type: RowTypes = composite_type
) -> list[ParquetColumn]:
    """The columns of the file. Their names must differ. `row_type` may know row types of tables, too."""
    for number, name in enumerate(names):
        if name in names[:number]:
            raise PgError("42701", f'column "{name}" specified more than once')
    if not names:
        raise PgError("0A000", "a Parquet file must have at least one column")
    return [_column(name, *kind, row_type) for name, kind in zip(names, types, strict=True)]


def _column(name: str, typoid: int, typmod: int, row_type: RowTypes) -> ParquetColumn:
    row = row_type(row_type_in(typoid)) if is_row_type(typoid) else None
    kept = form(typoid, typmod) if has_renamed_labels(typoid) else None
    return ParquetColumn(name, file_form(typoid, typmod, row), kept)


def write_file(place: Outgoing, columns: Sequence[ParquetColumn], rows: PassingRows | SparkRows) -> int:
    """Write one file; returns its number of rows."""
    schema = pa.schema([pa.field(column.name, column.form.arrow()) for column in columns])
    count = 0
    with pq.ParquetWriter(_Sink(place), schema, compression="snappy", store_schema=False) as writer:
        for table in _groups(_tables(columns, rows, schema)):
            writer.write_table(table, rows_in_group(table.num_rows))
            count += table.num_rows
    return count


def _tables(columns: Sequence[ParquetColumn], rows: PassingRows | SparkRows, schema: pa.Schema) -> Iterator[pa.Table]:
    if isinstance(rows, SparkRows):
        from pgrepl.engine.result_spark import fetched

        for batch in fetched(rows.frame, rows.data_path):
            renamed = [_renamed(column, batch.column(n)) for n, column in enumerate(columns)]
            arrays = [_as(array, field.type) for array, field in zip(renamed, schema, strict=True)]
            yield pa.Table.from_arrays(arrays, schema=schema)
        return
    for part in rows.batches():
        values = list(zip(*part, strict=True))
        arrays = [c.form.to_array(v) for c, v in zip(columns, values, strict=True)]
        yield pa.Table.from_arrays([_as(a, f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)


def _renamed(column: ParquetColumn, array: Any) -> Any:
    return array if column.kept is None else column.form.to_array(column.kept.from_array(array))


def _as(array: Any, kind: pa.DataType) -> Any:
    """Cast a column of Spark's to the type of the file: they differ in extension types (uuid) and time zones only."""
    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array.cast(kind.storage_type))
    return array.cast(kind)


def _groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Small tables as row groups of the usual size."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(part.num_rows for part in waiting) >= ROWS_IN_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


class _Sink(io.RawIOBase):
    """A file object for pyarrow that is written from front to back."""

    def __init__(self, place: Outgoing) -> None:
        self._place = place
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._place.write(raw)
        self._at += len(raw)
        return len(raw)


# --- folders ----------------------------------------------------------------------------------------------------------


def write_folder(folder: str, columns: Sequence[ParquetColumn], rows: PassingRows | SparkRows) -> int:
    """Write files to a new folder; returns their number of rows."""
    _refuse_taken(folder)
    if isinstance(rows, SparkRows) and all(column.kept is None for column in columns):
        return _write_by_spark(folder, columns, rows)
    os.makedirs(folder, exist_ok=True)
    place = Outgoing(os.path.join(folder, "part-00000.parquet"))
    try:
        count = write_file(place, columns, rows)
    except BaseException:
        place.abandon()
        raise
    place.finish()
    return count


def _refuse_taken(folder: str) -> None:
    """Refuse a folder with files: they would be taken for part of the result."""
    if not os.path.isabs(folder):
        raise PgError("42602", "relative path not allowed for COPY to file")
    try:
        if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
            raise PgError("58P02", f'folder "{folder}" is not empty')
    except OSError as error:
        raise file_error(f'could not open directory "{folder}"', error) from error


def _write_by_spark(folder: str, columns: Sequence[ParquetColumn], rows: SparkRows) -> int:
    from pgrepl.engine import spark
    from pgrepl.engine.scan_spark import spark_path

    named = [F.col(f"c{n}").alias(column.name) for n, column in enumerate(columns, 1)]
    with spark.pg_errors():
        rows.frame.select(*named).write.mode("append").parquet(spark_path(folder))
    return sum(pq.read_metadata(path).num_rows for path in parquet_paths(folder))
