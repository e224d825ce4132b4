"""The SQL functions about slots, origins and the statistics of subscriptions: slotfuncs.c, origin.c, pgstatfuncs.c.

Slots and the positions of origins are no part of the transaction that changes them, except that a session whose
replication origin is set up moves its position with each of its commits.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pgrepl.catalog import statistics, tables
from pgrepl.catalog.recovery import in_recovery
from pgrepl.catalog.store import update
from pgrepl.errors import PgError, unsupported
from pgrepl.expr.functions.registry import Family
from pgrepl.replication import origins
from pgrepl.replication.publisher import slots, standby_slots

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session, SessionOrigin
    from pgrepl.expr.context import Call

implements = Family()

VOID = ""


# --- slots ---


@implements("pg_create_logical_replication_slot", context=True)
def create_logical_slot(
    call: Call, name: str, plugin: str, temporary: bool, two_phase: bool, failover: bool
) -> tuple[str, int]:
    session = call.session
    slots.check_slot_permissions(session)
    slots.check_decoding_requirements(session)
    if session.transaction.has_written:
        slots.check_new_slot(session, name, failover=failover, temporary=temporary)
        raise PgError("25001", "cannot create logical replication slot in transaction that has performed writes")
    with slots.at_once(session) as there:
        made = slots.create_slot(
            there, name, plugin=plugin, two_phase=two_phase, failover=failover, temporary=temporary
        )
    if temporary:
        slots.drop_with_session(session, name)
    return name, made.confirmed_flush_lsn or 0


@implements("pg_create_physical_replication_slot", context=True)
def create_physical_slot(call: Call, name: str, reserve: bool, temporary: bool) -> tuple[str, int | None]:
    """A physical slot holds the position of a standby."""
    session = call.session
    slots.check_slot_permissions(session)
    slots.check_slot_requirements(session)
    if temporary:
        raise unsupported("a temporary physical replication slot")
    with slots.at_once(session) as there:
        made = standby_slots.create_physical_slot(there, name, reserve=reserve)
    return name, made.restart_lsn


@implements("pg_copy_logical_replication_slot_a", context=True)
def copy_logical_slot_with_plugin(
    call: Call, source: str, name: str, temporary: bool, plugin: str
) -> tuple[str, int | None]:
    return _copy_logical_slot(call.session, source, name, temporary, plugin)


@implements("pg_copy_logical_replication_slot_b", context=True)
def copy_logical_slot_temporarily(call: Call, source: str, name: str, temporary: bool) -> tuple[str, int | None]:
    return _copy_logical_slot(call.session, source, name, temporary, None)


@implements("pg_copy_logical_replication_slot_c", context=True)
def copy_logical_slot(call: Call, source: str, name: str) -> tuple[str, int | None]:
    return _copy_logical_slot(call.session, source, name, None, None)


def _copy_logical_slot(
    session: Session, source: str, name: str, temporary: bool | None, plugin: str | None
) -> tuple[str, int | None]:
    slots.check_slot_permissions(session)
    slots.check_decoding_requirements(session)
    with slots.at_once(session) as there:
        made = slots.copy_slot(there, source, name, temporary=temporary, plugin=plugin)
    if made.temporary:
        slots.drop_with_session(session, name)
    return name, made.confirmed_flush_lsn or 0


@implements("pg_drop_replication_slot", context=True)
def drop_slot(call: Call, name: str) -> str:
    slots.check_slot_permissions(call.session)
    slots.check_slot_requirements(call.session)
    with slots.at_once(call.session) as session:
        slots.drop_slot(session, name)
    return VOID


@implements("pg_replication_slot_advance", context=True)
def advance_slot(call: Call, name: str, lsn: int) -> tuple[str, int]:
    slots.check_slot_permissions(call.session)
    with slots.at_once(call.session) as session:
        return name, slots.advance_slot(session, name, lsn)


# --- origins ---


@implements("pg_replication_origin_create", context=True)
def create_origin(call: Call, name: str) -> int:
    _require_primary(call.session)
    origins.check_origin_name(name)
    return origins.create_origin(call.session, name)


@implements("pg_replication_origin_drop", context=True)
def drop_origin(call: Call, name: str) -> str:
    _require_primary(call.session)
    origins.drop_origin(call.session, name)
    return VOID


@implements("pg_replication_origin_oid", context=True)
def origin_oid(call: Call, name: str) -> int | None:
    row = origins.origin_or_none(call.session, name)
    return None if row is None else int(row.roident)


@implements("pg_replication_origin_advance", context=True)
def advance_origin(call: Call, name: str, lsn: int) -> str:
    _require_primary(call.session)
    origins.check_origin_not_in_use(call.session, name)
    with slots.at_once(call.session) as session:
        origins.advance_origin(session, name, lsn)
    return VOID


@implements("pg_replication_origin_progress", context=True)
def origin_progress(call: Call, name: str, flush: bool) -> int | None:
    return origins.origin_progress(call.session, name)


@implements("pg_replication_origin_session_setup", context=True)
def set_up_session_origin(call: Call, name: str) -> str:
    """Later changes of this session have this origin."""
    session = call.session
    _require_primary(session)
    origins.origin_by_name(session, name)
    if session.origin is not None:
        raise PgError("55000", "cannot setup replication origin when one is already setup")
    with slots.at_once(session) as there:
        session.origin = origins.session_origin(there, name)
    return VOID


@implements("pg_replication_origin_session_is_setup", context=True)
def session_origin_is_set_up(call: Call) -> bool:
    return call.session.origin is not None


@implements("pg_replication_origin_session_reset", context=True)
def reset_session_origin(call: Call) -> str:
    _require_primary(call.session)
    _session_origin(call.session)
    call.session.origin = None
    return VOID


@implements("pg_replication_origin_session_progress", context=True)
def session_origin_progress(call: Call, flush: bool) -> int | None:
    _require_primary(call.session)
    return origins.origin_progress(call.session, _session_origin(call.session).name)


@implements("pg_replication_origin_xact_setup", context=True)
def set_up_transaction_origin(call: Call, lsn: int, moment: int) -> str:
    """Set the LSN of the transaction's end at its source; it stays for later transactions until it is set again."""
    _require_primary(call.session)
    _session_origin(call.session).remote_lsn = lsn
    return VOID


@implements("pg_replication_origin_xact_reset", context=True)
def reset_transaction_origin(call: Call) -> str:
    _require_primary(call.session)
    if call.session.origin is not None:
        call.session.origin.remote_lsn = 0
    return VOID


def _session_origin(session: Session) -> SessionOrigin:
    if session.origin is None:
        raise PgError("55000", "no replication origin is configured")
    return session.origin


def _require_primary(session: Session) -> None:
    if in_recovery(session):
        raise PgError("25006", "cannot manipulate replication origins during recovery")


# --- subscriptions ---


@implements("pg_stat_reset_subscription_stats", context=True)
def reset_subscription_statistics(call: Call, subid: int | None) -> str:
    """Reset the statistics of one subscription, or of all."""
    if subid == 0:
        raise PgError("22023", f"invalid subscription OID {subid}")
    where = {} if subid is None else {"subid": subid}
    now = datetime.now(timezone.utc).isoformat(sep=" ")
    with slots.at_once(call.session) as session:
        update(
            session,
            tables.pg_stat_subscription_stats,
            where,
            apply_error_count=0,
            sync_error_count=0,
            stats_reset=now,
        )
    statistics.counters(call.session.catalog).forget(statistics.SUBSCRIPTION, name=subid)
    return VOID
