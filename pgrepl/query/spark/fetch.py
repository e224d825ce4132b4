"""Rows out of Spark: Arrow batches become tuples of Python values.

A result that is known to be small, or that the caller keeps whole, comes in one piece. Any other comes through files
(lake.spark_result), so that 10 million rows can go to a client's file and are never in memory together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgrepl.expr.tree import Column

TOO_LARGE = "the result is too large to be fetched"
Row = tuple[Any, ...]


def batches(frame: DataFrame, columns: Sequence[Column], data_path: str, *, whole: bool = False) -> Iterator[list[Row]]:
    """The rows of a frame whose columns c1 … cn have the Spark forms of these types."""
    readers = [_reader(column) for column in columns]
    for batch in _record_batches(frame, data_path, whole):
        if batch.num_rows:
            yield _rows(batch, readers)


def _record_batches(frame: DataFrame, data_path: str, whole: bool) -> Iterator[pa.RecordBatch]:
    from pgrepl.lake.spark_result import fetched

    pieces = _in_one_piece(frame) if whole else None
    return fetched(frame, data_path) if pieces is None else iter(pieces)


def _in_one_piece(frame: DataFrame) -> list[pa.RecordBatch] | None:
    """The whole result; None: it is larger than spark.driver.maxResultSize."""
    from pgrepl.lake.spark import pg_errors

    try:
        with pg_errors():
            found: list[pa.RecordBatch] = frame.toArrow().to_batches()
            return found
    except PgError as error:
        if error.message != TOO_LARGE:
            raise
        return None


def _reader(column: Column) -> Callable[[Any], list[Any]]:
    from pgrepl.types.lake_forms import form

    read = form(column.type, column.typmod).from_array
    return lambda array: _places(array) if _is_place(array) else read(array)


def _is_place(array: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_struct(array.type) and [field.name for field in array.type] == ["file", "pos", "row"]


def _places(array: Any) -> list[Any]:
    from pgrepl.lake.ctid import RowPlace

    return [None if place is None else RowPlace(**place) for place in array.to_pylist()]


def _rows(batch: pa.RecordBatch, readers: Sequence[Callable[[Any], list[Any]]]) -> list[Row]:
    if not readers:
        return [()] * batch.num_rows
    return list(zip(*[read(batch.column(n)) for n, read in enumerate(readers)], strict=True))
