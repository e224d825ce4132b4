"""Temporary Parquet files with the rows that this process has read, for Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgrepl.lake import storage

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_IN_FILE = 2_000_000


def write_files(tables: Iterator[pa.Table], folder: str) -> list[str]:
    """Write the tables, at least one, to files; returns their paths."""
    import pyarrow.parquet as pq

    paths: list[str] = []
    waiting = next(tables, None)
    while waiting is not None:
        path = f"{folder}{len(paths)}.parquet"
        paths.append(path)
        written = 0
        with (
            storage.writing(path),
            storage.open_output(path) as output,
            pq.ParquetWriter(output, waiting.schema, store_schema=False) as writer,
        ):
            while waiting is not None and written < _ROWS_IN_FILE:
                writer.write_table(waiting)
                written += waiting.num_rows
                waiting = next(tables, None)
    return paths
