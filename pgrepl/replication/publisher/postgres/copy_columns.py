"""The initial copy of a large table: COPY … (FORMAT binary or csv) by several readers, each for a range of the table's
pages, all in the snapshot of the slot.

The rows go straight into files of the lake, if their rules can be checked by columns: no second pass, no JVM. A unique
key holds if its columns are unique at the publisher, too, and the target is empty. Otherwise Spark gets the rows as
text, converts and checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.engine import run_kernels, spark
from pgrepl.engine.choice import BYTES_IN_ROW, declined
from pgrepl.engine.copy_rows import KernelColumn, RowMaker
from pgrepl.engine.result_spark import result_folder
from pgrepl.engine.run_kernels import counting_writes
from pgrepl.engine.scan_spark import spark_path
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.lazy import pa, pq
from pgrepl.ground.processes import Workers, WorkersLost
from pgrepl.ground.threads import ThreadPool
from pgrepl.lake import storage
from pgrepl.lake.read.files import estimate, last_snapshot
from pgrepl.lake.table import LakeColumn, LakeTable, lake_table
from pgrepl.replication.conninfo import ConnectionFailure
from pgrepl.replication.publisher.postgres import published
from pgrepl.replication.publisher.postgres.copy_ranges import (
    Chunk,
    CopiedColumn,
    CsvReader,
    PagesPart,
    chunks,
    copy_in_process,
    copy_pages,
    enter_snapshot,
    expression,
    files_of,
    is_binary,
    reader_of,
    write,
)
from pgrepl.replication.publisher.postgres.copy_workers import are_worth_it, readers
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.published import PublishedRows, selection
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.publisher.tables import BeginCount, CountRows
from pgrepl.replication.wire.values import checking_style, reads_as_written
from pgrepl.rows.checks_columns import check_program, columns_of
from pgrepl.rows.checks_table import table_rules
from pgrepl.rows.staged import StagedRows
from pgrepl.rows.unique import all_unique_indexes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.arrow.program import Program
    from pgrepl.lake.read.data_file import NewFile

    BeginWorkers = Callable[[Callable[[], int]], Workers | None]  # ServerConnection.workers
    MakeParts = Callable[[int, str], list[PagesPart]]  # so many at least, for this folder
    Rules = tuple[tuple[KernelColumn, ...], Program | None]  # how columns are made, and what rows must pass

T = TypeVar("T")
_WORK = "initial copy"
_CONNECTIONS_LEFT = """SELECT pg_catalog.current_setting('max_connections')::pg_catalog.int4
    - pg_catalog.current_setting('superuser_reserved_connections')::pg_catalog.int4
    - (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity)"""
RANGE = 32 << 20  # bytes of a table that are worth a reader
_PAGE = 8192


class ServerRows:
    """The rows of one table in the snapshot that `link` is in."""

    def __init__(
        self,
        link: Link,
        rows: PublishedRows,
        schema: str,
        name: str,
        data_path: str,
        begin_workers: BeginWorkers,
        conditions: Sequence[str] | None = None,
    ) -> None:
        """`conditions`: those of ranges of the key, of which each is read by itself."""
        self._link = link
        self._conditions = conditions
        self._rows = rows
        self._schema, self._name = schema, name
        self._query = selection(link, rows, schema, name)
        self.size = published.size(link, rows)  # of the whole table
        self._data_path = data_path
        self._begin_workers = begin_workers
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

    def stage(
        self, session: Session, table: Relation, begins: BeginCount, check: Callable[[], None], *, on_spark: bool
    ) -> StagedRows:
        """The rows as files of the lake. Declined: the rows have to be converted or checked."""
        columns = self._columns(session, table)
        rules = self._rules(session, table)
        staged = StagedRows(session, table, last_snapshot(session))
        binary = is_binary(columns)
        parts = partial(self._parts, staged.table, columns, rules)
        if on_spark:
            try:
                staged.add_files(self._by_tasks(session, staged.table, parts, begins()))
                return staged
            except PgError as problem:  # executors have no way to the server, or no psycopg
                declined(session, _WORK, problem.message, f'table "{table.name}" is not read by executors')
        workers = self._workers(session)
        if workers is not None:
            try:
                staged.add_files(self._by_processes(workers, staged.table, parts, begins(), check))
                return staged
            except WorkersLost as problem:  # the threads meet the error, too, if it is one of the rows or of the server
                declined(session, _WORK, str(problem), f'rows of table "{table.name}" are read by threads')
        reader = reader_of(self.names, columns, binary=binary)
        maker = RowMaker(staged.table, staged.table, *rules)
        count_rows = begins()
        files: list[NewFile] = []
        try:
            for file in self.by_ranges(
                lambda chunks: write(staged.table, reader, maker, chunks, files, count_rows), binary
            ):
                staged.add_files([file] if file is not None else [])
        except BaseException as problem:
            for file in files:
                storage.remove(staged.table.location + file.name)
            if isinstance(problem, PgError):
                raise Declined(problem.message) from problem
            raise
        return staged

    def _columns(self, session: Session, table: Relation) -> list[CopiedColumn]:
        """The table's columns and their sources. Declined if the rows need checks that Arrow cannot do."""
        if table.kind != "r":
            raise Declined("a partitioned table")
        if not self.names:
            raise Declined("rows without columns")
        lake = lake_table(session, table.oid)
        sent = {column.name: column for column in self._rows.columns}
        local = {column.name: column for column in table.columns}
        if not set(sent) <= set(local):
            raise Declined("a column that the table lacks")
        style = checking_style(session)
        columns = [
            CopiedColumn(sent.get(column.name), local[column.name], column.form, style) for column in lake.columns
        ]
        if not reads_as_written(session) and not all(column.same for column in columns):
            raise Declined("the settings by which columns are read")
        if not self._keys_are_sure(session, table, lake, columns):
            raise Declined("a unique key")
        return columns

    def _rules(self, session: Session, table: Relation) -> Rules:
        def sent(column: LakeColumn, attribute: Attribute) -> KernelColumn | None:
            is_sent = attribute.name in self.names
            return KernelColumn(column.attnum, column.attnum, not_null=attribute.notnull) if is_sent else None

        rules = table_rules(session, table)
        columns = columns_of(session, lake_table(session, table.oid).columns, rules, sent)
        return columns, check_program(session, rules, bound=table.is_partition)

    def _keys_are_sure(
        self, session: Session, table: Relation, lake: LakeTable, columns: Sequence[CopiedColumn]
    ) -> bool:
        """Are the columns of every unique key unique at the publisher, equal here as there, and is the table empty?"""
        wanted = [info for info in all_unique_indexes(session, table) if info.immediate]
        if not wanted:
            return True
        if (self._conditions is None and estimate(session, lake)) or any(
            info.exprs or info.predicate is not None or info.is_temporal for info in wanted
        ):
            return False
        names = {c.local.num: c.local.name for c in columns if c.sent is not None and (c.by_arrow or c.same)}
        unique = published.unique_keys(self._link, self._rows.relid)
        for info in wanted:
            key = frozenset(names.get(number, "") for number in info.columns[: info.key_count])
            if not any(there <= key and (nulls or not info.nulls_not_distinct) for there, nulls in unique):
                return False
        return True

    def _parts(
        self, table: LakeTable, columns: Sequence[CopiedColumn], rules: Rules, count: int, folder: str
    ) -> list[PagesPart]:
        """Parts for other processes, each of which has a connection of its own in the snapshot."""
        binary = is_binary(columns)
        snapshot = self._link.value("SELECT pg_catalog.pg_export_snapshot()")
        options = tuple(self._link.same_place().items())
        filled = tuple([(column.sent, column.local) for column in columns])
        return [
            PagesPart(options, snapshot, query, binary, tuple(self.names), filled, *rules, table, folder)
            for query in self._ranges(count, self._binary_query() if binary else self._query)
        ]

    def _by_tasks(self, session: Session, table: LakeTable, parts: MakeParts, count_rows: CountRows) -> list[NewFile]:
        """The files, written by Spark's executors."""
        count = min(run_kernels.parallelism(on_spark=True), self._connections_left()) if self._rows.kind == "r" else 1
        with run_kernels.job_folder(table) as folder, counting_writes(session, count_rows):
            answers = run_kernels.run_parts(
                session, parts(count, folder), copy_pages, table, folder, on_spark=True, check=lambda: None
            )
            return run_kernels.take(table, folder, files_of(answers))

    def _by_processes(
        self, workers: Workers, table: LakeTable, parts: MakeParts, count_rows: CountRows, check: Callable[[], None]
    ) -> list[NewFile]:
        """The files, written by processes of this machine."""
        with run_kernels.job_folder(table) as folder:
            answers = workers.play(copy_in_process, parts(len(workers), folder), count_rows, check)
            return run_kernels.take(table, folder, files_of(answers))

    def _workers(self, session: Session) -> Workers | None:
        """Processes for a table that is worth them; None: threads read it."""
        if self._rows.kind != "r" and self._conditions is None:
            return None
        return self._begin_workers(self._connections_left) if are_worth_it(session, self.size) else None

    def _connections_left(self) -> int:
        """Half of the connections that the server has free."""
        return max(1, int(self._link.value(_CONNECTIONS_LEFT)) // 2)

    # --- for Spark ----------------------------------------------------------------------------------------------------

    def frame(self) -> DataFrame:
        """The rows as columns s0 … sn of text."""
        from pyspark.sql.types import StringType, StructField, StructType

        folder = self._kept.enter_context(result_folder(self._data_path))
        reader = CsvReader(self.names, [])
        paths = self.by_ranges(lambda chunks: _write_texts(folder + storage.new_name(), reader, chunks), False)
        schema = StructType([StructField(f"s{number}", StringType()) for number in range(len(self.names))])
        return spark.session().read.schema(schema).parquet(*[spark_path(path) for path in paths])

    # --- reading ------------------------------------------------------------------------------------------------------

    def by_ranges(self, take: Callable[[Iterator[Chunk]], T], binary: bool) -> list[T]:
        """The answers of `take` for the chunks of each range. This thread reads the first range, others the rest."""
        stop = Event()
        with ExitStack() as opened:
            links = [self._link, *self._more_links(opened)]
            queries = self._ranges(len(links), self._binary_query() if binary else self._query)

            def work(number: int) -> T:
                try:
                    mine = queries[number :: len(links)]
                    return take(chain.from_iterable(chunks(links[number], query, stop, binary) for query in mine))
                except BaseException:
                    stop.set()
                    raise

            with ThreadPool(max(1, len(links) - 1), "pgrepl-copy") as pool:
                try:
                    last = min(len(links), len(queries))
                    others: list[Future[T]] = [pool.submit(work, number) for number in range(1, last)]
                    first = work(0)
                    return [first, *(future.result() for future in others)]
                except BaseException:  # an interrupt, too, while the others are waited for
                    stop.set()
                    raise

    def _more_links(self, opened: ExitStack) -> list[Link]:
        """More connections in the snapshot of the first: as many as the table's size is worth and the server allows."""
        parts = len(self._conditions) if self._conditions is not None else self.size // RANGE
        wanted = min(readers(), parts) - 1 if self._rows.kind == "r" or self._conditions is not None else 0
        links: list[Link] = []
        snapshot = self._link.value("SELECT pg_catalog.pg_export_snapshot()") if wanted > 0 else ""
        with suppress(ConnectionFailure, PublisherError):
            for _ in range(wanted):
                link = self._link.another()
                opened.callback(link.close)
                enter_snapshot(link, snapshot)
                links.append(link)
        return links

    def _binary_query(self) -> str:
        expressions = [expression(c.type, self._link.identifier(c.name)) for c in self._rows.columns]
        return selection(self._link, self._rows, self._schema, self._name, expressions)

    def _ranges(self, count: int, query: str) -> list[str]:
        if self._conditions is not None:
            return [restricted(query, self._rows, condition) for condition in self._conditions]
        if count == 1:
            return [query]
        pages = self.size // _PAGE
        bounds = [pages * number // count for number in range(count)]
        conditions = [
            f"ctid >= '({low},0)'" + (f" AND ctid < '({bounds[n + 1]},0)'" if n + 1 < count else "")
            for n, low in enumerate(bounds)
        ]
        return [restricted(query, self._rows, condition) for condition in conditions]


def restricted(query: str, rows: PublishedRows, condition: str) -> str:
    """A selection of published rows with one more condition."""
    return f"{query} {'AND' if rows.condition is not None else 'WHERE'} {condition}"


def _write_texts(path: str, reader: CsvReader, chunks: Iterator[Chunk]) -> str:
    schema = pa.schema([(name, pa.string()) for name in reader.names])
    with (
        storage.writing(path),
        storage.open_output(path) as output,
        pq.ParquetWriter(output, schema, store_schema=False, compression="snappy") as writer,
    ):
        for data, _ in chunks:
            writer.write_table(reader.texts(data).cast(schema))
    return path
