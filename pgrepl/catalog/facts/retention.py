"""For how long snapshots are kept for subscriptions with retain_dead_tuples: since all changes of the publisher were
applied for the last time. With max_retention_duration not for longer than that."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.subscription import origin_name
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.sql import SNAPSHOT_AT
from pgrepl.catalog.store.store import one, rows

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_LONG = timedelta(seconds=10)


def is_retained(session: Session, subscription: tables.pg_subscription) -> bool:
    """Whether what was deleted here is still known to a subscription WITH (retain_dead_tuples): its column
    subretentionactive."""
    if not subscription.subretaindeadtuples:
        return False
    since, most = _caught_up(session, subscription), subscription.submaxretention
    if since is None or not most:
        return True
    return datetime.now(timezone.utc) - datetime.fromisoformat(since) <= timedelta(milliseconds=most)


def is_long_ago(session: Session, subscription: tables.pg_subscription, moment: str) -> bool:
    """Were all changes applied for the last time long before this moment?"""
    since = _caught_up(session, subscription)
    return since is None or datetime.fromisoformat(moment) - datetime.fromisoformat(since) > _LONG


def retained_from(session: Session, subscription: tables.pg_subscription) -> int | None:
    """The snapshot behind which deletions are known; None: they are not retained."""
    if not is_retained(session, subscription):
        return None
    since = _caught_up(session, subscription)
    if since is None:
        return 0
    ((found,),) = session.link.execute(SNAPSHOT_AT, (since,))
    return 0 if found is None else int(found)


def retained(session: Session) -> list[int]:
    """The snapshots that subscriptions of the instance need."""
    found = rows(session, tables.pg_subscription, subretaindeadtuples=True)
    needed = [retained_from(session, row) for row in found]
    return [snapshot for snapshot in needed if snapshot is not None]


def _caught_up(session: Session, subscription: tables.pg_subscription) -> str | None:
    """The moment, as it is stored."""
    row = one(session, tables.pg_replication_origin, roname=origin_name(subscription.oid))
    return None if row is None else row.caught_up
