"""ALTER SUBSCRIPTION: options, connection, publications, REFRESH, ENABLE, DISABLE, SKIP.

A function for each form gives the columns of pg_subscription to change. Connecting to the publisher comes at the end,
because changes there are not rolled back when the statement fails here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.depend import Dependency, forget_dependencies
from pgrepl.catalog.facts.roles import is_superuser
from pgrepl.catalog.facts.subscription import SCHEMA_CHANGES, conninfo_of, server_by_name
from pgrepl.catalog.session.transaction import require_no_block
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, rows, update
from pgrepl.catalog.store.system import PG_FOREIGN_SERVER, PG_SUBSCRIPTION, ObjectAddress
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.replication.conninfo import check_conninfo
from pgrepl.replication.origins import origin_progress
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.subscriber import connection, history
from pgrepl.replication.subscriber.apply.write import prepared_of
from pgrepl.sql.nodes import AlterSubscriptionKind, AlterSubscriptionStmt
from pgrepl.statements.replication.create_subscription import check_duplicates
from pgrepl.statements.replication.subscription_parts import (
    OPTION_COLUMNS,
    PUBLICATION,
    REFRESH,
    SET,
    SKIP,
    SubscriptionOptions,
    check_files_options,
    check_may_read_files,
    check_password_exemption,
    check_sequences_origin,
    check_subscription_owner,
    connected,
    depend_on_server,
    note_columns,
    parse_subscription_options,
    refresh,
    refresh_sequences,
    say_of_retention,
)
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

Changes = dict[str, Any]


def alter_subscription(stmt: AlterSubscriptionStmt, session: Session) -> Result:
    subscription = subscriptions.subscription_by_name(session, stmt.name)
    check_subscription_owner(session, subscription)
    check_password_exemption(session, subscription.subpasswordrequired)
    changes = _FORMS[stmt.kind](session, stmt, subscription)
    if changes:
        update(session, tables.pg_subscription, {"oid": subscription.oid}, **changes)
    if "subfailover" in changes or changes.get("subtwophasestate") == subscriptions.TWO_PHASE_DISABLED:
        two_phase = False if "subtwophasestate" in changes else None
        _alter_slot(session, subscription, changes.get("subfailover"), two_phase)
    if changes.get("subschemachanges", subscriptions.NO_SCHEMA) != subscriptions.NO_SCHEMA:
        _note_columns(session, subscriptions.subscription_by_name(session, stmt.name))
    if changes.get("subsequences", subscription.subsequences) != subscription.subsequences:
        _list_sequences(session, subscriptions.subscription_by_name(session, stmt.name))
    if stmt.kind is not AlterSubscriptionKind.ENABLED:
        history.begin_all(session, subscriptions.subscription_by_name(session, stmt.name), subscription.subhistory)
    return Result("ALTER SUBSCRIPTION")


def _set_options(session: Session, stmt: AlterSubscriptionStmt, subscription: tables.pg_subscription) -> Changes:
    known = SET | {"two_phase"} if session.settings.release >= 18 else SET
    options = parse_subscription_options(session, stmt.options, known)
    if "slot_name" in options.given and options.slot_name is None and subscription.subenabled:
        raise PgError("55000", "cannot set slot_name = NONE for enabled subscription")
    if "password_required" in options.given:
        check_password_exemption(session, options.password_required)
    if "two_phase" in options.given:
        _check_two_phase(session, subscription, options)
    if "failover" in options.given:
        _check_slot_option(session, subscription, "failover")
    if "retain_dead_tuples" in options.given and subscription.subenabled:
        raise PgError("55000", 'cannot set option "retain_dead_tuples" for enabled subscription')
    if not options.given.isdisjoint({"retain_dead_tuples", "max_retention_duration"}):
        given = options if "retain_dead_tuples" in options.given else None
        retains = subscription.subretaindeadtuples if given is None else given.retain_dead_tuples
        most = options.max_retention_duration or subscription.submaxretention
        say_of_retention(session, bool(retains), most, is_enabled=bool(subscription.subenabled))
    if "slot_name" in options.given:
        connection.forget(session, subscription.oid)
        if rows(session, tables.pgrepl_change_file, subid=subscription.oid):
            from pgrepl.replication.publisher.files import memory

            memory.accept(session, subscription.oid)
    if (
        options.schema_changes in subscriptions.WITH_TABLES
        and subscription.subtwophasestate != subscriptions.TWO_PHASE_DISABLED
    ):
        how = f"schema_changes = {SCHEMA_CHANGES[options.schema_changes]}"
        raise PgError("55000", f"cannot set {how} for a subscription with two_phase enabled")
    if options.schema_changes == subscriptions.NO_SCHEMA and "schema_changes" in options.given:
        delete(session, tables.pgrepl_subscription_schema, srsubid=subscription.oid)
    changes = {OPTION_COLUMNS[name]: getattr(options, name) for name in options.given - {"two_phase"}}
    if "two_phase" in options.given:
        changes["subtwophasestate"] = (
            subscriptions.TWO_PHASE_PENDING if options.two_phase else subscriptions.TWO_PHASE_DISABLED
        )
    return changes


def _check_two_phase(session: Session, subscription: tables.pg_subscription, options: SubscriptionOptions) -> None:
    """A worker enables it in the slot once all tables are copied; the slot is changed at once where it is disabled."""
    _check_slot_option(session, subscription, "two_phase", changes_slot=not options.two_phase)
    if options.two_phase:
        check_files_options(session, subscription.subconninfo, two_phase=True, failover=False)
        for follows in (options.schema_changes, subscription.subschemachanges):
            if follows in subscriptions.WITH_TABLES:
                how = f"schema_changes = {SCHEMA_CHANGES[follows]}"
                raise PgError("55000", f"cannot enable two_phase for a subscription with {how}")
        return
    if "slot_name" in options.given:
        raise PgError("42601", '"slot_name" and "two_phase" cannot be altered at the same time')
    if subscription.subtwophasestate == subscriptions.TWO_PHASE_ENABLED and prepared_of(session, subscription):
        raise PgError(
            "55000",
            'cannot disable "two_phase" when prepared transactions exist',
            hint="Resolve these transactions and try again.",
        )


def _check_slot_option(
    session: Session, subscription: tables.pg_subscription, name: str, *, changes_slot: bool = True
) -> None:
    """As CheckAlterSubOption; 17 has another order, and other words."""
    newer = session.settings.release >= 18
    nameless = changes_slot and subscription.subslotname is None
    if subscription.subenabled and (newer or not nameless):
        option = f'option "{name}"' if newer else name
        raise PgError("55000", f"cannot set {option} for enabled subscription")
    if nameless:
        raise PgError("55000", f'cannot set option "{name}" for a subscription that does not have a slot name')
    if changes_slot:
        require_no_block(session, f"ALTER SUBSCRIPTION ... SET ({name})")


def _alter_slot(
    session: Session, subscription: tables.pg_subscription, failover: bool | None, two_phase: bool | None
) -> None:
    with connected(session, subscription) as publisher:
        name = subscriptions.slot_of(subscription)
        try:
            if publisher.slots is not None:
                publisher.slots.alter(name, failover=failover, two_phase=two_phase)
            elif failover:
                raise PublisherError("0A000", "ERROR:  failover is not supported for files of changes")
        except PublisherError as error:
            raise PgError("08P01", f'could not alter replication slot "{name}": {error}') from None


def _note_columns(session: Session, subscription: tables.pg_subscription) -> None:
    """Note the publisher's present columns, from which changes are told. Without tables there is nothing to ask."""
    if subscription.subslotname is not None and subscriptions.subscription_relations(session, subscription.oid):
        with connected(session, subscription) as publisher:
            note_columns(session, publisher.catalog, subscription)


def _list_sequences(session: Session, subscription: tables.pg_subscription) -> None:
    """List the sequences that follow from now on, or do not any more."""
    if subscription.subsequences:
        check_files_options(session, subscription.subconninfo, two_phase=False, failover=False, sequences=True)
    if subscription.subslotname is not None:
        with connected(session, subscription) as publisher:
            refresh_sequences(session, publisher.catalog, subscription, copy_data=True)


def _refresh_sequences(session: Session, stmt: AlterSubscriptionStmt, subscription: tables.pg_subscription) -> Changes:
    """As AlterSubscription_refresh_seq. With the parameter `sequences` any publisher will do."""
    if not subscription.subenabled:
        raise PgError("55000", "ALTER SUBSCRIPTION ... REFRESH SEQUENCES is not allowed for disabled subscriptions")
    with connected(session, subscription) as publisher:
        if not (publisher.catalog.has_sequences or subscription.subsequences):
            raise PgError(
                "55000",
                "cannot synchronize sequences if the publisher is running a version earlier than PostgreSQL 19",
                hint="ALTER SUBSCRIPTION ... SET (sequences = on) follows the sequences of any server.",
            )
        check_sequences_origin(session, publisher.catalog, subscription)
    update(
        session,
        tables.pg_subscription_rel,
        {"srsubid": subscription.oid, "srissequence": True},
        srsubstate=subscriptions.INIT,
        srsublsn=None,
    )
    return {}


def _enable_or_disable(session: Session, stmt: AlterSubscriptionStmt, subscription: tables.pg_subscription) -> Changes:
    options = parse_subscription_options(session, stmt.options, {"enabled"})
    if options.enabled and subscription.subslotname is None:
        raise PgError("55000", "cannot enable subscription that does not have a slot name")
    return {"subenabled": options.enabled}


def _set_connection(session: Session, stmt: AlterSubscriptionStmt, subscription: tables.pg_subscription) -> Changes:
    assert stmt.conninfo is not None
    required = subscription.subpasswordrequired and not is_superuser(session, subscription.subowner)
    check_conninfo(stmt.conninfo, required)
    check_may_read_files(session, stmt.conninfo, subscription.subowner)
    two_phase = subscription.subtwophasestate != subscriptions.TWO_PHASE_DISABLED
    check_files_options(
        session,
        stmt.conninfo,
        two_phase=two_phase,
        failover=subscription.subfailover,
        sequences=bool(subscription.subsequences),
    )
    # another publisher may have other tables under the same OIDs
    delete(session, tables.pgrepl_subscription_schema, srsubid=subscription.oid)
    _forget_server(session, subscription)
    return {"subconninfo": stmt.conninfo, "subserver": 0}


def _set_server(session: Session, stmt: AlterSubscriptionStmt, subscription: tables.pg_subscription) -> Changes:
    """The connection string is that of a foreign server from now on."""
    assert stmt.server is not None
    server, owner = server_by_name(session, stmt.server), subscription.subowner
    _forget_server(session, subscription)
    changed = subscription._replace(subserver=server.oid, subconninfo="")
    conninfo = conninfo_of(session, changed)
    check_conninfo(conninfo, subscription.subpasswordrequired and not is_superuser(session, owner))
    depend_on_server(session, subscription.oid, server.oid)
    delete(session, tables.pgrepl_subscription_schema, srsubid=subscription.oid)
    return {"subconninfo": "", "subserver": server.oid}


def _forget_server(session: Session, subscription: tables.pg_subscription) -> None:
    address = ObjectAddress(PG_SUBSCRIPTION, subscription.oid)
    forget_dependencies(session, address, refclassid=PG_FOREIGN_SERVER, kind=Dependency.NORMAL)


def _set_publications(session: Session, stmt: AlterSubscriptionStmt, subscription: tables.pg_subscription) -> Changes:
    options = parse_subscription_options(session, stmt.options, PUBLICATION)
    check_duplicates(stmt.publications)
    if options.refresh:
        _check_refresh(
            subscription,
            options,
            disabled_hint="Use ALTER SUBSCRIPTION ... SET PUBLICATION ... WITH (refresh = false).",
            two_phase_hint="Use ALTER SUBSCRIPTION ... SET PUBLICATION with refresh = false, "
            "or with copy_data = false, or use DROP/CREATE SUBSCRIPTION.",
        )
    return _publications(session, subscription, options, stmt.publications, validate=stmt.publications)


def _add_or_drop_publications(
    session: Session, stmt: AlterSubscriptionStmt, subscription: tables.pg_subscription
) -> Changes:
    options = parse_subscription_options(session, stmt.options, PUBLICATION)
    is_add = stmt.kind is AlterSubscriptionKind.ADD_PUBLICATION
    merged = merge_publications(subscription, stmt.publications, is_add)
    command = f"ALTER SUBSCRIPTION ... {'ADD' if is_add else 'DROP'} PUBLICATION"
    if options.refresh:
        _check_refresh(
            subscription,
            options,
            disabled_hint=f"Use {command} ... WITH (refresh = false) instead.",
            two_phase_hint=f"Use {command} with refresh = false, or with copy_data = false, "
            "or use DROP/CREATE SUBSCRIPTION.",
        )
    return _publications(session, subscription, options, merged, validate=stmt.publications if is_add else None)


def _check_refresh(
    subscription: tables.pg_subscription, options: SubscriptionOptions, *, disabled_hint: str, two_phase_hint: str
) -> None:
    if not subscription.subenabled:
        raise PgError(
            "55000", "ALTER SUBSCRIPTION with refresh is not allowed for disabled subscriptions", hint=disabled_hint
        )
    if subscription.subtwophasestate == subscriptions.TWO_PHASE_ENABLED and options.copy_data:
        raise PgError(
            "55000",
            "ALTER SUBSCRIPTION with refresh and copy_data is not allowed when two_phase is enabled",
            hint=two_phase_hint,
        )


def _publications(
    session: Session,
    subscription: tables.pg_subscription,
    options: SubscriptionOptions,
    publications: Sequence[str],
    *,
    validate: Sequence[str] | None,
) -> Changes:
    changes = {"subpublications": list(publications)}
    if options.refresh:
        require_no_block(session, "ALTER SUBSCRIPTION with refresh")
        changed = subscription._replace(**changes)
        refresh(session, changed, copy_data=options.copy_data, validate=validate)
    return changes


def merge_publications(subscription: tables.pg_subscription, named: Sequence[str], is_add: bool) -> list[str]:
    check_duplicates(named)
    merged = list(subscription.subpublications)
    for name in named:
        if is_add and name in merged:
            raise PgError("42710", f'publication "{name}" is already in subscription "{subscription.subname}"')
        if is_add:
            merged.append(name)
        elif name in merged:
            merged.remove(name)
        else:
            raise PgError("42P17", f'publication "{name}" is not in subscription "{subscription.subname}"')
    if not merged:
        raise PgError("42P17", "cannot drop all the publications from a subscription")
    return merged


def _refresh_publications(
    session: Session, stmt: AlterSubscriptionStmt, subscription: tables.pg_subscription
) -> Changes:
    if not subscription.subenabled:
        raise PgError("55000", "ALTER SUBSCRIPTION ... REFRESH is not allowed for disabled subscriptions")
    options = parse_subscription_options(session, stmt.options, REFRESH)
    if subscription.subtwophasestate == subscriptions.TWO_PHASE_ENABLED and options.copy_data:
        raise PgError(
            "42601",
            "ALTER SUBSCRIPTION ... REFRESH with copy_data is not allowed when two_phase is enabled",
            hint="Use ALTER SUBSCRIPTION ... REFRESH with copy_data = false, or use DROP/CREATE SUBSCRIPTION.",
        )
    require_no_block(session, "ALTER SUBSCRIPTION ... REFRESH")
    refresh(session, subscription, copy_data=options.copy_data)
    return {}


def _skip(session: Session, stmt: AlterSubscriptionStmt, subscription: tables.pg_subscription) -> Changes:
    """SKIP (lsn = …); NONE, which is 0, cancels it."""
    lsn = parse_subscription_options(session, stmt.options, SKIP).lsn
    if lsn:
        origin = origin_progress(session, subscriptions.origin_name(subscription.oid))
        if origin and lsn < origin:
            raise PgError(
                "22023", f"skip WAL location (LSN {lsn_text(lsn)}) must be greater than origin LSN {lsn_text(origin)}"
            )
    return {"subskiplsn": lsn}


_FORMS: dict[AlterSubscriptionKind, Callable[[Session, AlterSubscriptionStmt, tables.pg_subscription], Changes]] = {
    AlterSubscriptionKind.OPTIONS: _set_options,
    AlterSubscriptionKind.ENABLED: _enable_or_disable,
    AlterSubscriptionKind.CONNECTION: _set_connection,
    AlterSubscriptionKind.SERVER: _set_server,
    AlterSubscriptionKind.SET_PUBLICATION: _set_publications,
    AlterSubscriptionKind.ADD_PUBLICATION: _add_or_drop_publications,
    AlterSubscriptionKind.DROP_PUBLICATION: _add_or_drop_publications,
    AlterSubscriptionKind.REFRESH: _refresh_publications,
    AlterSubscriptionKind.REFRESH_SEQUENCES: _refresh_sequences,
    AlterSubscriptionKind.SKIP: _skip,
}
