"""Look-ups of subscriptions, their tables, and the names of their origins and slots (pg_subscription.c).

A table of a subscription is in one state: i (to be copied), d (being copied), f (copied), s (caught up), r (ready); a
sequence in i or r. For subscriptions with retain_dead_tuples snapshots are kept since all changes of the publisher were
applied for the last time; with max_retention_duration not for longer than that.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import not_supported
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.sql import SNAPSHOT_AT
from pgrepl.catalog.store.store import delete, insert, one, rows
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

INIT, DATASYNC, FINISHED_COPY, SYNC_DONE, READY = "i", "d", "f", "s", "r"
NO_HISTORY, CHANGES, VERSIONS = "n", "c", "v"  # what is kept of the past of subscribed tables (history)
NO_SCHEMA, COLUMNS, TABLES, ALL = "n", "c", "t", "a"  # what of the publisher's definitions is followed (schema_changes)
WITH_TABLES = TABLES, ALL  # newly published tables are made
TWO_PHASE_DISABLED, TWO_PHASE_PENDING, TWO_PHASE_ENABLED = "d", "p", "e"


def subscriptions(session: Session) -> list[tables.pg_subscription]:
    return rows(session, tables.pg_subscription, subdbid=session.database_oid)


def subscription_or_none(session: Session, name: str) -> tables.pg_subscription | None:
    return one(session, tables.pg_subscription, subdbid=session.database_oid, subname=name)


def slot_of(subscription: tables.pg_subscription) -> str:
    """The slot's name. A subscription without a slot cannot be enabled, and has no worker."""
    assert subscription.subslotname is not None
    return subscription.subslotname


def subscription_by_name(session: Session, name: str) -> tables.pg_subscription:
    row = subscription_or_none(session, name)
    if row is None:
        raise PgError("42704", f'subscription "{name}" does not exist')
    return row


def origin_name(subid: int, relid: int = 0) -> str:
    """The name of the origin of a subscription, or of one table's synchronization
    (ReplicationOriginNameForLogicalRep)."""
    return f"pg_{subid}_{relid}" if relid else f"pg_{subid}"


def sync_slot_name(session: Session, subid: int, relid: int) -> str:
    """The name of the slot of a table's synchronization (ReplicationSlotNameForTablesync)."""
    return f"pg_{subid}_sync_{relid}_{system_identifier(session)}"


def system_identifier(session: Session) -> int:
    row = one(session, tables.pgrepl_instance)
    assert row is not None
    return int(row.system_identifier)


def subscription_relations(session: Session, subid: int) -> list[tables.pg_subscription_rel]:
    """The tables of a subscription."""
    return [row for row in rows(session, tables.pg_subscription_rel, srsubid=subid) if not row.srissequence]


def subscription_sequences(session: Session, subid: int) -> list[tables.pg_subscription_rel]:
    return [row for row in rows(session, tables.pg_subscription_rel, srsubid=subid) if row.srissequence]


def add_subscription_relation(
    session: Session, subid: int, relid: int, state: str, *, is_sequence: bool = False
) -> None:
    insert(
        session,
        tables.pg_subscription_rel,
        srsubid=subid,
        srrelid=relid,
        srsubstate=state,
        srsublsn=None,
        srissequence=is_sequence,
    )


def remove_subscription_relation(session: Session, subid: int, relid: int) -> None:
    delete(session, tables.pg_subscription_rel, srsubid=subid, srrelid=relid)
    delete(session, tables.pgrepl_subscription_schema, srsubid=subid, srrelid=relid)
    delete(session, tables.pgrepl_copy_range, subid=subid, relid=relid)


def forget_dropped_relation(session: Session, relid: int) -> None:
    """Remove a dropped relation from its subscriptions; an error if one is still synchronizing it
    (RemoveSubscriptionRel)."""
    listed = rows(session, tables.pg_subscription_rel, srrelid=relid)
    for row in listed:
        if row.srsubstate == READY or row.srissequence:
            continue
        subscription = one(session, tables.pg_subscription, oid=row.srsubid)
        relation = relation_or_none(session, relid)
        raise PgError(
            "22023",
            f'could not drop relation mapping for subscription "{subscription.subname if subscription else ""}"',
            detail=f'Table synchronization for relation "{relation.name if relation else relid}" is in progress '
            f'and is in state "{row.srsubstate}".',
            hint="Use ALTER SUBSCRIPTION ... ENABLE to enable subscription if not already enabled "
            "or use DROP SUBSCRIPTION ... to drop the subscription.",
        )
    if listed:
        delete(session, tables.pg_subscription_rel, srrelid=relid)
        delete(session, tables.pgrepl_subscription_schema, srrelid=relid)


def check_subscription_relkind(found: Relation, *, is_sequence: bool = False) -> None:
    """An error unless the relation is a table, to which changes can be applied, or a sequence as at the publisher
    (CheckSubscriptionRelkind)."""
    if is_sequence and found.kind in "rp":
        raise PgError("55000", f'relation "{found.qualified_name}" type mismatch: source "sequence", target "table"')
    if found.kind not in ("S" if is_sequence else "rp"):
        raise PgError(
            "42809",
            f'cannot use relation "{found.qualified_name}" as logical replication target',
            detail=not_supported(found.kind),
        )


# --- retention ------------------------------------------------------------------------------------------------------


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
