"""Follows the publisher's definitions in the order of its stream (schema_changes = columns, tables, all).

Before the first transaction with a new description the table here gets the described columns, in a commit of its own.
A transaction that itself changes a table between its rows is applied in one commit, portion by portion. Newly
published tables are made and added, never removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.namespace import schema_or_none
from pgrepl.catalog.facts.relation import Relation, find_relation, relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import partition_root
from pgrepl.catalog.store import store, tables
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.lake.storage import crash_point
from pgrepl.replication.log import ServerLog
from pgrepl.replication.publisher.definitions import Told, ToldEnum, ToldTable
from pgrepl.replication.publisher.definitions import told as told_of
from pgrepl.replication.publisher.protocol import Publisher, PublisherCatalog, TableCopies
from pgrepl.replication.publisher.tables import RemoteAttribute, RemoteDefinition, definition_of
from pgrepl.replication.subscriber import state
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.subscriber.apply.target import target_or_none
from pgrepl.replication.subscriber.apply.triggers import acting_for
from pgrepl.replication.subscriber.schema_changes import columns, definitions
from pgrepl.replication.subscriber.schema_changes.columns import (
    KnownTable,
    attempt,
    define,
    defined,
    described,
    heard,
    known_table,
    missing_types,
    remember,
)
from pgrepl.replication.wire.batch import WireBatch
from pgrepl.replication.wire.messages import Message, SentRelation, TruncateMessage, WireTransaction
from pgrepl.sql.keywords import quote_identifier, quote_qualified
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
    new_tables = []
    for schema, name in dict.fromkeys((table.schema, table.name) for table in publisher.published_tables(names)):
        here = find_relation(session, RangeVar(name, schema), missing_ok=True)
        if here is None or here.oid not in subscribed:
            needed = described(subscription, publisher, schema, name)
            if needed and not _is_renamed(session, subscription, definition_of(needed, schema, name), subscribed):
                new_tables.append(NewTable(schema, name, tuple(needed)))
    return new_tables


def _is_renamed(
    session: Session,
    subscription: tables.pg_subscription,
    definition: RemoteDefinition | None,
    subscribed: Collection[int],
) -> bool:
    """Is it a table that is here under another name, which will be followed (schema_changes = all)?"""
    if subscription.subschemachanges != subscriptions.ALL or definition is None:
        return False
    return _known_here(session, subscription, definition.oid, subscribed) is not None


def _known_here(
    session: Session, subscription: tables.pg_subscription, remote: int, subscribed: Collection[int]
) -> Relation | None:
    """The subscribed table that is the publisher's table of this number."""
    known = {"srsubid": subscription.oid, "remote_relid": remote}
    rows = store.rows(session, tables.pgrepl_subscription_schema, **known) if remote else []
    relid = next((row.srrelid for row in rows if row.srrelid in subscribed), 0)
    return relation_or_none(session, relid) if relid else None


def differing_enums(session: Session, catalog_there: PublisherCatalog, subscribed: Collection[int]) -> list[ToldEnum]:
    """The enums of subscribed tables that have other labels at a publisher whose stream may not tell of them."""
    tables_here = [table for relid in subscribed if (table := relation_or_none(session, relid)) is not None]
    names = dict.fromkeys(enum for table in tables_here for enum in definitions.enums_of(table))
    told = catalog_there.enum_labels(list(names)) if names else []
    return [enum for enum in told if next(definitions.labels(session, enum), None) is not None]


def has_more_labels(session: Session, told: ToldEnum) -> bool:
    """Has the publisher's enum all labels of the one here, and more?"""
    return set(definitions.labels_here(session, told.schema, told.name) or ()) < set(told.labels)


def add_labels(
    session: Session, subscription: tables.pg_subscription, enums: Sequence[ToldEnum], log: ServerLog
) -> None:
    for enum in enums:
        define(session, subscription, definitions.labels(session, enum), log)


def add(
    session: Session,
    subscription: tables.pg_subscription,
    copies: TableCopies | None,
    new_tables: Sequence[NewTable],
    log: ServerLog,
) -> None:
    """Make them as far as they are not here, and add them; holding the write lock, as the subscription's owner."""
    for new in new_tables:
        try:
            _add(session, subscription, copies, new, log)
        except PgError as error:
            context = f'adding table "{new.schema}.{new.name}" to subscription "{subscription.subname}"'
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
        define(session, subscription, definition.statements(comments=False, release=session.settings.release), log)
        if definition.told is not None and definition.parent is None:
            here = find_relation(session, RangeVar(definition.name, definition.schema))
            now = defined(definition).columns
            before = [replace(column, default=None) for column in now if not column.generated]
            groups = definitions.besides_columns(session, here, here.qualified_name, before, now, definition.told)
            attempt(session, subscription, groups, log)
    table = find_relation(session, RangeVar(new.name, new.schema))
    subscriptions.check_subscription_relkind(table)
    if any(row.srrelid == table.oid for row in subscriptions.subscription_relations(session, subscription.oid)):
        return
    state = subscriptions.READY if copies is None else subscriptions.INIT
    subscriptions.add_subscription_relation(session, subscription.oid, table.oid, state)
    if state == subscriptions.READY or subscription.subschemachanges == subscriptions.ALL:
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
    told: tuple[Told, ...] = ()  # what it tells of definitions, besides


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
        self._older: dict[int, dict[int, str]] = {}  # values of older rows, by table and column
        self._follows_all = subscription.subschemachanges == subscriptions.ALL
        self._is_new: dict[tuple[SentRelation, int], bool] = {}

    # --- what is new --------------------------------------------------------------------------------------------------

    def is_new(self, sent: SentRelation, finish_lsn: int) -> bool:
        """Is the relation to be followed before a message of this transaction is applied?"""
        key = (sent, finish_lsn)
        if key not in self._is_new:
            self._is_new[key] = self._differs(sent, finish_lsn)
        return self._is_new[key]

    def _differs(self, sent: SentRelation, finish_lsn: int) -> bool:
        target = self._target(sent)
        if self._is_unknown(sent, target):
            return True
        since = None if target is None else state.applies_from(self._states, target.oid)
        if target is None or since is None or since > finish_lsn:
            return False
        if (target.schema, target.name) != (sent.schema, sent.name):
            return True
        known = known_table(self._session, self._subscription.oid, target.oid)
        return known is None or not known.is_as(sent)

    def _target(self, sent: SentRelation) -> Relation | None:
        """The table of the relation: of its name, or what is followed of it so far (schema_changes = all)."""
        known = self._known_here(sent.relid) if self._follows_all else None
        return known or target_or_none(self._session, sent)

    def _known_here(self, remote: int) -> Relation | None:
        return _known_here(self._session, self._subscription, remote, self._states)

    def _is_unknown(self, sent: SentRelation, target: Relation | None) -> bool:
        """Is it, perhaps, the first change of a table that is newly published?"""
        follows = self._subscription.subschemachanges in subscriptions.WITH_TABLES and not self._only
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
        tells = [told for _, told in self.told(transaction)]
        if not new and not tells:
            return None
        has_tables = self._have_tables(new)
        is_within = bool(tells) or any(len(described[sent.relid]) > 1 for sent in new)
        return NewRelations(tuple(new), transaction.xid, lsn, is_within and not has_tables, has_tables, tuple(tells))

    def told(self, transaction: WireTransaction) -> list[tuple[int, Told]]:
        """What the transaction tells of definitions that concern the subscription, each with the number of changes
        before it."""
        listed = told_of(transaction.emitted) if self._follows_all and transaction.emitted else []
        return [(after, told) for after, told in listed if self._concerns(told, transaction.finish_lsn)]

    def _concerns(self, told: Told, lsn: int) -> bool:
        for enum in told.enums:
            if (definitions.labels_here(self._session, enum.schema, enum.name) or enum.labels) != enum.labels:
                return True
        return any(self._known_here(relid) is not None for relid in told.dropped) or any(
            self._told_target(table, lsn) is not None for table in told.tables
        )

    def _told_target(self, told: ToldTable, lsn: int) -> Relation | None:
        """The table here, if the changes of the transaction are applied to it."""
        target = self._target(definitions.sent_relation(told, self._subscription.subpublications))
        since = None if target is None else state.applies_from(self._states, target.oid)
        return target if since is not None and since <= lsn else None

    def _have_tables(self, new: Iterable[SentRelation]) -> bool:
        return any(self._is_unknown(sent, self._target(sent)) for sent in new)

    def in_batch(self, batch: WireBatch) -> tuple[WireBatch, NewRelations | None]:
        """The part of a batch that brings nothing new; what its first transaction brings, if that is none of it."""
        last = batch.transactions[-1].finish_lsn
        new: list[tuple[int, SentRelation]] = []  # with the first transaction that has messages of the relation
        for messages in batch.changes:
            if self.is_new(messages.relation, last):
                new.append((_first(batch, lambda seq, m=messages: m.until(seq).count), messages.relation))  # type: ignore[misc]
        for seq, truncate in batch.truncates:
            number = next(n for n, transaction in enumerate(batch.transactions) if transaction.last_seq >= seq)
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
            relation = news.relations[0] if news.relations else None
            with self._explained(relation, news.xid, news.finish_lsn):
                raise unsupported("a prepared transaction that changes the columns of a table between its rows")

    def ask(self, news: NewRelations) -> list[NewTable]:
        """Ask the publisher for what is needed to follow; without the write lock. The tables that are to be added."""
        if news.has_tables:
            new_tables = missing(self._session, self._subscription, self._publisher.catalog, self._states)
            named = {(table.schema, table.name) for table in new_tables}
            self._unpublished.update(sent.relid for sent in news.relations if (sent.schema, sent.name) not in named)
            return new_tables
        for sent in news.relations:
            relid, lsn = sent.relid, news.finish_lsn
            if relid not in self._present:
                self._present[relid] = self._publisher.catalog.attributes(relid, lsn)
            for number in self._followed(sent).without_value:
                value = self._publisher.catalog.older_value(relid, number, lsn)
                if value is not None:
                    self._present[relid] = tuple(
                        [
                            replace(attribute, missing=value) if attribute.num == number else attribute
                            for attribute in self._present[relid]
                        ]
                    )
        for told in [table for told_one in news.told for table in told_one.tables]:
            self._ask_of(told, news.finish_lsn)
        return []

    def _ask_of(self, told: ToldTable, lsn: int) -> None:
        target = self._told_target(told, lsn)
        if target is None:
            return
        self._present[told.oid] = self._publisher.catalog.attributes(told.oid, lsn)
        known = known_table(self._session, self._subscription.oid, target.oid)
        numbers = {column.num for column in known.columns} if known is not None else set()
        for column in told.columns:
            if column.num in numbers or column.generated:
                continue
            if column.missing is None and column.default is not None:
                value = self._publisher.catalog.older_value(told.oid, column.num, lsn)
                if value is not None:
                    self._older.setdefault(told.oid, {})[column.num] = value

    def _followed(self, sent: SentRelation) -> columns.Followed:
        session = self._session
        table = self._target(sent) or find_relation(session, RangeVar(sent.name, sent.schema))
        known = known_table(session, self._subscription.oid, table.oid)
        return columns.followed(table, partition_root(session, table), sent, known, self._present[sent.relid])

    def follow_all(self, news: NewRelations, new_tables: Sequence[NewTable]) -> None:
        """Follow in a commit of its own, holding the write lock: tables first, and columns when they are there."""
        if news.has_tables:
            add(self._session, self._subscription, self._publisher.copies, new_tables, self._log)
        else:
            for sent in news.relations:
                self.follow(sent, news.xid, news.finish_lsn)
        crash_point("schema.followed")

    def follow(self, sent: SentRelation, xid: int, finish_lsn: int) -> None:
        """Give the table here the columns of the relation; holding the write lock, as the subscription's owner."""
        session, subid = self._session, self._subscription.oid
        with self._explained(sent, xid, finish_lsn):
            self._rename(sent)
            table = find_relation(session, RangeVar(sent.name, sent.schema))
            known = known_table(session, subid, table.oid)
            followed = self._followed(sent)
            now, before = followed.known, known if known is not None and known.is_told else None
            if before is not None:
                now = replace(now, columns=heard(columns.kept_told(now.columns, before.columns), sent))
                self._before_columns(table, before, now)
            self._carry_out(table, followed)
            if before is not None:
                self._besides(table, before, now, None)
            remember(session, subid, table.oid, now)
        self._is_new.clear()

    def _rename(self, sent: SentRelation) -> None:
        table = self._target(sent) if self._follows_all else None
        if table is not None:
            with acting_for(self._session, self._subscription, table):
                statements = definitions.renaming(self._session, table, sent.schema, sent.name)
                define(self._session, self._subscription, statements, self._log)

    def _carry_out(self, table: Relation, followed: columns.Followed) -> None:
        session = self._session
        with acting_for(session, self._subscription, partition_root(session, table)):
            define(session, self._subscription, missing_types(session, followed.types), self._log)
            for statement in followed.statements:
                group = followed.computed.get(statement)
                if group is None or not attempt(session, self._subscription, [group], self._log):
                    define(session, self._subscription, [statement], self._log)

    def _before_columns(self, table: Relation, before: KnownTable, now: KnownTable) -> None:
        altered = partition_root(self._session, table)
        with acting_for(self._session, self._subscription, altered):
            groups = definitions.before_columns(table, altered.qualified_name, before.columns, now.columns)
            attempt(self._session, self._subscription, groups, self._log)

    def _besides(self, table: Relation, before: KnownTable, now: KnownTable, told: ToldTable | None) -> None:
        session = self._session
        altered = partition_root(session, table)
        with acting_for(session, self._subscription, altered):
            groups = definitions.besides_columns(
                session, relation(session, table.oid), altered.qualified_name, before.columns, now.columns, told
            )
            attempt(session, self._subscription, groups, self._log)

    def follow_told(self, told: Told, xid: int, finish_lsn: int) -> None:
        """Follow what the stream tells of definitions; holding the write lock, as the subscription's owner."""
        session = self._session
        with self._explained(None, xid, finish_lsn):
            for enum in told.enums:
                define(session, self._subscription, definitions.labels(session, enum), self._log)
        for table in told.tables:
            if self._told_target(table, finish_lsn) is not None:
                self._follow_table(table, xid, finish_lsn)
        for relid in told.dropped:
            table_here = self._known_here(relid)
            if table_here is not None:
                with self._explained(None, xid, finish_lsn), acting_for(session, self._subscription, table_here):
                    self._drop(table_here)
        self._is_new.clear()

    def _drop(self, table: Relation) -> None:
        """Drop a table, also one whose copy, which cannot be made any more, is still to come."""
        if self._states[table.oid][0] != subscriptions.READY:
            subscriptions.remove_subscription_relation(self._session, self._subscription.oid, table.oid)
        statement = f"DROP TABLE {quote_qualified(table.schema, table.name)}"
        define(self._session, self._subscription, [statement], self._log)

    def _follow_table(self, told: ToldTable, xid: int, finish_lsn: int) -> None:
        session, subid = self._session, self._subscription.oid
        sent = definitions.sent_relation(told, self._subscription.subpublications)
        with self._explained(sent, xid, finish_lsn):
            self._rename(sent)
            table = find_relation(session, RangeVar(sent.name, sent.schema))
            known = known_table(session, subid, table.oid) or KnownTable(sent.relid, (), is_settled=False)
            present = definitions.attributes(told, self._present.get(told.oid, ()), self._older.get(told.oid, {}))
            altered = partition_root(session, table)
            followed = columns.followed(table, altered, sent, known, present)
            here = {attribute.num: attribute.here for attribute in present}
            now = replace(followed.known, columns=columns.told_columns(followed.known.columns, told, here))
            self._before_columns(table, known, now)
            self._carry_out(table, followed)
            self._besides(table, known, now, told)
            remember(session, subid, table.oid, now)

    # --- what the publisher's catalog tells now (present.py) ----------------------------------------------------------

    def differs_now(self, told: ToldTable, *, has_columns: bool) -> bool:
        """Has a table that is followed other definitions now? `has_columns`: and the columns that are known."""
        known = self._known(told)
        if known is None or not known.is_told:
            return False
        if not columns.has_columns(known, told, self._subscription.subpublications):
            return not has_columns
        here = {column.num: column.here for column in known.columns}
        return columns.present_columns(known.columns, told, here) != known.columns

    def loosens(self, told: ToldTable) -> bool:
        """Does it let more rows in now?"""
        known = self._known(told)
        return known is not None and columns.loosened(known.columns, told) != known.columns

    def loosen(self, told: ToldTable) -> None:
        """Let more rows in; holding the write lock, as the subscription's owner."""
        known = self._known(told)
        if known is not None:
            self._follow_now(told, known, columns.loosened(known.columns, told))

    def ask_present(self, tables_there: Iterable[ToldTable], lsn: int) -> None:
        """Ask the publisher for what is needed to follow these; without the write lock."""
        for told in tables_there:
            self._present[told.oid] = self._publisher.catalog.attributes(told.oid, lsn)

    def follow_present(self, told: ToldTable, lsn: int) -> None:
        """Follow the present definitions of a table whose columns are known; holding the write lock, as the
        subscription's owner."""
        known = self._known(told)
        assert known is not None
        present = definitions.attributes(told, self._present.get(told.oid, ()), {})
        here = {attribute.num: attribute.here for attribute in present}
        with self._explained(None, 0, lsn):
            self._follow_now(told, known, columns.present_columns(known.columns, told, here))

    def _known(self, told: ToldTable) -> KnownTable | None:
        table = self._known_here(told.oid)
        known = None if table is None else known_table(self._session, self._subscription.oid, table.oid)
        return known if known is not None and known.is_settled else None

    def _follow_now(self, told: ToldTable, known: KnownTable, columns_now: tuple[columns.KnownColumn, ...]) -> None:
        table, now = self._known_here(told.oid), replace(known, columns=columns_now)
        if table is None or now == known:
            return
        self._before_columns(table, known, now)
        self._besides(table, known, now, told)
        remember(self._session, self._subscription.oid, table.oid, now)

    @contextmanager
    def _explained(self, sent: SentRelation | None, xid: int, finish_lsn: int) -> Iterator[None]:
        progress = Progress(subscriptions.origin_name(self._subscription.oid))
        progress.transaction(xid, finish_lsn)
        progress.command, progress.relation = "MESSAGE" if sent is None else "RELATION", sent
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
