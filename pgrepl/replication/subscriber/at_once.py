"""A few changes of another database of the same instance: read, applied and confirmed in one transaction.

That is the common case between two statements of a session. The transaction holds the catalog's write lock from its
start, so that no other worker can serve the subscription meanwhile, and it needs neither a lease nor a walsender.
Anything unusual undoes it: many changes, tables to copy, another worker, locked rows, an error, something to be logged.
The worker then begins again in its usual way.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.catalog import subscription as catalog
from pgrepl.catalog import tables
from pgrepl.catalog.numbering import current_lsn
from pgrepl.catalog.sequence_positions import take_back_moves
from pgrepl.catalog.sql import OTHERS_AT_WORK
from pgrepl.catalog.store import one, remember
from pgrepl.catalog.transaction import DimensionsNeeded
from pgrepl.errors import PgError, Report
from pgrepl.lake import sql
from pgrepl.lake.commit import LockedByOthers
from pgrepl.lake.crash_points import crash_point
from pgrepl.replication.log import ServerLog
from pgrepl.replication.origins import origin_or_none
from pgrepl.replication.publisher import slots
from pgrepl.replication.subscriber import same_server, state
from pgrepl.replication.subscriber.apply.triggers import TriggeredTables
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.failures import WorkerFailed
from pgrepl.replication.subscriber.outcome import Applied, Streamed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgrepl.catalog.session import Session
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
    position: int  # of the origin
    start: int
    end: int


def has_news(context: WorkerContext, session: Session) -> bool:
    """Whether the worker has anything to do, as a session of its instance sees it. Also true if only the usual way can
    tell."""
    try:
        seen = _look(context, session)
    except _OutOfTheOrdinary:
        return True
    return seen.end > seen.start


def catch_up_at_once(context: WorkerContext) -> Streamed | None:
    """Apply the changes; None: nothing was done."""
    if context.lease is not None or not _is_within_instance(context) or context.log.hears("DEBUG1"):
        return None
    session = context.session
    transaction = session.transaction
    context.check_stopped()
    begun = False
    try:
        transaction.begin_statement(writes=True)
        begun = True
        with _unheard(context) as log:
            seen = _look(context, session)
            sent = _received(context, seen)
            crash_point("apply.received")
            applied = _apply(context, seen, sent, log)
            if seen.end > max(seen.position, applied.end_lsn):  # a slot must not be ahead of its origin
                state.move(session, context.subid, seen.end)
            slots.confirm_and_leave(session, seen.slot.slot_name, seen.end)
            crash_point("apply.settled")
            transaction.end_statement()
    except BaseException as problem:
        take_back_moves(session)  # the usual way takes the same numbers of sequences
        transaction.fail_statement()
        if isinstance(problem, (_OutOfTheOrdinary, DimensionsNeeded, LockedByOthers, WorkerFailed)):
            return None
        if begun and isinstance(problem, PgError) and problem.sqlstate != _CANCELLED:
            return None
        raise
    crash_point("apply.committed")
    seen.changes.has_sent(seen.slot.slot_name, sent)
    if applied.transactions:
        session.link.flush()  # before the observer reports it
    streamed = Streamed(seen.start, seen.end, seen.end, applied)
    context.observer.applying(seen.subscription.subname)
    context.observer.applied(seen.subscription.subname, seen.start, streamed)
    return streamed


def _is_within_instance(context: WorkerContext) -> bool:
    """Is the worker connected, and to a database of its own instance?"""
    return context.connection.opened is not None and context.connection.opened.within is not None


def _look(context: WorkerContext, session: Session) -> _Seen:
    subscription = one(session, tables.pg_subscription, oid=context.subid)
    if subscription is None or not subscription.subenabled or subscription.subskiplsn:
        raise _OutOfTheOrdinary
    publisher = context.connection.opened_for(subscription, session)
    changes = None if publisher is None else publisher.within
    if publisher is None or changes is None:
        raise _OutOfTheOrdinary
    states = state.table_states(session, subscription.oid).values()
    if subscription.subtwophasestate != catalog.TWO_PHASE_DISABLED or any(s != catalog.READY for s, _ in states):
        raise _OutOfTheOrdinary
    slot = next((row for row in slots.all_slots(session) if row.slot_name == subscription.subslotname), None)
    origin = origin_or_none(session, catalog.origin_name(subscription.oid))
    if slot is None or origin is None or not changes.is_usual(slot):
        raise _OutOfTheOrdinary
    remember(session, tables.pg_replication_slot, slot, slot_name=slot.slot_name)
    position, confirmed, end = origin.remote_lsn or 0, slot.confirmed_flush_lsn or 0, current_lsn(session)
    if end < position or 0 < position < confirmed:  # the usual way raises an error
        raise _OutOfTheOrdinary
    return _Seen(subscription, publisher, changes, slot, position, max(position, confirmed), end)


_OTHERS = f"{OTHERS_AT_WORK}, ({sql.COUNT_SNAPSHOTS_FROM})"


def _received(context: WorkerContext, seen: _Seen) -> list[WireTransaction]:
    """The transactions to apply, if a worker could begin now (see attach) and they are few."""
    session = context.session
    link = session.link
    subid = context.subid
    asks = seen.subscription.subschemachanges == catalog.TABLES  # there may be new tables without changes
    if asks or seen.end <= seen.start or not same_server.is_known(session, subid):
        raise _OutOfTheOrdinary
    own, workers, reading, senders, errors, kept = link.execute(
        _OTHERS, (subid, seen.slot.slot_name, subid, seen.start - 1)
    )[0]
    most_workers, most_senders = (
        int(session.settings.get(name)) for name in ("max_logical_replication_workers", "max_wal_senders")
    )
    if own or reading or errors or workers >= most_workers or senders >= most_senders:
        raise _OutOfTheOrdinary
    if kept != seen.end - seen.start + 1:  # other writers have expired what the slot needs
        raise _OutOfTheOrdinary
    context.settings.admit(session, seen.subscription)
    sent = seen.changes.few(
        session,
        seen.subscription.subpublications,
        seen.start,
        seen.end,
        local_only=state.local_only(seen.subscription),
    )
    if sent is None or any(each.is_large or each.restarts or each.phase is not None for each in sent):
        raise _OutOfTheOrdinary
    if TriggeredTables(session).first(sent) is not None:
        raise _OutOfTheOrdinary
    return sent


def _apply(context: WorkerContext, seen: _Seen, sent: list[WireTransaction], log: ServerLog) -> Applied:
    if not sent:
        return Applied(0, 0, seen.position)
    from pgrepl.replication.subscriber.apply.transactions import play

    with context.session.acting_as(seen.subscription.subowner):
        if seen.subscription.subschemachanges != catalog.NO_SCHEMA:
            _require_known(context, seen, sent)
        batch = play(context.session, seen.subscription, sent, log)
        if batch.error is not None:
            raise _OutOfTheOrdinary
        return batch.write()


def _require_known(context: WorkerContext, seen: _Seen, sent: list[WireTransaction]) -> None:
    """Raise if the publisher's definitions have changed."""
    from pgrepl.replication.subscriber.schema_changes.follow import Following

    following = Following(context.session, seen.subscription, seen.publisher, context.log, context.unpublished)
    if following.in_transactions(sent)[1] is not None:
        raise _OutOfTheOrdinary


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
