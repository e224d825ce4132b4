"""The writer of pgoutput's messages (logicalrep_write_*)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from pgrepl.lake.history import COMMIT, PREPARE
from pgrepl.replication.wire import pgoutput
from pgrepl.replication.wire.messages import (
    DELETE,
    INSERT,
    UNCHANGED,
    UPDATE,
    Emitted,
    Message,
    Phase,
    Row,
    SentRelation,
    TruncateMessage,
    WireTransaction,
)
from pgrepl.replication.wire.pgoutput import (
    BINARY_VALUE,
    CASCADE,
    COLUMN_COUNT,
    COLUMN_TYPE,
    IS_KEY,
    KEY_TUPLE,
    NEW_TUPLE,
    NULL_VALUE,
    OLD_TUPLE,
    RESTART_IDENTITY,
    TEXT_HEAD,
    TEXT_VALUE,
    TRANSACTIONAL,
    UINT16,
    UINT32,
    UNCHANGED_VALUE,
)
from pgrepl.types.binary import sends
from pgrepl.types.encodings import UTF8, text_to_bytes
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text

_CHANGES = {
    INSERT: pgoutput.CHANGES[pgoutput.INSERT_TYPE],
    UPDATE: pgoutput.CHANGES[pgoutput.UPDATE_TYPE],
    DELETE: pgoutput.CHANGES[pgoutput.DELETE_TYPE],
}
_NEW, _NULL, _UNCHANGED = (bytes([each]) for each in (NEW_TUPLE, NULL_VALUE, UNCHANGED_VALUE))

Line = tuple[int, int, bytes]  # lsn, xid, data


class Encoder:
    """Writes the messages of one stream. A Relation message comes before a relation's first change, and again when the
    relation has changed. A TRUNCATE changes it, too (its relfilenode is new): a Relation message comes before the
    Truncate message, and before the first change after the transaction."""

    def __init__(self, style: TextStyle, *, binary: bool = False, encoding: str = UTF8) -> None:
        """`binary`: values are sent by their types' send functions, where there are any. `encoding`: of all texts."""
        self.style = style
        self._binary = binary
        self._encoding = encoding
        self._encode = str.encode if encoding == UTF8 else partial(text_to_bytes, encoding=encoding)
        self._described: dict[int, tuple[SentRelation, bytes]] = {}

    def lines(self, transaction: WireTransaction) -> Iterator[Line]:
        xid, commit, end = transaction.xid, transaction.finish_lsn, transaction.end_lsn
        when = transaction.committed_at
        emitted = [each for each in transaction.emitted if each.message.transactional]
        for each in transaction.emitted:
            if not each.message.transactional:
                yield each.lsn + 1, 0, self._logical(each)
        phase = transaction.phase
        if phase is not None and phase.kind != PREPARE:
            yield end, xid, self._ended(transaction, phase)
            return
        if phase is not None:
            about, gid = (commit, phase.prepare_end_lsn, when, xid), self._text(phase.gid)
            yield commit, xid, pgoutput.BEGIN_PREPARE.pack(*about) + gid
        elif not emitted and not transaction.size:
            return
        else:
            yield commit, xid, pgoutput.BEGIN.pack(commit, when, xid)
        if transaction.origin:
            yield commit, xid, pgoutput.ORIGIN.pack(transaction.origin_lsn) + self._text(transaction.origin)
        truncated: set[int] = set()
        for number, message in enumerate(transaction.messages):
            while emitted and emitted[0].after == number:
                yield emitted[0].lsn, xid, self._logical(emitted.pop(0))
            relations: tuple[SentRelation, ...]
            if isinstance(message, TruncateMessage):
                relations = message.relations
                truncated.update(self.forget(relation.relid for relation in relations))
            else:
                relations = (message.relation,)
            for relation in relations:
                for described in self.described(relation):
                    yield commit, xid, described
            yield commit, xid, self.truncate(message) if isinstance(message, TruncateMessage) else self._row(message)
        for each in emitted:
            yield each.lsn, xid, self._logical(each)
        self.forget(truncated)
        if phase is not None:
            yield end, xid, pgoutput.PREPARE.pack(0, *about) + gid
        else:
            yield end, xid, pgoutput.COMMIT.pack(0, commit, end, when)

    def described(self, relation: SentRelation) -> Iterator[bytes]:
        """The Relation message, unless it stands."""
        known, message = self._described.get(relation.relid, (None, b""))
        if known != relation:
            written = self._relation(relation)
            self._described[relation.relid] = relation, written
            if written != message:
                yield written

    def forget(self, relids: Iterable[int]) -> list[int]:
        """Have the relations described anew before their next change."""
        forgotten = list(relids)
        for relid in forgotten:
            self._described.pop(relid, None)
        return forgotten

    @staticmethod
    def truncate(message: TruncateMessage) -> bytes:
        flags = message.cascade * CASCADE | message.restart_identity * RESTART_IDENTITY
        relids = [UINT32.pack(relation.relid) for relation in message.relations]
        return pgoutput.TRUNCATE.pack(len(relids), flags) + b"".join(relids)

    def _row(self, message: Message) -> bytes:
        relid, types = message.relation.relid, [column.type for column in message.relation.columns]
        layout = _CHANGES[message.operation]
        if message.old is None:
            assert message.new is not None
            return layout.pack(relid, NEW_TUPLE) + self._tuple(types, message.new)
        data = layout.pack(relid, OLD_TUPLE if message.whole_old else KEY_TUPLE) + self._tuple(types, message.old)
        return data if message.new is None else data + _NEW + self._tuple(types, message.new)

    def _tuple(self, types: Sequence[int], row: Row) -> bytes:
        parts = [COLUMN_COUNT.pack(len(types))]
        for typoid, value in zip(types, row, strict=True):
            if value is None:
                parts.append(_NULL)
            elif value is UNCHANGED:
                parts.append(_UNCHANGED)
            elif self._binary and (send := sends(typoid, self._encoding)) is not None:
                sent = send(value)
                parts.append(TEXT_HEAD.pack(BINARY_VALUE, len(sent)) + sent)
            else:
                written = self._encode(write_text(value, typoid, self.style))
                parts.append(TEXT_HEAD.pack(TEXT_VALUE, len(written)) + written)
        return b"".join(parts)

    def _text(self, value: str) -> bytes:
        """A string as pq_sendstring writes it."""
        return self._encode(value) + b"\0"

    def _ended(self, transaction: WireTransaction, phase: Phase) -> bytes:
        """A Commit Prepared or Rollback Prepared message."""
        xid, end, when = transaction.xid, transaction.end_lsn, transaction.committed_at
        if phase.kind == COMMIT:
            said = pgoutput.COMMIT_PREPARED.pack(0, transaction.finish_lsn, end, when, xid)
        else:
            said = pgoutput.ROLLBACK_PREPARED.pack(0, phase.prepare_end_lsn, end, phase.prepared_at, when, xid)
        return said + self._text(phase.gid)

    def _relation(self, relation: SentRelation) -> bytes:
        parts = [
            pgoutput.RELATION.pack(relation.relid),
            self._text(relation.schema),
            self._text(relation.name),
            relation.replident.encode(),
            UINT16.pack(len(relation.columns)),
        ]
        for column in relation.columns:
            parts.append(bytes([column.is_key * IS_KEY]) + self._text(column.name))
            parts.append(COLUMN_TYPE.pack(column.type, column.typmod))
        return b"".join(parts)

    def _logical(self, emitted: Emitted) -> bytes:
        message = emitted.message
        head = pgoutput.MESSAGE.pack(message.transactional * TRANSACTIONAL, emitted.lsn)
        return head + self._text(message.prefix) + UINT32.pack(len(message.content)) + message.content
