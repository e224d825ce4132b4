"""Messages: what a publisher puts on the wire for the changes of a transaction.

A message carries rows as tuples by the columns sent. Of an old row only the replica identity is sent, and of an UPDATE
that only when it has changed; columns that are not sent of it are None. publisher/decision.py says which message a
change becomes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.lake.history import LogicalMessage

Row = tuple[Any, ...]

OPERATIONS = INSERT, UPDATE, DELETE, TRUNCATE = "insert", "update", "delete", "truncate"

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
