"""A few changes of another database of the same instance: read, applied and confirmed in one transaction.

That is the common case between two statements of a session. The transaction holds the catalog's write lock from its
start, so that no other worker can serve the subscription meanwhile, and it needs neither a lease nor a walsender.
It is the loop of the main stream (apply_loop.py), with few of its steps. Anything unusual undoes it: many changes,
tables to copy, another worker, locked rows, an error, something to be logged. The worker then begins again in its usual
way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.sequences import take_back_moves
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.session.transaction import DimensionsNeeded
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.sql import OTHERS_AT_WORK
from pgrepl.catalog.store.store import one, remember
from pgrepl.ground.errors import PgError, Report
from pgrepl.lake import sql
from pgrepl.lake.commit import LockedByOthers
from pgrepl.lake.storage import crash_point
from pgrepl.replication.log import ServerLog
from pgrepl.replication.origins import origin_or_none
from pgrepl.replication.publisher import slots
from pgrepl.replication.subscriber import apply_loop as loop
from pgrepl.replication.subscriber import connection, state
from pgrepl.replication.subscriber.apply.transactions import play
from pgrepl.replication.subscriber.apply.triggers import TriggeredTables
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.lease import Applied, Streamed, WorkerFailed
from pgrepl.replication.subscriber.streaming import following_of

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.protocol import ChangesWithin, Publisher
    from pgrepl.replication.wire.messages import WireTransaction

_CANCELLED = "57014"


class _OutOfTheOrdinary(Exception):
    """The worker has to apply the changes in its usual way."""


class _Seen(NamedTuple):
    """A subscription without anything unusual, with its publisher and slot."""

    subscription: tables.pg_subscription
    publisher: Publisher
    changes: ChangesWithin
    slot: tables.pg_replication_slot
    at: loop.Bounds


def has_news(context: WorkerContext, session: Session) -> bool:
    """Whether the worker has anything to do, as a session of its instance sees it. Also true if only the usual way can
    tell."""
    try:
        at = _look(context, session).at
    except _OutOfTheOrdinary:
        return True
    return at.end > at.start


def catch_up_at_once(context: WorkerContext) -> Streamed | None:
    """Apply the changes; None: nothing was done."""
    opened = context.connection.opened
    if context.lease is not None or opened is None or opened.stream.within is None or context.log.hears("DEBUG1"):
        return None
    session = context.session
    transaction = session.transaction
    context.check_stopped()
    begun = False
    try:
        transaction.begin_statement(writes=True)
        begun = True
        with _unheard(context) as log:
            batch = _Batch(context, _look(context, session), log)
            streamed = loop.carry_out(loop.apply_batch(batch.seen.at, loop.BATCH), batch.work)
    except BaseException as problem:
        take_back_moves(session)  # the usual way takes the same numbers of sequences
        transaction.fail_statement()
        if isinstance(problem, (_OutOfTheOrdinary, DimensionsNeeded, LockedByOthers, WorkerFailed)):
            return None
        if begun and isinstance(problem, PgError) and problem.sqlstate != _CANCELLED:
            return None
        raise
    crash_point("apply.committed")
    subscription = batch.seen.subscription
    batch.seen.changes.has_sent(batch.seen.slot.slot_name, batch.sent)
    if streamed.applied.transactions:
        session.link.flush()  # before the observer reports it
    context.observer.applying(subscription.subname)
    context.observer.applied(subscription.subname, streamed.start, streamed)
    return streamed


def _look(context: WorkerContext, session: Session) -> _Seen:
    subscription = one(session, tables.pg_subscription, oid=context.subid)
    if subscription is None or not subscription.subenabled or subscription.subskiplsn:
        raise _OutOfTheOrdinary
    publisher = context.connection.opened_for(subscription, session)
    changes = None if publisher is None else publisher.stream.within
    if publisher is None or changes is None:
        raise _OutOfTheOrdinary
    if subscription.subsequences or subscription.subtwophasestate != subscriptions.TWO_PHASE_DISABLED:
        raise _OutOfTheOrdinary
    if not state.all_ready(session, subscription.oid):
        raise _OutOfTheOrdinary
    slot = next((row for row in slots.all_slots(session) if row.slot_name == subscription.subslotname), None)
    origin = origin_or_none(session, subscriptions.origin_name(subscription.oid))
    if slot is None or origin is None or not changes.is_usual(slot):
        raise _OutOfTheOrdinary
    remember(session, tables.pg_replication_slot, slot, slot_name=slot.slot_name)
    position, confirmed, end = origin.remote_lsn or 0, slot.confirmed_flush_lsn or 0, current_lsn(session)
    if loop.is_astray(position, confirmed, end):  # the usual way raises an error
        raise _OutOfTheOrdinary
    at = loop.Bounds(position, max(position, confirmed), end, end, True)
    return _Seen(subscription, publisher, changes, slot, at)


_OTHERS = f"{OTHERS_AT_WORK}, ({sql.COUNT_SNAPSHOTS_FROM})"


class _Batch:
    """What the steps of the loop do. What would need others is found out of the ordinary before they come."""

    def __init__(self, context: WorkerContext, seen: _Seen, log: ServerLog) -> None:
        self.seen = seen
        self.sent: list[WireTransaction] = []
        self._context = context
        self._session = context.session
        self._log = log
        self._since = statistics.now()  # the transaction has the write lock: nobody adds changes

    @property
    def work(self) -> dict[type, Callable[[Any], Any]]:
        return {
            loop.Receive: self._receive,
            loop.FindNews: self._find_news,
            loop.FindTriggers: self._find_triggers,
            loop.Apply: self._apply,
            loop.EndStream: lambda step: self.seen.at.end,
            loop.Settle: self._settle,
            loop.Confirm: self._confirm,
            loop.Commit: lambda step: self._session.transaction.end_statement(),
        }

    def _receive(self, step: loop.Receive) -> loop.Received:
        """The transactions, if a worker could begin now (see attach) and they are few."""
        session, subid, seen = self._session, self._context.subid, self.seen
        asks = (
            seen.subscription.subschemachanges in subscriptions.WITH_TABLES
        )  # there may be new tables without changes
        if asks or seen.at.end <= seen.at.start or not connection.has_identity(session, subid):
            raise _OutOfTheOrdinary
        own, workers, reading, senders, errors, kept = session.link.execute(
            _OTHERS, (subid, subid, seen.slot.slot_name, subid, seen.at.start - 1)
        )[0]
        most_workers, most_senders = (
            int(session.settings.get(name)) for name in ("max_logical_replication_workers", "max_wal_senders")
        )
        if own or reading or errors or workers >= most_workers or senders >= most_senders:
            raise _OutOfTheOrdinary
        if kept != seen.at.end - seen.at.start + 1:  # other writers have expired what the slot needs
            raise _OutOfTheOrdinary
        self._context.settings.admit(session, seen.subscription)
        sent = seen.changes.few(
            session, state.request(seen.subscription, seen.slot.slot_name, seen.at.start, seen.at.end)
        )
        if sent is None:
            raise _OutOfTheOrdinary
        self.sent = sent
        received = loop.Received.of((transaction for transaction in sent), step.most)
        if received.more:
            raise _OutOfTheOrdinary
        crash_point("apply.received")
        return received

    def _find_news(self, step: loop.FindNews) -> tuple[int, None]:
        following = following_of(self._context, self.seen.subscription, self.seen.publisher)
        if following is not None and following.in_transactions(step.transactions)[1] is not None:
            raise _OutOfTheOrdinary
        return 0, None

    def _find_triggers(self, step: loop.FindTriggers) -> None:
        if TriggeredTables(self._session).first_run(step.transactions) is not None:
            raise _OutOfTheOrdinary

    def _apply(self, step: loop.Apply) -> Applied:
        if step.way is not loop.Way.IN_MEMORY:
            raise _OutOfTheOrdinary
        with self._session.acting_as(self.seen.subscription.subowner):
            batch = play(self._session, self.seen.subscription, step.transactions, self._log)
            if batch.error is not None:
                raise _OutOfTheOrdinary
            return batch.write()

    def _settle(self, step: loop.Settle) -> None:
        if step.moves_origin:
            state.move(self._session, self._context.subid, step.lsn)
        if self.seen.subscription.subretaindeadtuples:
            state.caught_up(self._session, self._context.subid, self._since)

    def _confirm(self, step: loop.Confirm) -> None:
        slots.confirm_and_leave(self._session, self.seen.slot.slot_name, step.lsn)
        crash_point("apply.settled")


class _Unheard(ServerLog):
    """A log that must stay empty: anything to be logged is unusual."""

    def __init__(self, context: WorkerContext) -> None:
        super().__init__(None)
        self._log = context.log

    def report(self, report: Report, statement: str | None = None) -> None:
        if self._log.hears(report.severity):
            raise _OutOfTheOrdinary


@contextmanager
def _unheard(context: WorkerContext) -> Iterator[ServerLog]:
    """Use a log that accepts no message: the usual way will log it."""
    session = context.session
    said, log = session.on_report, _Unheard(context)
    session.on_report = log.report
    try:
        yield log
    finally:
        session.on_report = said
