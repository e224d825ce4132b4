"""Follows the publisher's definitions in the order of its stream (schema_changes = columns, tables).

Before the first transaction with a new description the table here gets the described columns, in a commit of its own.
A transaction that itself changes a table between its rows is applied in one commit, portion by portion. Newly
published tables are made and added, never removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import subscription as catalog
from pgrepl.catalog.facts.namespace import schema_or_none
from pgrepl.catalog.facts.relation import Relation, find_relation
from pgrepl.catalog.facts.relation_parts import partition_root
from pgrepl.catalog.store import tables
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.lake.storage import crash_point
from pgrepl.replication.log import ServerLog
from pgrepl.replication.publisher.protocol import Publisher, PublisherCatalog, TableCopies
from pgrepl.replication.publisher.tables import RemoteAttribute, RemoteDefinition, definition_of
from pgrepl.replication.subscriber import state
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.subscriber.apply.target import target_or_none
from pgrepl.replication.subscriber.apply.triggers import acting_for
from pgrepl.replication.subscriber.schema_changes import columns
from pgrepl.replication.subscriber.schema_changes.columns import define, defined, known_table, missing_types, remember
from pgrepl.replication.wire.batch import WireBatch
from pgrepl.replication.wire.messages import Message, SentRelation, TruncateMessage, WireTransaction
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes.expr import RangeVar

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


@frozen
class NewTable:
    """A published table that the subscription does not have; `made`: what it consists of."""

    schema: str
    name: str
    made: tuple[RemoteDefinition, ...]


def missing(
    session: Session, subscription: tables.pg_subscription, publisher: PublisherCatalog, subscribed: Collection[int]
) -> list[NewTable]:
    """Ask the publisher for the published tables that are not subscribed."""
    names = subscription.subpublications
    found = []
    for schema, name in dict.fromkeys((each.schema, each.name) for each in publisher.published_tables(names)):
        here = find_relation(session, RangeVar(name, schema), missing_ok=True)
        if here is None or here.oid not in subscribed:
            made = publisher.definitions(schema, name, names)
            if made:
                found.append(NewTable(schema, name, tuple(made)))
    return found


def add(
    session: Session,
    subscription: tables.pg_subscription,
    copies: TableCopies | None,
    found: Sequence[NewTable],
    log: ServerLog,
) -> None:
    """Make them as far as they are not here, and add them; holding the write lock, as the subscription's owner."""
    for each in found:
        try:
            _add(session, subscription, copies, each, log)
        except PgError as error:
            context = f'adding table "{each.schema}.{each.name}" to subscription "{subscription.subname}"'
            error.report = replace(error.report, context=context, position=None)
            raise


def _add(
    session: Session, subscription: tables.pg_subscription, copies: TableCopies | None, new: NewTable, log: ServerLog
) -> None:
    for definition in new.made:
        if find_relation(session, RangeVar(definition.name, definition.schema), missing_ok=True) is not None:
            continue
        if schema_or_none(session, definition.schema) is None:
            define(session, subscription, [f"CREATE SCHEMA {quote_identifier(definition.schema)}"], log)
        define(session, subscription, missing_types(session, definition.types), log)
        define(session, subscription, definition.statements(comments=False), log)
    table = find_relation(session, RangeVar(new.name, new.schema))
    catalog.check_subscription_relkind(table)
    if any(row.srrelid == table.oid for row in catalog.subscription_relations(session, subscription.oid)):
        return
    state = catalog.READY if copies is None else catalog.INIT
    catalog.add_subscription_relation(session, subscription.oid, table.oid, state)
    if state == catalog.READY:
        own = definition_of(new.made, new.schema, new.name)
        assert own is not None
        remember(session, subscription.oid, table.oid, defined(own))
    worker = f'logical replication worker for subscription "{subscription.subname}"'
    log.log(f'{worker} adds table "{table.qualified_name}"')


# --- follow -----------------------------------------------------------------------------------------------------------


@frozen
class NewRelations:
    """New descriptions of relations in the transaction that is applied next."""

    relations: tuple[SentRelation, ...]  # in the order of the transaction
    xid: int
    finish_lsn: int
    is_within: bool  # other descriptions of the same relations come before them: they are followed when they come
    has_tables: bool  # some are newly published


class Following:
    """The definitions of one subscription's publisher."""

    def __init__(
        self,
        session: Session,
        subscription: tables.pg_subscription,
        publisher: Publisher,
        log: ServerLog,
        unpublished: set[int],
        only: int = 0,
    ) -> None:
        """`unpublished`: relations that the publisher was asked for, and that are in no publication any more. `only`:
        the table whose own stream it is."""
        self._session = session
        self._subscription = subscription
        self._publisher = publisher
        self._log = log
        self._unpublished = unpublished
        self._only = only
        self._states = state.states_for(session, subscription.oid, only)
        self._present: dict[int, tuple[RemoteAttribute, ...]] = {}
        self._is_new: dict[tuple[SentRelation, int], bool] = {}

    # --- what is new --------------------------------------------------------------------------------------------------

    def is_new(self, sent: SentRelation, finish_lsn: int) -> bool:
        """Is the relation to be followed before a message of this transaction is applied?"""
        key = (sent, finish_lsn)
        if key not in self._is_new:
            self._is_new[key] = self._differs(sent, finish_lsn)
        return self._is_new[key]

    def _differs(self, sent: SentRelation, finish_lsn: int) -> bool:
        target = target_or_none(self._session, sent)
        if self._is_unknown(sent, target):
            return True
        since = None if target is None else state.applies_from(self._states, target.oid)
        if target is None or since is None or since > finish_lsn:
            return False
        known = known_table(self._session, self._subscription.oid, target.oid)
        return known is None or not known.is_as(sent)

    def _is_unknown(self, sent: SentRelation, target: Relation | None) -> bool:
        """Is it, perhaps, the first change of a table that is newly published?"""
        follows = self._subscription.subschemachanges == catalog.TABLES and not self._only
        if not follows or sent.relid in self._unpublished:
            return False
        return target is None or target.oid not in self._states

    def new_in(self, message: Message | TruncateMessage, transaction: WireTransaction) -> list[SentRelation]:
        """The relations that are to be followed before the message is applied."""
        relations = message.relations if isinstance(message, TruncateMessage) else (message.relation,)
        return [sent for sent in relations if self.is_new(sent, transaction.finish_lsn)]

    def in_transactions(self, transactions: Sequence[WireTransaction]) -> tuple[int, NewRelations | None]:
        """The number of transactions that bring nothing new, and what the next one brings."""
        skipped = self._subscription.subskiplsn
        for number, transaction in enumerate(transactions):
            if number or transaction.finish_lsn != skipped:
                news = self._in_transaction(transaction)
                if news is not None:
                    return number, news
        return len(transactions), None

    def _in_transaction(self, transaction: WireTransaction) -> NewRelations | None:
        lsn = transaction.finish_lsn
        described: dict[int, list[SentRelation]] = {}
        for sent in _relations(transaction.messages):
            listed = described.setdefault(sent.relid, [])
            if not listed or listed[-1] != sent:
                listed.append(sent)
        new = [sent for listed in described.values() for sent in listed if self.is_new(sent, lsn)]
        if not new:
            return None
        is_within = any(len(described[sent.relid]) > 1 for sent in new)
        return NewRelations(tuple(new), transaction.xid, lsn, is_within, self._have_tables(new))

    def _have_tables(self, new: Iterable[SentRelation]) -> bool:
        return any(self._is_unknown(sent, target_or_none(self._session, sent)) for sent in new)

    def in_batch(self, batch: WireBatch) -> tuple[WireBatch, NewRelations | None]:
        """The part of a batch that brings nothing new; what its first transaction brings, if that is none of it."""
        last = batch.transactions[-1].finish_lsn
        new: list[tuple[int, SentRelation]] = []  # with the first transaction that has messages of the relation
        for messages in batch.changes:
            if self.is_new(messages.relation, last):
                new.append((_first(batch, lambda seq, m=messages: m.until(seq).count), messages.relation))  # type: ignore[misc]
        for seq, truncate in batch.truncates:
            number = next(n for n, each in enumerate(batch.transactions) if each.last_seq >= seq)
            new += [(number, sent) for sent in truncate.relations if self.is_new(sent, last)]
        if not new:
            return batch, None
        first = min(number for number, _ in new)
        before = batch.until(batch.transactions[first].first_seq)
        if before.count:
            return before, None
        relations = tuple(dict.fromkeys(sent for number, sent in new if number == first))
        at = batch.transactions[first]
        return before, NewRelations(relations, at.xid, at.finish_lsn, False, self._have_tables(relations))

    # --- following ----------------------------------------------------------------------------------------------------

    def refuse_within(self, transaction: WireTransaction, news: NewRelations) -> None:
        """A prepared transaction may be rolled back, what follows a definition may not."""
        if transaction.phase is not None:
            with self._explained(news.relations[0], news.xid, news.finish_lsn):
                raise unsupported("a prepared transaction that changes the columns of a table between its rows")

    def ask(self, news: NewRelations) -> list[NewTable]:
        """Ask the publisher for what is needed to follow; without the write lock. The tables that are to be added."""
        if news.has_tables:
            found = missing(self._session, self._subscription, self._publisher.catalog, self._states)
            named = {(table.schema, table.name) for table in found}
            self._unpublished.update(sent.relid for sent in news.relations if (sent.schema, sent.name) not in named)
            return found
        for sent in news.relations:
            relid, lsn = sent.relid, news.finish_lsn
            if relid not in self._present:
                self._present[relid] = self._publisher.catalog.attributes(relid, lsn)
            for number in self._followed(sent).without_value:
                value = self._publisher.catalog.older_value(relid, number, lsn)
                if value is not None:
                    self._present[relid] = tuple(
                        [replace(each, missing=value) if each.num == number else each for each in self._present[relid]]
                    )
        return []

    def _followed(self, sent: SentRelation) -> columns.Followed:
        session = self._session
        table = find_relation(session, RangeVar(sent.name, sent.schema))
        known = known_table(session, self._subscription.oid, table.oid)
        return columns.followed(table, partition_root(session, table), sent, known, self._present[sent.relid])

    def follow_all(self, news: NewRelations, found: Sequence[NewTable]) -> None:
        """Follow in a commit of its own, holding the write lock: tables first, and columns when they are there."""
        if news.has_tables:
            add(self._session, self._subscription, self._publisher.copies, found, self._log)
        else:
            for sent in news.relations:
                self.follow(sent, news.xid, news.finish_lsn)
        crash_point("schema.followed")

    def follow(self, sent: SentRelation, xid: int, finish_lsn: int) -> None:
        """Give the table here the columns of the relation; holding the write lock, as the subscription's owner."""
        session, subid = self._session, self._subscription.oid
        with self._explained(sent, xid, finish_lsn):
            table = find_relation(session, RangeVar(sent.name, sent.schema))
            found = self._followed(sent)
            with acting_for(session, self._subscription, partition_root(session, table)):
                define(session, self._subscription, missing_types(session, found.types), self._log)
                define(session, self._subscription, found.statements, self._log)
            remember(session, subid, table.oid, found.known)
        self._is_new.clear()

    @contextmanager
    def _explained(self, sent: SentRelation, xid: int, finish_lsn: int) -> Iterator[None]:
        progress = Progress(catalog.origin_name(self._subscription.oid))
        progress.transaction(xid, finish_lsn)
        progress.command, progress.relation = "RELATION", sent
        try:
            yield
        except PgError as error:
            raise progress.explain(error) from error.__cause__


def _relations(messages: Iterable[Message | TruncateMessage]) -> Iterator[SentRelation]:
    """The relations of messages; one that is described once is the same object in most of them."""
    last: SentRelation | None = None
    for message in messages:
        if isinstance(message, TruncateMessage):
            yield from message.relations
        elif message.relation is not last:
            last = message.relation
            yield last


def _first(batch: WireBatch, before: Callable[[int], int]) -> int:
    """The first transaction that has one of the messages that are counted up to a sequence number."""
    low, high = 0, len(batch.transactions) - 1
    while low < high:
        middle = (low + high) // 2
        if before(batch.transactions[middle].last_seq + 1):
            high = middle
        else:
            low = middle + 1
    return low


__all__ = ["Following", "NewRelations"]
