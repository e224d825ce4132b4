"""CREATE SUBSCRIPTION."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog import subscription as catalog
from pgrepl.catalog import tables
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.store import insert, new_oid, update
from pgrepl.catalog.transaction import require_no_block
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.replication.libpq.conninfo import check_conninfo
from pgrepl.replication.origins import check_room_for_another, create_origin
from pgrepl.replication.publisher.protocol import ChangeFiles, Publisher, PublisherError, Slots
from pgrepl.replication.subscriber import same_server
from pgrepl.sql.nodes import CreateSubscriptionStmt
from pgrepl.statements.subscription.files import check_files_options
from pgrepl.statements.subscription.rights import check_may_read_files, check_may_subscribe, check_password_exemption
from pgrepl.statements.subscription.subscription_options import CREATE, SubscriptionOptions, parse_subscription_options
from pgrepl.statements.subscription.tables import add_tables, check_publications, check_publications_origin, connected

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def create_subscription(stmt: CreateSubscriptionStmt, session: Session) -> Result:
    """As CreateSubscription."""
    options = parse_subscription_options(session, stmt.options, CREATE)
    if options.create_slot:
        require_no_block(session, "CREATE SUBSCRIPTION ... WITH (create_slot = true)")
    check_may_subscribe(session)
    check_password_exemption(session, options.password_required)
    if catalog.subscription_or_none(session, stmt.name) is not None:
        raise PgError("42710", f'subscription "{stmt.name}" already exists')
    check_conninfo(stmt.conninfo, options.password_required and not is_superuser(session))
    check_may_read_files(session, stmt.conninfo, session.role)
    check_files_options(session, stmt.conninfo, two_phase=options.two_phase, failover=options.failover)
    check_duplicates(stmt.publications)
    if options.enabled:
        check_room_for_another(session)
    subscription = _insert(session, stmt, options)
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


def check_duplicates(publications: Sequence[str]) -> None:
    for position, name in enumerate(publications):
        if name in publications[:position]:
            raise PgError("42710", f'publication name "{name}" used more than once')


def _insert(session: Session, stmt: CreateSubscriptionStmt, options: SubscriptionOptions) -> tables.pg_subscription:
    oid = new_oid(session)
    slot_name = options.slot_name if "slot_name" in options.given else stmt.name
    insert(
        session,
        tables.pg_subscription,
        oid=oid,
        subdbid=session.database_oid,
        subskiplsn=0,
        subname=stmt.name,
        subowner=session.role,
        subenabled=options.enabled,
        subbinary=options.binary,
        substream=options.streaming,
        subtwophasestate=catalog.TWO_PHASE_PENDING if options.two_phase else catalog.TWO_PHASE_DISABLED,
        subdisableonerr=options.disable_on_error,
        subpasswordrequired=options.password_required,
        subrunasowner=options.run_as_owner,
        subfailover=options.failover,
        subconninfo=stmt.conninfo,
        subslotname=slot_name,
        subsynccommit=options.synchronous_commit or "off",
        subpublications=list(stmt.publications),
        suborigin=options.origin,
        subschemachanges=options.schema_changes,
        subconflictlog=options.conflict_log,
    )
    create_origin(session, catalog.origin_name(oid))
    insert(
        session,
        tables.pg_stat_subscription_stats,
        subid=oid,
        apply_error_count=0,
        sync_error_count=0,
        stats_reset=None,
    )
    return catalog.subscription_by_name(session, stmt.name)


def _fetch(
    session: Session, publisher: Publisher, subscription: tables.pg_subscription, options: SubscriptionOptions
) -> None:
    check_publications(session, publisher.catalog, subscription.subpublications)
    check_publications_origin(session, publisher.catalog, subscription, copy_data=options.copy_data)
    count = add_tables(session, publisher, subscription, copy_data=options.copy_data)
    if publisher.stream.files is not None:
        _check_files(publisher.stream.files)
    elif publisher.slots is not None and options.create_slot:
        # without tables to copy two_phase can be enabled at once; without any tables it waits for a refresh
        two_phase = options.two_phase and not options.copy_data and count > 0
        _create_slot(session, publisher.slots, subscription, two_phase=two_phase, failover=options.failover)
    else:
        return
    same_server.remember(session, subscription.oid, publisher)


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
    name = catalog.slot_of(subscription)
    try:
        slots.create(name, two_phase=two_phase, failover=failover)
    except PublisherError as error:
        raise PgError("08P01", f'could not create replication slot "{name}": {error}') from None
    if two_phase:
        state = catalog.TWO_PHASE_ENABLED
        update(session, tables.pg_subscription, {"oid": subscription.oid}, subtwophasestate=state)
    session.notice("NOTICE", f'created replication slot "{name}" on publisher')
