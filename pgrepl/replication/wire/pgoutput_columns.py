"""pgoutput's messages read as columns: many messages at once, with numpy, from the bytes as received.

The tuples of all messages of one relation are read column by column: at each position stand a kind byte and, for a
value, its length, which give the position of the next column. Texts become an Arrow string view (offsets into the
buffer), which is copied once into an array of strings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pgrepl.errors import Declined
from pgrepl.frozen import frozen
from pgrepl.replication.wire.binary_columns import NUMBERS, from_any_byte, native_numbers, number_array
from pgrepl.replication.wire.binary_values import TEXTS, BinaryValue, as_text
from pgrepl.replication.wire.message_files import Decoded
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.replication.wire.pgoutput import (
    BINARY_VALUE,
    COLUMN_COUNT,
    DELETE_TYPE,
    KEY_TUPLE,
    NEW_TUPLE,
    OLD_TUPLE,
    TAG_AT,
    TEXT_HEAD,
    TEXT_VALUE,
    TUPLE_AT,
    UNCHANGED_VALUE,
    UPDATE_TYPE,
    ProtocolError,
)
from pgrepl.types import oids
from pgrepl.types.lake_forms import form

if TYPE_CHECKING:
    import pyarrow as pa

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

PADDING = 16  # bytes behind the last message, so that a window may begin at any byte
_SHORT = 12  # bytes at most that an Arrow string view holds inline
_VIEW = np.dtype({
    "names": ["length", "inside", "buffer", "offset"], "formats": ["<i4", f"V{_SHORT}", "<i4", "<i4"],
    "offsets": [0, 4, 8, 12], "itemsize": 16,
})  # fmt: skip


@frozen
class ColumnSpans:
    """The positions of one column's values in the buffer."""

    present: Flags  # neither NULL nor unchanged
    start: Numbers
    length: Numbers
    kind: Bytes


def integers(data: Bytes, at: Numbers, kind: str) -> Numbers:
    """Big-endian numbers at these positions; `kind` is a numpy dtype."""
    found: Numbers = from_any_byte(data, kind)[at].astype(np.int64)
    return found


def changes(data: Bytes, at: Numbers, relation: SentRelation) -> Decoded:
    """The messages that begin at these positions; values as text, or in the types of their columns."""
    columns = relation.columns
    width = len(columns)
    operation, tag = data[at], data[at + TAG_AT]
    if not np.isin(tag, (NEW_TUPLE, KEY_TUPLE, OLD_TUPLE)).all():
        raise ProtocolError("a change without a tuple")
    has_old, has_new = tag != NEW_TUPLE, operation != DELETE_TYPE
    first = at + TUPLE_AT
    new_at = first.copy()
    olds: dict[int, pa.Array] = {}
    if has_old.any():
        old, behind = _walk(data, first[has_old], width)
        new_at[has_old] = behind + 1
        olds = {place: _values(data, spans, columns[place]) for place, spans in enumerate(old) if columns[place].is_key}
    new, _ = _walk(data, new_at[has_new], width)
    unchanged = {}
    updated = operation[has_new] == UPDATE_TYPE  # an INSERT has NULL where a value was not sent (slot_store_data)
    for place, column in enumerate(new):
        flags = (column.kind == UNCHANGED_VALUE) & updated
        if flags.any():
            unchanged[place] = flags
    made = [_values(data, spans, column) for spans, column in zip(new, columns, strict=True)]
    return Decoded(operation, has_old, made, olds, unchanged)


def _walk(data: Bytes, at: Numbers, width: int) -> tuple[list[ColumnSpans], Numbers]:
    """The columns of the tuples that begin at these positions, and the positions behind the tuples."""
    counts = integers(data, at, ">u2")
    if (counts != width).any():
        raise ProtocolError("a tuple with another number of columns than its relation")
    at = at + COLUMN_COUNT.size
    found = []
    for _ in range(width):
        kind = data[at]
        present = (kind == TEXT_VALUE) | (kind == BINARY_VALUE)
        length = np.where(present, integers(data, at + 1, ">i4"), 0)
        start = np.where(present, at + TEXT_HEAD.size, at + 1)
        at = start + length
        found.append(ColumnSpans(present, start, length, kind))
    return found, at


def _values(data: Bytes, spans: ColumnSpans, column: SentColumn) -> pa.Array:
    typoid = column.sent_as
    if typoid in TEXTS or not (spans.kind == BINARY_VALUE).any():
        return text_array(data, spans.start, spans.length, spans.present)
    return _binary_array(data, spans, typoid, is_typed=not column.text_of)


def _binary_array(data: Bytes, spans: ColumnSpans, typoid: int, *, is_typed: bool) -> pa.Array:
    """Values in binary form, as text unless the column keeps its type; Declined: rows have to tell."""
    import pyarrow as pa

    start, length, present = spans.start, spans.length, spans.present
    if typoid == oids.JSONB:  # a version comes first
        return text_array(data, start + 1, np.maximum(length - 1, 0), present)
    if is_typed and typoid == oids.BOOL:
        return pa.array(data[start] != 0, mask=~present)
    if is_typed and typoid in NUMBERS:
        made = number_array(typoid, native_numbers(data, start, typoid), present, form(typoid, -1).arrow())
        if made is None:
            raise Declined("a date or time that Arrow lacks")
        return made
    view = data.data
    texts = [
        as_text(BinaryValue(view[at : at + size]), typoid) if there else None
        for at, size, there in zip(start.tolist(), length.tolist(), present.tolist(), strict=True)
    ]
    return pa.array(texts, pa.string())


def text_array(data: Bytes, start: Numbers, length: Numbers, present: Flags) -> pa.Array:
    """The bytes at these places as an Arrow array of strings."""
    import pyarrow as pa

    count = len(start)
    views = np.empty(count, _VIEW)
    views["length"] = length
    if count:
        views["inside"] = from_any_byte(data, views["inside"].dtype)[start]
        long = np.nonzero(length > _SHORT)[0]
        views["buffer"][long] = 0
        views["offset"][long] = start[long]
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [validity, pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string_view(), count, buffers).cast(pa.string())
