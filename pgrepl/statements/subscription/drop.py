"""DROP SUBSCRIPTION."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from pgrepl.catalog import subscription as catalog
from pgrepl.catalog import tables
from pgrepl.catalog.classes import PG_SUBSCRIPTION
from pgrepl.catalog.store import delete
from pgrepl.catalog.transaction import require_no_block
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.replication.libpq.conninfo import names_files
from pgrepl.replication.libpq.endpoints import ConnectionFailure
from pgrepl.replication.origins import drop_origin
from pgrepl.replication.publisher.files import memory
from pgrepl.replication.subscriber import lease, same_server
from pgrepl.replication.subscriber.connection import connect
from pgrepl.sql.nodes import DropSubscriptionStmt
from pgrepl.statements.subscription.rights import check_subscription_owner, must_use_password
from pgrepl.statements.subscription.tables import drop_slot, leave

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def drop_subscription(stmt: DropSubscriptionStmt, session: Session) -> Result:
    """As DropSubscription."""
    subscription = catalog.subscription_or_none(session, stmt.name)
    if subscription is None:
        if not stmt.missing_ok:
            raise PgError("42704", f'subscription "{stmt.name}" does not exist')
        session.notice("NOTICE", f'subscription "{stmt.name}" does not exist, skipping')
        return Result("DROP SUBSCRIPTION")
    check_subscription_owner(session, subscription)
    if subscription.subslotname is not None and not names_files(subscription.subconninfo):
        require_no_block(session, "DROP SUBSCRIPTION")
    unfinished = [
        row for row in catalog.subscription_relations(session, subscription.oid) if row.srsubstate != catalog.READY
    ]
    worker = lease.holder(session, subscription.oid)
    _forget(session, subscription, unfinished)
    if (subscription.subslotname is not None or unfinished) and not names_files(subscription.subconninfo):
        _drop_slots(session, subscription, unfinished, worker)
    return Result("DROP SUBSCRIPTION")


def _forget(
    session: Session, subscription: tables.pg_subscription, unfinished: Sequence[tables.pg_subscription_rel]
) -> None:
    """Delete the subscription's rows and origins."""
    delete(session, tables.pg_subscription, oid=subscription.oid)
    for row in unfinished:
        drop_origin(session, catalog.origin_name(subscription.oid, row.srrelid), missing_ok=True)
    delete(session, tables.pg_subscription_rel, srsubid=subscription.oid)
    delete(session, tables.pgrepl_subscription_schema, srsubid=subscription.oid)
    delete(session, tables.pgrepl_copy_range, subid=subscription.oid)
    drop_origin(session, catalog.origin_name(subscription.oid), missing_ok=True)
    delete(session, tables.pg_stat_subscription_stats, subid=subscription.oid)
    delete(session, tables.pgrepl_subscription_error, subid=subscription.oid)
    delete(session, tables.pgrepl_conflict, subid=subscription.oid)
    delete(session, tables.pgrepl_worker, subid=subscription.oid)
    same_server.forget(session, subscription.oid)
    memory.forget(session, subscription.oid)
    delete(session, tables.pg_description, objoid=subscription.oid, classoid=PG_SUBSCRIPTION)


def _drop_slots(
    session: Session,
    subscription: tables.pg_subscription,
    unfinished: Sequence[tables.pg_subscription_rel],
    worker: tables.pgrepl_worker | None,
) -> None:
    """Drop the subscription's slots at the publisher. If the subscription has no slot of its own, the publisher need
    not answer. A worker that is busy with it has lost its lease: the slot is not kept for that worker."""
    copying = [catalog.sync_slot_name(session, subscription.oid, row.srrelid) for row in unfinished]
    required = must_use_password(session, subscription)
    try:
        publisher = connect(session, subscription.subconninfo, must_use_password=required)
    except ConnectionFailure as failure:
        if subscription.subslotname is None:
            return
        for name in copying:
            session.notice("WARNING", f'could not drop tablesync replication slot "{name}"')
        raise _unreachable(subscription.subslotname, failure) from None
    with closing(publisher):
        slots = publisher.slots
        assert slots is not None, "files of changes are known by their connection string"
        for name in copying:
            leave(slots, name, worker)
            drop_slot(session, slots, name, missing_ok=True)
        if subscription.subslotname is not None:
            leave(slots, subscription.subslotname, worker)
            drop_slot(session, slots, subscription.subslotname)


def _unreachable(slot: str, failure: ConnectionFailure) -> PgError:
    return PgError(
        "08006",
        f'could not connect to publisher when attempting to drop replication slot "{slot}": {failure}',
        hint="Use ALTER SUBSCRIPTION ... DISABLE to disable the subscription, and then use "
        "ALTER SUBSCRIPTION ... SET (slot_name = NONE) to disassociate it from the slot.",
    )
