"""Applies the transactions of a publisher, in order, each exactly once.

A batch is first applied to rows in memory, without a lock; the result is written in one transaction of the catalog
with the origin. The first transaction that fails ends the batch before it. One that is too large for memory, restarts
sequences or changes tables with triggers is applied by itself, in portions, holding the write lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.store import tables
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.lake.changes.history import PREPARE
from pgrepl.lake.storage import crash_point
from pgrepl.replication.log import ServerLog
from pgrepl.replication.subscriber import conflicts, state
from pgrepl.replication.subscriber.apply import write as two_phase
from pgrepl.replication.subscriber.apply.play import Player
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.subscriber.apply.triggers import AppliedOrigin, TriggeredTables, calling
from pgrepl.replication.subscriber.apply.write import write
from pgrepl.replication.subscriber.conflicts import Missed
from pgrepl.replication.subscriber.copying import ranges
from pgrepl.replication.subscriber.lease import Applied
from pgrepl.replication.wire import messages as wire
from pgrepl.replication.wire.messages import Message, SentRelation, TruncateMessage, WireTransaction
from pgrepl.replication.wire.messages import Row as Values
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.definitions import Told


class Follow(Protocol):
    """Changes tables here as their publisher's are changed (schema_changes)."""

    def new_in(self, message: Message | TruncateMessage, transaction: WireTransaction) -> list[SentRelation]:
        """The relations that are to be followed before the message is applied."""

    def follow(self, sent: SentRelation, xid: int, finish_lsn: int) -> None: ...

    def told(self, transaction: WireTransaction) -> list[tuple[int, Told]]:
        """What it tells of definitions, each with the number of changes before it."""

    def follow_told(self, told: Told, xid: int, finish_lsn: int) -> None: ...


@frozen
class Batch:
    """Applied transactions: `count` of them can be written, `error` is that of the next one."""

    session: Session
    subscription: tables.pg_subscription
    log: ServerLog
    transactions: Sequence[WireTransaction]
    count: int
    player: Player | None  # None: there is nothing to write
    error: PgError | None
    only: int = 0
    failed: Sequence[Missed] = ()  # what the transaction with the error has missed

    @property
    def applied(self) -> Applied:
        done = self.transactions[: self.count]
        changes = sum(transaction.size for transaction in done)
        skipped = sum(transaction.size for transaction in done[: _skips(self.subscription, done)])
        passed = skipped + (self.player.passed if self.player else 0)
        return Applied(len(done), changes, done[-1].end_lsn if done else 0, self.error, passed)

    def write(self) -> Applied:
        """Write the applied transactions, and move the origin; holding the write lock."""
        if self.player is not None:
            conflicts.tell(self.session, self.subscription, self.player.conflicts.missed, self.log)
            conflicts.tell(self.session, self.subscription, self.failed, self.log, kept=False)
            write(self.session, self.player, subscriptions.origin_name(self.subscription.oid))
            _store_ranges(self.session, self.subscription, self.player)
        return _advance(self.session, self.subscription, self.transactions, self.applied, self.log, self.only)


def play(
    session: Session,
    subscription: tables.pg_subscription,
    transactions: Sequence[WireTransaction],
    log: ServerLog,
    only: int = 0,
) -> Batch:
    """Apply received transactions to rows in memory, as the subscription's owner. `only`: the changes of one table,
    whose own origin moves."""
    skipped = _skips(subscription, transactions)
    played = transactions[skipped:]
    player, failed = _played(session, subscription, played, only=only) if played else (None, None)
    if failed is None:
        return Batch(session, subscription, log, transactions, len(transactions), player, None, only)
    clean, error = failed
    assert player is not None
    missed = player.conflicts.of_last
    player = _played(session, subscription, played[:clean], player.completed, only)[0] if clean else None
    if player is None:
        conflicts.tell(session, subscription, missed, log, kept=False)
    return Batch(session, subscription, log, transactions, clean + skipped, player, error, only, missed)


def step_through(
    session: Session,
    subscription: tables.pg_subscription,
    transactions: Sequence[WireTransaction],
    log: ServerLog,
    between: Callable[[], None],
    follow: Follow | None = None,
    only: int = 0,
) -> Applied:
    """Apply transactions portion by portion, each written before the next; holding the write lock. The first one that
    fails ends the work before it. `follow` is told of each message before which a portion ends, as a table is to be
    changed. `only`: see play."""
    skipped = _skips(subscription, transactions)
    changes = passed = sum(transaction.size for transaction in transactions[:skipped])
    error: PgError | None = None
    done = skipped
    for transaction in transactions[skipped:]:
        several = len(transactions) > 1
        if several:
            session.transaction.begin_subtransaction()
        try:
            applied_changes, unapplied = step(session, subscription, transaction, log, between, follow, only)
        except PgError as failure:
            if done == skipped:
                raise
            session.transaction.rollback_subtransaction()
            error = failure
            break
        if several:
            session.transaction.release_subtransaction()
        passed += unapplied
        changes += applied_changes
        done += 1
    applied = Applied(done, changes, transactions[done - 1].end_lsn, error, passed)
    return _advance(session, subscription, transactions[:done], applied, log, only)


def step(
    session: Session,
    subscription: tables.pg_subscription,
    transaction: WireTransaction,
    log: ServerLog,
    between: Callable[[], None],
    follow: Follow | None = None,
    only: int = 0,
) -> tuple[int, int]:
    """Apply one transaction, without moving the origin; returns the number of its messages, and of those that were not
    applied."""
    count = passed = 0
    waiting = len(session.transaction.before_commit)
    for number, portion in enumerate(_portions(transaction, follow)):
        between()
        count += len(portion)
        passed += _write_portion(
            session,
            subscription,
            transaction,
            portion,
            log,
            before=2 * (count - len(portion)),
            continued=number > 0,
            only=only,
        )
    _fire_deferred(session, subscription, transaction, waiting)
    return count, passed


def apply_phases(
    session: Session, subscription: tables.pg_subscription, transactions: Sequence[WireTransaction], log: ServerLog
) -> Applied:
    """Prepare transactions, or end those that are prepared; holding the write lock."""
    done = [_apply_phase(session, subscription, transaction, log) for transaction in transactions]
    return replace(done[-1], transactions=len(done), changes=done[0].changes, passed=done[0].passed)


def _apply_phase(
    session: Session, subscription: tables.pg_subscription, transaction: WireTransaction, log: ServerLog
) -> Applied:
    phase = transaction.phase
    assert phase is not None
    progress = Progress(subscriptions.origin_name(subscription.oid))
    progress.transaction(transaction.xid, transaction.finish_lsn)
    progress.command = two_phase.message_type(phase)
    skipped = _skips(subscription, [transaction])
    player: Player | None = None
    if phase.kind == PREPARE and not skipped:
        if TriggeredTables(session).concern(transaction):
            raise progress.explain(unsupported("PREPARE TRANSACTION of changes for which triggers fire"))
        player, failed = _played(session, subscription, [transaction])
        if failed is not None:
            raise failed[1]
        conflicts.tell(session, subscription, player.conflicts.missed, log)
    try:
        if phase.kind == PREPARE:
            two_phase.prepare(session, subscription, transaction, player)
        else:
            two_phase.end(session, subscription, transaction)
    except PgError as error:
        raise progress.explain(error) from error.__cause__
    passed = transaction.size if skipped else player.passed if player else 0
    applied = Applied(1, transaction.size, transaction.end_lsn, passed=passed)
    if phase.kind == PREPARE:
        return _advance(session, subscription, [transaction], applied, log)
    state.move(session, subscription.oid, applied.end_lsn)
    crash_point("apply.origin")
    return applied


def _store_ranges(session: Session, subscription: tables.pg_subscription, player: Player) -> None:
    """A table whose copy was done, but of which a range must be copied again, is not done."""
    subid = subscription.oid
    for relid, changed in player.ranges.items():
        if changed.is_changed:
            ranges.store(session, subid, relid, changed)
            if changed.unfinished and state.table_state(session, subid, relid) == subscriptions.SYNC_DONE:
                state.set_table_state(session, subid, relid, subscriptions.DATASYNC, None)


def _skips(subscription: tables.pg_subscription, transactions: Sequence[WireTransaction]) -> int:
    """The number of transactions at the start that ALTER SUBSCRIPTION … SKIP skips: one or none."""
    return int(bool(transactions) and transactions[0].finish_lsn == subscription.subskiplsn)


def _advance(
    session: Session,
    subscription: tables.pg_subscription,
    transactions: Sequence[WireTransaction],
    applied: Applied,
    log: ServerLog,
    only: int = 0,
) -> Applied:
    if applied.transactions:
        first = transactions[0].finish_lsn
        if subscription.subconflictlog:
            if _skips(subscription, transactions):
                conflicts.keep_skipped(session, subscription, transactions[0], log)
        if subscription.subconflictlog and not only:  # a table's own stream may be ahead of the main one
            conflicts.settle(session, subscription.oid, transactions[applied.transactions - 1].finish_lsn)
        if not only or first == subscription.subskiplsn:  # else it is for the main stream to say that it does not match
            _clear_skip(session, subscription, first, log)
        state.move(session, subscription.oid, applied.end_lsn, only)
        crash_point("apply.origin")
    return applied


def _played(
    session: Session,
    subscription: tables.pg_subscription,
    transactions: Sequence[WireTransaction],
    completed: dict[int, Values] | None = None,
    only: int = 0,
) -> tuple[Player, tuple[int, PgError] | None]:
    """The player with the result of the transactions, and the first that fails with its error."""
    player = _player(session, subscription, completed, only=only)
    player.prefetch(transactions)
    for number, transaction in enumerate(transactions):
        try:
            player.play(transaction)
        except PgError as error:
            return player, (number, error)
    return player, None


def _write_portion(
    session: Session,
    subscription: tables.pg_subscription,
    transaction: WireTransaction,
    portion: Sequence[Message | TruncateMessage],
    log: ServerLog,
    *,
    before: int,
    continued: bool,
    only: int,
) -> int:
    """Apply and write one portion; returns the number of messages that were not applied (Player.passed). `before`: at
    least so many changes of rows came before it in the transaction."""
    origin = subscriptions.origin_name(subscription.oid)

    def write_so_far(player: Player) -> None:
        nonlocal continued
        write(session, player, origin, continued=continued)
        continued = True

    player = _player(session, subscription, write=write_so_far, only=only)
    player.logs.number = before
    part = replace(transaction, messages=tuple(portion))
    player.prefetch([part])
    with calling(session, player, AppliedOrigin(origin, transaction.end_lsn)):
        player.play(part)
    conflicts.tell(session, subscription, player.conflicts.missed, log)
    write_so_far(player)
    _store_ranges(session, subscription, player)
    crash_point("apply.portion")
    return player.passed


def _fire_deferred(
    session: Session, subscription: tables.pg_subscription, transaction: WireTransaction, first: int
) -> None:
    """Fire the constraint triggers that have waited for the end of the transaction."""
    waiting = session.transaction.before_commit
    if len(waiting) == first:
        return
    progress = Progress(subscriptions.origin_name(subscription.oid))
    progress.transaction(transaction.xid, transaction.finish_lsn)
    progress.command = "COMMIT"
    try:
        for action in waiting[first:]:
            action()
    except PgError as error:
        raise progress.explain(error) from error.__cause__
    del waiting[first:]


def _portions(transaction: WireTransaction, follow: Follow | None) -> Iterator[list[Message | TruncateMessage]]:
    """The messages in portions that memory may hold. When the next portion is asked for, this one is written."""
    if follow is not None:
        yield from _followed(transaction, follow)
        return
    waiting = iter(transaction.messages)
    while portion := list(islice(waiting, wire.PORTION)):
        yield portion


def _followed(transaction: WireTransaction, follow: Follow) -> Iterator[list[Message | TruncateMessage]]:
    portion: list[Message | TruncateMessage] = []
    waiting = follow.told(transaction)
    for place, message in enumerate(transaction.messages):
        tells = bool(waiting) and waiting[0][0] <= place
        new = () if tells else follow.new_in(message, transaction)
        if portion and (tells or new or len(portion) == wire.PORTION):
            yield portion
            portion = []
        if tells:
            waiting = _follow_told(transaction, follow, waiting, place)
            new = follow.new_in(message, transaction)
        for sent in new:
            follow.follow(sent, transaction.xid, transaction.finish_lsn)
        portion.append(message)
    if portion:
        yield portion
    _follow_told(transaction, follow, waiting, transaction.size)


def _follow_told(
    transaction: WireTransaction, follow: Follow, waiting: Sequence[tuple[int, Told]], place: int
) -> list[tuple[int, Told]]:
    """Follow what is told before the change at this place; what comes behind it."""
    for after, told in waiting:
        if after <= place:
            follow.follow_told(told, transaction.xid, transaction.finish_lsn)
    return [(after, told) for after, told in waiting if after > place]


def _player(
    session: Session,
    subscription: tables.pg_subscription,
    completed: dict[int, Values] | None = None,
    write: Callable[[Player], None] | None = None,
    only: int = 0,
) -> Player:
    states = state.states_for(session, subscription.oid, only)

    def applies(relid: int, finish_lsn: int) -> bool:
        since = state.applies_from(states, relid)
        return since is not None and since <= finish_lsn

    progress = Progress(subscriptions.origin_name(subscription.oid))
    pieces = ranges.ranges_of_unready(session, subscription.oid, states)
    return Player(session, subscription, progress, applies, completed, write, pieces)


def _clear_skip(session: Session, subscription: tables.pg_subscription, first: int, log: ServerLog) -> None:
    """Clear the skip LSN. The first transaction with changes does so, whether it is the one to skip or not
    (clear_subscription_skip_lsn)."""
    skip = subscription.subskiplsn
    if not skip:
        return
    if first == skip:
        log.log(f"logical replication starts skipping transaction at LSN {lsn_text(skip)}")
        log.log(f"logical replication completed skipping transaction at LSN {lsn_text(skip)}")
    else:
        log.warning(
            f'skip-LSN of subscription "{subscription.subname}" cleared',
            detail=f"Remote transaction's finish WAL location (LSN) {lsn_text(first)} did not match skip-LSN "
            f"{lsn_text(skip)}.",
        )
    state.clear_skip(session, subscription.oid)
