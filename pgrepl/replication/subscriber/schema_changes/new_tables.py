"""Tables that are newly published are made here and added to the subscription (schema_changes = tables).

What ALTER SUBSCRIPTION … REFRESH PUBLICATION does, with tables made that are not there; none is ever removed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog import subscription as catalog
from pgrepl.catalog import tables
from pgrepl.catalog.namespace import schema_or_none
from pgrepl.catalog.relation import find_relation
from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.replication.log import ServerLog
from pgrepl.replication.publisher.definition import RemoteDefinition, definition_of
from pgrepl.replication.publisher.protocol import PublisherCatalog, TableCopies
from pgrepl.replication.subscriber.schema_changes.columns import defined
from pgrepl.replication.subscriber.schema_changes.define import define
from pgrepl.replication.subscriber.schema_changes.known import remember
from pgrepl.replication.subscriber.schema_changes.types import missing_types
from pgrepl.sql.nodes.expr import RangeVar
from pgrepl.sql.quote import quote_identifier

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


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
