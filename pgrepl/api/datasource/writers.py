"""Writes for Spark: tasks write files from Arrow batches, the driver commits them (append.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pgrepl.api.datasource import append
from pgrepl.api.datasource.append import Written
from pgrepl.api.datasource.options import SourceOptions
from pgrepl.api.datasource.row_batches import batches


class Message(WriterCommitMessage):
    """The commit message of a task, with the files that it has written; None: it had no rows."""

    def __init__(self, file: Written | None) -> None:
        self.file = file


class TableWriter(DataSourceArrowWriter):
    """`df.write.format("pgrepl")`."""

    def __init__(self, options: SourceOptions, schema: StructType, overwrite: bool) -> None:
        self._options = options
        self._columns = schema.fieldNames()
        self._overwrite = overwrite
        self._progress = append.progress_of_job(options)
        self._folder = append.prepare(options, self._columns)

    def write(self, iterator: Iterator[Any]) -> Message:
        return Message(append.write_file(self._folder, iterator))

    def commit(self, messages: Sequence[Any]) -> None:
        append.commit(self._options, self._columns, _files(messages), self._progress, overwrite=self._overwrite)

    def abort(self, messages: Sequence[Any]) -> None:
        append.discard(_files(messages))


def _files(messages: Sequence[Message | None]) -> list[Written]:
    return [message.file for message in messages if message is not None and message.file is not None]


class _Stream(DataSourceStreamWriter):
    def __init__(self, options: SourceOptions, schema: StructType, overwrite: bool) -> None:
        self._options = options
        self._schema = schema
        self._overwrite = overwrite
        self._folder = append.prepare(options, schema.fieldNames())

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        progress = append.progress_of_batch(self._options, batchId)
        append.commit(self._options, self._schema.fieldNames(), _files(messages), progress, overwrite=self._overwrite)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        append.discard(_files(messages))


if hasattr(datasource, "DataSourceStreamArrowWriter"):

    class StreamWriter(_Stream, datasource.DataSourceStreamArrowWriter):
        """`df.writeStream.format("pgrepl")`."""

        def write(self, iterator: Iterator[Any]) -> Message:
            return Message(append.write_file(self._folder, iterator))

else:  # Spark 4.0 gives a stream's rows one by one

    class StreamWriter(_Stream):  # type: ignore[no-redef]
        """`df.writeStream.format("pgrepl")`."""

        def write(self, iterator: Iterator[Any]) -> Message:
            return Message(append.write_file(self._folder, batches(iterator, self._schema)))
