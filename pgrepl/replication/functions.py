"""The SQL functions and system views about slots, origins, statistics of subscriptions, and pg_logical_emit_message.

Slots and origins are no part of the transaction that changes them, except that a session whose origin is set up moves
it with each commit. A message that is not transactional stays when its transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.roles import database_name, has_privs_of_role, is_superuser, role_display
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.context import in_recovery
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.sync_rep import states, walsenders
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows, update
from pgrepl.catalog.store.tables import (
    pg_replication_origin,
    pg_replication_slot,
    pg_stat_subscription_stats,
    pg_subscription,
    pgrepl_conflict,
)
from pgrepl.expr.functions.registry import Family
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.system.activity import Provider, Values
from pgrepl.replication import origins
from pgrepl.replication.conninfo import names_files
from pgrepl.replication.publisher import senders, slots, standby_slots
from pgrepl.replication.subscriber import lease
from pgrepl.replication.subscriber.lease import CONFLICTS
from pgrepl.types.json import Jsonb

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import SessionOrigin
    from pgrepl.expr.functions.registry import Call

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
        slot = slots.create_slot(
            there, name, plugin=plugin, two_phase=two_phase, failover=failover, temporary=temporary
        )
    if temporary:
        slots.drop_with_session(session, name)
    return name, slot.confirmed_flush_lsn or 0


@implements("pg_create_physical_replication_slot", context=True)
def create_physical_slot(call: Call, name: str, reserve: bool, temporary: bool) -> tuple[str, int | None]:
    """A physical slot holds the position of a standby."""
    session = call.session
    slots.check_slot_permissions(session)
    slots.check_slot_requirements(session)
    if temporary:
        raise unsupported("a temporary physical replication slot")
    with slots.at_once(session) as there:
        slot = standby_slots.create_physical_slot(there, name, reserve=reserve)
    return name, slot.restart_lsn


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
        copied = slots.copy_slot(there, source, name, temporary=temporary, plugin=plugin)
    if copied.temporary:
        slots.drop_with_session(session, name)
    return name, copied.confirmed_flush_lsn or 0


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


@implements("pg_stat_reset_subscription_stats", context=True)
def reset_subscription_statistics(call: Call, subid: int | None) -> str:
    """Reset the statistics of one subscription, or of all."""
    if subid == 0:
        raise PgError("22023", f"invalid subscription OID {subid}")
    where = {} if subid is None else {"subid": subid}
    now = datetime.now(timezone.utc).isoformat(sep=" ")
    with slots.at_once(call.session) as session:
        update(
            session, tables.pg_stat_subscription_stats, where, apply_error_count=0, sync_error_count=0, stats_reset=now
        )
    statistics.counters(call.session.catalog).forget(statistics.SUBSCRIPTION, name=subid)
    return VOID


# --- emit message -----------------------------------------------------------------------------------------------------


@implements("pg_logical_emit_message_text", context=True)
def emit_text(call: Call, transactional: bool, prefix: str, content: str, flush: bool) -> int:
    return _emit(call.session, transactional, prefix, content.encode())


@implements("pg_logical_emit_message_bytea", context=True)
def emit_bytes(call: Call, transactional: bool, prefix: str, content: bytes, flush: bool) -> int:
    return _emit(call.session, transactional, prefix, content)


def _emit(session: Session, transactional: bool, prefix: str, content: bytes) -> int:
    """The LSN behind the message. Every commit is on disk: there is nothing to flush."""
    if in_recovery(session):
        raise PgError(
            "55000", "recovery is in progress", hint="WAL control functions cannot be executed during recovery."
        )
    if transactional:
        _note(session, transactional, prefix, content)
        return session.snapshot() + 1
    return _emit_at_once(session, prefix, content)


def _emit_at_once(session: Session, prefix: str, content: bytes) -> int:
    with slots.at_once(session) as there:
        _note(there, False, prefix, content)
        if session.origin is not None:
            there.transaction.numbering.note("origin", session.origin.name)
        lsn = there.snapshot() + 1
    if there is session:  # a rollback of the transaction undoes the message: then it is written again
        session.transaction.undo.append(partial(_emit_at_once, session, prefix, content))
    return lsn


def _note(session: Session, transactional: bool, prefix: str, content: bytes) -> None:
    session.transaction.numbering.note_message(
        transactional=transactional, prefix=prefix, content=content, database=session.database_oid
    )


# --- system views -----------------------------------------------------------------------------------------------------


def _slots(session: Session) -> Iterator[Values]:
    for row in rows(session, pg_replication_slot):
        logical = row.slot_type == "logical"
        pid = senders.user_pid(session, row)
        yield {
            **row._asdict(), "database": database_name(session, row.datoid), "active": pid is not None,
            "active_pid": pid, "catalog_xmin": row.catalog_snapshot,
            "conflicting": bool(row.conflicting) if logical else None,
            "inactive_since": row.inactive_since if pid is None else None,
            "wal_status": row.wal_status or ("reserved" if row.restart_lsn else None), "synced": bool(row.synced),
        }  # fmt: skip


def _replication(session: Session) -> Iterator[Values]:
    """The workers that read from slots right now."""
    running = walsenders(session)
    for row, (priority, state) in zip(running, states(session, running), strict=True):
        yield {
            "pid": row.pid, "usesysid": row.usesysid, "usename": role_display(session, row.usesysid),
            "application_name": row.application_name, "client_port": -1, "backend_start": row.backend_start,
            "state": row.state, "sent_lsn": row.sent_lsn, "write_lsn": row.write_lsn, "flush_lsn": row.flush_lsn,
            "replay_lsn": row.replay_lsn, "sync_priority": priority, "sync_state": state, "reply_time": row.reply_time,
        }  # fmt: skip


def _subscriptions(session: Session) -> Iterator[Values]:
    """A row for each worker; a subscription without one is a row of NULLs, a disabled one too."""
    for row in rows(session, pg_subscription):
        workers = lease.workers(session, row.oid)
        for worker in workers:
            is_apply = worker.relid == lease.APPLY
            yield {
                "subid": row.oid, "subname": row.subname,
                "worker_type": "apply" if is_apply else "table synchronization", "pid": worker.pid,
                "relid": None if is_apply else worker.relid, "received_lsn": worker.received_lsn or None,
                "last_msg_send_time": worker.last_msg_send_time,
                "last_msg_receipt_time": worker.last_msg_receipt_time,
                "latest_end_lsn": worker.latest_end_lsn or None, "latest_end_time": worker.latest_end_time,
            }  # fmt: skip
        if not workers:
            yield {"subid": row.oid, "subname": row.subname}


def _subscription_statistics(session: Session) -> Iterator[Values]:
    """The errors and the conflicts of subscriptions: PostgreSQL 17 has no columns for the latter."""
    counters = statistics.counters(session.catalog).read(statistics.SUBSCRIPTION)
    for row in rows(session, pg_subscription):
        counted = one(session, pg_stat_subscription_stats, subid=row.oid)
        known: dict[str, Any] = counted._asdict() if counted is not None else {}
        more = counters.get((row.subdbid, str(row.oid)), {})
        errors, of_sequences = known.get("sync_error_count") or 0, more.get("sync_seq_error_count", 0)
        yield {
            "subid": row.oid, "subname": row.subname, "apply_error_count": known.get("apply_error_count") or 0,
            "sync_error_count": errors, "sync_seq_error_count": of_sequences,
            "sync_table_error_count": max(errors - of_sequences, 0), "stats_reset": known.get("stats_reset"),
            **{name: more.get(name, 0) for name in (f"confl_{kind}" for kind in CONFLICTS)},
        }  # fmt: skip


def _conflicts(session: Session) -> Iterator[Values]:
    """The conflicts of subscriptions whose rows the role may read: those of itself and of its roles."""
    for subscription in rows(session, pg_subscription, subdbid=session.database_oid):
        if is_superuser(session) or has_privs_of_role(session, session.role, subscription.subowner):
            for row in sorted(rows(session, pgrepl_conflict, subid=subscription.oid), key=lambda row: row.id):
                yield {
                    **row._asdict(), "subname": subscription.subname, "remote_lsn": row.finish_lsn,
                    "remote_xid": row.xid, "conflict_type": row.kind, "local_origin": row.origin,
                    **{name: _row(getattr(row, name)) for name in ("key", "local_row", "remote_row", "mended_row")},
                }  # fmt: skip


def _row(text: str | None) -> Jsonb | None:
    return None if text is None else Jsonb(text)


def _files(session: Session) -> Iterator[Values]:
    """Subscriptions to files of changes: how many files were read, the last of them, and the rejected records."""
    for row in rows(session, pg_subscription):
        if names_files(row.subconninfo):
            from pgrepl.replication.publisher.files import memory

            last = memory.remembered(session, row.oid).last
            yield {
                "subid": row.oid, "subname": row.subname, "files": 0 if last is None else last.number,
                "last_file": None if last is None else last.name, "rejected": memory.rejected(session, row.oid),
            }  # fmt: skip


def _origin_status(session: Session) -> Iterator[Values]:
    for row in rows(session, pg_replication_origin):
        if row.remote_lsn is not None:
            yield {
                "local_id": row.roident, "external_id": row.roname, "remote_lsn": row.remote_lsn,
                "local_lsn": row.local_lsn or 0,
            }  # fmt: skip


PROVIDERS: dict[str, Provider] = {
    "pg_replication_slots": _slots,
    "pg_stat_replication": _replication,
    "pg_stat_subscription": _subscriptions,
    "pg_stat_subscription_stats": _subscription_statistics,
    "pg_replication_origin_status": _origin_status,
    "pgrepl_stat_subscription_files": _files,
    "pgrepl_stat_subscription_conflicts": _subscription_statistics,
    "pgrepl_conflicts": _conflicts,
}
