"""A worker attaches to its subscription, and is the only one until it detaches (logicalrep_worker_attach): it holds the
lease, and its slot at the publisher is active.
"""

from __future__ import annotations

from contextlib import suppress

from pgrepl.catalog import processes, tables
from pgrepl.catalog import subscription as catalog
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.transaction import reading, statement
from pgrepl.errors import PgError
from pgrepl.replication.libpq.conninfo import parse_conninfo
from pgrepl.replication.publisher.protocol import ChangeStream, Publisher, PublisherError, not_started
from pgrepl.replication.publisher.senders import StreamOptions, WalSender
from pgrepl.replication.subscriber import lease, same_server, state
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.copy_progress import CopyProgress
from pgrepl.replication.subscriber.failures import SubscriptionChanged, WorkerFailed, asking
from pgrepl.replication.subscriber.heartbeat import Heartbeat
from pgrepl.replication.subscriber.lease import HeldLease, LeaseHeld


def check_free(context: WorkerContext) -> None:
    """LeaseHeld if another worker has the lease."""
    with reading(context.session):
        other = lease.holder(context.session, context.subid)
    if other is not None and other.token != context.token:
        raise LeaseHeld(other.pid)


def attach(context: WorkerContext) -> tuple[HeldLease, Publisher]:
    """Become the subscription's worker; LeaseHeld if there is another."""
    session, token = context.session, processes.new_token()
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
            if publisher.shares_catalog and same_server.is_unknown(session, context.subid):
                _catch_up_with_slot(context, publisher.stream, subscription)
            with asking():
                same_server.remember(session, context.subid, publisher)
            if publisher.shares_catalog:
                _occupy_own(context, publisher, subscription, token)
            of_superuser = is_superuser(session, subscription.subowner)
        context.lease = held = HeldLease(token, subscription, of_superuser)
        if not publisher.shares_catalog:
            _occupy_own(context, publisher, subscription, token)
    except BaseException:
        processes.retire(token)
        detach(context, occupied=False)
        raise
    context.copies = CopyProgress(context.observer)
    context.heartbeat = Heartbeat(session, token, context.copies)
    return held, publisher


def _catch_up_with_slot(context: WorkerContext, stream: ChangeStream, subscription: tables.pg_subscription) -> None:
    """Move the origin to the slot's position, in a catalog of a format before 5: there the origin of a subscription to
    its own instance moved only with applied changes, the slot with all that were read."""
    with asking():
        lag = stream.lag(catalog.slot_of(subscription), tell=True)
    position = state.position(context.session, context.subid)
    if lag is not None and position and lag.confirmed > position:
        state.move(context.session, context.subid, lag.confirmed)


def _occupy_own(context: WorkerContext, publisher: Publisher, subscription: tables.pg_subscription, token: str) -> None:
    with reading(context.session):
        lsn = state.position(context.session, subscription.oid)
    name = parse_conninfo(subscription.subconninfo).get("application_name") or str(subscription.subname)
    occupy(context, publisher, subscription, catalog.slot_of(subscription), name, lsn, token)


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
        subscription.subtwophasestate == catalog.TWO_PHASE_ENABLED and slot == subscription.subslotname,
        bool(subscription.subbinary),
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
    processes.retire(held.token)
    publisher, slot = context.connection.opened, catalog.slot_of(held.subscription)
    slots = None if publisher is None else publisher.slots
    within = context.session if publisher is not None and publisher.shares_catalog else None
    with suppress(PublisherError, PgError):
        if slots is not None and occupied and within is None:
            slots.leave(slot, held.token)
    with suppress(PublisherError, PgError), statement(context.session, writes=True):
        lease.end(context.session, context.subid, lease.APPLY, held.token)
        if slots is not None and within is not None:
            slots.leave(slot, held.token, within)
