"""`Connection.write()`: an Arrow table or a DataFrame goes into a table by one COPY of Parquet."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.api.exceptions import DataError, ProgrammingError, dbapi_errors
from pgrepl.api.parameters import dumped
from pgrepl.api.results import decimal_text, interval_text, texts
from pgrepl.engine import result_spark
from pgrepl.engine.scan_spark import spark_path
from pgrepl.ground.lazy import kinds, pa, pc, pq
from pgrepl.lake import storage
from pgrepl.sql.keywords import quote_identifier, quote_literal
from pgrepl.types import oids
from pgrepl.types.names import format_type
from pgrepl.writing.copy.parquet_files import parquet_paths

if TYPE_CHECKING:
    from pgrepl.api.cursor import Cursor
    from pgrepl.catalog.session.session import Session


class WritingConnection(Protocol):
    """The connection that rows are written by."""

    @property
    def session(self) -> Session: ...

    def cursor(self) -> Cursor: ...

    def transaction(self) -> AbstractContextManager[None]: ...


MODES = ("append", "overwrite", "error")


def write(connection: WritingConnection, table: str, data: Any, mode: str) -> int:
    if mode not in MODES:
        raise ProgrammingError(f'unrecognized mode "{mode}"; use one of {", ".join(MODES)}')
    with _parquet(connection, data) as (path, schema), connection.transaction():
        cursor = connection.cursor()
        target = quoted(table)
        exists = cursor.execute("SELECT to_regclass(%s)", [target]).fetchone() != (None,)
        if exists and mode == "error":
            raise ProgrammingError(f'relation "{table}" already exists')
        if not exists:
            cursor.execute(f"CREATE TABLE {target} ({columns_of(schema)})")
        elif mode == "overwrite":
            cursor.execute(f"TRUNCATE {target}")
        names = ", ".join(quote_identifier(name) for name in schema.names)
        session = connection.session
        session.client = _ParquetClient(path)
        try:
            cursor.execute(f"COPY {target} ({names}) FROM STDIN (FORMAT parquet)" if os.path.isfile(path) else
                           f"COPY {target} ({names}) FROM {quote_literal(path)} (FORMAT parquet)")  # fmt: skip
        finally:
            session.client = None
        return cursor.rowcount


def quoted(table: str) -> str:
    """The name as SQL: `orders` or `sales.orders`, taken letter by letter; one that is quoted already stays."""
    if '"' in table:
        return table
    return ".".join(quote_identifier(part) for part in table.split("."))


class _ParquetClient:
    """The client of COPY FROM STDIN (FORMAT parquet): its data are a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def copy_in(self, *, binary: bool, columns: int) -> _ParquetClient:
        return self

    def __iter__(self) -> Iterator[bytes]:
        with open(self.path, "rb") as file:
            while data := file.read(1 << 20):
                yield data

    def copy_out(self, *, binary: bool, columns: int) -> Any:
        raise ProgrammingError("COPY FROM gives no data")


@contextmanager
def _parquet(connection: WritingConnection, data: Any) -> Iterator[tuple[str, pa.Schema]]:
    """The data as a Parquet file, or a folder of Spark's, which is removed at the end; and their columns."""
    if type(data).__module__.startswith("pyspark.sql."):
        with dbapi_errors(), result_spark.result_folder(connection.session.catalog.data_path) as folder:
            path = folder.rstrip("/") + "/rows"
            data.write.parquet(spark_path(path))
            yield path, _schema_of(path)
        return
    table = as_arrow(data)
    if not table.column_names:
        raise ProgrammingError("the data have no columns")
    schema = table.schema
    with tempfile.TemporaryDirectory(prefix="pgrepl-") as folder:
        path = os.path.join(folder, "rows.parquet")
        try:
            plain = pa.table([_plain(column) for column in table.columns], names=table.column_names)
            pq.write_table(plain, path)
        except pa.ArrowException as problem:
            raise DataError(f"cannot write the data: {problem}") from problem
        yield path, schema


def as_arrow(data: Any) -> pa.Table:
    """An Arrow table of a table, of record batches, or of another library's DataFrame."""
    library = type(data).__module__.split(".")[0]
    try:
        if isinstance(data, pa.Table):
            return data
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        if isinstance(data, pa.RecordBatchReader):
            return data.read_all()
        if library == "pandas" and hasattr(data, "columns"):
            return pa.Table.from_pandas(_with_index(data), preserve_index=False)
        if library == "polars" and hasattr(data, "to_arrow") and hasattr(data, "columns"):
            return data.to_arrow()
        if library not in ("pandas", "polars", "pyarrow") and hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).read_all()
    except pa.ArrowException as problem:
        raise DataError(f"cannot make columns of the data: {problem}") from problem
    raise ProgrammingError(
        f"cannot write a {type(data).__name__}: give an Arrow table, or a DataFrame of pandas, Polars or Spark"
    )


def _with_index(frame: Any) -> Any:
    """A frame of pandas in which the levels of its index that have a name of their own are columns. An index without
    a name only says where rows stand."""
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    return frame.reset_index(level=named) if named else frame


def _plain(column: Any) -> Any:
    """The values in a type that COPY reads from Parquet. Types that it does not read become PostgreSQL's text."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name in _EXTENSIONS:
        stored = pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
        if kind.extension_name == "arrow.uuid":
            return texts(stored, bytes.hex)
        return stored
    if kinds.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if kinds.is_run_end_encoded(kind):
        return _plain(pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], kind.value_type))
    if kinds.is_large_string(kind) or kind == pa.string_view() or kinds.is_null(kind):
        return column.cast(pa.string())
    if kind == pa.binary_view():
        return column.cast(pa.binary())
    if kinds.is_float16(kind):
        return column.cast(pa.float32())
    if kind == pa.time64("ns"):  # as Polars has all times
        return pc.cast(column, pa.time64("us"), safe=False)
    if kinds.is_duration(kind) or kinds.is_interval(kind):
        return texts(column, interval_text)
    if kinds.is_decimal(kind) and (kinds.is_decimal256(kind) or kind.scale < 0):
        return texts(column, decimal_text)
    if _is_list(kind) and (_is_list(kind.value_type) or kinds.is_fixed_size_list(kind) or _is_view(kind)):
        return pa.array([dumped(v)[1] for v in column.to_pylist()], pa.string())
    return column


_EXTENSIONS = {"arrow.uuid": oids.UUID, "arrow.json": oids.JSON}


def _is_list(kind: Any) -> bool:
    return kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind) or _is_view(kind)


def _is_view(kind: Any) -> bool:
    return bool(kinds.is_list_view(kind) or kinds.is_large_list_view(kind))


def _schema_of(folder: str) -> pa.Schema:
    """The columns of the Parquet files in a folder."""

    path = parquet_paths(folder)[0]
    with storage.reading(path), storage.open_input(path) as file:
        return pq.read_schema(file)


# --- types -----------------------------------------------------------------------------------------------------------


def columns_of(schema: pa.Schema) -> str:
    """The columns of CREATE TABLE for data of this schema."""
    return ", ".join(f"{quote_identifier(field.name)} {sql_type(field.name, field.type)}" for field in schema)


def sql_type(name: str, kind: Any) -> str:
    if _is_list(kind):
        return sql_type(name, kind.value_type).removesuffix("[]") + "[]"
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return sql_type(name, kind.value_type)
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name in _EXTENSIONS:
        return format_type(_EXTENSIONS[kind.extension_name])
    if kinds.is_duration(kind) or kinds.is_interval(kind):
        return format_type(oids.INTERVAL)
    if kinds.is_null(kind) or kind == pa.string_view():
        return format_type(oids.TEXT)
    if kind == pa.binary_view():
        return format_type(oids.BYTEA)
    if kinds.is_decimal(kind):
        if kind.scale < 0:
            return format_type(oids.NUMERIC)
        return f"numeric({kind.precision},{kind.scale})"
    if kinds.is_timestamp(kind):
        return format_type(oids.TIMESTAMP if kind.tz is None else oids.TIMESTAMPTZ)
    for test, typoid in (
        (kinds.is_boolean, oids.BOOL), (kinds.is_int8, oids.INT2), (kinds.is_uint8, oids.INT2),
        (kinds.is_int16, oids.INT2), (kinds.is_uint16, oids.INT4), (kinds.is_int32, oids.INT4),
        (kinds.is_uint32, oids.INT8), (kinds.is_int64, oids.INT8), (kinds.is_float16, oids.FLOAT4),
        (kinds.is_float32, oids.FLOAT4), (kinds.is_float64, oids.FLOAT8), (kinds.is_string, oids.TEXT),
        (kinds.is_large_string, oids.TEXT), (kinds.is_binary, oids.BYTEA), (kinds.is_large_binary, oids.BYTEA),
        (kinds.is_fixed_size_binary, oids.BYTEA), (kinds.is_date, oids.DATE), (kinds.is_time, oids.TIME),
    ):  # fmt: skip
        if test(kind):
            return format_type(typoid)
    if kinds.is_uint64(kind):
        return "numeric(20)"
    raise ProgrammingError(f'column "{name}" is of type {kind}, which has no type in PostgreSQL; cast it first')
