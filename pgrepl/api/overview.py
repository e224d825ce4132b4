"""What there is to see of a catalog at a glance: databases with their tables and publications, subscriptions, slots.

`overview` gathers it as a superuser; `visible` leaves out what a role may not see. The page shows it, /metrics counts
it, and the history keeps a few numbers of it for some hours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import has_table_privilege
from pgrepl.catalog.facts.namespace import is_temporary, schemas
from pgrepl.catalog.facts.publication import publication_facts, published_names
from pgrepl.catalog.facts.relation import relation_or_none
from pgrepl.catalog.facts.roles import database_name, databases
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.session.statistics import RELATION, SLOT, SUBSCRIPTION
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.lake.read.extent import RowCounts, Volume, present_files, row_counts, volumes
from pgrepl.replication.publisher import senders
from pgrepl.replication.publisher.lake.transactions import retained, waiting
from pgrepl.replication.publisher.senders import LOST
from pgrepl.replication.subscriber.status import Status, may_look, subscription_status

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.spark_errors import SparkFacts


@dataclass(frozen=True, slots=True)
class TableFacts:
    oid: int
    name: str
    rows: int
    dead: int  # rows that are deleted, and still in files
    size: int  # bytes of its files
    data_files: int
    delete_files: int
    vacuumed: str | None  # when VACUUM or autovacuum was last there


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    name: str
    tables: tuple[TableFacts, ...]
    publications: Mapping[str, tuple[str, ...]]  # with the tables whose changes are sent


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """A slot of this catalog. What is None is not known of a physical one."""

    name: str
    database: str
    is_active: bool
    is_lost: bool
    behind: int  # bytes, as LSNs count
    changed: int | None  # rows since its position, about
    seconds: float | None  # since the first commit that is not confirmed
    transactions: int | None
    sent: int | None  # bytes
    snapshots: int | None  # that are kept for it
    retained: int | None  # bytes of files that only these have


@dataclass(frozen=True, slots=True)
class SubscriptionFacts:
    status: Status
    changes: int  # rows received and applied so far
    conflicts: int
    is_whole: bool = True  # False: the role may not see the publisher, nor how far the subscription is


@dataclass(frozen=True, slots=True)
class Overview:
    at: float  # when it was gathered, in seconds since 1970
    databases: tuple[DatabaseFacts, ...]
    subscriptions: tuple[SubscriptionFacts, ...]
    slots: tuple[SlotFacts, ...]
    snapshots: int | None  # that the catalog keeps; None: the role may not see it
    spark: SparkFacts | None = None  # None: not known, or the role may not see it


def overview(session: Session, names: Sequence[str] = (), database: str | None = None) -> Overview:
    """Everything, or what belongs to one database; of subscriptions all, or those of these names. Publishers are asked,
    each for as long as it takes."""
    statuses = subscription_status(session, names, everywhere=database is None)
    with reading(session):
        listed = [row for row in databases(session) if row.datname == database or not (database or row.datistemplate)]
        return Overview(
            time.time(),
            tuple(_database(session.elsewhere(row.oid, session.role), row) for row in listed),
            tuple(_subscriptions(session, statuses)),
            tuple(slot for slot in slots(session) if slot.database == database or database is None),
            present_files(session).snapshots,
        )


def _database(session: Session, row: tables.pg_database) -> DatabaseFacts:
    sent = {
        str(publication.name): tuple(published_names(session, publication))
        for publication in publication_facts(session)
    }
    return DatabaseFacts(str(row.datname), tuple(sorted(_tables(session), key=lambda table: table.name)), sent)


def _tables(session: Session) -> Iterator[TableFacts]:
    counts, sizes = row_counts(session), volumes(session)
    counted = statistics.counters(session.catalog).read(RELATION)
    named = {namespace.oid: str(namespace.nspname) for namespace in schemas(session)}
    for row in rows(session, tables.pg_class, datid=session.database_oid, relkind=("r", "m")):
        schema = named.get(row.relnamespace, "")
        if is_temporary(schema):
            continue
        there, size = counts.get(row.table_id or 0, RowCounts()), sizes.get(row.table_id or 0, Volume(0, 0))
        known = counted.get((session.database_oid, str(row.oid)), {})
        moments = [known[name] for name in ("last_vacuum", "last_autovacuum") if known.get(name)]
        yield TableFacts(
            row.oid, f"{schema}.{row.relname}", there.live, there.dead, size.size, size.data_files, size.delete_files,
            max(moments, default=None),
        )  # fmt: skip


def slots(session: Session) -> Iterator[SlotFacts]:
    """The replication slots of the catalog."""
    end, counted = current_lsn(session), statistics.counters(session.catalog).read(SLOT)
    for row in rows(session, tables.pg_replication_slot):
        position = row.confirmed_flush_lsn or row.restart_lsn or end
        more: tuple[Any, ...] = (None,) * 6
        if row.slot_type == "logical":
            changed, since = waiting(session, position, end)
            known, kept = counted.get((0, row.slot_name), {}), retained(session, row)
            seconds = 0.0 if since is None else _seconds_since(since)
            sent = known.get("total_txns", 0), known.get("total_bytes", 0)
            more = (changed, seconds, *sent, kept.snapshots, kept.size)
        is_active = senders.user_pid(session, row) is not None
        where = database_name(session, row.datoid) or ""
        behind = max(0, end - position)
        yield SlotFacts(str(row.slot_name), where, is_active, row.wal_status == LOST, behind, *more)


def _seconds_since(moment: datetime) -> float:
    return round(max(0.0, (datetime.now(timezone.utc) - moment).total_seconds()), 3)


def _subscriptions(session: Session, statuses: list[Status]) -> Iterator[SubscriptionFacts]:
    counted = statistics.counters(session.catalog).read(SUBSCRIPTION)
    oids = {
        (database_name(session, row.subdbid) or "", str(row.subname)): (row.subdbid, str(row.oid))
        for row in rows(session, tables.pg_subscription)
    }
    for status in statuses:
        known = counted.get(oids.get((status.database, status.name), (0, "")), {})
        conflicts = sum(int(value) for name, value in known.items() if name.startswith("confl_"))
        yield SubscriptionFacts(status, int(known.get("changes", 0)), conflicts)


def visible(whole: Overview, entered: Mapping[str, Session]) -> Overview:
    """What a role may see that has entered these databases: tables that it may SELECT, publications and subscriptions
    as the catalogs show them to everybody; all of it, if it has the privileges of pg_monitor."""
    if entered and all(map(may_look, entered.values())):
        return replace(
            whole,
            databases=tuple(database for database in whole.databases if database.name in entered),
            subscriptions=tuple(
                subscription for subscription in whole.subscriptions if subscription.status.database in entered
            ),
            slots=tuple(slot for slot in whole.slots if slot.database in entered or not slot.database),
        )
    seen = {
        database.name: _seen(database, entered[database.name])
        for database in whole.databases
        if database.name in entered
    }
    return replace(
        whole,
        databases=tuple(seen.values()),
        subscriptions=tuple(
            _shown_to_all(subscription, seen[subscription.status.database])
            for subscription in whole.subscriptions
            if subscription.status.database in seen
        ),
        slots=(),
        snapshots=None,
        spark=None,
    )


def _seen(database: DatabaseFacts, session: Session) -> DatabaseFacts:
    def may_read(oid: int) -> bool:
        table = relation_or_none(session, oid)
        return table is not None and has_table_privilege(session, table, "SELECT")

    readable = tuple(table for table in database.tables if may_read(table.oid))
    names = {table.name for table in readable}
    sent = {
        name: tuple(table_name for table_name in published if table_name in names)
        for name, published in database.publications.items()
    }
    return DatabaseFacts(database.name, readable, sent)


def _shown_to_all(subscription: SubscriptionFacts, database: DatabaseFacts) -> SubscriptionFacts:
    names = {table.name for table in database.tables}
    listed = tuple(replace(table, published=None) for table in subscription.status.tables if table.name in names)
    status = replace(
        subscription.status, publisher="", slot=None, tables=listed, applied=0, lag=None, backlog=None, apply_errors=0,
        sync_errors=0, stop=None, unreachable=None, complete=None, retained=None, dangers=(),
    )  # fmt: skip
    return SubscriptionFacts(status, 0, 0, is_whole=False)
