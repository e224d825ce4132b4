"""The rows that COPY FROM reads, whatever the file, as they come into the table: with defaults, satisfying WHERE, and
where each stands.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any

from pgrepl.engine import spark_options
from pgrepl.engine.run_kernels import ForeignSource
from pgrepl.engine.scan_spark import storage_array
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.lazy import pa, pq
from pgrepl.lake.read.files import Extent
from pgrepl.lake.read.part import PORTION, ForeignRows
from pgrepl.lake.table import lake_table
from pgrepl.rows.checks_table import own
from pgrepl.types.binary import check_function
from pgrepl.types.builtin import base_type
from pgrepl.types.input_checks import text_to_bytes
from pgrepl.writing.copy.copy_options import CopyOptions
from pgrepl.writing.copy.fields import decoded
from pgrepl.writing.copy.reader import BinaryFileReader, CopyReader, placed
from pgrepl.writing.copy.target import CopyTarget, default_values
from pgrepl.writing.copy.text_columns import is_plain, tables, tables_of_lines, typed_files

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.tree import Query
    from pgrepl.writing.copy.endpoints import Incoming

Row = tuple[Any, ...]  # by attribute number


class RowSource(ABC):
    """The rows that COPY reads for one target."""

    is_divided = False  # tasks of Spark can read the rows for kernels, each a part
    skipped = 0  # rows that ON_ERROR ignore has passed over
    verbosity = "default"  # LOG_VERBOSITY

    def __init__(self, session: Session, target: CopyTarget) -> None:
        self.session = session
        self.target = target
        self._where = None
        if target.where is not None:
            self._where = compile(own(target.where, target.relation), Context(session))

    @property
    def is_columnar(self) -> bool:
        """Can kernels over Arrow read the rows?"""
        return False

    @abstractmethod
    def anew(self) -> RowSource:
        """A source of the same data, from their beginning."""

    @abstractmethod
    def extent(self, rows: int) -> Extent:
        """The number of rows, or an upper bound. Counting may stop once there are more than `rows`."""

    def queries(self) -> AbstractContextManager[list[Query]]:
        """Queries with which Spark reads these rows, with the table's columns by number; valid within the context.
        An empty list: only this process can read the rows."""
        return nullcontext([])

    def kernel_source(self) -> AbstractContextManager[tuple[ForeignSource, dict[int, int | None]]]:
        """For kernels over Arrow: files with the columns that go into the table unchanged, and the greatest number of
        characters by attnum (None: no limit); valid within the context. Or Declined."""
        raise Declined("its format")

    @abstractmethod
    def _read(self) -> Iterator[Row]:
        """The rows with their defaults. Errors are placed."""

    @property
    @abstractmethod
    def number(self) -> int:
        """The number of the line or row read last."""

    @property
    def size(self) -> int:
        """The size of the line read last, in bytes; PostgreSQL does not count those of binary rows (line_buf)."""
        return 0

    @abstractmethod
    def place(self, number: int | None = None) -> str:
        """CONTEXT for an error in the row read last, or in the earlier one of this number."""

    def text_of(self, number: int) -> str:
        """CONTEXT with the text of the line, if it has one; it is read again."""
        return self.place(number)

    def rows(self) -> Iterator[Row]:
        """The rows that satisfy WHERE."""
        if self._where is None:
            yield from self._read()
            return
        for row in self._read():
            try:
                wanted = self._where(row) is True
            except PgError as error:
                raise placed(error, self.place()) from None
            if wanted:
                yield row

    def say_skipped(self) -> None:
        if self.skipped and self.verbosity != "silent":
            rows = "row was" if self.skipped == 1 else "rows were"
            self.session.notice("NOTICE", f"{self.skipped} {rows} skipped due to data type incompatibility")

    def _completed(self, reader: CopyReader | BinaryFileReader) -> Iterator[Row]:
        complete = self._completion()
        for read in reader.rows():
            try:
                row = complete(read)
            except PgError as error:
                raise placed(error, reader.context()) from None
            yield row

    def _completion(self) -> Callable[[Sequence[Any]], Row]:
        """A function that makes whole rows of the values read: columns that the file lacks get their defaults."""
        defaults = default_values(self.session, self.target)
        width = len(self.target.relation.attributes)
        places = [number - 1 for number in self.target.attnums]
        left_out = [(number - 1, defaults[number]) for number, _ in self.target.left_out]
        if places == list(range(width)):
            return tuple

        def complete(read: Sequence[Any]) -> Row:
            values: list[Any] = [None] * width
            for place, value in zip(places, read, strict=True):
                values[place] = value
            for place, default in left_out:
                values[place] = default()
            return tuple(values)

        return complete


class TextSource(RowSource):
    """Lines of text or CSV."""

    def __init__(
        self, session: Session, target: CopyTarget, options: CopyOptions, data: Incoming, *, from_client: bool
    ) -> None:
        super().__init__(session, target)
        self.options, self.verbosity = options, options.verbosity
        self.data = data
        self._from_client = from_client
        defaults = default_values(session, target) if options.default is not None else {}
        attnums = target.attnums
        self._reader = CopyReader(
            target.relation.name,
            target.copy_columns(),
            options,
            _readable(session, decoded(data, options.encoding or session.settings.get("client_encoding"))),
            session.text_style,
            from_client=from_client,
            notice=lambda message, context: session.notice("NOTICE", message, context=context),
            default=lambda position: defaults[attnums[position]](),
        )

    def anew(self) -> TextSource:
        return TextSource(self.session, self.target, self.options, self.data, from_client=self._from_client)

    def extent(self, rows: int) -> Extent:
        count = size = 0
        for piece in self.data.pieces():
            count += max(piece.count(b"\n"), piece.count(b"\r"))
            size += len(piece)
            if count > rows:
                break
        return Extent(count, size)

    @property
    def is_columnar(self) -> bool:
        return self.options.default is None and not self.options.ignore_errors and self.target.where is None

    def kernel_source(self) -> AbstractContextManager[tuple[ForeignSource, dict[int, int | None]]]:
        return kernel_files(self.session, self.target, self._tables())

    def _tables(self) -> Iterator[pa.Table]:
        if is_plain(self.session, self.target, self.options):
            return tables(self.session, self.target, self.options, self.data)
        return tables_of_lines(self.session, self.target, self.anew()._reader.fields())

    @contextmanager
    def queries(self) -> Iterator[list[Query]]:
        with typed_files(self.session, self.target, self.options, self.data) as query:
            yield [] if query is None else [query]

    def _read(self) -> Iterator[Row]:
        return self._completed(self._reader)

    @property
    def number(self) -> int:
        return self._reader.number

    @property
    def size(self) -> int:
        return self._reader.size

    @property
    def skipped(self) -> int:  # type: ignore[override]
        return self._reader.skipped

    def place(self, number: int | None = None) -> str:
        return self._reader.context() if number is None else f"COPY {self.target.relation.name}, line {number}"

    def text_of(self, number: int) -> str:
        reader = self.anew()._reader
        for _ in reader.lines():
            if reader.number >= number:
                break
        return reader.context()


def _readable(session: Session, texts: Iterator[str]) -> Iterator[str]:
    """The texts, whose characters the database's encoding must have."""
    encoding = session.settings.get("server_encoding")
    if encoding == "UTF8":
        return texts

    def checked() -> Iterator[str]:
        for text in texts:
            text_to_bytes(text, encoding)
            yield text

    return checked()


@contextmanager
def kernel_files(
    session: Session, target: CopyTarget, portions: Iterator[pa.Table]
) -> Iterator[tuple[ForeignSource, dict[int, int | None]]]:
    """A temporary Parquet file of the portions for kernels over Arrow, as `RowSource.kernel_source` gives it."""
    table = lake_table(session, target.relation.oid)
    columns = target.copy_columns()
    kept = [table.column(number) for number in target.attnums]
    if any(
        stored.row is None and stored.form.typoid != base_type(c.type) for stored, c in zip(kept, columns, strict=True)
    ):
        raise Declined("the type of a column")
    folder = spark_options.make(spark_options.FILES)
    try:
        path = os.path.join(folder, "rows.parquet")
        groups: list[int] = []
        writer: pq.ParquetWriter | None = None
        try:
            for portion in portions:
                if writer is None:
                    writer = pq.ParquetWriter(path, portion.schema, compression="snappy", use_dictionary=False)
                for at in range(0, portion.num_rows, PORTION):
                    rows = portion[at : at + PORTION]
                    writer.write_table(rows)
                    groups.append(rows.num_rows)
        finally:
            if writer is not None:
                writer.close()
        names = tuple([(number, c.name) for number, c in zip(target.attnums, columns, strict=True)])
        size = os.path.getsize(path) // max(len(groups), 1) if groups else 0
        row_groups = [(ForeignRows(table, path, names, (n,)), rows, size) for n, rows in enumerate(groups)]
        yield ForeignSource(table, tuple(target.attnums), tuple(row_groups)), dict.fromkeys(target.attnums)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_PORTION = 32768  # rows made to columns at a time
_SAMPLE = 1000  # rows whose size tells how many there are


class BinarySource(RowSource):
    """Rows of fields in the binary format of their types."""

    def __init__(self, session: Session, target: CopyTarget, data: Incoming) -> None:
        super().__init__(session, target)
        self.data = data
        for column in target.relation.columns:
            check_function(column.type, "input")
        self._reader = BinaryFileReader(target.relation.name, target.copy_columns(), data, session.text_style)

    def anew(self) -> BinarySource:
        return BinarySource(self.session, self.target, self.data)

    def extent(self, rows: int) -> Extent:
        """The first rows tell the size of a row."""
        size = sum(map(len, self.data.pieces()))
        reader = BinaryFileReader(
            self.target.relation.name, self.target.copy_columns(), self.data.pieces(), self.session.text_style
        )
        try:
            count = sum(1 for _ in islice(reader.rows(), _SAMPLE))
        except PgError:  # it is reported when the row is copied
            count = reader.number
        return Extent(count if count < _SAMPLE else size * count // max(reader.position, 1), size)

    @property
    def is_columnar(self) -> bool:
        return self.target.where is None

    def kernel_source(self) -> AbstractContextManager[tuple[ForeignSource, dict[int, int | None]]]:
        return kernel_files(self.session, self.target, self.anew()._tables())

    def _tables(self) -> Iterator[pa.Table]:
        table = lake_table(self.session, self.target.relation.oid)
        columns = self.target.columns
        forms, names = [table.column(a.num).form for a in columns], [a.name for a in columns]
        rows = self._reader.rows()
        while portion := list(islice(rows, _PORTION)):
            arrays = [storage_array(f.to_array([row[n] for row in portion])) for n, f in enumerate(forms)]
            yield pa.table(arrays, names=names)

    def _read(self) -> Iterator[Row]:
        return self._completed(self._reader)

    @property
    def number(self) -> int:
        return self._reader.number

    def place(self, number: int | None = None) -> str:
        return self._reader.context(number)
