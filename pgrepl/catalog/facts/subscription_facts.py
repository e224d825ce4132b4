r"""The facts of a subscription that `\dRs`, `describe --json`, a dump and the query of ECHO_HIDDEN show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.facts.foreign import server_by_oid
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.subscription import (
    ALL,
    CHANGES,
    COLUMNS,
    DATASYNC,
    FINISHED_COPY,
    INIT,
    NO_HISTORY,
    NO_SCHEMA,
    TABLES,
    VERSIONS,
    subscription_relations,
    subscription_sequences,
    subscriptions,
)
from pgrepl.catalog.store import store
from pgrepl.catalog.store.ducklake import ducklake_table_stats
from pgrepl.catalog.store.tables import pg_subscription, pg_subscription_rel
from pgrepl.ground.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

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
    return sorted((_subscription(session, row) for row in subscriptions(session)), key=lambda each: each.name)


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
    return [
        SubscribedTable(relation(session, row.srrelid), row.srsubstate, row.srsublsn)
        for row in subscription_relations(session, subid)
    ]


def subscribed_sequences(session: Session, subid: int) -> list[SubscribedTable]:
    return [
        SubscribedTable(relation(session, row.srrelid), row.srsubstate, row.srsublsn)
        for row in subscription_sequences(session, subid)
    ]


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
    return max([row.record_count or 0 for row in store.rows(session, ducklake_table_stats)], default=0)
