"""Look-ups of subscriptions, their tables, and the names of their origins and slots (pg_subscription.c); foreign
servers and user mappings, for the connection string that a subscription gets from them (foreign.c).

A table of a subscription is in one state: i (to be copied), d (being copied), f (copied), s (caught up), r (ready); a
sequence in i or r. For subscriptions with retain_dead_tuples snapshots are kept since all changes of the publisher were
applied for the last time; with max_retention_duration not for longer than that.

There are two foreign-data wrappers: `postgresql` for servers, `lake` for databases of lakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import ObjectKind, has_privilege
from pgrepl.catalog.facts.relation import Relation, relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import not_supported
from pgrepl.catalog.facts.roles import has_privs_of_role, is_superuser, role_name
from pgrepl.catalog.store import store, tables
from pgrepl.catalog.store.sql import SNAPSHOT_AT
from pgrepl.catalog.store.store import delete, insert, one, rows
from pgrepl.catalog.store.tables import pg_subscription, pg_subscription_rel
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen

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


def check_subscription_relkind(rel: Relation, *, is_sequence: bool = False) -> None:
    """An error unless the relation is a table, to which changes can be applied, or a sequence as at the publisher
    (CheckSubscriptionRelkind)."""
    if is_sequence and rel.kind in "rp":
        raise PgError("55000", f'relation "{rel.qualified_name}" type mismatch: source "sequence", target "table"')
    if rel.kind not in ("S" if is_sequence else "rp"):
        raise PgError(
            "42809",
            f'cannot use relation "{rel.qualified_name}" as logical replication target',
            detail=not_supported(rel.kind),
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
    ((snapshot,),) = session.link.execute(SNAPSHOT_AT, (since,))
    return 0 if snapshot is None else int(snapshot)


def retained(session: Session) -> list[int]:
    """The snapshots that subscriptions of the instance need."""
    retaining = rows(session, tables.pg_subscription, subretaindeadtuples=True)
    needed = [retained_from(session, row) for row in retaining]
    return [snapshot for snapshot in needed if snapshot is not None]


def _caught_up(session: Session, subscription: tables.pg_subscription) -> str | None:
    """The moment, as it is stored."""
    row = one(session, tables.pg_replication_origin, roname=origin_name(subscription.oid))
    return None if row is None else row.caught_up


WRAPPERS = {9910: "postgresql", 9911: "lake"}  # by OIDs that PostgreSQL keeps free
PUBLIC = 0


def servers(session: Session) -> list[tables.pg_foreign_server]:
    """The servers of the database by name."""
    return sorted(rows(session, tables.pg_foreign_server, datid=session.database_oid), key=lambda row: str(row.srvname))


def server_or_none(session: Session, name: str) -> tables.pg_foreign_server | None:
    return one(session, tables.pg_foreign_server, datid=session.database_oid, srvname=name)


def server_by_name(session: Session, name: str) -> tables.pg_foreign_server:
    row = server_or_none(session, name)
    if row is None:
        raise PgError("42704", f'server "{name}" does not exist')
    return row


def server_by_oid(session: Session, oid: int) -> tables.pg_foreign_server:
    row = one(session, tables.pg_foreign_server, oid=oid)
    if row is None:
        raise PgError("XX000", f"cache lookup failed for foreign server {oid}")
    return row


def mapping_or_none(session: Session, user: int, server: int) -> tables.pg_user_mapping | None:
    return one(session, tables.pg_user_mapping, umserver=server, umuser=user)


def mappings(session: Session, server: int) -> list[tables.pg_user_mapping]:
    """The mappings of a server by the names of their users, that for PUBLIC first."""
    listed = rows(session, tables.pg_user_mapping, umserver=server)
    return sorted(listed, key=lambda row: "" if row.umuser == PUBLIC else role_name(session, row.umuser))


def mapped_name(session: Session, user: int) -> str:
    """The user of a mapping, in the words of messages (MappingUserName)."""
    return "public" if user == PUBLIC else role_name(session, user)


def may_see_options(session: Session, mapping: tables.pg_user_mapping, server: tables.pg_foreign_server) -> bool:
    """Whether pg_user_mappings shows the current role the options, a password among them."""
    if is_superuser(session):
        return True
    owns = has_privs_of_role(session, session.role, server.srvowner)
    if mapping.umuser == PUBLIC:
        return owns
    usage = owns or has_privilege(session, ObjectKind.FOREIGN_SERVER, server, "USAGE")
    return mapping.umuser == session.role and usage


def options_of(stored: Sequence[str] | None) -> dict[str, str]:
    return {name: value for name, _, value in (item.partition("=") for item in stored or ())}


def conninfo_of(session: Session, subscription: tables.pg_subscription) -> str:
    """The subscription's connection string: its own, or that of its foreign server and of its owner's mapping
    (construct_subserver_conninfo)."""
    if not subscription.subserver:
        return str(subscription.subconninfo)
    server = server_by_oid(session, subscription.subserver)
    owner = subscription.subowner
    if not has_privilege(session, ObjectKind.FOREIGN_SERVER, server, "USAGE", owner):
        who = role_name(session, owner)
        text = f'subscription owner "{who}" does not have permission on foreign server "{server.srvname}"'
        raise PgError("42501", text)
    return server_conninfo(session, server, owner)


def server_conninfo(session: Session, server: tables.pg_foreign_server, user: int) -> str:
    """The options of the server and of the user's mapping, else PUBLIC's, as a connection string
    (ForeignServerConnectionString)."""
    mapping = mapping_or_none(session, user, server.oid) or mapping_or_none(session, PUBLIC, server.oid)
    if mapping is None:
        raise mapping_not_found(session, user, server)
    options = options_of(server.srvoptions) | options_of(mapping.umoptions)
    return " ".join(f"{name}={_quoted(value)}" for name, value in options.items())


def mapping_not_found(session: Session, user: int, server: tables.pg_foreign_server) -> PgError:
    who = mapped_name(session, user)
    return PgError("42704", f'user mapping not found for user "{who}", server "{server.srvname}"')


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


STREAMING = {"f": "off", "t": "on", "p": "parallel"}
HISTORIES = {NO_HISTORY: "none", CHANGES: "changes", VERSIONS: "versions"}
SCHEMA_CHANGES = {NO_SCHEMA: "none", COLUMNS: "columns", TABLES: "tables", ALL: "all"}


@frozen
class SubscriptionFacts:
    oid: int
    name: str
    owner: int
    enabled: bool
    publications: tuple[str, ...]
    conninfo: str
    server: str | None  # the foreign server that it has instead
    slot: str | None
    binary: bool
    streaming: str  # off, on, parallel
    two_phase: str  # d: disabled, p: pending, e: enabled
    disable_on_error: bool
    origin: str
    password_required: bool
    run_as_owner: bool
    failover: bool
    synchronous_commit: str
    skip_lsn: int
    schema_changes: str  # none, columns, tables, all
    conflict_log: bool
    sequences: bool
    retain_dead_tuples: bool
    max_retention_duration: int
    history: str  # none, changes, versions


@frozen
class SubscribedTable:
    """A table that a subscription fills, or a sequence: its synchronization state, and the LSN of that state."""

    table: Relation
    state: str
    lsn: int | None


def subscription_facts(session: Session) -> list[SubscriptionFacts]:
    """The subscriptions of the database by name."""
    return sorted((_subscription(session, row) for row in subscriptions(session)), key=lambda facts: facts.name)


def _subscription(session: Session, row: pg_subscription) -> SubscriptionFacts:
    return SubscriptionFacts(
        oid=row.oid,
        name=row.subname,
        owner=row.subowner,
        enabled=bool(row.subenabled),
        publications=tuple(row.subpublications),
        conninfo=row.subconninfo,
        server=server_by_oid(session, row.subserver).srvname if row.subserver else None,
        slot=row.subslotname,
        binary=bool(row.subbinary),
        streaming=STREAMING[row.substream],
        two_phase=row.subtwophasestate,
        disable_on_error=bool(row.subdisableonerr),
        origin=row.suborigin,
        password_required=bool(row.subpasswordrequired),
        run_as_owner=bool(row.subrunasowner),
        failover=bool(row.subfailover),
        synchronous_commit=row.subsynccommit,
        skip_lsn=row.subskiplsn,
        schema_changes=SCHEMA_CHANGES[row.subschemachanges],
        conflict_log=bool(row.subconflictlog),
        sequences=bool(row.subsequences),
        retain_dead_tuples=bool(row.subretaindeadtuples),
        max_retention_duration=row.submaxretention or 0,
        history=HISTORIES[row.subhistory],
    )


def subscribed_tables(session: Session, subid: int) -> list[SubscribedTable]:
    return _subscribed(session, subscription_relations(session, subid))


def subscribed_sequences(session: Session, subid: int) -> list[SubscribedTable]:
    return _subscribed(session, subscription_sequences(session, subid))


def _subscribed(session: Session, members: list[pg_subscription_rel]) -> list[SubscribedTable]:
    return [SubscribedTable(relation(session, row.srrelid), row.srsubstate, row.srsublsn) for row in members]


def subscriptions_to_copy(session: Session) -> list[pg_subscription]:
    """The instance's subscriptions with tables that wait for their initial copy."""
    waiting = {
        row.srsubid
        for state in (INIT, DATASYNC, FINISHED_COPY)
        for row in store.rows(session, pg_subscription_rel, srsubstate=state)
        if not row.srissequence
    }
    return [row for row in store.rows(session, pg_subscription) if row.oid in waiting] if waiting else []


def rows_of_largest(session: Session) -> int:
    """The rows of the instance's largest table."""
    from pgrepl.catalog.store.ducklake import ducklake_table_stats

    return max([row.record_count or 0 for row in store.rows(session, ducklake_table_stats)], default=0)
