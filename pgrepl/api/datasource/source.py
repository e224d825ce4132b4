"""The class that Spark asks for readers and writers: batch reads, streams of changes, writes.

Offsets of a stream are LSNs: {"lsn": "0/1A"} means that all transactions that finish before 0/1A have been read. A
slot keeps what is to come, and advances when Spark has committed a batch, so that a batch asked for again is the
same.

Filters are pushed down only with the option `pushdown`: Spark 4.1 to 4.3 keep a plan with a pushed filter for the
DataFrame's next query (SPARK-58551).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructField, StructType

from pgrepl.api.datasource import append
from pgrepl.api.datasource import options as known
from pgrepl.api.datasource.append import Written, batches
from pgrepl.api.datasource.changes import EXTRA, OLD, change_parts, changes_source, copy_parts
from pgrepl.api.datasource.options import SourceOptions, conditions_of
from pgrepl.api.datasource.table_rows import Part, TableSource, parts_of, source_of
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.session.transaction import reading
from pgrepl.engine.spark_types import spark_type
from pgrepl.ground.errors import PgError
from pgrepl.replication.publisher import slots
from pgrepl.replication.publisher.protocol import slot_is_ahead
from pgrepl.types.oids import UNKNOWN
from pgrepl.types.plain import lsn_text, parse_lsn

if TYPE_CHECKING:
    from pgrepl.api.datasource.changes import ChangedRows, CopiedRows
    from pgrepl.api.datasource.options import ShownColumn
    from pgrepl.api.opened import OpenedSession
    from pgrepl.sql.nodes import Expr


class PartToRead(InputPartition):
    """A part of the rows, for one task."""

    def __init__(self, part: Part | CopiedRows | ChangedRows | _Nothing) -> None:
        super().__init__(None)
        self.part = part


def schema_of(options: SourceOptions) -> StructType:
    with options.session() as opened, reading(opened.session):
        if options.get("slot") is not None:
            source = changes_source(opened.session, options)
            return struct(source.columns, changes=source.keys)
        return struct(source_of(opened.session, options.get("table"), options.get("publication")).columns)


def struct(columns: Sequence[ShownColumn], *, changes: Sequence[ShownColumn] | None = None) -> StructType:
    """The columns, and those that say what change a row is: `changes` are the columns of the replica identity."""
    fields = [StructField(column.name, spark_type(column.spark)) for column in columns]
    if changes is not None:
        fields += [StructField(name, spark_type(kind)) for name, kind in EXTRA.items()]
        if changes:
            fields.append(StructField(OLD, struct(changes)))
    return StructType(fields)


class TableReader(DataSourceReader):
    """A read of a table, or of its published rows."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._pushed: list[Expr] = []

    def partitions(self) -> list[InputPartition]:
        options = self._options
        table, publication = options.get("table"), options.get("publication")
        with options.session() as opened:
            session = opened.session
            with reading(session):
                source = source_of(session, table, publication, options.get("where"), self._pushed)
                names = named(source, self._schema)
                parts = parts_of(session, source, names, options.number("partitions"))
        return [PartToRead(part) for part in parts] or [PartToRead(EMPTY)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, PartToRead)
        return iter(partition.part.batches())


class FilteringReader(TableReader):
    """A read that takes Spark's filters. Spark gives them before it asks for parts, and applies what is given back."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if not hasattr(DataSourceReader, "pushFilters"):
            raise PgError("0A000", "Spark pushes filters to data sources since 4.1", hint='Use the option "where".')
        super().__init__(options, schema)

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        options = self._options
        with options.session() as opened, reading(opened.session):
            source = source_of(opened.session, options.get("table"), options.get("publication"))
        conditions = conditions_of(filters, {column.name: column for column in source.columns})
        self._pushed = [condition for condition in conditions if condition is not None]
        return [filter for filter, condition in zip(filters, conditions, strict=True) if condition is None]


def named(source: TableSource, schema: StructType) -> list[str]:
    """The columns that a schema asks for, which may be fewer than the table has; an error for other types."""
    known = {field.name: field for field in struct(source.columns).fields}
    for field in schema.fields:
        known_field = known.get(field.name)
        if known_field is None:
            raise PgError("42703", f'column "{field.name}" of relation "{source.table.name}" does not exist')
        if known_field.dataType != field.dataType:
            raise PgError(
                "42804",
                f'column "{field.name}" is {known_field.dataType.simpleString()}, not {field.dataType.simpleString()}',
                hint="Read it as it is, and cast it in Spark.",
            )
    return [field.name for field in schema.fields]


class _Nothing:
    """The part of a read without rows: Spark would ask for one part that is None."""

    def batches(self) -> Iterator[Any]:
        return iter(())


EMPTY = _Nothing()


# --- stream reader ----------------------------------------------------------------------------------------------------


_START = 0


class ChangesReader(DataSourceStreamReader):
    """A stream of changes. Spark has one in a process that lasts as long as the query, and copies of it in tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        options.required("publication")
        self._slot = options.get("slot") or ""
        if not self._slot:
            raise PgError(
                "22023",
                'a stream needs the option "slot"',
                detail="A replication slot keeps the changes that the stream has yet to read.",
                hint='Add .option("slot", "name"); it is created if it does not exist.',
            )
        self._options = options
        self._schema = schema
        self._stack: ExitStack | None = None
        self._known: OpenedSession | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stack": None, "_known": None}

    @property
    def _opened(self) -> OpenedSession:
        if self._known is None:
            self._stack = ExitStack()
            self._known = self._stack.enter_context(self._options.session())
        return self._known

    # --- offsets ------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, str]:
        """The offset at which a stream without a checkpoint begins: a copy, or the slot's position. A copy loses
        nothing of a slot that is there already, as it has all rows of a later moment."""
        confirmed = self._confirmed()
        if confirmed is None:
            self._run("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", self._slot)
            confirmed = self._confirmed()
        assert confirmed is not None
        return _offset(_START if self._options.flag("copy_data", True) else confirmed)

    def latestOffset(self) -> dict[str, str]:
        session = self._opened.session
        with reading(session):
            return _offset(current_lsn(session))

    def _confirmed(self) -> int | None:
        """The slot's confirmed LSN, None if there is no slot; an error if it cannot be read from."""
        session = self._opened.session
        with reading(session):
            row = slots.slot_or_none(session, self._slot)
            if row is None:
                return None
            slots.check_decodable(session, row)
            return int(row.confirmed_flush_lsn or 0)

    # --- batches ------------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        first, last = parse_lsn(start["lsn"]), parse_lsn(end["lsn"])
        if first >= last:
            return []
        self._check_slot(first)
        session = self._opened.session
        with reading(session):
            source = changes_source(session, self._options)
            if struct(source.columns, changes=source.keys) != self._schema:
                raise PgError(
                    "55000",
                    f'the columns or the replica identity of table "{source.table.qualified_name}" have changed '
                    "since the stream began",
                    hint="Restart the stream with another checkpoint and another slot.",
                )
            parts: Sequence[Part | CopiedRows | ChangedRows]
            if first == _START:
                parts = copy_parts(session, source, last, self._options.number("partitions"))
            else:
                parts = change_parts(session, source, first, last)
        return [PartToRead(part) for part in parts]

    def _check_slot(self, start: int) -> None:
        """Raise if the slot no longer keeps the changes from `start` on."""
        session = self._opened.session
        with reading(session):
            row = slots.slot_or_none(session, self._slot)
            if row is None:
                raise PgError(
                    "42704",
                    f'replication slot "{self._slot}" does not exist',
                    detail="The stream's checkpoint needs it.",
                    hint="Begin anew with another checkpoint.",
                )
            slots.check_decodable(session, row)
            confirmed = int(row.confirmed_flush_lsn or 0)
            if start != _START:
                if confirmed > start:
                    raise slot_is_ahead(self._slot, confirmed, start)
                slots.check_start(session, start)
                slots.check_retained(session, row, start)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, PartToRead)
        return iter(partition.part.batches())

    def commit(self, end: dict[str, str]) -> None:
        """Spark has written all rows before this offset."""
        lsn = parse_lsn(end["lsn"])
        confirmed = self._confirmed()
        if confirmed is not None and confirmed < lsn:
            self._run("SELECT pg_replication_slot_advance($1, $2)", self._slot, lsn_text(lsn))

    def _run(self, statement: str, *values: str) -> None:
        for _ in self._opened.run(statement, [(UNKNOWN, value) for value in values]):
            pass

    def stop(self) -> None:
        if self._stack is not None:
            self._stack.close()
            self._stack = self._known = None


class RefusedReader(DataSourceStreamReader):
    """A stream that cannot be read as its options say: the error comes when it is asked for the first time."""

    def __init__(self, problem: PgError) -> None:
        self._problem = problem

    def initialOffset(self) -> dict[str, str]:
        raise self._problem

    def latestOffset(self) -> dict[str, str]:
        raise self._problem

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self._problem


def _offset(lsn: int) -> dict[str, str]:
    return {"lsn": lsn_text(lsn)}


# --- writers ----------------------------------------------------------------------------------------------------------


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


class PgreplDataSource(DataSource):
    """`format("pgrepl")`."""

    @classmethod
    def name(cls) -> str:
        return "pgrepl"

    @property
    def said(self) -> SourceOptions:
        return SourceOptions.of(dict(self.options))

    def schema(self) -> StructType:
        """The columns of the table's rows, or with a slot those of changes: Spark does not say which it is about to
        read, and only a stream has a slot."""

        return schema_of(self.said)

    def reader(self, schema: StructType) -> DataSourceReader:

        self.said.check(known.READING, "reading")
        return (FilteringReader if self.said.flag("pushdown", False) else TableReader)(self.said, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:

        try:
            self.said.check(known.STREAMING, "a stream")
            return ChangesReader(self.said, schema)
        except PgError as problem:  # pyspark would tell of an error of its own, that there is no reader to stop
            return RefusedReader(problem)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:

        self.said.check(known.WRITING, "writing")
        return TableWriter(self.said, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:

        self.said.check(known.STREAM_WRITING, "writing a stream")
        return StreamWriter(self.said, schema, overwrite)
