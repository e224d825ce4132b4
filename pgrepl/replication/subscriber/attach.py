"""A worker attaches to its subscription, as the only one, and detaches (logicalrep_worker_attach); what its round
leaves in catalog and log.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.roles import is_superuser
from pgrepl.catalog.facts.subscription import conninfo_of
from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.session.transaction import reading, statement
from pgrepl.catalog.store import tables
from pgrepl.ground.errors import PgError
from pgrepl.replication.conninfo import parse_conninfo
from pgrepl.replication.publisher.protocol import ChangeStream, Publisher, PublisherError, not_started
from pgrepl.replication.publisher.senders import StreamOptions, WalSender
from pgrepl.replication.subscriber import conflicts, connection, lease, state
from pgrepl.replication.subscriber.conflicts import Rejected
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.lease import (
    CopyProgress,
    Heartbeat,
    HeldLease,
    LeaseHeld,
    SubscriptionChanged,
    WorkerFailed,
    asking,
)
from pgrepl.replication.subscriber.state import remember


def check_free(context: WorkerContext) -> None:
    """LeaseHeld if another worker has the lease."""
    with reading(context.session):
        other = lease.holder(context.session, context.subid)
    if other is not None and other.token != context.token:
        raise LeaseHeld(other.pid)


def attach(context: WorkerContext) -> tuple[HeldLease, Publisher]:
    """Become the subscription's worker; LeaseHeld if there is another."""
    session, token = context.session, lock_file.new_token()
    try:
        with context.transaction() as subscription:
            context.settings.admit(session, subscription)
            publisher = context.connection.publisher(subscription)
            session.transaction.require_write()
            if context.subscription() != subscription:
                raise SubscriptionChanged
            try:
                lease.take(session, context.subid, token)
            except PgError as error:
                raise WorkerFailed(error, began=False) from None
            if publisher.shares_catalog and connection.predates_identity(session, context.subid):
                _catch_up_with_slot(context, publisher.stream, subscription)
            with asking():
                connection.remember(session, context.subid, publisher)
            if publisher.shares_catalog:
                _occupy_own(context, publisher, subscription, token)
            of_superuser = is_superuser(session, subscription.subowner)
        context.lease = held = HeldLease(token, subscription, of_superuser)
        if not publisher.shares_catalog:
            _occupy_own(context, publisher, subscription, token)
    except BaseException:
        lock_file.retire(token)
        detach(context, occupied=False)
        raise
    context.copies = CopyProgress(context.observer)
    context.heartbeat = Heartbeat(session, token, context.copies)
    return held, publisher


def _catch_up_with_slot(context: WorkerContext, stream: ChangeStream, subscription: tables.pg_subscription) -> None:
    """Move the origin to the slot's position, in a catalog of a format before 5: there the origin of a subscription to
    its own instance moved only with applied changes, the slot with all that were read."""
    with asking():
        lag = stream.lag(subscriptions.slot_of(subscription), tell=True)
    position = state.position(context.session, context.subid)
    if lag is not None and position and lag.confirmed > position:
        state.move(context.session, context.subid, lag.confirmed)


def _occupy_own(context: WorkerContext, publisher: Publisher, subscription: tables.pg_subscription, token: str) -> None:
    with reading(context.session):
        lsn = state.position(context.session, subscription.oid)
        conninfo = conninfo_of(context.session, subscription)
    name = parse_conninfo(conninfo).get("application_name") or str(subscription.subname)
    occupy(context, publisher, subscription, subscriptions.slot_of(subscription), name, lsn, token)


def occupy(
    context: WorkerContext,
    publisher: Publisher,
    subscription: tables.pg_subscription,
    slot: str,
    name: str,
    lsn: int,
    token: str,
) -> None:
    """Become the reader of a slot, who goes on from an LSN and has this application_name at the publisher."""
    if publisher.slots is None:
        return
    options = StreamOptions(
        tuple(subscription.subpublications),
        subscription.suborigin,
        {"t": "on", "p": "parallel"}.get(subscription.substream),
        subscription.subtwophasestate == subscriptions.TWO_PHASE_ENABLED and slot == subscription.subslotname,
        bool(subscription.subbinary),
        subscription.subschemachanges == subscriptions.ALL,
    )
    try:
        sender = WalSender(token, name, options.statement(slot, lsn), options=options)
        publisher.slots.occupy(slot, sender, context.session if publisher.shares_catalog else None)
    except PublisherError as error:
        raise WorkerFailed(not_started(error), began=False) from None


def detach(context: WorkerContext, *, occupied: bool = True) -> None:
    """Give the lease back, and leave the slot if it is `occupied`. If that fails, because a catalog is gone or locked,
    the next worker finds that this one has ended."""
    held, context.lease = context.lease, None
    if held is None:
        return
    if context.heartbeat is not None:
        context.heartbeat.stop()
        context.heartbeat = None
    lock_file.retire(held.token)
    publisher, slot = context.connection.opened, subscriptions.slot_of(held.subscription)
    slots = None if publisher is None else publisher.slots
    within = context.session if publisher is not None and publisher.shares_catalog else None
    with suppress(PublisherError, PgError):
        if slots is not None and occupied and within is None:
            slots.leave(slot, held.token)
    with suppress(PublisherError, PgError), statement(context.session, writes=True):
        lease.end(context.session, context.subid, lease.APPLY, held.token)
        if slots is not None and within is not None:
            slots.leave(slot, held.token, within)


# --- round ------------------------------------------------------------------------------------------------------------


CANCELLED = "57014"


@dataclass
class Round:
    """The result of a round."""

    transactions: int = 0
    changes: int = 0
    passed: int = 0  # changes among these that were skipped, or that the copies of their tables have
    rows_copied: int = 0
    tables_copied: list[str] = field(default_factory=list)
    error: PgError | None = None
    stands: bool = False  # the main stream cannot go on, because of an error
    lsn: int = 0  # all changes before it are applied
    restarts: bool = False  # the subscription was altered: its worker must restart


def succeeds(context: WorkerContext, relid: int) -> None:
    """Remove the stored error of the worker of the main stream or of a table."""
    session = context.session
    with reading(session):
        stopped = any(row.relid == relid for row in state.stored_errors(session, context.subid))
    if stopped:
        with context.transaction():
            session.transaction.require_write()
            state.forget_errors(session, context.subid, relid)


def fails(context: WorkerContext, done: Round, failure: WorkerFailed, relid: int = lease.APPLY) -> None:
    """Log and count an error that ends a worker, and perhaps disable the subscription. An apply worker that could not
    even connect counts no error."""
    context.check_stopped()  # an error that the stop has caused is not reported
    if not failure.began and _is_over(context):
        raise SubscriptionChanged
    done.error = done.error or failure.error
    done.stands = done.stands or relid == lease.APPLY
    if failure.error.sqlstate == CANCELLED:  # cancelled by the user: no error of the subscription
        return
    if isinstance(failure.error, Rejected):
        conflicts.count(context.session, context.subid, Counter([failure.error.kind]))
        if failure.error.told is not None and context.session.settings.release < 18:  # else it is the error itself
            context.log.report(failure.error.told.report)
    context.log.error(failure.error)
    store_error(context, relid, failure.error, counts=relid != lease.APPLY or failure.began)


def _is_over(context: WorkerContext) -> bool:
    """Is the subscription dropped or disabled? DROP SUBSCRIPTION drops the slot first: its commit is waited for."""
    with statement(context.session, writes=True):
        subscription = context.subscription()
    return subscription is None or not subscription.subenabled


def store_error(context: WorkerContext, relid: int, error: PgError, *, counts: bool) -> None:
    with context.transaction() as subscription:
        context.session.transaction.require_write()
        if context.subscription() is None:
            raise SubscriptionChanged
        if relid != lease.APPLY:
            lease.end(context.session, subscription.oid, relid, context.token)
        if isinstance(error, Rejected) and error.told is not None:
            conflicts.keep_rejected(context.session, subscription.oid, error.told)
        told = remember(context.session, subscription, relid, error, counts=counts)
    for report in told:
        context.log.report(report)
