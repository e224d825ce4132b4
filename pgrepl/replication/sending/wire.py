"""Messages: what is put on the wire for a change, as pgoutput_change and pgoutput_truncate decide.

A message carries rows as tuples by the columns sent. Of an old row only the replica identity is sent, and of an UPDATE
that only when it has changed; columns that are not sent of it are None. A filter may turn an UPDATE into an INSERT or
a DELETE, or into nothing; whether an operation is published at all is asked of the original one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.expr.context import Context
from pgrepl.frozen import frozen
from pgrepl.replication.sending.filters import any_true
from pgrepl.replication.sending.plan import DELETE, INSERT, TRUNCATE, UPDATE, SendPlan
from pgrepl.rows.routing import converter

if TYPE_CHECKING:
    from pgrepl.lake.history import LogicalMessage

Row = tuple[Any, ...]

PORTION = 100_000  # messages of a transaction that are held in memory at a time


@frozen
class SentColumn:
    name: str
    type: int
    typmod: int
    is_key: bool
    text_of: int = 0  # a server's values come as text: of this type

    @property
    def sent_as(self) -> int:
        """The publisher's type."""
        return self.text_of or self.type


@frozen
class SentRelation:
    """How the publisher describes a table: what a Relation message holds. `relid` is the publisher's."""

    relid: int
    schema: str
    name: str
    replident: str
    columns: tuple[SentColumn, ...]

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"


class Unchanged:
    """Stands for a value that is not sent because it did not change (a large value that a server stores apart)."""


UNCHANGED = Unchanged()


@frozen
class Message:
    """One change on the wire. `old` is an UPDATE's or DELETE's old key or row, by the relation's columns."""

    operation: str
    relation: SentRelation
    old: Row | None = None
    new: Row | None = None
    whole_old: bool = False  # `old` is a whole row, not only a key


@frozen
class TruncateMessage:
    """All tables that one TRUNCATE emptied."""

    relations: tuple[SentRelation, ...]
    cascade: bool = False
    restart_identity: bool = False


class Messages(Protocol):
    """Those of a large transaction. They are read anew each time, and only as long as nothing else is asked of who has
    given the transaction."""

    @property
    def size(self) -> int:
        """About how many."""
        ...

    def __iter__(self) -> Iterator[Message | TruncateMessage]: ...


MESSAGE_BYTES = 96  # that a change takes in memory beside its values (ReorderBufferChange)


def message_bytes(messages: tuple[Message | TruncateMessage, ...] | Messages) -> int:
    """About what messages take in memory (ReorderBufferChangeSize); those of a large transaction are not at hand."""
    if not isinstance(messages, tuple):
        return MESSAGE_BYTES * messages.size
    size = MESSAGE_BYTES * len(messages)
    for message in messages:
        if isinstance(message, Message):
            for row in (message.old, message.new):
                size += sum(len(v) if isinstance(v, (str, bytes)) else 8 for v in row or () if v is not None)
    return size


@frozen
class Emitted:
    """A logical message, and how many messages about rows come before it in its transaction."""

    lsn: int
    message: LogicalMessage
    after: int


@frozen
class Phase:
    """What of a prepared transaction is told: that it was prepared, or how it ended (PREPARE, COMMIT, ROLLBACK)."""

    kind: str
    gid: str
    prepare_lsn: int
    prepare_end_lsn: int
    prepared_at: int  # microseconds since 2000-01-01
    is_late: bool = False  # its end follows at once, and is to be applied with it


@frozen
class WireTransaction:
    """A transaction of the publisher: what a Begin and a Commit message enclose.

    `finish_lsn` is where its commit stands; what comes after it begins at `end_lsn`. One with more than about PORTION
    messages `is_large`: it has them not at hand.
    """

    xid: int
    finish_lsn: int
    end_lsn: int
    committed_at: int  # microseconds since 2000-01-01
    messages: tuple[Message | TruncateMessage, ...] | Messages
    origin: str | None = None  # where the publisher has it from
    emitted: tuple[Emitted, ...] = ()  # to who asks for logical messages
    origin_lsn: int = 0  # where it ends there
    phase: Phase | None = None  # None: all of it is here, and is committed

    @property
    def is_large(self) -> bool:
        return not isinstance(self.messages, tuple)

    @property
    def restarts(self) -> bool:
        """Whether sequences begin anew in it, of which its later rows may take numbers; asked of small ones."""
        messages = self.messages if isinstance(self.messages, tuple) else ()
        return any(isinstance(message, TruncateMessage) and message.restart_identity for message in messages)

    @property
    def size(self) -> int:
        """How many messages; of a large one about how many."""
        return len(self.messages) if isinstance(self.messages, tuple) else self.messages.size


class Sender:
    """The messages of one table's changes under one plan."""

    def __init__(self, plan: SendPlan) -> None:
        self.plan = plan
        self.relation = describe(plan)
        self._numbers = [plan.from_attnums[column.num - 1] for column in plan.columns]
        self._key = plan.identity
        context = Context()
        self._filters = {operation: any_true(exprs, context) for operation, exprs in plan.filters.items()}
        self._as_sent_table = converter(plan.table, plan.sent_as)

    def insert(self, new: Row) -> Message | None:
        if INSERT not in self.plan.operations or not self._passes(INSERT, new):
            return None
        return Message(INSERT, self.relation, new=self._sent(new))

    def delete(self, old: Row) -> Message | None:
        if DELETE not in self.plan.operations:
            return None
        known = self._old_image(old)
        if known is None or not self._passes(DELETE, known):
            return None
        return self._delete(known)

    def update(self, old: Row, new: Row) -> Message | None:
        if UPDATE not in self.plan.operations:
            return None
        known = self._old_image(old) if self.plan.whole_old_rows or self._key_changed(old, new) else None
        if UPDATE not in self._filters:
            return self._update(known, new)
        if known is None:
            return self._update(None, new) if self._passes(UPDATE, new) else None
        before, after = self._passes(UPDATE, known), self._passes(UPDATE, new)
        if before and after:
            return self._update(known, new)
        if after:
            return Message(INSERT, self.relation, new=self._sent(new))
        return self._delete(known) if before else None

    def _update(self, old: Row | None, new: Row) -> Message:
        known = None if old is None else self._sent(old)
        return Message(UPDATE, self.relation, known, self._sent(new), whole_old=self.plan.whole_old_rows)

    def _delete(self, old: Row) -> Message:
        return Message(DELETE, self.relation, self._sent(old), whole_old=self.plan.whole_old_rows)

    def _old_image(self, old: Row) -> Row | None:
        """What the publisher's log knows of an old row (ExtractReplicaIdentity)."""
        if self.plan.whole_old_rows:
            return old
        if not self._key:
            return None
        return tuple([value if number in self._key else None for number, value in enumerate(old, 1)])

    def _key_changed(self, old: Row, new: Row) -> bool:
        return any(old[number - 1] != new[number - 1] for number in self._key)

    def _passes(self, operation: str, row: Row) -> bool:
        test = self._filters.get(operation)
        return test is None or test(self._as_sent_table(row))

    def _sent(self, row: Row) -> Row:
        return tuple([row[number - 1] if number else None for number in self._numbers])


def describe(plan: SendPlan) -> SentRelation:
    """As logicalrep_write_rel: the table's columns under the name it is sent as."""
    table, sent_as = plan.table, plan.sent_as
    columns = []
    for column in plan.columns:
        is_key = plan.whole_old_rows or plan.from_attnums[column.num - 1] in plan.identity
        columns.append(SentColumn(column.name, column.type, column.typmod, is_key))
    return SentRelation(sent_as.oid, sent_as.schema, sent_as.name, table.replident, tuple(columns))


def truncated(plans: Iterable[SendPlan | None], *, cascade: bool, restart_identity: bool) -> TruncateMessage | None:
    """The tables of one TRUNCATE that are sent, or None (pgoutput_truncate)."""
    sent = tuple(_truncated_relations(plans))
    return TruncateMessage(sent, cascade, restart_identity) if sent else None


def _truncated_relations(plans: Iterable[SendPlan | None]) -> Iterator[SentRelation]:
    for plan in plans:
        if plan is None or TRUNCATE not in plan.operations:
            continue
        if plan.table.is_partition and plan.sent_as.oid != plan.table.oid:
            continue  # the root is sent, or nothing
        yield describe(plan)
