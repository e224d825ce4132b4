"""The rows that COPY FROM reads, as they come into the table, and where each of them stands.

A source of text reads lines, one of Parquet files rows; both give whole rows of the table, with its defaults, that
satisfy WHERE. `RowSource` is what loading asks of either.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from pgrepl.engine import Declined
from pgrepl.errors import PgError
from pgrepl.expr.context import Context
from pgrepl.expr.evaluate import compile
from pgrepl.lake.files import Extent
from pgrepl.rows.checks_table import own
from pgrepl.writing.copy.copy_options import CopyOptions
from pgrepl.writing.copy.encoding import decoded
from pgrepl.writing.copy.reader import CopyReader, placed
from pgrepl.writing.copy.target import CopyTarget, default_values

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.tree import Query
    from pgrepl.lake.kernels.copy import ForeignSource
    from pgrepl.writing.copy.places import Incoming

Row = tuple[Any, ...]  # by attribute number


class RowSource(ABC):
    """What COPY reads, for one target."""

    columnar_rows = 0  # up to how many rows whole columns are read, by kernels over Arrow
    skipped = 0  # rows that ON_ERROR ignore has passed over

    def __init__(self, session: Session, target: CopyTarget) -> None:
        self.session = session
        self.target = target
        self._where = None
        if target.where is not None:
            self._where = compile(own(target.where, target.relation), Context(session))

    @abstractmethod
    def anew(self) -> RowSource:
        """The same from its beginning."""

    @abstractmethod
    def extent(self, rows: int) -> Extent:
        """How much there is, counted no further than to more than so many rows; a guess from above will do."""

    @abstractmethod
    def queries(self) -> AbstractContextManager[list[Query]]:
        """Queries that Spark can play to the same rows, a column for each of the table's by number, as long as this
        lasts; none: they can be read here only."""

    def kernel_source(self) -> AbstractContextManager[tuple[ForeignSource, dict[int, int | None]]]:
        """For kernels over Arrow: where the columns that go into the table as they are stand, and how many characters
        they may have, as long as this lasts. Or Declined."""
        raise Declined("its format")

    @abstractmethod
    def _read(self) -> Iterator[Row]:
        """The rows with their defaults. Errors are placed."""

    @property
    @abstractmethod
    def number(self) -> int:
        """Of the line or row that was read last."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Of the line that was read last, in bytes."""

    @abstractmethod
    def place(self, number: int | None = None) -> str:
        """CONTEXT for what is wrong with the row read last, or with one that has been read before."""

    @abstractmethod
    def text_of(self, number: int) -> str:
        """The same with the line itself, read once more."""

    def rows(self) -> Iterator[Row]:
        """Those that satisfy WHERE."""
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

    def completed(self) -> Callable[[Sequence[Any]], Row]:
        """A function that makes whole rows of the values read: what the file does not give gets its default."""
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
        self.options = options
        self.data = data
        self._from_client = from_client
        defaults = default_values(session, target) if options.default is not None else {}
        attnums = target.attnums
        self._reader = CopyReader(
            target.relation.name,
            target.copy_columns(),
            options,
            decoded(data, options.encoding or session.settings.get("client_encoding")),
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
    def columnar_rows(self) -> int:  # type: ignore[override]
        """Spark reads more of them at once than one process does."""
        plain = self.options.default is None and not self.options.ignore_errors and self.target.where is None
        return int(self.session.settings.value("pgrepl.spark_rows")) if plain else 0

    @contextmanager
    def kernel_source(self) -> Iterator[tuple[ForeignSource, dict[int, int | None]]]:
        import pyarrow.parquet as pq

        from pgrepl.lake import spill_folders
        from pgrepl.lake.kernels.copy import ForeignSource
        from pgrepl.lake.kernels.part import ForeignRows
        from pgrepl.lake.table import lake_table
        from pgrepl.writing.copy.text_columns import tables

        table = lake_table(self.session, self.target.relation.oid)
        columns = self.target.copy_columns()
        kept = [table.column(number) for number in self.target.attnums]
        if any(each.row is not None or each.form.typoid != c.type for each, c in zip(kept, columns, strict=True)):
            raise Declined("the type of a column")
        folder = spill_folders.make(spill_folders.FILES)
        try:
            path = os.path.join(folder, "rows.parquet")
            groups: list[int] = []
            writer: pq.ParquetWriter | None = None
            try:
                fields, style = self.anew()._reader.fields(), self.session.text_style
                for portion in tables(columns, [each.form for each in kept], fields, style):
                    if writer is None:
                        writer = pq.ParquetWriter(path, portion.schema, compression="snappy")
                    writer.write_table(portion)
                    groups.append(portion.num_rows)
            finally:
                if writer is not None:
                    writer.close()
            names = tuple([(number, c.name) for number, c in zip(self.target.attnums, columns, strict=True)])
            size = os.path.getsize(path) // max(len(groups), 1) if groups else 0
            found = [(ForeignRows(table, path, names, (n,)), rows, size) for n, rows in enumerate(groups)]
            yield (
                ForeignSource(table, tuple(self.target.attnums), tuple(found)),
                dict.fromkeys(self.target.attnums),
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def queries(self) -> Iterator[list[Query]]:
        from pgrepl.writing.copy.typed_files import typed_files

        with typed_files(self.session, self.target, self.options, self.data) as query:
            yield [] if query is None else [query]

    def _read(self) -> Iterator[Row]:
        complete, reader = self.completed(), self._reader
        for read in reader.rows():
            try:
                row = complete(read)
            except PgError as error:
                raise placed(error, reader.context()) from None
            yield row

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
