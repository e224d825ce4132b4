"""A preview of a worker's work: for each table what is published of it, and how many rows and changes would come."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.relation import Relation, find_relation, relation
from pgrepl.engine.choice import BYTES_IN_ROW, Choice, Engine, choose_batch, choose_copy, choose_of_batch
from pgrepl.replication.log import ServerLog
from pgrepl.replication.publisher.protocol import (
    Published,
    Publisher,
    PublisherError,
    not_copied,
    not_received,
    not_started,
)
from pgrepl.replication.subscriber import state
from pgrepl.replication.subscriber.apply.triggers import has_triggers
from pgrepl.replication.subscriber.apply_loop import BATCH
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.lease import WorkerFailed, asking
from pgrepl.replication.wire.messages import TruncateMessage
from pgrepl.sql.nodes.expr import RangeVar

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store import tables
    from pgrepl.replication.publisher.files.memory import GivenBatch


@dataclass
class TablePreview:
    """One table of a subscription. `to_copy`: the rows to copy; None: the table is not to be copied."""

    schema: str
    name: str
    state: str
    published: Published | None  # None: it is not published at present
    to_copy: int | None = None
    changes: Counter[str] = field(default_factory=Counter)  # by operation
    choice: Choice | None = None  # None: nothing is to be done


@dataclass
class Preview:
    """The changes that a subscription would receive from `start` up to `end`."""

    name: str
    start: int
    end: int
    transactions: int
    tables: list[TablePreview]
    files: tuple[str, ...] = ()  # from which the transactions come, if they come from files
    reader: Choice | None = None  # of these files


def preview(
    session: Session, subid: int, *, upto: int | None = None, copy: bool = True, given: GivenBatch | None = None
) -> Preview:
    """Ask the publisher. Raises WorkerFailed like a worker that cannot begin, SubscriptionChanged if the subscription
    is not enabled."""
    context = WorkerContext(session, subid, ServerLog(None), given=given)
    try:
        with context.transaction() as subscription:
            return _preview(context, subscription, upto, copy)
    finally:
        context.close()


def _preview(context: WorkerContext, subscription: tables.pg_subscription, upto: int | None, copy: bool) -> Preview:
    session = context.session
    publisher = context.connection.publisher(subscription)
    slot = subscriptions.slot_of(subscription)
    with asking():
        lag = publisher.stream.lag(slot)
    if lag is None:
        missing = PublisherError("42704", f'ERROR:  replication slot "{slot}" does not exist')
        raise WorkerFailed(not_started(missing), began=False)
    start = max(lag.confirmed, state.position(session, subscription.oid))
    end = max(start, lag.sendable if upto is None else min(lag.sendable, upto))
    states = state.table_states(session, subscription.oid)
    tables = {}
    for relid, (current, _) in sorted(states.items()):
        table = relation(session, relid)
        tables[table.schema, table.name] = _table(publisher, subscription, table, current, copy=copy)
    transactions = 0
    stream = publisher.stream.transactions(state.request(subscription, slot, start, end), BATCH)
    with closing(stream):
        try:
            for transaction in stream:
                transactions += 1
                for message in transaction.messages:
                    truncates = isinstance(message, TruncateMessage)
                    for sent in message.relations if isinstance(message, TruncateMessage) else (message.relation,):
                        known = tables.get((sent.schema, sent.name))
                        if known is not None and known.state not in (subscriptions.INIT, subscriptions.DATASYNC):
                            known.changes["truncate" if truncates else message.operation] += 1  # type: ignore[union-attr]
        except PublisherError as error:
            raise WorkerFailed(not_received(error)) from None
    copies, plans = publisher.copies, list(tables.values())
    changed = [total for plan in plans if (total := plan.changes.total())]
    batch = choose_batch(session, sum(changed), len(changed))
    for plan in plans:
        triggered = _triggered(session, plan)
        if triggered is not None:
            plan.choice = triggered
        elif plan.to_copy is not None:
            size = plan.to_copy * BYTES_IN_ROW if copies is not None and copies.copies_directly else None
            plan.choice = choose_copy(session, plan.to_copy, size=size)
        elif plan.changes:
            plan.choice = choose_of_batch(session, batch, plan.changes.total())
    files = publisher.stream.files
    sources = () if files is None or start >= end else tuple(files.sources(start))
    with asking():
        reader = files.reader_of_sources(start) if files is not None and sources else None
        delivered = publisher.stream.delivered(end)
    return Preview(subscription.subname, start, delivered, transactions, plans, sources, reader)


def _triggered(session: Session, plan: TablePreview) -> Choice | None:
    """The choice for a table with triggers that fire: each row is done by itself."""
    table = find_relation(session, RangeVar(plan.name, plan.schema))
    rows = plan.to_copy if plan.to_copy is not None else plan.changes.total()
    if (plan.to_copy is None and not plan.changes) or not has_triggers(session, table.oid):
        return None
    return Choice(Engine.LOCAL, f'table "{table.name}" has triggers', rows)


def _table(
    publisher: Publisher, subscription: tables.pg_subscription, table: Relation, current: str, *, copy: bool
) -> TablePreview:
    names = subscription.subpublications
    with asking():
        published = publisher.catalog.published_as(table.schema, table.name, names)
    plan = TablePreview(table.schema, table.name, current, published)
    if copy and current in (subscriptions.INIT, subscriptions.DATASYNC) and published is not None:
        try:
            plan.to_copy = 0 if publisher.copies is None else publisher.copies.count(table.schema, table.name, names)
        except PublisherError as error:
            raise WorkerFailed(not_copied(table.qualified_name, error)) from None
    return plan
