"""The messages of the logical replication protocol, versions 1 and 3 (proto.c): what a subscription
receives, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from pgrepl.lake.history import COMMIT, PREPARE
from pgrepl.replication.wire.messages import (
    UNCHANGED,
    Emitted,
    Message,
    Phase,
    Row,
    SentRelation,
    TruncateMessage,
    WireTransaction,
)
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text

# values are readable for everybody, whatever the session's settings (libpqrcv_connect)
STYLE = TextStyle(datestyle="ISO, YMD", intervalstyle="postgres", extra_float_digits=3)
_OPERATIONS = {"insert": b"I", "update": b"U", "delete": b"D"}

Line = tuple[int, int, bytes]  # lsn, xid, data


class Encoder:
    """The messages of one stream: a relation is described before it is first used, and when it has changed. A TRUNCATE
    changes it too (its file is another): it is described before the message and after the transaction."""

    def __init__(self, style: TextStyle) -> None:
        self._style = style
        self._described: dict[int, SentRelation] = {}

    def lines(self, transaction: WireTransaction) -> Iterator[Line]:
        xid, commit, end = transaction.xid, transaction.finish_lsn, transaction.end_lsn
        when = transaction.committed_at
        emitted = [each for each in transaction.emitted if each.message.transactional]
        for each in transaction.emitted:
            if not each.message.transactional:
                yield each.lsn + 1, 0, _logical(each)
        phase = transaction.phase
        if phase is not None and phase.kind != PREPARE:
            yield end, xid, _ended(transaction, phase)
            return
        if phase is not None:
            about = struct.pack("!qqqI", commit, phase.prepare_end_lsn, when, xid) + _string(phase.gid)
            yield commit, xid, b"b" + about
        elif not emitted and not transaction.size:
            return
        else:
            yield commit, xid, struct.pack("!cqqI", b"B", commit, when, xid)
        if transaction.origin:
            yield commit, xid, struct.pack("!cq", b"O", transaction.origin_lsn) + _string(transaction.origin)
        truncated: set[int] = set()
        for number, message in enumerate(transaction.messages):
            while emitted and emitted[0].after == number:
                yield emitted[0].lsn, xid, _logical(emitted.pop(0))
            relations: tuple[SentRelation, ...]
            if isinstance(message, TruncateMessage):
                relations = message.relations
                truncated.update(self._forget(relation.relid for relation in relations))
            else:
                relations = (message.relation,)
            for relation in relations:
                if self._described.get(relation.relid) != relation:
                    self._described[relation.relid] = relation
                    yield commit, xid, _relation(relation)
            yield commit, xid, self._truncate(message) if isinstance(message, TruncateMessage) else self._row(message)
        for each in emitted:
            yield each.lsn, xid, _logical(each)
        self._forget(truncated)
        if phase is not None:
            yield end, xid, b"P\0" + about
        else:
            yield end, xid, struct.pack("!cBqqq", b"C", 0, commit, end, when)

    def _forget(self, relids: Iterable[int]) -> list[int]:
        """They are described anew when they are used again."""
        forgotten = list(relids)
        for relid in forgotten:
            self._described.pop(relid, None)
        return forgotten

    @staticmethod
    def _truncate(message: TruncateMessage) -> bytes:
        flags = message.cascade | message.restart_identity << 1
        numbers = [relation.relid for relation in message.relations]
        return struct.pack(f"!cIB{len(numbers)}I", b"T", len(numbers), flags, *numbers)

    def _row(self, message: Message) -> bytes:
        columns = message.relation.columns
        parts = [_OPERATIONS[message.operation], struct.pack("!I", message.relation.relid)]
        if message.old is not None:
            parts.append(b"O" if message.whole_old else b"K")
            parts.append(self._tuple([column.type for column in columns], message.old))
        if message.new is not None:
            parts.append(b"N")
            parts.append(self._tuple([column.type for column in columns], message.new))
        return b"".join(parts)

    def _tuple(self, types: Sequence[int], row: Row) -> bytes:
        parts = [struct.pack("!H", len(types))]
        for typoid, value in zip(types, row, strict=True):
            if value is None:
                parts.append(b"n")
            elif value is UNCHANGED:
                parts.append(b"u")
            else:
                text = write_text(value, typoid, self._style).encode()
                parts.append(struct.pack("!cI", b"t", len(text)) + text)
        return b"".join(parts)


def _ended(transaction: WireTransaction, phase: Phase) -> bytes:
    """Commit Prepared or Rollback Prepared."""
    xid, end, when = transaction.xid, transaction.end_lsn, transaction.committed_at
    if phase.kind == COMMIT:
        said = struct.pack("!cBqqqI", b"K", 0, transaction.finish_lsn, end, when, xid)
    else:
        said = struct.pack("!cBqqqqI", b"r", 0, phase.prepare_end_lsn, end, phase.prepared_at, when, xid)
    return said + _string(phase.gid)


def _relation(relation: SentRelation) -> bytes:
    parts = [
        struct.pack("!cI", b"R", relation.relid),
        _string(relation.schema),
        _string(relation.name),
        relation.replident.encode(),
        struct.pack("!H", len(relation.columns)),
    ]
    for column in relation.columns:
        parts.append(struct.pack("!B", column.is_key) + _string(column.name))
        parts.append(struct.pack("!Ii", column.type, column.typmod))
    return b"".join(parts)


def _logical(emitted: Emitted) -> bytes:
    message = emitted.message
    head = struct.pack("!cBq", b"M", message.transactional, emitted.lsn)
    return head + _string(message.prefix) + struct.pack("!I", len(message.content)) + message.content


def _string(text: str) -> bytes:
    return text.encode() + b"\0"
