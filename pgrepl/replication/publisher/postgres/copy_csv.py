"""The rows of COPY … (FORMAT csv) as columns of a lake table.

Arrow reads the types that it reads exactly as PostgreSQL writes them: whole numbers, floats, bounded decimals, dates,
times, texts. Values that it refuses (infinity, years before Christ, 24:00:00), and all other types, are read value by
value by the column's input function, which may raise an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Attribute
from pgrepl.replication.publisher.postgres.published import PublishedColumn
from pgrepl.types import oids
from pgrepl.types.column_values import values_of
from pgrepl.types.lake_arrays import Form
from pgrepl.types.style import TextStyle

if TYPE_CHECKING:
    import pyarrow as pa

_READ_BY_ARROW = oids.INTEGERS | {
    oids.BOOL, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC, oids.DATE, oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ,
    oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.JSON, oids.JSONB,
}  # fmt: skip


class CopiedColumn:
    """One column of the table here, and the publisher's column that fills it."""

    def __init__(self, sent: PublishedColumn | None, local: Attribute, form: Form, style: TextStyle) -> None:
        """`style`: that of the wire, with what checks domains."""
        import pyarrow as pa

        self._style = style
        self.sent = sent
        self.local = local
        self.form = form
        self.same = same = sent is None or (sent.type, sent.typmod) == (local.type, local.typmod)
        whole = sent is not None and sent.type in oids.INTEGERS and local.type in oids.INTEGERS
        self.by_arrow = (same and sent is not None and local.type in _READ_BY_ARROW) or whole
        self.csv_type = form.arrow() if self.by_arrow else pa.string()

    def read(self, texts: pa.Array) -> pa.Array:
        """The texts as the column's input function reads them."""
        return values_of(texts, self.local.type, self.local.typmod, self._style, self.form)


class CsvReader:
    """Reads chunks of whole rows."""

    def __init__(self, names: Sequence[str], columns: Sequence[CopiedColumn]) -> None:
        """`names`: the columns as they are sent; `columns`: those of the table, in its order."""
        self.names = [f"s{number}" for number in range(len(names))]
        self._number = {name: number for number, name in enumerate(names)}
        self._columns = columns

    def arrays(self, chunk: bytes, at: Any = None) -> tuple[list[Any], int]:
        """The rows of a chunk as the table's columns, and their number."""
        import pyarrow as pa

        sent = [column for column in self._columns if column.sent is not None]
        try:
            read = self._read(chunk, {self._name(column): column.csv_type for column in sent})
            exact = True
        except pa.ArrowInvalid:
            read = self._read(chunk, {})
            exact = False
        made: list[Any] = []
        for column in self._columns:
            if column.sent is None:
                made.append(pa.nulls(read.num_rows, column.form.arrow()))
                continue
            array = read.column(self._name(column)).combine_chunks()
            plain = column.by_arrow and (exact or array.type == column.csv_type)
            made.append(array if plain else column.read(array))
        return made, read.num_rows

    def texts(self, chunk: bytes) -> pa.Table:
        """The rows of a chunk as columns s0 … sn of text."""
        return self._read(chunk, {})

    def _name(self, column: CopiedColumn) -> str:
        assert column.sent is not None
        return self.names[self._number[column.sent.name]]

    def _read(self, chunk: bytes, types: dict[str, Any]) -> pa.Table:
        import pyarrow as pa
        from pyarrow import csv

        return csv.read_csv(
            pa.BufferReader(chunk),
            csv.ReadOptions(column_names=self.names, block_size=len(chunk) + 16, use_threads=False),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types={name: types.get(name, pa.string()) for name in self.names},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["t"],
                false_values=["f"],
            ),
        )
