"""A large table on its way here: COPY … (FORMAT binary or csv) by several readers, each a range of the table's pages,
all in the snapshot of the slot.

Where the table here asks nothing of its rows that the publisher has not made sure of, they go straight into files of
the lake: no second pass, no JVM. Unique keys are sure where the same columns are unique at the publisher and nothing
was here before. Otherwise Spark gets the rows as text, converts and checks them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pgrepl.catalog.relation import Relation
from pgrepl.engine import BYTES_IN_ROW, Declined
from pgrepl.errors import PgError
from pgrepl.lake import storage
from pgrepl.lake.files import estimate, last_snapshot
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.replication.libpq.endpoints import ConnectionFailure
from pgrepl.replication.publisher.postgres import published
from pgrepl.replication.publisher.postgres.copy_binary import BinaryReader, expression, is_binary
from pgrepl.replication.publisher.postgres.copy_csv import CopiedColumn, CsvReader
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.published import PublishedRows
from pgrepl.replication.publisher.postgres.tables import selection
from pgrepl.replication.publisher.protocol import CountRows, PublisherError
from pgrepl.replication.wire.pgoutput_columns import PADDING
from pgrepl.replication.wire.text import reads_as_written
from pgrepl.rows.checks_table import table_rules
from pgrepl.rows.unique import unique_indexes
from pgrepl.types.oids import FIRST_USER_OID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.lake.data_file import NewFile
    from pgrepl.rows.staged import StagedRows

T = TypeVar("T")
Chunk = tuple[bytes, Any]  # with the places where rows begin, or None
Reader = CsvReader | BinaryReader
HEADER = 19  # bytes of the binary format before the first row
_END = 2  # bytes of the mark that ends it
_BINARY_CHUNK = 6 << 20  # bytes that are decoded together
_CHUNK = 16 << 20  # bytes of CSV that are read together
_RANGE = 32 << 20  # bytes of a table that are worth a reader
_PAGE = 8192


class ServerRows:
    """The rows of one table in the snapshot that `link` is in."""

    def __init__(self, link: Link, rows: PublishedRows, schema: str, name: str, data_path: str) -> None:
        self._link = link
        self._rows = rows
        self._schema, self._name = schema, name
        self._query = selection(link, rows, schema, name)
        self.size = published.size(link, rows)
        self._data_path = data_path
        self._kept = ExitStack()  # folders that Spark reads from

    @property
    def estimate(self) -> int:
        return self.size // BYTES_IN_ROW

    @property
    def names(self) -> list[str]:
        return [column.name for column in self._rows.columns]

    def close(self) -> None:
        self._kept.close()

    # --- straight into the lake ---------------------------------------------------------------------------------------

    def stage(self, session: Session, table: Relation, count_rows: CountRows) -> StagedRows | None:
        """The rows as files of the lake. None: somebody has to look at them."""
        from pgrepl.rows.staged import StagedRows

        columns = self._columns(session, table)
        if columns is None:
            return None
        staged = StagedRows(session, table, last_snapshot(session))
        binary = is_binary(columns)
        reader: Reader = (BinaryReader if binary else CsvReader)(self.names, columns)
        needed = [number for number, column in enumerate(columns) if column.local.notnull]
        made: list[NewFile] = []
        try:
            for file in self._by_ranges(
                lambda chunks: _write(staged.table, reader, needed, chunks, made, count_rows), binary
            ):
                staged.add_files([file] if file is not None else [])
        except BaseException as problem:
            for file in made:
                storage.remove(staged.table.location + file.name)
            if isinstance(problem, (Declined, PgError)):
                return None
            raise
        return staged

    def _columns(self, session: Session, table: Relation) -> list[CopiedColumn] | None:
        """How the table's columns are filled, if nothing has to be asked of the rows but what Arrow can tell."""
        lake = lake_table(session, table.oid) if table.kind == "r" else None
        if lake is None or table.is_partition or not self.names:
            return None
        rules = table_rules(session, table)
        sent = {column.name: column for column in self._rows.columns}
        local = {column.name: column for column in table.columns}
        if rules.checks or rules.generated or not set(sent) <= set(local):
            return None
        if any(c.type >= FIRST_USER_OID or (c.name not in sent and c.has_default) for c in table.columns):
            return None
        columns = [CopiedColumn(sent.get(column.name), local[column.name], column.form) for column in lake.columns]
        if not reads_as_written(session) and not all(column.same for column in columns):
            return None
        return columns if self._keys_are_sure(session, table, lake, columns) else None

    def _keys_are_sure(
        self, session: Session, table: Relation, lake: LakeTable, columns: Sequence[CopiedColumn]
    ) -> bool:
        """Is every key unique there by the same columns, read by Arrow, and is there nothing here yet?"""
        wanted = [info for info in unique_indexes(session, table) if info.immediate]
        if not wanted:
            return True
        if estimate(session, lake) or any(info.exprs or info.predicate is not None for info in wanted):
            return False
        names = {column.local.num: column.local.name for column in columns if column.by_arrow}
        unique = published.unique_keys(self._link, self._rows.relid)
        for info in wanted:
            key = frozenset(names.get(number, "") for number in info.columns[: info.key_count])
            if not any(there <= key and (nulls or not info.nulls_not_distinct) for there, nulls in unique):
                return False
        return True

    # --- for Spark ----------------------------------------------------------------------------------------------------

    def frame(self) -> DataFrame:
        """s0 … sn, as text."""
        from pyspark.sql.types import StringType, StructField, StructType

        from pgrepl.lake import spark
        from pgrepl.lake.scan import spark_path
        from pgrepl.lake.spark_result import result_folder

        folder = self._kept.enter_context(result_folder(self._data_path))
        reader = CsvReader(self.names, [])
        paths = self._by_ranges(lambda chunks: _write_texts(folder + storage.new_name(), reader, chunks), False)
        schema = StructType([StructField(f"s{number}", StringType()) for number in range(len(self.names))])
        return spark.session().read.schema(schema).parquet(*[spark_path(path) for path in paths])

    # --- reading ------------------------------------------------------------------------------------------------------

    def _by_ranges(self, take: Callable[[Iterator[Chunk]], T], binary: bool) -> list[T]:
        """What `take` makes of the chunks of each range; the first range is read here, the others beside."""
        stop = Event()
        with ExitStack() as opened:
            links = [self._link, *self._more_links(opened)]
            queries = self._ranges(len(links), self._binary_query() if binary else self._query)

            def work(number: int) -> T:
                try:
                    return take(_chunks(links[number], queries[number], stop, binary))
                except BaseException:
                    stop.set()
                    raise

            with ThreadPoolExecutor(max(1, len(links) - 1), "pgrepl-copy") as pool:
                try:
                    others: list[Future[T]] = [pool.submit(work, number) for number in range(1, len(queries))]
                    first = work(0)
                    return [first, *(future.result() for future in others)]
                except BaseException:  # an interrupt, too, while the others are waited for
                    stop.set()
                    raise

    def _more_links(self, opened: ExitStack) -> list[Link]:
        """Readers beside the first, in its snapshot: as many as the table is worth and the server lets in."""
        wanted = min(os.cpu_count() or 1, 8, self.size // _RANGE) - 1 if self._rows.kind == "r" else 0
        links: list[Link] = []
        snapshot = self._link.value("SELECT pg_catalog.pg_export_snapshot()") if wanted > 0 else ""
        with suppress(ConnectionFailure, PublisherError):
            for _ in range(wanted):
                link = self._link.another()
                opened.callback(link.close)
                link.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                link.rows(f"SET TRANSACTION SNAPSHOT {link.literal(snapshot)}")
                links.append(link)
        return links

    def _binary_query(self) -> str:
        expressions = [expression(c.type, self._link.identifier(c.name)) for c in self._rows.columns]
        return selection(self._link, self._rows, self._schema, self._name, expressions)

    def _ranges(self, count: int, query: str) -> list[str]:
        if count == 1:
            return [query]
        pages = self.size // _PAGE
        bounds = [pages * number // count for number in range(count)]
        joined = "AND" if self._rows.condition is not None else "WHERE"
        conditions = [
            f"ctid >= '({low},0)'" + (f" AND ctid < '({bounds[n + 1]},0)'" if n + 1 < count else "")
            for n, low in enumerate(bounds)
        ]
        return [f"{query} {joined} {condition}" for condition in conditions]


def _chunks(link: Link, query: str, stop: Event, binary: bool) -> Iterator[Chunk]:
    """Whole rows; in the binary format with the places where they begin."""
    held: list[bytes] = []
    lengths: list[int] = []
    size, head = 0, HEADER
    for portion in link.copy_out(f"COPY ({query}) TO STDOUT (FORMAT {'binary' if binary else 'csv'})"):
        if stop.is_set():
            raise Declined("another part has failed")
        held.append(b"".join(portion))  # at once: so many small objects cost the collector more than the bytes
        size += len(held[-1])
        if binary:
            lengths += map(len, portion)
        if size >= (_BINARY_CHUNK if binary else _CHUNK):
            yield _chunk(held, lengths, head)
            held, lengths, size, head = [], [], 0, 0
    if held:
        yield _chunk(held, lengths, head)


def _chunk(held: Sequence[bytes], lengths: Sequence[int], head: int) -> Chunk:
    if not lengths:
        return b"".join(held), None
    sizes = np.array(lengths, np.int64)
    at = np.cumsum(sizes) - sizes
    at[0] += head
    sizes[0] -= head
    return b"".join(held) + bytes(PADDING), at[sizes > _END]


def _write(
    table: LakeTable,
    reader: Reader,
    needed: Sequence[int],
    chunks: Iterator[Chunk],
    made: list[NewFile],
    count_rows: CountRows,
) -> NewFile | None:
    """A data file, which `made` remembers; None: there are no rows."""
    from pgrepl.lake.file_writer import DataFileWriter, repeating

    writer: DataFileWriter | None = None
    try:
        for data, at in chunks:
            arrays, count = reader.arrays(data, at)
            if not count:
                continue
            if any(arrays[number].null_count for number in needed):
                raise Declined("NULL in a column that has none")
            writer = writer or DataFileWriter(table, repeating=repeating(table, arrays))
            writer.write_arrays(arrays, None, count)
            count_rows(count, len(data))
    except BaseException:
        if writer is not None:
            writer.discard()
        raise
    if writer is None:
        return None
    file = writer.close()
    made.append(file)
    return file


def _write_texts(path: str, reader: CsvReader, chunks: Iterator[Chunk]) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in reader.names])
    with (
        storage.writing(path),
        storage.open_output(path) as output,
        pq.ParquetWriter(output, schema, store_schema=False, compression="snappy") as writer,
    ):
        for data, _ in chunks:
            writer.write_table(reader.texts(data).cast(schema))
    return path
