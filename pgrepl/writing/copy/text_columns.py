"""Fields of COPY's text and CSV as whole columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pgrepl.types.lake_arrays import plain_array
from pgrepl.writing.copy.arrow_values import values_of

if TYPE_CHECKING:
    import pyarrow as pa

    from pgrepl.types.style import TextStyle
    from pgrepl.writing.copy.reader import CopyColumn

_PORTION = 32768  # lines that are read into columns together


def tables(columns: Sequence[CopyColumn], fields: Iterable[list[Any]], style: TextStyle) -> Iterator[pa.Table]:
    """The values of lines, a portion at a time; PgError for a value that its type does not accept."""
    import pyarrow as pa

    lines = iter(fields)
    while portion := list(islice(lines, _PORTION)):
        texts = zip(*portion, strict=True)
        arrays = [
            plain_array(values_of(pa.array(each, pa.string()), column.type, column.typmod, style))
            for each, column in zip(texts, columns, strict=True)
        ]
        yield pa.table(arrays, names=[column.name for column in columns])
