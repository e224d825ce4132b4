"""The parts of CREATE and ALTER SUBSCRIPTION: privileges, options (parse_subscription_options), and tables that the
publisher lists.

A listed table gets a row in pg_subscription_rel, in state i or r; one that is listed no more loses it, with the slot
and origin of an unfinished copy (AlterSubscription_refresh). Definitions of files of changes are checked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.acl import check_may_create, check_owner
from pgrepl.catalog.facts.depend import Dependency, record_dependency
from pgrepl.catalog.facts.relation import Relation, find_relation, relation_or_none
from pgrepl.catalog.facts.roles import has_privs_of_role, is_superuser, role_by_name
from pgrepl.catalog.facts.subscription import (
    HISTORIES,
    NO_HISTORY,
    NO_SCHEMA,
    PUBLIC,
    SCHEMA_CHANGES,
    WITH_TABLES,
    conninfo_of,
    mapping_not_found,
    mapping_or_none,
)
from pgrepl.catalog.session.parameters import check_slot_name
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.system import PG_FOREIGN_SERVER, PG_SUBSCRIPTION, ROLE_CREATE_SUBSCRIPTION, ObjectAddress
from pgrepl.ground.errors import PgError
from pgrepl.replication.conninfo import FILES, ConnectionFailure, names_files, parse_conninfo
from pgrepl.replication.origins import drop_origin
from pgrepl.replication.publisher.protocol import Publisher, PublisherCatalog, PublisherError, RemoteTable, Slots
from pgrepl.replication.publisher.tables import definition_of
from pgrepl.replication.subscriber import lease
from pgrepl.replication.subscriber.connection import connect, files_options
from pgrepl.replication.subscriber.schema_changes.columns import defined, described, known_table, remember
from pgrepl.replication.subscriber.sequences import sequences_on_both_sides
from pgrepl.sql.location import conflicting, get_boolean, get_int32, get_streaming, get_string
from pgrepl.sql.nodes import DefElem, RangeVar
from pgrepl.types.plain import parse_lsn

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def check_may_subscribe(session: Session) -> None:
    if not has_privs_of_role(session, session.role, ROLE_CREATE_SUBSCRIPTION):
        raise PgError(
            "42501",
            "permission denied to create subscription",
            detail='Only roles with privileges of the "pg_create_subscription" role may create subscriptions.',
        )
    check_may_create(session)


def check_subscription_owner(session: Session, subscription: tables.pg_subscription) -> None:
    check_owner(session, "subscription", subscription.subname, subscription.subowner)


def check_may_read_files(session: Session, conninfo: str, role: int) -> None:
    """Files of changes are files of the server, as those of COPY."""
    if not names_files(conninfo):
        return
    wanted = {"pg_read_server_files": "read"}
    if parse_conninfo(conninfo).get("on_error", "stop") != "stop":
        wanted["pg_write_server_files"] = "write"
    for name, action in wanted.items():
        if not has_privs_of_role(session, role, int(role_by_name(session, name).oid)):
            raise PgError(
                "42501",
                f"permission denied to {action} files of changes",
                detail=f'Only roles with privileges of the "{name}" role may {action} them.',
            )


def check_password_exemption(session: Session, password_required: bool) -> None:
    """Only a superuser may create or change a subscription that needs no password."""
    if not password_required and not is_superuser(session):
        raise PgError(
            "42501",
            "password_required=false is superuser-only",
            hint="Subscriptions with the password_required option set to false "
            "may only be created or modified by the superuser.",
        )


def must_use_password(session: Session, subscription: tables.pg_subscription) -> bool:
    return bool(subscription.subpasswordrequired) and not is_superuser(session, subscription.subowner)


# --- foreign server ---------------------------------------------------------------------------------------------------


def warn_without_mapping(session: Session, server: tables.pg_foreign_server, user: int) -> None:
    if mapping_or_none(session, user, server.oid) is None and mapping_or_none(session, PUBLIC, server.oid) is None:
        session.notice("WARNING", mapping_not_found(session, user, server).message, sqlstate="42704")


def depend_on_server(session: Session, subid: int, server: int) -> None:
    """The server cannot be dropped while the subscription has it."""
    subscription = ObjectAddress(PG_SUBSCRIPTION, subid)
    record_dependency(session, subscription, ObjectAddress(PG_FOREIGN_SERVER, server), Dependency.NORMAL)


# --- files ------------------------------------------------------------------------------------------------------------


def check_files_options(
    session: Session, conninfo: str, *, two_phase: bool, failover: bool, sequences: bool = False
) -> None:
    """Raise for what no subscription to files may have. Neither the files nor the database are looked for."""
    options = parse_conninfo(conninfo)
    if FILES not in options:
        return
    for name, is_on in (("two_phase", two_phase), ("failover", failover), ("sequences", sequences)):
        if is_on:
            raise PgError("0A000", f"{name} is not supported for files of changes")
    try:
        files_options(session, options)
    except ConnectionFailure as failure:
        raise PgError("22023", str(failure)) from None


# --- subscription options ---------------------------------------------------------------------------------------------


CREATE = frozenset(
    """connect enabled create_slot slot_name copy_data synchronous_commit binary streaming two_phase disable_on_error
    password_required run_as_owner failover origin schema_changes conflict_log sequences
    retain_dead_tuples max_retention_duration history""".split()
)
SET = CREATE - {"connect", "enabled", "create_slot", "copy_data", "two_phase"}
PUBLICATION = frozenset({"copy_data", "refresh"})
REFRESH = frozenset({"copy_data"})
SKIP = frozenset({"lsn"})


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """The names of the options written (`given`), and the values of all."""

    given: frozenset[str] = frozenset()
    connect: bool = True
    enabled: bool = True
    create_slot: bool = True
    slot_name: str | None = None
    copy_data: bool = True
    synchronous_commit: str | None = None
    refresh: bool = True
    binary: bool = False
    streaming: str = "f"
    two_phase: bool = False
    disable_on_error: bool = False
    password_required: bool = True
    run_as_owner: bool = False
    failover: bool = False
    origin: str = "any"
    schema_changes: str = NO_SCHEMA
    conflict_log: bool = False
    sequences: bool = False
    retain_dead_tuples: bool = False
    max_retention_duration: int = 0
    history: str = NO_HISTORY
    lsn: int = 0


OPTION_COLUMNS = {
    "slot_name": "subslotname",
    "synchronous_commit": "subsynccommit",
    "binary": "subbinary",
    "streaming": "substream",
    "disable_on_error": "subdisableonerr",
    "password_required": "subpasswordrequired",
    "run_as_owner": "subrunasowner",
    "failover": "subfailover",
    "origin": "suborigin",
    "schema_changes": "subschemachanges",
    "conflict_log": "subconflictlog",
    "sequences": "subsequences",
    "retain_dead_tuples": "subretaindeadtuples",
    "max_retention_duration": "submaxretention",
    "history": "subhistory",
}


def parse_subscription_options(
    session: Session, options: Sequence[DefElem], known: Collection[str]
) -> SubscriptionOptions:
    given: dict[str, Any] = {}
    for option in options:
        if option.name not in known:
            raise PgError("42601", f'unrecognized subscription parameter: "{option.name}"')
        if option.name == "lsn":  # a missing value is reported before a repeated option
            get_string(option)
        if option.name in given:
            conflicting(option)
        if option.name == "synchronous_commit":
            given[option.name] = get_string(option)
            session.settings.check_value("synchronous_commit", given[option.name])
        else:
            given[option.name] = _READERS.get(option.name, get_boolean)(option)
    parsed = SubscriptionOptions(given=frozenset(given), **given)
    if "streaming" not in given and session.settings.release >= 18:
        parsed = replace(parsed, streaming="p")
    if "connect" in known and not parsed.connect:
        parsed = _not_connected(parsed)
    _check_slot_none(parsed, known)
    if parsed.two_phase and parsed.schema_changes in WITH_TABLES:
        raise _exclusive("two_phase = true", f"schema_changes = {SCHEMA_CHANGES[parsed.schema_changes]}")
    return parsed


def _not_connected(options: SubscriptionOptions) -> SubscriptionOptions:
    for name in ("enabled", "create_slot", "copy_data"):
        if name in options.given and getattr(options, name):
            raise _exclusive("connect = false", f"{name} = true")
    return replace(options, enabled=False, create_slot=False, copy_data=False)


def _check_slot_none(options: SubscriptionOptions, known: Collection[str]) -> None:
    if options.slot_name is not None or "slot_name" not in options.given:
        return
    for name in ("enabled", "create_slot"):
        if name not in known or not getattr(options, name):
            continue
        if name in options.given:
            raise _exclusive("slot_name = NONE", f"{name} = true")
        raise PgError("42601", f"subscription with slot_name = NONE must also set {name} = false")


def _exclusive(one: str, other: str) -> PgError:
    return PgError("42601", f"{one} and {other} are mutually exclusive options")


def _slot_name(option: DefElem) -> str | None:
    name = get_string(option)
    if name == "none":
        return None
    check_slot_name(name)
    return name


def _origin(option: DefElem) -> str:
    value = get_string(option)
    if value.lower() not in ("none", "any"):
        raise PgError("22023", f'unrecognized origin value: "{value}"')
    return value


def _one_of(words: Mapping[str, str], option: DefElem) -> str:
    """The letter of the word that is given."""
    value = get_string(option)
    chosen = next((letter for letter, word in words.items() if word == value.lower()), None)
    if chosen is None:
        raise PgError("22023", f'unrecognized {option.name} value: "{value}"')
    return chosen


def _lsn(option: DefElem) -> int:
    text = get_string(option)
    if text == "none":
        return 0
    lsn = parse_lsn(text)
    if lsn == 0:
        raise PgError("22023", f"invalid WAL location (LSN): {text}")
    return lsn


def _duration(option: DefElem) -> int:
    milliseconds = get_int32(option)
    if milliseconds < 0:
        raise PgError("22023", f'option "{option.name}" cannot be negative')
    return milliseconds


def say_of_retention(session: Session, retains: bool, duration: int, *, is_enabled: bool) -> None:
    """A NOTICE for parameters that keep too much or do nothing (CheckSubDeadTupleRetention)."""
    if retains and not is_enabled:
        text = "deleted rows to detect conflicts would not be removed until the subscription is enabled"
        session.notice("NOTICE", text, sqlstate="22023")
    elif duration and not retains:
        text = "max_retention_duration is ineffective when retain_dead_tuples is disabled"
        session.notice("NOTICE", text, sqlstate="22023")


_READERS: dict[str, Callable[[DefElem], Any]] = {
    "slot_name": _slot_name,
    "streaming": get_streaming,
    "origin": _origin,
    "schema_changes": partial(_one_of, SCHEMA_CHANGES),
    "history": partial(_one_of, HISTORIES),
    "lsn": _lsn,
    "max_retention_duration": _duration,
}


# --- tables -----------------------------------------------------------------------------------------------------------


def not_connected(session: Session, name: str, failure: ConnectionFailure) -> PgError:
    """The error of a publisher that cannot be reached. 18 names the subscription."""
    whose = f'subscription "{name}" ' if session.settings.release >= 18 else ""
    return PgError("08006", f"{whose}could not connect to the publisher: {failure}")


@contextmanager
def connected(session: Session, subscription: tables.pg_subscription) -> Iterator[Publisher]:
    """The subscription's publisher, for as long as the statement needs it."""
    required = must_use_password(session, subscription)
    try:
        conninfo = conninfo_of(session, subscription)
        publisher = connect(session, conninfo, must_use_password=required, subid=subscription.oid)
    except ConnectionFailure as failure:
        if failure.sqlstate == "0A000":
            raise PgError("0A000", str(failure)) from None
        raise not_connected(session, subscription.subname, failure) from None
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
        names = publisher.publications_with_other_origins(subscription.subpublications, known)
    except PublisherError as error:
        raise _no_tables(error) from None
    if not names:
        return
    listed = quoted_list(names)
    one = f"to a publication ({listed}) that contains tables"
    many = f"to publications ({listed}) that contain tables"
    session.notice(
        "WARNING",
        f'subscription "{subscription.subname}" requested copy_data with origin = NONE '
        "but might copy data that had a different origin",
        sqlstate="55000",
        detail=f"The subscription being created subscribes {one if len(names) == 1 else many} "
        "that are written to by other subscriptions.",
        hint="Verify that initial data copied from the publisher tables did not come from other origins.",
    )


def quoted_list(names: Sequence[str]) -> str:
    """As get_publications_str: in quotes that are not doubled inside."""
    return ", ".join(f'"{name}"' for name in names)


def fetch_tables(publisher: PublisherCatalog, publications: Sequence[str]) -> list[RemoteTable]:
    """The tables that the publications publish; a table must have one column list in all of them (fetch_table_list)."""
    try:
        published = publisher.published_tables(publications)
    except PublisherError as error:
        raise _no_tables(error) from None
    seen: set[tuple[str, str]] = set()
    for table in published:
        if (table.schema, table.name) in seen:
            raise PgError(
                "0A000",
                f'cannot use different column lists for table "{table.schema}.{table.name}" in different publications',
            )
        seen.add((table.schema, table.name))
    return published


def _no_tables(error: PublisherError) -> PgError:
    return PgError("08006", f"could not receive list of replicated tables from the publisher: {error}")


def target_relation(session: Session, table: RemoteTable) -> Relation:
    """The local table of that name."""
    rel = find_relation(session, RangeVar(table.name, table.schema))
    subscriptions.check_subscription_relkind(rel)
    return rel


def add_tables(session: Session, publisher: Publisher, subscription: tables.pg_subscription, *, copy_data: bool) -> int:
    """Add the tables of a new subscription; returns their number."""
    listed = fetch_tables(publisher.catalog, subscription.subpublications)
    state = subscriptions.INIT if copy_data and publisher.copies is not None else subscriptions.READY
    for table in listed:
        rel = target_relation(session, table)
        subscriptions.add_subscription_relation(session, subscription.oid, rel.oid, state)
    note_columns(session, publisher.catalog, subscription)
    refresh_sequences(session, publisher.catalog, subscription, copy_data=copy_data)
    return len(listed)


def refresh_sequences(
    session: Session, publisher: PublisherCatalog, subscription: tables.pg_subscription, *, copy_data: bool
) -> None:
    """Bring the list of sequences in line with the publisher's: those that are published, which have to be here, and
    with the parameter `sequences` those that are on both sides."""
    try:
        published = publisher.published_sequences(subscription.subpublications)
    except PublisherError as error:
        raise _no_tables(error) from None
    present = {row.srrelid for row in subscriptions.subscription_sequences(session, subscription.oid)}
    check_sequences_origin(session, publisher, subscription, copy_data=copy_data, present=present)
    wanted = {}
    for schema, name in published:
        rel = find_relation(session, RangeVar(name, schema))
        subscriptions.check_subscription_relkind(rel, is_sequence=True)
        wanted[rel.oid] = rel
    if subscription.subsequences:
        try:
            wanted |= {rel.oid: rel for rel in sequences_on_both_sides(session, publisher)}
        except PublisherError as error:
            raise _no_tables(error) from None
    for oid, rel in wanted.items():
        if oid not in present:
            state = subscriptions.INIT if copy_data or subscription.subsequences else subscriptions.READY
            subscriptions.add_subscription_relation(session, subscription.oid, oid, state, is_sequence=True)
            _say(session, rel, "sequence", "added to", subscription)
    for oid in sorted(present.difference(wanted)):
        subscriptions.remove_subscription_relation(session, subscription.oid, oid)
        gone = relation_or_none(session, oid)
        if gone is not None:
            _say(session, gone, "sequence", "removed from", subscription)


def check_sequences_origin(
    session: Session,
    publisher: PublisherCatalog,
    subscription: tables.pg_subscription,
    *,
    copy_data: bool = True,
    present: Collection[int] = (),
) -> None:
    """Warn that with origin = none values may come that the publisher has from others
    (check_publications_origin_sequences)."""
    if not copy_data or subscription.suborigin.lower() != "none":
        return
    known = {(r.schema, r.name) for r in (relation_or_none(session, relid) for relid in present) if r is not None}
    try:
        names = publisher.sequences_with_other_origins(subscription.subpublications, known)
    except PublisherError as error:
        raise PgError("08006", f"could not receive list of replicated sequences from the publisher: {error}") from None
    if not names:
        return
    listed = quoted_list(names)
    one = f"a publication ({listed}) that contains"
    session.notice(
        "WARNING",
        f'subscription "{subscription.subname}" requested origin = NONE but might synchronize sequence values that had '
        "a different origin",
        sqlstate="55000",
        detail=f"The subscription subscribes to {one if len(names) == 1 else f'publications ({listed}) that contain'} "
        "sequences that are synchronized from other subscriptions.",
        hint="Verify that the initial values copied from the publisher sequences did not come from other origins.",
    )


def note_columns(session: Session, publisher: PublisherCatalog, subscription: tables.pg_subscription) -> None:
    """Note the publisher's columns of tables that are not copied: from now on they are followed (schema_changes)."""
    wants = subscription.subschemachanges
    if wants == subscriptions.NO_SCHEMA:
        return
    for row in subscriptions.subscription_relations(session, subscription.oid):
        table = relation_or_none(session, row.srrelid)
        is_copied = row.srsubstate in (subscriptions.INIT, subscriptions.DATASYNC)
        known = None if table is None else known_table(session, subscription.oid, table.oid)
        if table is None or is_copied or (known is not None and known.is_told >= (wants == subscriptions.ALL)):
            continue
        try:
            table_description = described(subscription, publisher, table.schema, table.name)
        except PublisherError as error:
            raise _no_tables(error) from None
        definition = definition_of(table_description, table.schema, table.name)
        if definition is not None:
            now = defined(definition) if known is None else known.with_told(definition.told)
            remember(session, subscription.oid, table.oid, now)


def refresh(
    session: Session, subscription: tables.pg_subscription, *, copy_data: bool, validate: Sequence[str] | None = None
) -> None:
    """Bring the list of tables in line with the publisher's."""
    with connected(session, subscription) as publisher:
        if validate:
            check_publications(session, publisher.catalog, validate)
        listed = fetch_tables(publisher.catalog, subscription.subpublications)
        present = {row.srrelid: row for row in subscriptions.subscription_relations(session, subscription.oid)}
        check_publications_origin(
            session, publisher.catalog, subscription, copy_data=copy_data, present=sorted(present)
        )
        state = subscriptions.INIT if copy_data and publisher.copies is not None else subscriptions.READY
        wanted = set()
        for table in listed:
            rel = target_relation(session, table)
            wanted.add(rel.oid)
            if rel.oid not in present:
                subscriptions.add_subscription_relation(session, subscription.oid, rel.oid, state)
                _say(session, rel, "table", "added to", subscription)
        note_columns(session, publisher.catalog, subscription)
        refresh_sequences(session, publisher.catalog, subscription, copy_data=copy_data)
        worker = lease.holder(session, subscription.oid)
        removed = [present[relid] for relid in sorted(present) if relid not in wanted]
        for row in removed:
            _remove(session, subscription, row)
        # slots last: dropping them is not rolled back when the statement fails
        slots = publisher.slots
        for row in removed:
            if slots is not None and row.srsubstate != subscriptions.READY:
                slot = subscriptions.sync_slot_name(session, subscription.oid, row.srrelid)
                leave(slots, slot, worker)
                drop_slot(session, slots, slot, missing_ok=True)


def _remove(session: Session, subscription: tables.pg_subscription, row: tables.pg_subscription_rel) -> None:
    subscriptions.remove_subscription_relation(session, subscription.oid, row.srrelid)
    if row.srsubstate != subscriptions.READY:
        drop_origin(session, subscriptions.origin_name(subscription.oid, row.srrelid), missing_ok=True)
    rel = relation_or_none(session, row.srrelid)
    if rel is not None:
        _say(session, rel, "table", "removed from", subscription)


def _say(session: Session, rel: Relation, kind: str, what: str, subscription: tables.pg_subscription) -> None:
    session.notice("DEBUG1", f'{kind} "{rel.schema}.{rel.name}" {what} subscription "{subscription.subname}"')


def leave(slots: Slots, slot: str, worker: tables.pgrepl_worker | None) -> None:
    """Release a slot from a worker that may be busy with it, and must not be any more."""
    if worker is not None:
        with suppress(PublisherError):
            slots.leave(slot, worker.token)


def drop_slot(session: Session, slots: Slots, name: str, *, missing_ok: bool = False) -> None:
    """Drops a slot at the publisher (ReplicationSlotDropAtPubNode)."""
    try:
        slots.drop(name)
    except PublisherError as error:
        text = f'could not drop replication slot "{name}" on publisher: {error}'
        if not missing_ok or error.sqlstate != "42704":
            raise PgError("08006", text) from None
        session.notice("LOG", text)
        return
    session.notice("NOTICE", f'dropped replication slot "{name}" on publisher')
