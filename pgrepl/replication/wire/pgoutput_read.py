"""The reader of pgoutput's messages, one by one (logicalrep_read_*).

Values come as text from the server's output functions and stay text: the target column reads them with its own input
function, as PostgreSQL's apply worker does. So a relation's columns have type text. With `binary = true` values come
from send functions (binary_values.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from pgrepl.lake.history import COMMIT, PREPARE, ROLLBACK
from pgrepl.replication.wire import pgoutput
from pgrepl.replication.wire.binary_values import BinaryValue, binary_value
from pgrepl.replication.wire.messages import (
    DELETE,
    INSERT,
    UNCHANGED,
    UPDATE,
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
    COMMIT_PREPARED_TYPE,
    COMMIT_TYPE,
    DELETE_TYPE,
    END_LSN_AT,
    INSERT_TYPE,
    IS_KEY,
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
    ProtocolError,
    read_text,
)
from pgrepl.types.oids import TEXT

_CHANGES = frozenset(pgoutput.CHANGES)
_TEXT_AT = TEXT_HEAD.size  # behind a value's kind
_WITH_LENGTH = frozenset((TEXT_VALUE, BINARY_VALUE))
_WITHOUT = frozenset((NULL_VALUE, UNCHANGED_VALUE))
_uint16, _uint32 = UINT16.unpack_from, UINT32.unpack_from  # bound once: they are called for each value
_ABOUT = frozenset((BEGIN_TYPE, COMMIT_TYPE, ORIGIN_TYPE, TYPE_TYPE, BEGIN_PREPARE_TYPE, PREPARE_TYPE))


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
        found = _relation(message)
        before = self.known.get(found.relid)
        if before == found:
            return before  # the same object, so that caches by relation stay valid
        self.known[found.relid] = found
        return found


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
    for message in messages:
        kind = message[0]
        if kind in _CHANGES:
            changes.append(read_change(message, relations))
        elif kind == BEGIN_TYPE:
            begun, phase, origin, changes = pgoutput.BEGIN.unpack(message), None, None, []
        elif kind == BEGIN_PREPARE_TYPE:
            begun, phase = read_begin_prepare(message)
            origin, changes = None, []
        elif kind in (COMMIT_PREPARED_TYPE, ROLLBACK_PREPARED_TYPE):
            yield read_end(message)
        elif kind in (COMMIT_TYPE, PREPARE_TYPE):
            if begun is None or (kind == PREPARE_TYPE) != (phase is not None):
                raise ProtocolError("COMMIT without BEGIN")
            finish_lsn, committed_at, xid = begun
            (end_lsn,) = UINT64.unpack_from(message, END_LSN_AT)
            yield WireTransaction(xid, finish_lsn, end_lsn, committed_at, tuple(changes), origin, phase=phase)
            begun, changes = None, []
        elif kind == RELATION_TYPE:
            relations.learn(message)
        elif kind == TRUNCATE_TYPE:
            changes.append(read_truncate(message, relations))
        elif kind == ORIGIN_TYPE:
            origin = read_origin(message)
        elif kind != TYPE_TYPE:
            raise ProtocolError(f'invalid logical replication message type "{chr(kind)}"')
    if begun is not None:
        raise ProtocolError("the last transaction is not complete")


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
