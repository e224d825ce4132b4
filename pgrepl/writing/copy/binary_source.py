"""The rows of a binary file, as COPY FROM reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.lake.files import Extent
from pgrepl.types.binary import check_function
from pgrepl.writing.copy.binary_file import BinaryFileReader
from pgrepl.writing.copy.source import Row, RowSource, kernel_files
from pgrepl.writing.copy.target import CopyTarget

if TYPE_CHECKING:
    import pyarrow as pa

    from pgrepl.catalog.session import Session
    from pgrepl.expr.tree import Query
    from pgrepl.lake.kernels.copy import ForeignSource
    from pgrepl.writing.copy.endpoints import Incoming

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
        import pyarrow as pa

        from pgrepl.lake.scan import storage_array
        from pgrepl.lake.table import lake_table

        table = lake_table(self.session, self.target.relation.oid)
        columns = self.target.columns
        forms, names = [table.column(a.num).form for a in columns], [a.name for a in columns]
        rows = self._reader.rows()
        while portion := list(islice(rows, _PORTION)):
            arrays = [storage_array(f.to_array([row[n] for row in portion])) for n, f in enumerate(forms)]
            yield pa.table(arrays, names=names)

    @contextmanager
    def queries(self) -> Iterator[list[Query]]:
        yield []

    def _read(self) -> Iterator[Row]:
        return self._completed(self._reader)

    @property
    def number(self) -> int:
        return self._reader.number

    @property
    def size(self) -> int:
        return 0  # PostgreSQL does not count the bytes of binary rows (line_buf)

    def place(self, number: int | None = None) -> str:
        return self._reader.context(number)

    def text_of(self, number: int) -> str:
        return self._reader.context(number)
