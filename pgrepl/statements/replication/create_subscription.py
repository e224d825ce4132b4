"""CREATE SUBSCRIPTION, DROP SUBSCRIPTION, and ALTER SUBSCRIPTION … RENAME TO and OWNER TO."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.acl import ObjectKind, check_may_create, check_privilege
from pgrepl.catalog.facts.depend import forget_dependencies
from pgrepl.catalog.facts.roles import check_can_set_role, is_superuser, resolve_role
from pgrepl.catalog.facts.subscription import conninfo_of, server_by_name, server_conninfo
from pgrepl.catalog.session.transaction import require_no_block
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, new_oid, update
from pgrepl.catalog.store.system import PG_SUBSCRIPTION, ObjectAddress
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.replication.conninfo import ConnectionFailure, check_conninfo, names_files
from pgrepl.replication.origins import check_room_for_another, create_origin, drop_origin
from pgrepl.replication.publisher.protocol import ChangeFiles, Publisher, PublisherError, Slots
from pgrepl.replication.subscriber import connection, history, lease
from pgrepl.replication.subscriber.connection import connect
from pgrepl.sql.nodes import AlterOwnerStmt, CreateSubscriptionStmt, DropSubscriptionStmt, RenameStmt
from pgrepl.statements.replication.subscription_parts import (
    CREATE,
    OPTION_COLUMNS,
    SubscriptionOptions,
    add_tables,
    check_files_options,
    check_may_read_files,
    check_may_subscribe,
    check_password_exemption,
    check_publications,
    check_publications_origin,
    check_subscription_owner,
    connected,
    depend_on_server,
    drop_slot,
    leave,
    must_use_password,
    parse_subscription_options,
    say_of_retention,
    warn_without_mapping,
)

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def create_subscription(stmt: CreateSubscriptionStmt, session: Session) -> Result:
    options = parse_subscription_options(session, stmt.options, CREATE)
    if options.create_slot:
        require_no_block(session, "CREATE SUBSCRIPTION ... WITH (create_slot = true)")
    check_may_subscribe(session)
    check_password_exemption(session, options.password_required)
    if subscriptions.subscription_or_none(session, stmt.name) is not None:
        raise PgError("42710", f'subscription "{stmt.name}" already exists')
    server = None if stmt.server is None else _server(session, stmt.server)
    conninfo = stmt.conninfo
    if server is not None and options.connect:
        conninfo = server_conninfo(session, server, session.role)
    if server is None or options.connect:
        check_conninfo(conninfo, options.password_required and not is_superuser(session))
    check_may_read_files(session, stmt.conninfo, session.role)
    check_files_options(
        session, stmt.conninfo, two_phase=options.two_phase, failover=options.failover, sequences=options.sequences
    )
    check_duplicates(stmt.publications)
    if options.enabled:
        check_room_for_another(session)
    say_of_retention(session, options.retain_dead_tuples, options.max_retention_duration, is_enabled=options.enabled)
    subscription = _insert(session, stmt, options, 0 if server is None else server.oid)
    if options.connect:
        with connected(session, subscription) as publisher:
            _fetch(session, publisher, subscription, options)
    else:
        session.notice(
            "WARNING",
            "subscription was created, but is not connected",
            hint="To initiate replication, you must manually create the replication slot, enable the subscription, "
            "and refresh the subscription.",
        )
    return Result("CREATE SUBSCRIPTION")


def _server(session: Session, name: str) -> tables.pg_foreign_server:
    """The foreign server, which the role may use; that there is no mapping for it yet is a WARNING."""
    server = server_by_name(session, name)
    check_privilege(session, ObjectKind.FOREIGN_SERVER, server, "USAGE", name)
    warn_without_mapping(session, server, session.role)
    return server


def check_duplicates(publications: Sequence[str]) -> None:
    for position, name in enumerate(publications):
        if name in publications[:position]:
            raise PgError("42710", f'publication name "{name}" used more than once')


def _insert(
    session: Session, stmt: CreateSubscriptionStmt, options: SubscriptionOptions, server: int
) -> tables.pg_subscription:
    oid = new_oid(session)
    stored = {column: getattr(options, name) for name, column in OPTION_COLUMNS.items()}
    stored["subslotname"] = options.slot_name if "slot_name" in options.given else stmt.name
    stored["subsynccommit"] = options.synchronous_commit or "off"
    insert(
        session,
        tables.pg_subscription,
        oid=oid,
        subdbid=session.database_oid,
        subskiplsn=0,
        subname=stmt.name,
        subowner=session.role,
        subenabled=options.enabled,
        subtwophasestate=subscriptions.TWO_PHASE_PENDING if options.two_phase else subscriptions.TWO_PHASE_DISABLED,
        subconninfo=stmt.conninfo,
        subpublications=list(stmt.publications),
        subserver=server,
        **stored,
    )
    if server:
        depend_on_server(session, oid, server)
    create_origin(session, subscriptions.origin_name(oid))
    insert(
        session, tables.pg_stat_subscription_stats, subid=oid, apply_error_count=0, sync_error_count=0, stats_reset=None
    )
    return subscriptions.subscription_by_name(session, stmt.name)


def _fetch(
    session: Session, publisher: Publisher, subscription: tables.pg_subscription, options: SubscriptionOptions
) -> None:
    check_publications(session, publisher.catalog, subscription.subpublications)
    check_publications_origin(session, publisher.catalog, subscription, copy_data=options.copy_data)
    count = add_tables(session, publisher, subscription, copy_data=options.copy_data)
    history.begin_all(session, subscription)
    if publisher.stream.files is not None:
        _check_files(publisher.stream.files)
    elif publisher.slots is not None and options.create_slot:
        # without tables to copy two_phase can be enabled at once; without any tables it waits for a refresh
        two_phase = options.two_phase and not options.copy_data and count > 0
        _create_slot(session, publisher.slots, subscription, two_phase=two_phase, failover=options.failover)
    else:
        return
    connection.remember(session, subscription.oid, publisher)


def _check_files(files: ChangeFiles) -> None:
    """Look for the files of changes, before a worker does."""
    try:
        files.check()
    except PublisherError as error:
        raise PgError(error.sqlstate, f"could not read the files of changes: {error}") from None


def _create_slot(
    session: Session, slots: Slots, subscription: tables.pg_subscription, *, two_phase: bool, failover: bool
) -> None:
    """The slot comes last: a statement that fails leaves none."""
    name = subscriptions.slot_of(subscription)
    try:
        slots.create(name, two_phase=two_phase, failover=failover)
    except PublisherError as error:
        raise PgError("08P01", f'could not create replication slot "{name}": {error}') from None
    if two_phase:
        state = subscriptions.TWO_PHASE_ENABLED
        update(session, tables.pg_subscription, {"oid": subscription.oid}, subtwophasestate=state)
    session.notice("NOTICE", f'created replication slot "{name}" on publisher')


# --- drop -------------------------------------------------------------------------------------------------------------


def drop_subscription(stmt: DropSubscriptionStmt, session: Session) -> Result:
    subscription = subscriptions.subscription_or_none(session, stmt.name)
    if subscription is None:
        if not stmt.missing_ok:
            raise PgError("42704", f'subscription "{stmt.name}" does not exist')
        session.notice("NOTICE", f'subscription "{stmt.name}" does not exist, skipping')
        return Result("DROP SUBSCRIPTION")
    check_subscription_owner(session, subscription)
    if subscription.subslotname is not None and not names_files(subscription.subconninfo):
        require_no_block(session, "DROP SUBSCRIPTION")
    unfinished = [
        row
        for row in subscriptions.subscription_relations(session, subscription.oid)
        if row.srsubstate != subscriptions.READY
    ]
    worker = lease.holder(session, subscription.oid)
    _forget(session, subscription, unfinished)
    if (subscription.subslotname is not None or unfinished) and not names_files(subscription.subconninfo):
        _drop_slots(session, subscription, unfinished, worker)
    return Result("DROP SUBSCRIPTION")


def _forget(
    session: Session, subscription: tables.pg_subscription, unfinished: Sequence[tables.pg_subscription_rel]
) -> None:
    """Delete the subscription's rows and origins."""
    delete(session, tables.pg_subscription, oid=subscription.oid)
    forget_dependencies(session, ObjectAddress(PG_SUBSCRIPTION, subscription.oid))
    for row in unfinished:
        drop_origin(session, subscriptions.origin_name(subscription.oid, row.srrelid), missing_ok=True)
    delete(session, tables.pg_subscription_rel, srsubid=subscription.oid)
    delete(session, tables.pgrepl_subscription_schema, srsubid=subscription.oid)
    delete(session, tables.pgrepl_copy_range, subid=subscription.oid)
    drop_origin(session, subscriptions.origin_name(subscription.oid), missing_ok=True)
    delete(session, tables.pg_stat_subscription_stats, subid=subscription.oid)
    delete(session, tables.pgrepl_subscription_error, subid=subscription.oid)
    delete(session, tables.pgrepl_conflict, subid=subscription.oid)
    delete(session, tables.pgrepl_worker, subid=subscription.oid)
    connection.forget(session, subscription.oid)
    delete(session, tables.pgrepl_change_file, subid=subscription.oid)
    delete(session, tables.pgrepl_change_files, subid=subscription.oid)
    delete(session, tables.pg_description, objoid=subscription.oid, classoid=PG_SUBSCRIPTION)


def _drop_slots(
    session: Session,
    subscription: tables.pg_subscription,
    unfinished: Sequence[tables.pg_subscription_rel],
    worker: tables.pgrepl_worker | None,
) -> None:
    """Drop the subscription's slots at the publisher. If the subscription has no slot of its own, the publisher need
    not answer. A worker that is busy with it has lost its lease: the slot is not kept for that worker."""
    copying = [subscriptions.sync_slot_name(session, subscription.oid, row.srrelid) for row in unfinished]
    required = must_use_password(session, subscription)
    try:
        publisher = connect(session, conninfo_of(session, subscription), must_use_password=required)
    except (ConnectionFailure, PgError) as failure:
        if isinstance(failure, PgError) and not (subscription.subserver and failure.sqlstate in ("42501", "42704")):
            raise
        if subscription.subslotname is None:
            return
        for name in copying:
            session.notice("WARNING", f'could not drop tablesync replication slot "{name}"')
        raise _unreachable(subscription.subslotname, failure) from None
    with closing(publisher):
        slots = publisher.slots
        assert slots is not None, "files of changes are known by their connection string"
        for name in copying:
            leave(slots, name, worker)
            drop_slot(session, slots, name, missing_ok=True)
        if subscription.subslotname is not None:
            leave(slots, subscription.subslotname, worker)
            drop_slot(session, slots, subscription.subslotname)


def _unreachable(slot: str, failure: ConnectionFailure | PgError) -> PgError:
    return PgError(
        "08006",
        f'could not connect to publisher when attempting to drop replication slot "{slot}": {failure}',
        hint="Use ALTER SUBSCRIPTION ... DISABLE to disable the subscription, and then use "
        "ALTER SUBSCRIPTION ... SET (slot_name = NONE) to disassociate it from the slot.",
    )


# --- owner ------------------------------------------------------------------------------------------------------------


def rename_subscription(stmt: RenameStmt, session: Session) -> Result:
    """The slot keeps its name (AlterObjectRename_internal)."""
    subscription = subscriptions.subscription_by_name(session, stmt.name)
    check_subscription_owner(session, subscription)
    check_may_create(session)
    check_password_exemption(session, subscription.subpasswordrequired)
    if subscriptions.subscription_or_none(session, stmt.new_name) is not None:
        raise PgError("42710", f'subscription "{stmt.new_name}" already exists')
    update(session, tables.pg_subscription, {"oid": subscription.oid}, subname=stmt.new_name)
    return Result("ALTER SUBSCRIPTION")


def give_subscription(stmt: AlterOwnerStmt, session: Session) -> Result:
    """As AlterSubscriptionOwner: the current user needs CREATE on the database, the new owner nothing."""
    owner = resolve_role(session, stmt.new_owner)
    (name,) = stmt.name
    change_subscription_owner(session, subscriptions.subscription_by_name(session, name), owner)
    return Result("ALTER SUBSCRIPTION")


def change_subscription_owner(session: Session, subscription: tables.pg_subscription, owner: int) -> None:
    """Gives a subscription to another role (AlterSubscriptionOwner_internal)."""
    if subscription.subowner != owner:
        check_subscription_owner(session, subscription)
        check_password_exemption(session, subscription.subpasswordrequired)
        check_can_set_role(session, session.role, owner)
        check_may_create(session)
        check_may_read_files(session, subscription.subconninfo, owner)
        update(session, tables.pg_subscription, {"oid": subscription.oid}, subowner=owner)
