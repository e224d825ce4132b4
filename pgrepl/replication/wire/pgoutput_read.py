"""The reader of pgoutput's messages, one by one (logicalrep_read_*) and as columns.

Values stay text, or with `binary = true` bytes: the target column reads them with its own input or receive function.
As columns, the tuples of one relation are read column by column with numpy, from the bytes as received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy.typing as npt

from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake.changes.history import COMMIT, PREPARE, ROLLBACK, LogicalMessage
from pgrepl.replication.wire import pgoutput
from pgrepl.replication.wire.message_files import Decoded
from pgrepl.replication.wire.messages import (
    DELETE,
    INSERT,
    UNCHANGED,
    UPDATE,
    Emitted,
    Message,
    Phase,
    Row,
    SentColumn,
    SentRelation,
    TruncateMessage,
    WireTransaction,
)
from pgrepl.replication.wire.pgoutput import (
    BEGIN_PREPARE_TYPE,
    BEGIN_TYPE,
    BINARY_VALUE,
    CASCADE,
    COLUMN_COUNT,
    COMMIT_PREPARED_TYPE,
    COMMIT_TYPE,
    DELETE_TYPE,
    END_LSN_AT,
    INSERT_TYPE,
    IS_KEY,
    KEY_TUPLE,
    MESSAGE_TYPE,
    NEW_TUPLE,
    NULL_VALUE,
    OLD_TUPLE,
    ORIGIN_TYPE,
    PREPARE_TYPE,
    RELATION_TYPE,
    RELID_AT,
    RESTART_IDENTITY,
    ROLLBACK_PREPARED_TYPE,
    TAG_AT,
    TEXT_HEAD,
    TEXT_VALUE,
    TRUNCATE_TYPE,
    TUPLE_AT,
    TYPE_TYPE,
    UINT16,
    UINT32,
    UINT64,
    UNCHANGED_VALUE,
    UPDATE_TYPE,
    ProtocolError,
    read_text,
)
from pgrepl.replication.wire.values import (
    NUMBERS,
    TEXTS,
    BinaryValue,
    as_text,
    binary_value,
    from_any_byte,
    native_numbers,
    number_array,
)
from pgrepl.types import oids
from pgrepl.types.lake.forms import form
from pgrepl.types.oids import TEXT

_CHANGES = frozenset(pgoutput.CHANGES)
_TEXT_AT = TEXT_HEAD.size  # behind a value's kind
_WITH_LENGTH = frozenset((TEXT_VALUE, BINARY_VALUE))
_WITHOUT = frozenset((NULL_VALUE, UNCHANGED_VALUE))
_uint16, _uint32 = UINT16.unpack_from, UINT32.unpack_from  # bound once: they are called for each value
_ABOUT = frozenset((BEGIN_TYPE, COMMIT_TYPE, ORIGIN_TYPE, TYPE_TYPE, BEGIN_PREPARE_TYPE, PREPARE_TYPE, MESSAGE_TYPE))


@dataclass
class Relations:
    """The relations that Relation messages have described so far, by relid."""

    known: dict[int, SentRelation] = field(default_factory=dict)

    def of(self, relid: int) -> SentRelation:
        try:
            return self.known[relid]
        except KeyError:
            raise ProtocolError(f"no relation map entry for remote relation ID {relid}") from None

    def learn(self, message: bytes) -> SentRelation:
        relation = _relation(message)
        before = self.known.get(relation.relid)
        if before == relation:
            return before  # the same object, so that caches by relation stay valid
        self.known[relation.relid] = relation
        return relation


@lru_cache(maxsize=4096)
def _relation(message: bytes) -> SentRelation:
    """A stream describes a relation once, and each of its batches begins with all descriptions."""
    return read_relation(message)


def transactions(messages: Iterable[bytes], relations: Relations) -> Iterator[WireTransaction]:
    """The transactions of a stream of messages."""
    begun: tuple[int, int, int] | None = None
    phase: Phase | None = None
    origin: str | None = None
    changes: list[Message | TruncateMessage] = []
    emitted: list[Emitted] = []
    for message in messages:
        kind = message[0]
        if kind in _CHANGES:
            changes.append(read_change(message, relations))
        elif kind == BEGIN_TYPE:
            begun, phase, origin, changes = pgoutput.BEGIN.unpack(message), None, None, []
            emitted = []
        elif kind == BEGIN_PREPARE_TYPE:
            begun, phase = read_begin_prepare(message)
            origin, changes, emitted = None, [], []
        elif kind in (COMMIT_PREPARED_TYPE, ROLLBACK_PREPARED_TYPE):
            yield read_end(message)
        elif kind in (COMMIT_TYPE, PREPARE_TYPE):
            if begun is None or (kind == PREPARE_TYPE) != (phase is not None):
                raise ProtocolError("COMMIT without BEGIN")
            finish_lsn, committed_at, xid = begun
            (end_lsn,) = UINT64.unpack_from(message, END_LSN_AT)
            yield WireTransaction(
                xid, finish_lsn, end_lsn, committed_at, tuple(changes), origin, tuple(emitted), phase=phase
            )
            begun, changes = None, []
        elif kind == RELATION_TYPE:
            relations.learn(message)
        elif kind == TRUNCATE_TYPE:
            changes.append(read_truncate(message, relations))
        elif kind == ORIGIN_TYPE:
            origin = read_origin(message)
        elif kind == MESSAGE_TYPE:
            emitted.append(read_emitted(message, len(changes)))
        elif kind != TYPE_TYPE:
            raise ProtocolError(f'invalid logical replication message type "{chr(kind)}"')
    if begun is not None:
        raise ProtocolError("the last transaction is not complete")


def read_emitted(message: bytes, after: int) -> Emitted:
    """A logical message. `after`: the number of changes before it in its transaction."""
    flags, lsn = pgoutput.MESSAGE.unpack(message)
    prefix, at = read_text(message, pgoutput.MESSAGE.size)
    content = message[at + UINT32.size : at + UINT32.size + _uint32(message, at)[0]]
    return Emitted(lsn, LogicalMessage(bool(flags & pgoutput.TRANSACTIONAL), prefix, content, 0), after)


def read_origin(message: bytes) -> str:
    return read_text(message, pgoutput.ORIGIN.size)[0]


def read_begin_prepare(message: bytes) -> tuple[tuple[int, int, int], Phase]:
    """LSN, time and XID of the transaction, and its phase."""
    lsn, end_lsn, when, xid = pgoutput.BEGIN_PREPARE.unpack(message)
    gid, _ = read_text(message, pgoutput.BEGIN_PREPARE.size)
    return (lsn, when, xid), Phase(PREPARE, gid, end_lsn, when)


def read_end(message: bytes) -> WireTransaction:
    """The end of a prepared transaction. A Rollback Prepared message has no finish LSN: the byte before its end stands
    for it."""
    if message[0] == COMMIT_PREPARED_TYPE:
        _, lsn, end_lsn, when, xid = pgoutput.COMMIT_PREPARED.unpack(message)
        gid, _ = read_text(message, pgoutput.COMMIT_PREPARED.size)
        return WireTransaction(xid, lsn, end_lsn, when, (), phase=Phase(COMMIT, gid, 0, 0))
    _, prepared, end_lsn, prepared_at, when, xid = pgoutput.ROLLBACK_PREPARED.unpack(message)
    gid, _ = read_text(message, pgoutput.ROLLBACK_PREPARED.size)
    phase = Phase(ROLLBACK, gid, prepared, prepared_at)
    return WireTransaction(xid, end_lsn - 1, end_lsn, when, (), phase=phase)


def changes(messages: Iterable[bytes], relations: Relations) -> Iterator[Message | TruncateMessage]:
    """The changes in the messages of one transaction."""
    for message in messages:
        kind = message[0]
        if kind in _CHANGES:
            yield read_change(message, relations)
        elif kind == RELATION_TYPE:
            relations.learn(message)
        elif kind == TRUNCATE_TYPE:
            yield read_truncate(message, relations)
        elif kind not in _ABOUT:
            raise ProtocolError(f'invalid logical replication message type "{chr(kind)}"')


def read_relation(message: bytes, typed: Callable[[int, int], bool] = lambda type, typmod: False) -> SentRelation:
    """`typed`: tells from type and typmod whether a column keeps its type, because its values will not be text."""
    (relid,) = pgoutput.RELATION.unpack(message)
    schema, at = read_text(message, pgoutput.RELATION.size)
    name, at = read_text(message, at)
    replident = chr(message[at])
    (count,) = UINT16.unpack_from(message, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = message[at]
        column, at = read_text(message, at + 1)
        kind, typmod = pgoutput.COLUMN_TYPE.unpack_from(message, at)
        at += pgoutput.COLUMN_TYPE.size
        is_key = bool(flags & IS_KEY)
        if typed(kind, typmod):
            columns.append(SentColumn(column, kind, typmod, is_key))
        else:
            columns.append(SentColumn(column, TEXT, -1, is_key, kind, typmod))
    return SentRelation(relid, schema or "pg_catalog", name, replident, tuple(columns))


def read_change(message: bytes, relations: Relations) -> Message:
    (relid,) = _uint32(message, RELID_AT)
    relation = relations.of(relid)
    width, binary = len(relation.columns), partial(_binary, relation.columns)
    kind, tag = message[0], message[TAG_AT]
    if kind == INSERT_TYPE:
        new, _ = read_tuple(message, TUPLE_AT, width, binary)
        return Message(INSERT, relation, new=new)
    if kind == DELETE_TYPE:
        old, _ = read_tuple(message, TUPLE_AT, width, binary)
        return Message(DELETE, relation, old=old, whole_old=tag == OLD_TUPLE)
    if tag == NEW_TUPLE:
        new, _ = read_tuple(message, TUPLE_AT, width, binary)
        return Message(UPDATE, relation, new=new)
    old, at = read_tuple(message, TUPLE_AT, width, binary)
    new, _ = read_tuple(message, at + 1, width, binary)
    return Message(UPDATE, relation, old, new, whole_old=tag == OLD_TUPLE)


def _binary(columns: tuple[SentColumn, ...], number: int, data: bytes) -> str | BinaryValue:
    return binary_value(columns[number].sent_as, data)


def read_truncate(message: bytes, relations: Relations) -> TruncateMessage:
    relids, flags = read_truncated(message)
    return TruncateMessage(
        tuple([relations.of(relid) for relid in relids]), bool(flags & CASCADE), bool(flags & RESTART_IDENTITY)
    )


def read_truncated(message: bytes) -> tuple[list[int], int]:
    """The relids, and the flags."""
    count, flags = pgoutput.TRUNCATE.unpack(message)
    first = pgoutput.TRUNCATE.size
    return [UINT32.unpack_from(message, first + UINT32.size * number)[0] for number in range(count)], flags


def read_tuple(
    message: bytes, at: int, width: int, read_binary: Callable[[int, bytes], str | BinaryValue]
) -> tuple[Row, int]:
    """A tuple's values, and the offset behind it. Columns up to `width` that it lacks, because they were added later,
    are NULL (logicalrep_read_tuple). `read_binary`: a value in binary format, by the number of its column."""
    (count,) = _uint16(message, at)
    at += UINT16.size
    values: list[Any] = []
    for _ in range(count):
        kind = message[at]
        if kind == TEXT_VALUE:
            start = at + _TEXT_AT
            at = start + _uint32(message, at + 1)[0]
            values.append(message[start:at].decode())
        elif kind == NULL_VALUE:
            at += 1
            values.append(None)
        elif kind == UNCHANGED_VALUE:
            at += 1
            values.append(UNCHANGED)
        elif kind == BINARY_VALUE:
            start = at + _TEXT_AT
            at = start + _uint32(message, at + 1)[0]
            values.append(read_binary(len(values), message[start:at]))
        else:
            raise _unrecognized(kind)
    if count < width:
        values += [None] * (width - count)
    return tuple(values), at


def tuple_end(data: bytes, at: int) -> int:
    """The offset behind the tuple that begins at `at`, as read_tuple would find it if all of it is there; IndexError or
    struct.error if it ends before a column does."""
    (count,) = _uint16(data, at)
    at += UINT16.size
    for _ in range(count):
        kind = data[at]
        if kind in _WITH_LENGTH:
            at += _TEXT_AT + _uint32(data, at + 1)[0]
        elif kind in _WITHOUT:
            at += 1
        else:
            raise _unrecognized(kind)
    return at


def _unrecognized(kind: int) -> ProtocolError:
    return ProtocolError(f'unrecognized data representation type "{chr(kind)}"')


# --- pgoutput columns -------------------------------------------------------------------------------------------------


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
    numbers: Numbers = from_any_byte(data, kind)[at].astype(np.int64)
    return numbers


def columns_of_changes(data: Bytes, at: Numbers, relation: SentRelation) -> Decoded:
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
    news = [_values(data, spans, column) for spans, column in zip(new, columns, strict=True)]
    return Decoded(operation, has_old, news, olds, unchanged)


def _walk(data: Bytes, at: Numbers, width: int) -> tuple[list[ColumnSpans], Numbers]:
    """The columns of the tuples that begin at these positions, and the positions behind the tuples."""
    counts = integers(data, at, ">u2")
    if (counts != width).any():
        raise ProtocolError("a tuple with another number of columns than its relation")
    at = at + COLUMN_COUNT.size
    columns = []
    for _ in range(width):
        kind = data[at]
        present = (kind == TEXT_VALUE) | (kind == BINARY_VALUE)
        length = np.where(present, integers(data, at + 1, ">i4"), 0)
        start = np.where(present, at + TEXT_HEAD.size, at + 1)
        at = start + length
        columns.append(ColumnSpans(present, start, length, kind))
    return columns, at


def _values(data: Bytes, spans: ColumnSpans, column: SentColumn) -> pa.Array:
    typoid = column.sent_as
    if typoid in TEXTS or not (spans.kind == BINARY_VALUE).any():
        return text_array(data, spans.start, spans.length, spans.present)
    return _binary_array(data, spans, typoid, is_typed=not column.text_of)


def _binary_array(data: Bytes, spans: ColumnSpans, typoid: int, *, is_typed: bool) -> pa.Array:
    """Values in binary form, as text unless the column keeps its type; Declined: rows have to tell."""
    start, length, present = spans.start, spans.length, spans.present
    if typoid == oids.JSONB:  # a version comes first
        return text_array(data, start + 1, np.maximum(length - 1, 0), present)
    if is_typed and typoid == oids.BOOL:
        return pa.array(data[start] != 0, mask=~present)
    if is_typed and typoid in NUMBERS:
        numbers = number_array(typoid, native_numbers(data, start, typoid), present, form(typoid, -1).arrow())
        if numbers is None:
            raise Declined("a date or time that Arrow lacks")
        return numbers
    view = data.data
    texts = [
        as_text(BinaryValue(view[at : at + size]), typoid) if there else None
        for at, size, there in zip(start.tolist(), length.tolist(), present.tolist(), strict=True)
    ]
    return pa.array(texts, pa.string())


def text_array(data: Bytes, start: Numbers, length: Numbers, present: Flags) -> pa.Array:
    """The bytes at these places as an Arrow array of strings."""
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
