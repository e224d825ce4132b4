"""The loop of an apply worker (LogicalRepApplyLoop), without its I/O: what was received goes in, what is to be done
comes out.

`apply_batch` is a generator of steps that is sent what came of each. streaming.py carries them out; at_once.py only
few.

    by columns    ReceiveColumns → Follow or CommitColumns; None: by rows
    by rows       Receive → FindNews → FindTriggers → Follow or Apply → EndStream
    then          AskUnsettled → Settle → Confirm → Commit → Confirm

Transactions that go the same way (Way) and need no new definition are applied together. Three positions follow each
other: what is `reached`, the origin, and the slot, which is never ahead of the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.publisher.protocol import ColumnsFollow, PublisherError, not_received
from pgrepl.replication.subscriber.lease import Applied, Streamed
from pgrepl.replication.wire.messages import WireTransaction

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.schema_changes.follow import NewRelations

BATCH = 20_000  # changes that are applied together
T = TypeVar("T")


class Bounds(NamedTuple):
    """What is known before a batch."""

    position: int  # of the origin
    start: int  # from here the slot sends
    end: int  # transactions that finish before it are wanted
    present: int  # the publisher's end; whoever reaches it has caught up
    shares_catalog: bool  # the slot is confirmed in the transaction that moves the origin


def is_astray(position: int, confirmed: int, end: int) -> bool:
    """Whether the origin is behind the slot or ahead of the publisher, so that the stream cannot be started."""
    return end < position or 0 < position < confirmed


class Way(Enum):
    """How transactions are applied."""

    IN_MEMORY = auto()  # to rows in memory, without a lock
    STEPPED = auto()  # portion by portion, with the write lock
    PHASES = auto()  # prepared, or ended


# --- steps ------------------------------------------------------------------------------------------------------------


@frozen
class ReceiveColumns:
    """Receive a batch as columns: Columns; None if that is not worth it, or not possible."""


@frozen
class CommitColumns:
    """Apply what was received as columns: Applied; None if it must be applied row by row."""


@frozen
class Receive:
    """Receive transactions: Received."""

    most: int  # changes, about


@frozen
class FindNews:
    """The number of transactions that need no new definition, and NewRelations of the next one, or None."""

    transactions: Sequence[WireTransaction]


@frozen
class FindTriggers:
    """The first run of transactions that fire triggers, its start and its end; None: none does."""

    transactions: Sequence[WireTransaction]


@frozen
class Follow:
    """Follow new definitions, in this transaction."""

    news: NewRelations


@frozen
class Apply:
    """Apply transactions: Applied."""

    transactions: Sequence[WireTransaction]
    way: Way
    news: NewRelations | None  # definitions that are followed between the changes of the only transaction


@frozen
class EndStream:
    """End the stream: the LSN up to which all was delivered."""


@frozen
class AskUnsettled:
    """Whether copied tables become ready at this LSN."""

    lsn: int


@frozen
class Settle:
    """Store what has been reached; tables that were copied before become ready."""

    lsn: int
    moves_origin: bool  # it is behind the last applied transaction
    caught_up: bool


@frozen
class Commit:
    """Commit all since the batch began."""


@frozen
class Confirm:
    """Tell the publisher what has been reached: before the commit if the slot is in the same catalog, else when the
    commit is on disk."""

    lsn: int
    within: bool


Steps: TypeAlias = "Generator[object, Any, T]"


def carry_out(steps: Steps[T], work: Mapping[type, Callable[[Any], Any]]) -> T:
    """Do what each step says, by its class."""
    answer = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = work[type(step)](step)


# --- what was received ------------------------------------------------------------------------------------------------


@frozen
class Columns:
    """A batch of columns, without the part behind new definitions."""

    changes: int
    transactions: int
    reached: int  # once all of it is applied
    is_whole: bool  # nothing was cut off
    news: NewRelations | None = None  # definitions that all of it needs


@frozen
class Received:
    """Transactions, in order."""

    transactions: list[WireTransaction]
    more: bool  # more transactions follow
    refused: PgError | None = None  # the error that ended the stream

    @classmethod
    def of(cls, stream: Generator[WireTransaction, None, None], most: int) -> Received:
        """Transactions of about `most` changes, one at least if there is one. One that is stepped through comes by
        itself. The stream stays open only for a large one, whose messages are read while it is applied."""
        transactions: list[WireTransaction] = []
        count = 0
        try:
            for transaction in stream:
                alone = is_stepped_through(transaction)
                late = bool(transactions) and _is_late(transactions[-1])
                if transactions and not late and (alone or count + transaction.size > most):
                    stream.close()
                    return cls(transactions, True)
                transactions.append(transaction)
                count += transaction.size
                if alone and not _is_late(transaction):
                    return cls(transactions, True)
        except PublisherError as error:
            return cls(transactions, False, not_received(error))
        except ColumnsFollow:
            return cls(transactions, True)
        return cls(transactions, False)

    def until(self, number: int) -> Received:
        """The first transactions; an error behind others is met again."""
        if number >= len(self.transactions):
            return self
        return replace(self, transactions=self.transactions[:number], more=True, refused=None)

    def reached(self, applied: Applied, start: int, end: int) -> int:
        """The LSN before which nothing is left to apply."""
        if applied.error is None and not self.more and self.refused is None:
            return max(start, end)
        return applied.end_lsn if applied.transactions else start

    def judged(self, applied: Applied) -> Applied:
        """The outcome, with the stream's error if all received transactions were applied."""
        return applied if applied.error is not None or self.refused is None else applied.failed(self.refused)


def is_stepped_through(transaction: WireTransaction) -> bool:
    """Whether a transaction must be applied with the write lock: it is large, or its effects cannot be repeated."""
    return transaction.is_large or transaction.restarts or transaction.phase is not None


def _is_late(transaction: WireTransaction) -> bool:
    return transaction.phase is not None and transaction.phase.is_late


# --- the loop ---------------------------------------------------------------------------------------------------------


def apply_batch(at: Bounds, limit: int | None) -> Steps[Streamed]:
    """Receive and apply one batch, with about `limit` changes at most."""
    done = None if limit is not None else (yield from _by_columns(at))
    applied, reached, end = done or (yield from _by_rows(at, BATCH if limit is None else min(limit, BATCH)))
    settles = applied.transactions or reached > at.start or (yield AskUnsettled(reached))
    if settles:
        # a slot must not be ahead of its origin, which has moved with the applied transactions
        yield Settle(reached, reached > max(at.position, applied.end_lsn), reached >= at.present)
        if at.shares_catalog:
            yield Confirm(reached, within=True)
    yield Commit()
    if settles and not at.shares_catalog:
        yield Confirm(reached, within=False)
    return Streamed(at.start, end, reached, applied)


_Done: TypeAlias = "tuple[Applied, int, int]"  # what was applied, reached, and asked for


def _by_columns(at: Bounds) -> Steps[_Done | None]:
    columns: Columns | None = yield ReceiveColumns()
    if columns is None:
        return None
    if columns.news is not None:
        yield Follow(columns.news)
        return Applied(0, 0, at.position), at.start, at.end
    if not columns.changes:
        return Applied(0, 0, at.position), columns.reached, at.end
    applied: Applied | None = yield CommitColumns()
    if applied is None:
        return None
    is_whole = columns.is_whole and applied.transactions == columns.transactions
    return applied, columns.reached if is_whole else applied.end_lsn, at.end


def _by_rows(at: Bounds, most: int) -> Steps[_Done]:
    received: Received = yield Receive(most)
    number, news = yield FindNews(received.transactions)
    if news is not None:
        if not number and not news.is_within:
            yield Follow(news)
            return Applied(0, 0, at.position), at.start, at.end
        received = received.until(number or 1)
    within = None if number else news
    fires = False
    first = received.transactions[0] if received.transactions else None
    if first is not None and first.phase is None and within is None:
        triggers: tuple[int, int] | None = yield FindTriggers(received.transactions)
        if triggers is not None:
            fires = not triggers[0]
            received = received.until(triggers[0] or triggers[1])
    applied = Applied(0, 0, at.position)
    if first is not None:
        stepped = Way.STEPPED if first.phase is None else Way.PHASES
        way = stepped if within is not None or fires or is_stepped_through(first) else Way.IN_MEMORY
        applied = yield Apply(received.transactions, way, within)
    end: int = yield EndStream()
    return received.judged(applied), received.reached(applied, at.start, end), end
