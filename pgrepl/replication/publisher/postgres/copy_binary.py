"""The rows of COPY … (FORMAT binary) as columns of a lake table: less work than text on both sides.

Numbers, texts, dates and times are read from their binary form; values of other types are cast to text by the server.
A table with a type whose cast to text may differ from its output function, as users can make theirs, comes as CSV.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pgrepl.replication.publisher.postgres.copy_csv import CopiedColumn
from pgrepl.replication.wire.binary_columns import NUMBERS, native_numbers, number_array
from pgrepl.replication.wire.binary_values import TEXTS
from pgrepl.replication.wire.pgoutput_columns import Bytes, Numbers, integers, text_array
from pgrepl.types import oids

if TYPE_CHECKING:
    import pyarrow as pa

_NATIVE = frozenset((*NUMBERS, *TEXTS, oids.BOOL, oids.JSONB))
_OWN_CAST = frozenset((oids.INET, oids.CIDR, oids.XML, oids.NAME, oids.CHAR))  # to text


def is_binary(columns: Sequence[CopiedColumn]) -> bool:
    types = [column.sent.type for column in columns if column.sent is not None]
    return all(typoid not in _OWN_CAST and typoid < oids.FIRST_USER_OID for typoid in types)


def expression(typoid: int, identifier: str) -> str:
    """The expression of a column in the query that the server runs."""
    return identifier if typoid in _NATIVE else f"{identifier}::text"


class BinaryChunkReader:
    """Reads chunks of rows of COPY's binary format."""

    def __init__(self, names: Sequence[str], columns: Sequence[CopiedColumn]) -> None:
        """Parameters as for CsvReader."""
        by_name = {column.sent.name: column for column in columns if column.sent is not None}
        self._sent = [by_name[name] for name in names]
        self._columns = columns

    def arrays(self, data: bytes, at: Any) -> tuple[list[pa.Array], int]:
        """The rows that begin at these places, as the table's columns, and their number."""
        import pyarrow as pa

        raw: Bytes = np.frombuffer(data, np.uint8)
        at = at + 2  # the number of columns
        made: dict[int, pa.Array] = {}
        for column in self._sent:
            length = integers(raw, at, ">i4")
            present = length >= 0
            length = np.maximum(length, 0)
            made[id(column)] = _array(column, raw, at + 4, length, present)
            at = at + 4 + length
        count = len(at)
        return [pa.nulls(count, c.form.arrow()) if c.sent is None else made[id(c)] for c in self._columns], count


def _array(
    column: CopiedColumn, raw: Bytes, start: Numbers, length: Numbers, present: npt.NDArray[np.bool_]
) -> pa.Array:
    import pyarrow as pa

    assert column.sent is not None
    typoid = column.sent.type
    if typoid in NUMBERS:
        return _numbers(column, typoid, native_numbers(raw, start, typoid), present)
    if typoid == oids.BOOL:
        texts = pa.array(raw[start] != 0, mask=~present)
        return texts if column.by_arrow else column.read(pa.array(_letters(texts), pa.string()))
    if typoid == oids.JSONB:  # a version comes first
        start, length = start + 1, np.maximum(length - 1, 0)
    texts = text_array(raw, start, length, present)
    if not column.by_arrow:
        return column.read(texts)
    if texts.type == column.csv_type:
        return texts
    try:
        return texts.cast(column.csv_type)
    except pa.ArrowInvalid:
        return column.read(texts)


def _letters(values: pa.Array) -> list[str | None]:
    return [None if value is None else "t" if value else "f" for value in values.to_pylist()]


def _numbers(column: CopiedColumn, typoid: int, values: npt.NDArray[Any], present: npt.NDArray[np.bool_]) -> pa.Array:
    if not column.by_arrow:
        return _through_text(column, typoid, values, present)
    found = number_array(typoid, values, present, column.csv_type)
    if found is not None:
        return found
    return column.form.to_array([v if p else None for v, p in zip(values.tolist(), present.tolist(), strict=True)])


def _through_text(
    column: CopiedColumn, typoid: int, values: npt.NDArray[Any], present: npt.NDArray[np.bool_]
) -> pa.Array:
    """A column of another type here reads the text of the publisher's type."""
    import pyarrow as pa

    from pgrepl.replication.wire.text import WIRE_STYLE
    from pgrepl.types.text import writer

    write = writer(typoid)
    texts = [write(v, WIRE_STYLE) if p else None for v, p in zip(values.tolist(), present.tolist(), strict=True)]
    return column.read(pa.array(texts, pa.string()))
