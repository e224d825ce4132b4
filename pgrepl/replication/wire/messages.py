"""The messages that a publisher sends for the changes of a transaction, with rows as tuples of the sent columns.

Of an old row only the replica identity is sent, with an UPDATE only if it has changed. publisher/plan.py says
which message a change becomes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.ground.frozen import frozen
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    from pgrepl.lake.changes.history import LogicalMessage
    from pgrepl.lake.table import LakeColumn
    from pgrepl.types.lake.arrays import Form

Row = tuple[Any, ...]

OPERATIONS = INSERT, UPDATE, DELETE, TRUNCATE = "insert", "update", "delete", "truncate"

PORTION = 100_000  # messages of a transaction that are held in memory at a time


@frozen
class SentColumn:
    name: str
    type: int
    typmod: int
    is_key: bool
    text_of: int = 0  # the publisher's type, if values come as text from a server; `type` is text then
    text_typmod: int = -1  # that type's modifier
    attnum: int = 0  # the column's number in the publisher's table; 0: the publisher does not tell
    kept: LakeColumn | None = None  # how a publisher's lake keeps rows, in columns of values

    @property
    def form(self) -> Form:
        """The form of values in columns."""
        return form(self.type, self.typmod) if self.kept is None else self.kept.form

    @property
    def sent_as(self) -> int:
        """The publisher's type."""
        return self.text_of or self.type

    @property
    def sent_typmod(self) -> int:
        return self.text_typmod if self.text_of else self.typmod


@frozen
class SentRelation:
    """The publisher's description of a table, as in a Relation message. `relid` is the publisher's."""

    relid: int
    schema: str
    name: str
    replident: str
    columns: tuple[SentColumn, ...]

    def __hash__(self) -> int:
        return hash(self.relid)  # each message looks its relation up

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"


class Unchanged:
    """Stands for an unchanged TOAST value, which a server does not send."""

    def __reduce__(self) -> str:
        return "UNCHANGED"  # in other processes, too, it is the only one


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
    """The messages of a large transaction. Each iteration reads them anew; they can be read only until the publisher is
    asked for something else."""

    @property
    def size(self) -> int:
        """About how many messages there are."""

    def __iter__(self) -> Iterator[Message | TruncateMessage]: ...


MESSAGE_BYTES = 96  # memory of a change without its values (ReorderBufferChange)


def message_bytes(messages: tuple[Message | TruncateMessage, ...] | Messages) -> int:
    """About the memory that messages take (ReorderBufferChangeSize). Those of a large transaction are not read: their
    values are not counted."""
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
    """A logical message (pg_logical_emit_message); `after`: the number of changes before it in its transaction."""

    lsn: int
    message: LogicalMessage
    after: int


@frozen
class Phase:
    """The step of a prepared transaction that a WireTransaction stands for: PREPARE, COMMIT or ROLLBACK."""

    kind: str
    gid: str
    prepare_end_lsn: int
    prepared_at: int  # microseconds since 2000-01-01
    is_late: bool = False  # COMMIT or ROLLBACK PREPARED follows at once, and is to be applied with it


@frozen
class WireTransaction:
    """A transaction of the publisher: the messages between a Begin and a Commit message.

    `finish_lsn` is the LSN of its commit, `end_lsn` the LSN behind it. A transaction with more than about PORTION
    messages `is_large`: its messages are not in memory, but read by iteration.
    """

    xid: int
    finish_lsn: int
    end_lsn: int
    committed_at: int  # microseconds since 2000-01-01
    messages: tuple[Message | TruncateMessage, ...] | Messages
    origin: str | None = None  # the replication origin at the publisher, if the publisher has received it itself
    emitted: tuple[Emitted, ...] = ()  # sent to readers that ask for logical messages
    origin_lsn: int = 0  # its end at that origin
    phase: Phase | None = None  # None: an ordinary committed transaction

    @property
    def is_large(self) -> bool:
        return not isinstance(self.messages, tuple)

    @property
    def restarts(self) -> bool:
        """Whether a TRUNCATE in it restarts sequences, from which defaults of its later rows may take values. A large
        transaction is not looked into."""
        messages = self.messages if isinstance(self.messages, tuple) else ()
        return any(isinstance(message, TruncateMessage) and message.restart_identity for message in messages)

    @property
    def size(self) -> int:
        """The number of messages, for a large transaction about."""
        return len(self.messages) if isinstance(self.messages, tuple) else self.messages.size
