"""`Connection.write()`: an Arrow table or a DataFrame goes into a table by one COPY of Parquet."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.api.exceptions import ProgrammingError, dbapi_errors
from pgrepl.types import oids
from pgrepl.types.names import format_type

if TYPE_CHECKING:
    import pyarrow as pa

    from pgrepl.api.cursor import Cursor
    from pgrepl.catalog.session import Session


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
        names = ", ".join(quote_name(name) for name in schema.names)
        session = connection.session
        session.client = _ParquetClient(path)
        try:
            cursor.execute(f"COPY {target} ({names}) FROM STDIN (FORMAT parquet)" if os.path.isfile(path) else
                           f"COPY {target} ({names}) FROM {_literal(path)} (FORMAT parquet)")  # fmt: skip
        finally:
            session.client = None
        return cursor.rowcount


def quoted(table: str) -> str:
    """The name as SQL: `orders` or `sales.orders`, taken letter by letter; one that is quoted already stays."""
    if '"' in table:
        return table
    return ".".join(quote_name(part) for part in table.split("."))


def quote_name(name: str) -> str:
    from pgrepl.sql.quote import quote_identifier

    return quote_identifier(name)


def _literal(text: str) -> str:
    from pgrepl.sql.quote import quote_literal

    return quote_literal(text)


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
    if _is_of_spark(data):
        from pgrepl.lake import spark_result
        from pgrepl.lake.scan import spark_path

        with dbapi_errors(), spark_result.result_folder(connection.session.catalog.data_path) as folder:
            path = folder.rstrip("/") + "/rows"
            data.write.parquet(spark_path(path))
            yield path, _schema_of(path)
        return
    import pyarrow.parquet as pq

    table = as_arrow(data)
    with tempfile.TemporaryDirectory(prefix="pgrepl-") as folder:
        path = os.path.join(folder, "rows.parquet")
        pq.write_table(table, path)
        yield path, table.schema


def as_arrow(data: Any) -> pa.Table:
    """An Arrow table of a table, of record batches, or of another library's DataFrame."""
    import pyarrow as pa

    if isinstance(data, pa.Table):
        found = data
    elif isinstance(data, pa.RecordBatch):
        found = pa.Table.from_batches([data])
    elif isinstance(data, pa.RecordBatchReader):
        found = data.read_all()
    elif type(data).__module__.split(".")[0] == "pandas":
        found = pa.Table.from_pandas(data, preserve_index=False)
    elif hasattr(data, "to_arrow"):  # Polars
        found = data.to_arrow()
    elif hasattr(data, "__arrow_c_stream__"):
        found = pa.RecordBatchReader.from_stream(data).read_all()
    else:
        raise ProgrammingError(
            f"cannot write a {type(data).__name__}: give an Arrow table, or a DataFrame of pandas, Polars or Spark"
        )
    return pa.table([_plain(column) for column in found.columns], names=found.column_names)


def _plain(column: Any) -> Any:
    """Dictionaries and views as plain arrays; nanoseconds that are whole microseconds as those."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return column.cast(pa.string())
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    return column


def _is_of_spark(data: Any) -> bool:
    return type(data).__module__.startswith("pyspark.sql.")


def _schema_of(folder: str) -> pa.Schema:
    """The columns of the Parquet files in a folder."""
    import pyarrow.parquet as pq

    from pgrepl.lake import storage
    from pgrepl.writing.copy.parquet_files import parquet_paths

    path = parquet_paths(folder)[0]
    with storage.reading(path), storage.open_input(path) as file:
        return pq.read_schema(file)


# --- types -----------------------------------------------------------------------------------------------------------


def columns_of(schema: pa.Schema) -> str:
    """The columns of CREATE TABLE for data of this schema."""
    return ", ".join(f"{quote_name(field.name)} {sql_type(field.name, field.type)}" for field in schema)


def sql_type(name: str, kind: Any) -> str:
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        return sql_type(name, kind.value_type) + "[]"
    if types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return format_type(oids.TIMESTAMP if kind.tz is None else oids.TIMESTAMPTZ)
    for test, typoid in (
        (types.is_boolean, oids.BOOL), (types.is_int8, oids.INT2), (types.is_uint8, oids.INT2),
        (types.is_int16, oids.INT2), (types.is_uint16, oids.INT4), (types.is_int32, oids.INT4),
        (types.is_uint32, oids.INT8), (types.is_int64, oids.INT8), (types.is_float16, oids.FLOAT4),
        (types.is_float32, oids.FLOAT4), (types.is_float64, oids.FLOAT8), (types.is_string, oids.TEXT),
        (types.is_large_string, oids.TEXT), (types.is_binary, oids.BYTEA), (types.is_large_binary, oids.BYTEA),
        (types.is_fixed_size_binary, oids.BYTEA), (types.is_date, oids.DATE), (types.is_time, oids.TIME),
    ):  # fmt: skip
        if test(kind):
            return format_type(typoid)
    if types.is_uint64(kind):
        return "numeric(20)"
    raise ProgrammingError(f'column "{name}" is of type {kind}, which has no type in PostgreSQL; cast it first')
