"""The tables of a subscription: listed by the publisher, matched by name with local ones.

A table that the publisher lists gets a row in pg_subscription_rel, in state i (to be copied) or r (ready); one that it
no longer lists loses the row, and the slot and origin of an unfinished copy (AlterSubscription_refresh).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from pgrepl.catalog import subscription as catalog
from pgrepl.catalog import tables
from pgrepl.catalog.relation import Relation, find_relation, relation_or_none
from pgrepl.errors import PgError
from pgrepl.replication.libpq.endpoints import ConnectionFailure
from pgrepl.replication.origins import drop_origin
from pgrepl.replication.publisher.definition import definition_of
from pgrepl.replication.publisher.protocol import Publisher, PublisherCatalog, PublisherError, RemoteTable, Slots
from pgrepl.replication.subscriber import lease
from pgrepl.replication.subscriber.connection import connect
from pgrepl.replication.subscriber.schema_changes.columns import defined
from pgrepl.replication.subscriber.schema_changes.known import known_table, remember
from pgrepl.sql.nodes import RangeVar
from pgrepl.statements.subscription.rights import must_use_password

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


@contextmanager
def connected(session: Session, subscription: tables.pg_subscription) -> Iterator[Publisher]:
    """The subscription's publisher, for as long as the statement needs it."""
    required = must_use_password(session, subscription)
    try:
        publisher = connect(session, subscription.subconninfo, must_use_password=required, subid=subscription.oid)
    except ConnectionFailure as failure:
        if failure.sqlstate == "0A000":
            raise PgError("0A000", str(failure)) from None
        raise PgError("08006", f"could not connect to the publisher: {failure}") from None
    with closing(publisher):
        yield publisher


def check_publications(session: Session, publisher: PublisherCatalog, names: Sequence[str]) -> None:
    """Warn of missing publications; they are no error, as they may be created later."""
    try:
        there = publisher.existing_publications(names)
    except PublisherError as error:
        raise PgError("XX000", f"could not receive list of publications from the publisher: {error}") from None
    missing = [name for name in names if name not in there]
    if not missing:
        return
    listed = quoted_list(missing)
    text = (
        f"publication {listed} does not exist on the publisher"
        if len(missing) == 1
        else f"publications {listed} do not exist on the publisher"
    )
    session.notice("WARNING", text, sqlstate="42704")


def check_publications_origin(
    session: Session,
    publisher: PublisherCatalog,
    subscription: tables.pg_subscription,
    *,
    copy_data: bool,
    present: Sequence[int] = (),
) -> None:
    """Warn that with origin = none a copy may still bring rows that the publisher has from other origins. Tables that
    are subscribed already (`present`) are not copied and not checked."""
    if not copy_data or subscription.suborigin.lower() != "none":
        return
    known = {(r.schema, r.name) for r in (relation_or_none(session, relid) for relid in present) if r is not None}
    try:
        found = publisher.publications_with_other_origins(subscription.subpublications, known)
    except PublisherError as error:
        raise _no_tables(error) from None
    if not found:
        return
    listed = quoted_list(found)
    one = f"to a publication ({listed}) that contains tables"
    many = f"to publications ({listed}) that contain tables"
    session.notice(
        "WARNING",
        f'subscription "{subscription.subname}" requested copy_data with origin = NONE '
        "but might copy data that had a different origin",
        sqlstate="55000",
        detail=f"The subscription being created subscribes {one if len(found) == 1 else many} "
        "that are written to by other subscriptions.",
        hint="Verify that initial data copied from the publisher tables did not come from other origins.",
    )


def quoted_list(names: Sequence[str]) -> str:
    """As get_publications_str: in quotes that are not doubled inside."""
    return ", ".join(f'"{name}"' for name in names)


def fetch_tables(publisher: PublisherCatalog, publications: Sequence[str]) -> list[RemoteTable]:
    """The tables that the publications publish; a table must have one column list in all of them (fetch_table_list)."""
    try:
        found = publisher.published_tables(publications)
    except PublisherError as error:
        raise _no_tables(error) from None
    seen: set[tuple[str, str]] = set()
    for table in found:
        if (table.schema, table.name) in seen:
            raise PgError(
                "0A000",
                f'cannot use different column lists for table "{table.schema}.{table.name}" in different publications',
            )
        seen.add((table.schema, table.name))
    return found


def _no_tables(error: PublisherError) -> PgError:
    return PgError("08006", f"could not receive list of replicated tables from the publisher: {error}")


def target_relation(session: Session, table: RemoteTable) -> Relation:
    """The local table of that name."""
    found = find_relation(session, RangeVar(table.name, table.schema))
    catalog.check_subscription_relkind(found)
    return found


def add_tables(session: Session, publisher: Publisher, subscription: tables.pg_subscription, *, copy_data: bool) -> int:
    """Add the tables of a new subscription; returns their number."""
    listed = fetch_tables(publisher.catalog, subscription.subpublications)
    state = catalog.INIT if copy_data and publisher.copies is not None else catalog.READY
    for table in listed:
        found = target_relation(session, table)
        catalog.add_subscription_relation(session, subscription.oid, found.oid, state)
    note_columns(session, publisher.catalog, subscription)
    return len(listed)


def note_columns(session: Session, publisher: PublisherCatalog, subscription: tables.pg_subscription) -> None:
    """Note the publisher's columns of tables that are not copied: from now on they are followed (schema_changes)."""
    if subscription.subschemachanges == catalog.NO_SCHEMA:
        return
    for row in catalog.subscription_relations(session, subscription.oid):
        table = relation_or_none(session, row.srrelid)
        is_copied = row.srsubstate in (catalog.INIT, catalog.DATASYNC)
        if table is None or is_copied or known_table(session, subscription.oid, table.oid) is not None:
            continue
        try:
            found = publisher.definitions(table.schema, table.name, subscription.subpublications)
        except PublisherError as error:
            raise _no_tables(error) from None
        definition = definition_of(found, table.schema, table.name)
        if definition is not None:
            remember(session, subscription.oid, table.oid, defined(definition))


def refresh(
    session: Session, subscription: tables.pg_subscription, *, copy_data: bool, validate: Sequence[str] | None = None
) -> None:
    """Bring the list of tables in line with the publisher's."""
    with connected(session, subscription) as publisher:
        if validate:
            check_publications(session, publisher.catalog, validate)
        listed = fetch_tables(publisher.catalog, subscription.subpublications)
        present = {row.srrelid: row for row in catalog.subscription_relations(session, subscription.oid)}
        check_publications_origin(
            session, publisher.catalog, subscription, copy_data=copy_data, present=sorted(present)
        )
        state = catalog.INIT if copy_data and publisher.copies is not None else catalog.READY
        wanted = set()
        for table in listed:
            found = target_relation(session, table)
            wanted.add(found.oid)
            if found.oid not in present:
                catalog.add_subscription_relation(session, subscription.oid, found.oid, state)
                _say(session, found, "added to", subscription)
        note_columns(session, publisher.catalog, subscription)
        worker = lease.holder(session, subscription.oid)
        removed = [present[relid] for relid in sorted(present) if relid not in wanted]
        for row in removed:
            _remove(session, subscription, row)
        # slots last: dropping them is not rolled back when the statement fails
        slots = publisher.slots
        for row in removed:
            if slots is not None and row.srsubstate != catalog.READY:
                slot = catalog.sync_slot_name(session, subscription.oid, row.srrelid)
                leave(slots, slot, worker)
                drop_slot(session, slots, slot, missing_ok=True)


def _remove(session: Session, subscription: tables.pg_subscription, row: tables.pg_subscription_rel) -> None:
    catalog.remove_subscription_relation(session, subscription.oid, row.srrelid)
    if row.srsubstate != catalog.READY:
        drop_origin(session, catalog.origin_name(subscription.oid, row.srrelid), missing_ok=True)
    found = relation_or_none(session, row.srrelid)
    if found is not None:
        _say(session, found, "removed from", subscription)


def _say(session: Session, found: Relation, what: str, subscription: tables.pg_subscription) -> None:
    session.notice("DEBUG1", f'table "{found.schema}.{found.name}" {what} subscription "{subscription.subname}"')


def leave(slots: Slots, slot: str, worker: tables.pgrepl_worker | None) -> None:
    """Release a slot from a worker that may be busy with it, and must not be any more."""
    if worker is not None:
        with suppress(PublisherError):
            slots.leave(slot, worker.token)


def drop_slot(session: Session, slots: Slots, name: str, *, missing_ok: bool = False) -> None:
    """As ReplicationSlotDropAtPubNode."""
    try:
        slots.drop(name)
    except PublisherError as error:
        text = f'could not drop replication slot "{name}" on publisher: {error}'
        if not missing_ok or error.sqlstate != "42704":
            raise PgError("08006", text) from None
        session.notice("LOG", text)
        return
    session.notice("NOTICE", f'dropped replication slot "{name}" on publisher')
