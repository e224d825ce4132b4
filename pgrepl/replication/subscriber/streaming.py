"""The main stream of a subscription: batches of transactions, read without a lock, each committed with the origin
(apply_loop.py decides).

If another session has changed tables before the lock is taken, the received messages are applied once more with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.subscription import is_long_ago
from pgrepl.catalog.session import statistics
from pgrepl.catalog.store import tables
from pgrepl.lake.storage import crash_point
from pgrepl.replication.publisher.protocol import ChangeStream, Publisher, PublisherError, StreamRequest, not_started
from pgrepl.replication.subscriber import apply_loop as loop
from pgrepl.replication.subscriber import lease, state
from pgrepl.replication.subscriber.apply.columns.stage import commit_batch, receive
from pgrepl.replication.subscriber.apply.transactions import apply_phases, play, step_through
from pgrepl.replication.subscriber.apply.triggers import TriggeredTables
from pgrepl.replication.subscriber.apply.write import prepared_of
from pgrepl.replication.subscriber.context import REMEMBERED, WorkerContext
from pgrepl.replication.subscriber.lease import Applied, Streamed, WorkerFailed, asking, working
from pgrepl.replication.subscriber.schema_changes.follow import Following
from pgrepl.replication.wire.batch import WireBatch

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.schema_changes.follow import NewRelations


def stream_batch(context: WorkerContext, upto: int | None, limit: int | None) -> Streamed:
    """Receive and apply transactions that finish before `upto` (None: the publisher's present end), with about `limit`
    changes at most."""
    while True:
        try:
            return _streamed(context, upto, limit)
        except lease.MeetingCalled:
            context.check_stopped()


def _streamed(context: WorkerContext, upto: int | None, limit: int | None) -> Streamed:
    with ExitStack() as transaction:
        subscription = transaction.enter_context(context.transaction())
        publisher = context.connection.publisher(subscription)
        asked_at = statistics.now()
        with asking():
            present = publisher.stream.current_lsn()  # before transactions are asked for
        position = state.position(context.session, subscription.oid)
        bound = lease.meeting_bound(context.session, subscription.oid)
        two_phase = subscription.subtwophasestate == subscriptions.TWO_PHASE_ENABLED
        start = start_stream(publisher.stream, subscriptions.slot_of(subscription), position, two_phase=two_phase)
        at = loop.Bounds(position, start, _end(start, present, upto, bound), present, publisher.shares_catalog)
        following = following_of(context, subscription, publisher)
        with ExitStack() as received:
            batch = StreamBatch(
                context, subscription, publisher.stream, following, at, asked_at, transaction, received, bound=bound
            )
            streamed = loop.carry_out(loop.apply_batch(at, limit), batch.work)
    if bound is not None and streamed.reached >= bound:
        time.sleep(lease.MEETING_PAUSE)  # the publisher may have more, which has to wait
    return streamed


def _end(start: int, present: int, upto: int | None, bound: int | None) -> int:
    """The LSN before which transactions are wanted."""
    end = present if upto is None else min(present, upto)
    return end if bound is None else min(end, max(start, bound))


def following_of(
    context: WorkerContext, subscription: tables.pg_subscription, publisher: Publisher, only: int = 0
) -> Following | None:
    """The definitions to follow, of all tables or `only` of one; None: the subscription does not follow its
    publisher's."""
    if subscription.subschemachanges == subscriptions.NO_SCHEMA:
        return None
    return Following(context.session, subscription, publisher, context.log, context.unpublished, only)


def missing_before(context: WorkerContext, lsn: int | None = None) -> int | None:
    """The LSN of the publisher, or the given earlier one, if there is work before it: changes, or tables or sequences
    that are not ready. It costs little."""
    session = context.session
    with context.transaction() as subscription:
        publisher = context.connection.publisher(subscription)
        with asking():
            lag = publisher.stream.lag(subscriptions.slot_of(subscription), tell=True)
        position = state.position(session, subscription.oid)
        is_ready = state.all_ready(session, subscription.oid)
        can_begin = state.two_phase_can_begin(session, subscription)
    if lag is None or loop.is_astray(position, lag.confirmed, lag.current):  # a round raises the error
        return lsn or position or 1
    end = lag.sendable if lsn is None else lsn
    behind = end > max(lag.confirmed, position) or not is_ready
    return end if behind or can_begin else None


def note_caught_up(context: WorkerContext, moment: str) -> None:
    """Note that all is applied that the publisher had at the moment, though it had nothing new: deleted rows need not
    be retained any longer (retain_dead_tuples)."""
    with context.transaction() as subscription:
        if subscription.subretaindeadtuples and is_long_ago(context.session, subscription, moment):
            context.lock(subscription)
            state.caught_up(context.session, subscription.oid, moment)


def enable_two_phase(context: WorkerContext) -> bool:
    """Enable two_phase once all tables are ready, if the subscription asks for it; whether it was enabled."""
    with context.transaction() as subscription:
        if not state.two_phase_can_begin(context.session, subscription):
            return False
        publisher = context.connection.publisher(subscription)
        position = state.position(context.session, subscription.oid)
        start_stream(publisher.stream, subscriptions.slot_of(subscription), position, two_phase=True)
        context.lock(subscription, position)
        state.enable_two_phase(context.session, subscription.oid)
    worker = f'logical replication apply worker for subscription "{subscription.subname}"'
    context.log.log(f"{worker} will restart so that two_phase can be enabled")
    if context.lease is not None:  # the worker itself has done it, and need not restart
        held = context.lease.subscription
        context.lease.subscription = held._replace(subtwophasestate=subscriptions.TWO_PHASE_ENABLED)
    return True


def start_stream(stream: ChangeStream, slot: str, position: int, *, two_phase: bool = False) -> int:
    """The LSN from which the slot sends what comes behind `position`."""
    try:
        return stream.start(slot, position, two_phase=two_phase)
    except PublisherError as error:
        raise WorkerFailed(not_started(error), began=False) from None


@dataclass
class StreamBatch:
    """What the steps of one batch do."""

    context: WorkerContext
    subscription: tables.pg_subscription
    stream: ChangeStream
    following: Following | None
    at: loop.Bounds
    asked_at: str  # when the publisher told its present end
    transaction: ExitStack
    received: ExitStack  # what of the publisher's is kept until it is applied
    columns: WireBatch | None = None
    only: int = 0  # the table whose own stream it is
    bound: int | None = None  # that of a meeting (lease.py)

    def __post_init__(self) -> None:
        self.session = self.context.session
        self.slot = subscriptions.slot_of(self.subscription)

    @property
    def wanted(self) -> StreamRequest:
        return state.request(self.subscription, self.slot, self.at.start, self.at.end)

    @property
    def work(self) -> dict[type, Callable[[Any], Any]]:
        return {
            loop.ReceiveColumns: self.receive_columns,
            loop.CommitColumns: self.commit_columns,
            loop.Receive: self.receive,
            loop.FindNews: self.find_news,
            loop.FindTriggers: lambda step: TriggeredTables(self.session).first_run(step.transactions),
            loop.Follow: self.follow,
            loop.Apply: self.apply,
            loop.EndStream: self.end_stream,
            loop.AskUnsettled: self.ask_unsettled,
            loop.Settle: self.settle,
            loop.Commit: self.commit,
            loop.Confirm: self.confirm,
        }

    def lock(self) -> None:
        self.context.lock(self.subscription, self.at.position)
        if not self.only and lease.meeting_bound(self.session, self.subscription.oid) != self.bound:
            raise lease.MeetingCalled

    def receive_columns(self, _: loop.ReceiveColumns) -> loop.Columns | None:
        with asking(), working():
            if prepared_of(self.session, self.subscription):
                return None  # the check of locks on their keys is only made row by row
            batch_and_end = receive(self.session, self.subscription, self.stream, self.wanted, self.context.log)
            if batch_and_end is None:
                return None
            batch, reached = batch_and_end
            self.received.callback(batch.discard)
            count, news = len(batch.transactions), None
            if batch.count and self.following is not None:
                batch, news = self.following.in_batch(batch)
            self.columns = batch
            return loop.Columns(batch.count, len(batch.transactions), reached, len(batch.transactions) == count, news)

    def commit_columns(self, _: loop.CommitColumns) -> Applied | None:
        assert self.columns is not None
        with asking(), working():
            with self.session.acting_as(self.subscription.subowner):
                check = self.context.check_stopped
                done = commit_batch(
                    self.session, self.subscription, self.columns, self.lock, check, self.only, self.context.log
                )
            if done is None:
                return None
            transactions = done.batch.transactions
            self.context.passed.extend(done.batch.last_xids(REMEMBERED))
            last = transactions[-1].end_lsn
            state.move(self.session, self.subscription.oid, last, self.only)
            crash_point("apply.origin")
            return Applied(len(transactions), done.batch.count, last, passed=done.passed)

    def receive(self, step: loop.Receive) -> loop.Received:
        self.received.close()  # columns that could not be applied
        stream = self.stream.transactions(self.wanted, step.most)
        self.received.enter_context(closing(stream))
        received = loop.Received.of(stream, step.most)
        crash_point("apply.received")
        return received

    def find_news(self, step: loop.FindNews) -> tuple[int, NewRelations | None]:
        with asking(), working():
            return (0, None) if self.following is None else self.following.in_transactions(step.transactions)

    def follow(self, step: loop.Follow) -> None:
        assert self.following is not None
        with asking(), working():
            answers = self.following.ask(step.news)
        self.lock()
        with self.session.acting_as(self.subscription.subowner), working():
            self.following.follow_all(step.news, answers)

    def apply(self, step: loop.Apply) -> Applied:
        """Apply row by row; the transaction holds the write lock afterwards, unless nothing could be applied."""
        with asking(), working():
            applied = self.played(step) if step.way is loop.Way.IN_MEMORY else self.stepped(step)
        self.context.passed.extend([transaction.xid for transaction in step.transactions[: applied.transactions]])
        return applied

    def played(self, step: loop.Apply) -> Applied:
        contents = self.session.transaction.contents
        with self.session.acting_as(self.subscription.subowner):
            before = contents()
            batch = play(self.session, self.subscription, step.transactions, self.context.log, self.only)
            if not batch.count:
                return batch.applied
            self.lock()
            if contents() != before:
                batch = play(self.session, self.subscription, step.transactions, self.context.log, self.only)
            return batch.write()

    def stepped(self, step: loop.Apply) -> Applied:
        session, log, transactions = self.session, self.context.log, step.transactions
        following = None if step.news is None else self.following
        if following is not None and step.news is not None:
            following.refuse_within(transactions[0], step.news)
            following.ask(step.news)
        with session.acting_as(self.subscription.subowner):
            self.lock()
            if step.way is loop.Way.PHASES:
                return apply_phases(session, self.subscription, transactions, log)
            return step_through(session, self.subscription, transactions, log, self.stay, following, self.only)

    def stay(self) -> None:
        """Give a heartbeat in a long transaction, whose write lock blocks the heartbeat's thread."""
        self.context.check_stopped()
        lease.beat(self.session, self.context.token, ())

    def end_stream(self, _: loop.EndStream) -> int:
        self.received.close()
        with asking():
            return self.stream.delivered(self.at.end)

    def ask_unsettled(self, step: loop.AskUnsettled) -> bool:
        return bool(state.unsettled(self.session, self.subscription.oid, step.lsn, self.context.unforgotten))

    def settle(self, step: loop.Settle) -> None:
        session, subid = self.session, self.subscription.oid
        if not session.transaction.is_writing:
            self.lock()
        state.settle_tables(session, subid, step.lsn, self.context.unforgotten)
        lease.received(session, subid, self.context.token, step.lsn)
        if step.moves_origin:
            state.move(session, subid, step.lsn)
        if step.caught_up:
            state.caught_up(session, subid, self.asked_at)
        crash_point("apply.settled")

    def commit(self, _: loop.Commit) -> None:
        self.received.close()
        self.transaction.close()
        crash_point("apply.committed")

    def confirm(self, step: loop.Confirm) -> None:
        if step.within:
            return self.stream.confirm(self.slot, step.lsn, self.session)
        self.session.link.flush()  # the publisher keeps no confirmed changes (get_flush_position)
        crash_point("apply.flushed")
        with asking():
            return self.stream.confirm(self.slot, step.lsn)
