"""The main stream of a subscription: batches of transactions, read without a lock, each committed with the origin.

A small batch is applied to rows in memory before the write lock is taken; if another session has changed tables in
between, the received messages are applied once more with the lock. A transaction too large for memory is read while it
is applied.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog import statistics, tables
from pgrepl.catalog import subscription as catalog
from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake.crash_points import crash_point
from pgrepl.replication.publisher.protocol import (
    ChangeStream,
    Publisher,
    PublisherError,
    Slots,
    not_received,
    not_started,
)
from pgrepl.replication.subscriber import lease, state
from pgrepl.replication.subscriber.apply.columns.stage import commit_batch, receive
from pgrepl.replication.subscriber.apply.triggers import TriggeredTables
from pgrepl.replication.subscriber.apply.two_phase import prepared_of
from pgrepl.replication.subscriber.context import REMEMBERED, WorkerContext
from pgrepl.replication.subscriber.failures import WorkerFailed, asking, working
from pgrepl.replication.subscriber.outcome import Applied, Streamed
from pgrepl.replication.wire.messages import WireTransaction

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.subscriber.schema_changes.follow import Following, NewRelations

BATCH = 20_000  # changes that are applied together


def stream_batch(context: WorkerContext, upto: int | None, limit: int | None) -> Streamed:
    """Receive and apply transactions that finish before `upto` (None: the publisher's present end), with about `limit`
    changes at most."""
    with context.transaction() as subscription:
        publisher = context.connection.publisher(subscription)
        asked_at = statistics.now()
        with asking():
            present = publisher.current_lsn()  # before transactions are asked for
        end = present if upto is None else min(present, upto)
        position = state.position(context.session, subscription.oid)
        start = _start(publisher, subscription, position)
        by_columns = None
        following = _following(context, subscription, publisher)
        if limit is None:
            with asking(), working():
                by_columns = _by_columns(context, subscription, position, publisher, start, end, following)
        if by_columns is not None:
            applied, reached = by_columns
        else:
            stream = publisher.transactions(
                catalog.slot_of(subscription),
                subscription.subpublications,
                start,
                end,
                local_only=state.local_only(subscription),
                limit=(most := BATCH if limit is None else min(limit, BATCH)),
            )
            with closing(stream):
                found = _Received.of(stream, most)
                crash_point("apply.received")
                if following is not None:
                    with asking(), working():
                        found = found.until_news(following)
                    if found.news is not None and not found.news.is_within:
                        _follow(context, subscription, position, following, found.news)
                        return Streamed(start, end, start, Applied(0, 0, position))
                within = following if found.news is not None else None
                if within is None:
                    found = found.until_triggers(context.session)
                with asking(), working():
                    played = _apply(context, subscription, position, found, within)
            context.passed.extend([each.xid for each in found.transactions[: played.transactions]])
            with asking():
                end = publisher.delivered(end)
            applied, reached = found.judged(played), found.reached(played, start, end)
        confirmed = True
        if applied.transactions or reached > start or state.unsettled(context.session, subscription.oid, reached):
            if not context.session.transaction.is_writing:
                context.lock(subscription, position)
            state.settle_tables(context.session, subscription.oid, reached)
            lease.received(context.session, subscription.oid, context.token, reached)
            if reached > max(position, applied.end_lsn):  # a slot must not be ahead of its origin
                state.move(context.session, subscription.oid, reached)
            if reached >= present:
                state.caught_up(context.session, subscription.oid, asked_at)
            confirmed = publisher.shares_catalog
            if confirmed:
                publisher.confirm(catalog.slot_of(subscription), reached, context.session)
            crash_point("apply.settled")
    crash_point("apply.committed")
    if not confirmed:
        context.session.link.flush()  # the publisher keeps no confirmed changes (get_flush_position)
        crash_point("apply.flushed")
        with asking():
            publisher.confirm(catalog.slot_of(subscription), reached)
    return Streamed(start, end, reached, applied)


def missing_before(context: WorkerContext, lsn: int | None = None) -> int | None:
    """The LSN of the publisher, or the given earlier one, if there is work before it: changes, or tables that are not
    ready. It costs little."""
    session = context.session
    with context.transaction() as subscription:
        publisher = context.connection.publisher(subscription)
        with asking():
            lag = publisher.lag(catalog.slot_of(subscription), tell=True)
        position = state.position(session, subscription.oid)
        states = state.table_states(session, subscription.oid).values()
        can_begin = state.two_phase_can_begin(session, subscription)
    if lag is None or lag.current < position or 0 < position < lag.confirmed:  # a round raises the error
        return lsn or position or 1
    end = lag.sendable if lsn is None else lsn
    behind = end > max(lag.confirmed, position) or any(current != catalog.READY for current, _ in states)
    return end if behind or can_begin else None


def enable_two_phase(context: WorkerContext) -> bool:
    """Enable two_phase once all tables are ready, if the subscription asks for it; whether it was enabled."""
    with context.transaction() as subscription:
        if not state.two_phase_can_begin(context.session, subscription):
            return False
        publisher = context.connection.publisher(subscription)
        position = state.position(context.session, subscription.oid)
        _start(publisher, subscription, position, two_phase=True)
        context.lock(subscription, position)
        state.enable_two_phase(context.session, subscription.oid)
    worker = f'logical replication apply worker for subscription "{subscription.subname}"'
    context.log.log(f"{worker} will restart so that two_phase can be enabled")
    if context.lease is not None:  # the worker itself has done it, and need not restart
        held = context.lease.subscription
        context.lease.subscription = held._replace(subtwophasestate=catalog.TWO_PHASE_ENABLED)
    return True


def _start(publisher: Slots, subscription: tables.pg_subscription, position: int, *, two_phase: bool = False) -> int:
    two_phase = two_phase or subscription.subtwophasestate == catalog.TWO_PHASE_ENABLED
    try:
        return publisher.start(catalog.slot_of(subscription), position, two_phase=two_phase)
    except PublisherError as error:
        raise WorkerFailed(not_started(error), began=False) from None


# --- receiving --------------------------------------------------------------------------------------------------------


@frozen
class _Received:
    transactions: list[WireTransaction]
    more: bool  # more transactions follow
    refused: PgError | None  # the error that ended the stream
    triggers: bool = False  # the transactions change tables with triggers
    news: NewRelations | None = None  # new descriptions of relations in the first transaction

    @classmethod
    def of(cls, stream: Generator[WireTransaction, None, None], most: int) -> _Received:
        """Transactions of about `most` changes, one at least if there is one. One that is stepped through comes by
        itself. The stream stays open only for a large one, whose messages are read while it is applied."""
        found: list[WireTransaction] = []
        count = 0
        try:
            for transaction in stream:
                alone = _is_stepped_through(transaction)
                late = bool(found) and _is_late(found[-1])
                if found and not late and (alone or count + transaction.size > most):
                    stream.close()
                    return cls(found, True, None)
                found.append(transaction)
                count += transaction.size
                if alone and not _is_late(transaction):
                    return cls(found, True, None)
        except PublisherError as error:
            return cls(found, False, not_received(error))
        return cls(found, False, None)

    def until_news(self, following: Following) -> _Received:
        """The transactions before the first one with new descriptions of relations. If that is the first of all: itself
        alone."""
        number, news = following.in_transactions(self.transactions)
        if news is None:
            return self
        if not number and news.is_within:
            following.refuse_within(self.transactions[0], news)
            following.ask(news)
        return replace(self, transactions=self.transactions[: number or 1], more=True, news=None if number else news)

    def until_triggers(self, session: Session) -> _Received:
        """The transactions before the first one that changes tables with triggers. If that is the first of all: those
        that do."""
        tables = TriggeredTables(session)
        number = tables.first(self.transactions)
        if number is None or self.transactions[0].phase is not None:
            return self
        rest = self.transactions[: number or tables.run_of(self.transactions)]
        more = self.more or len(rest) < len(self.transactions)
        return replace(self, transactions=rest, more=more, triggers=not number)

    def reached(self, applied: Applied, start: int, end: int) -> int:
        """The LSN before which nothing is left to apply."""
        if applied.error is None and not self.more and self.refused is None:
            return max(start, end)
        return applied.end_lsn if applied.transactions else start

    def judged(self, applied: Applied) -> Applied:
        """The outcome, with the stream's error if all received transactions were applied."""
        return applied if applied.error is not None or self.refused is None else applied.failed(self.refused)


# --- applying ---------------------------------------------------------------------------------------------------------


def _by_columns(
    context: WorkerContext,
    subscription: tables.pg_subscription,
    position: int,
    publisher: ChangeStream,
    start: int,
    end: int,
    following: Following | None,
) -> tuple[Applied, int] | None:
    """Apply a large batch by whole columns: the outcome, and the LSN that was reached. The transaction holds the write
    lock afterwards if anything was written. None: transactions are to be applied row by row."""
    session = context.session
    if prepared_of(session, subscription):
        return None  # the check of locks on their keys is only made row by row
    found = receive(session, subscription, publisher, start, end, context.log)
    if found is None:
        return None
    batch, reached = found
    try:
        if not batch.count:
            return Applied(0, 0, position), reached
        count = len(batch.transactions)
        if following is not None:
            batch, news = following.in_batch(batch)
            if news is not None:
                _follow(context, subscription, position, following, news)
                return Applied(0, 0, position), start
        is_whole = len(batch.transactions) == count
        with context.session.acting_as(subscription.subowner):
            done = commit_batch(
                session,
                subscription,
                batch,
                lambda: context.lock(subscription, position),
                context.check_stopped,
            )
        if done is None:
            return None
        context.passed.extend([each.xid for each in done.batch.transactions][-REMEMBERED:])
        last = done.batch.transactions[-1].end_lsn
        state.move(session, subscription.oid, last)
        crash_point("apply.origin")
        count = len(done.batch.transactions)
        applied = Applied(count, done.batch.count, last, passed=done.passed)
        return applied, reached if is_whole and count == len(batch.transactions) else last
    finally:
        batch.discard()


def _apply(
    context: WorkerContext,
    subscription: tables.pg_subscription,
    position: int,
    received: _Received,
    following: Following | None,
) -> Applied:
    """Apply row by row, and write; the transaction holds the write lock afterwards, unless nothing could be applied.
    `following`: for a transaction that changes tables between its rows."""
    found = received.transactions
    if not found:
        return Applied(0, 0, position)
    from pgrepl.replication.subscriber.apply.transactions import apply_phases, play, step_through

    session = context.session
    with context.session.acting_as(subscription.subowner):
        if following is not None or received.triggers or _is_stepped_through(found[0]):
            context.lock(subscription, position)
            if found[0].phase is not None:
                return apply_phases(session, subscription, found, context.log)

            def stay() -> None:
                """Give a heartbeat in a long transaction, whose write lock blocks the heartbeat's thread."""
                context.check_stopped()
                lease.beat(session, context.token, ())

            return step_through(session, subscription, found, context.log, stay, following)
        before = session.transaction.contents()
        batch = play(session, subscription, found, context.log)
        if not batch.count:
            return batch.applied
        context.lock(subscription, position)
        if session.transaction.contents() != before:
            batch = play(session, subscription, found, context.log)
        return batch.write()


def _following(context: WorkerContext, subscription: tables.pg_subscription, publisher: Publisher) -> Following | None:
    """The definitions to follow; None: the subscription does not follow its publisher's."""
    if subscription.subschemachanges == catalog.NO_SCHEMA:
        return None
    from pgrepl.replication.subscriber.schema_changes.follow import Following

    return Following(context.session, subscription, publisher, context.log, context.unpublished)


def _follow(
    context: WorkerContext,
    subscription: tables.pg_subscription,
    position: int,
    following: Following,
    news: NewRelations,
) -> None:
    """Follow in this transaction, which applies nothing else."""
    with asking(), working():
        found = following.ask(news)
    context.lock(subscription, position)
    with context.session.acting_as(subscription.subowner), working():
        following.follow_all(news, found)


def _is_late(transaction: WireTransaction) -> bool:
    return transaction.phase is not None and transaction.phase.is_late


def _is_stepped_through(transaction: WireTransaction) -> bool:
    """Whether a transaction must be applied with the write lock: it is large, or its effects cannot be repeated."""
    return transaction.is_large or transaction.restarts or transaction.phase is not None
