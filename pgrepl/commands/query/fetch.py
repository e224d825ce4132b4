"""Rows out of Spark: Arrow batches become tuples of Python values.

A result that is known to be small, or that somebody wants to have whole anyway, comes in one piece. Any other comes
partition by partition, each batch as one binary value (an Arrow stream), so that this process never holds more than a
few of them: 10 million rows can go to a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgrepl.expr.tree import Column

TOO_LARGE = "the result is too large to be fetched"
Row = tuple[Any, ...]


def batches(frame: DataFrame, columns: Sequence[Column], *, whole: bool = False) -> Iterator[list[Row]]:
    """The rows of a frame whose columns c1 … cn have the Spark forms of these types."""
    readers = [_reader(column) for column in columns]
    for batch in record_batches(frame, whole=whole):
        if batch.num_rows:
            yield _rows(batch, readers)


def record_batches(frame: DataFrame, *, whole: bool = False) -> Iterator[pa.RecordBatch]:
    """The same as Spark gives it. Errors are PostgreSQL's."""
    from pgrepl.lake.spark import pg_errors

    with pg_errors():
        pieces = _in_one_piece(frame) if whole else None
        yield from _one_by_one(frame) if pieces is None else pieces


def _in_one_piece(frame: DataFrame) -> list[pa.RecordBatch] | None:
    """None: it is larger than Spark lets a result in one piece be."""
    from pgrepl.lake.spark import pg_error

    try:
        found: list[pa.RecordBatch] = frame.toArrow().to_batches()
        return found
    except Exception as problem:
        error = pg_error(problem)
        if error is None or error.message != TOO_LARGE:
            raise
        return None


def _one_by_one(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        # defined in here so that it travels by value: executors need not have this package
        import pyarrow

        for batch in batches:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pyarrow.RecordBatch.from_pydict({"batch": [sink.getvalue().to_pybytes()]})

    for row in frame.mapInArrow(packed, "batch binary").toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(row[0]) as stream:
            yield from stream


def _reader(column: Column) -> Callable[[Any], list[Any]]:
    from pgrepl.types.lake_forms import form

    read = form(column.type, column.typmod).from_array
    return lambda array: _places(array) if _is_place(array) else read(array)


def _is_place(array: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_struct(array.type) and [field.name for field in array.type] == ["file", "pos", "row"]


def _places(array: Any) -> list[Any]:
    from pgrepl.lake.place import Place

    return [None if place is None else Place(**place) for place in array.to_pylist()]


def _rows(batch: pa.RecordBatch, readers: Sequence[Callable[[Any], list[Any]]]) -> list[Row]:
    if not readers:
        return [()] * batch.num_rows
    return list(zip(*[read(batch.column(n)) for n, read in enumerate(readers)], strict=True))
