"""Views of what goes on: settings, replication slots, subscriptions' workers and statistics, replication origins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pgrepl.catalog import configuration, copies, parameters
from pgrepl.catalog.classes import ROLE_READ_ALL_SETTINGS
from pgrepl.catalog.parameters import Parameter, Value
from pgrepl.catalog.roles import has_privs_of_role, role_display
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import one, rows
from pgrepl.catalog.tables import (
    pg_database,
    pg_replication_origin,
    pg_replication_slot,
    pg_stat_subscription_stats,
    pg_subscription,
)
from pgrepl.commands.system.base_tables import Provider, Values
from pgrepl.commands.system.locks import locks
from pgrepl.replication import lease, senders


def _settings(session: Session) -> Iterator[Values]:
    lines: dict[str, Values] = {}
    if has_privs_of_role(session, session.role, ROLE_READ_ALL_SETTINGS):
        lines = {
            each.name: {"sourcefile": session.catalog.name, "sourceline": each.line}
            for each in configuration.file_settings(session)
            if session.settings.source(each.name) == "configuration file"
        }
    for parameter in parameters.all_parameters():
        if not session.settings.may_examine(parameter.name):
            continue
        value = session.settings.value(parameter.name)
        reset = session.settings.reset_value(parameter.name)
        yield {
            "name": parameter.name, "setting": parameters.raw(parameter, value), "unit": parameter.unit,
            "category": parameter.category, "short_desc": parameter.short_desc, "extra_desc": parameter.extra_desc,
            "context": parameter.context, "vartype": parameter.vartype,
            "source": session.settings.source(parameter.name), "min_val": _limit(parameter, parameter.minimum),
            "max_val": _limit(parameter, parameter.maximum),
            "enumvals": None if parameter.options is None else list(parameter.options),
            "boot_val": parameter.boot, "reset_val": parameters.raw(parameter, reset),
            "pending_restart": parameter.key in session.settings.pending_restart, **lines.get(parameter.name, {}),
        }  # fmt: skip


def _file_settings(session: Session) -> Iterator[Values]:
    for each in configuration.file_settings(session):
        yield {
            "sourcefile": session.catalog.name, "sourceline": each.line, "seqno": each.number, "name": each.name,
            "setting": each.text, "applied": each.error is None, "error": each.error,
        }  # fmt: skip


def _limit(parameter: Parameter, value: Value | None) -> str | None:
    return None if value is None else parameters.raw(parameter, value)


def _database_name(session: Session, oid: int | None) -> str | None:
    row = one(session, pg_database, oid=oid) if oid else None
    return None if row is None else str(row.datname)


def _slots(session: Session) -> Iterator[Values]:
    for row in rows(session, pg_replication_slot):
        logical = row.slot_type == "logical"
        pid = senders.user_pid(session, row)
        yield {
            **row._asdict(), "database": _database_name(session, row.datoid), "active": pid is not None,
            "active_pid": pid, "catalog_xmin": row.catalog_snapshot,
            "conflicting": bool(row.conflicting) if logical else None,
            "inactive_since": row.inactive_since if pid is None else None,
            "wal_status": row.wal_status or ("reserved" if row.restart_lsn else None), "synced": bool(row.synced),
        }  # fmt: skip


def _replication(session: Session) -> Iterator[Values]:
    """The workers that read from slots right now."""
    for row in senders.senders(session):
        yield {
            "pid": row.pid, "usesysid": row.usesysid, "usename": role_display(session, row.usesysid),
            "application_name": row.application_name, "client_port": -1, "backend_start": row.backend_start,
            "state": row.state, "sent_lsn": row.sent_lsn, "write_lsn": row.flush_lsn, "flush_lsn": row.flush_lsn,
            "replay_lsn": row.flush_lsn, "sync_priority": 0, "sync_state": "async", "reply_time": row.reply_time,
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


def _copies(session: Session) -> Iterator[Values]:
    """Those of subscriptions' tables and of users."""
    for row in copies.under_way(session):
        yield {**row._asdict(), "datname": _database_name(session, row.datid)}


def _subscription_statistics(session: Session) -> Iterator[Values]:
    for row in rows(session, pg_subscription):
        counted = one(session, pg_stat_subscription_stats, subid=row.oid)
        known: dict[str, Any] = counted._asdict() if counted is not None else {}
        yield {
            "subid": row.oid, "subname": row.subname, "apply_error_count": known.get("apply_error_count") or 0,
            "sync_error_count": known.get("sync_error_count") or 0, "stats_reset": known.get("stats_reset"),
        }  # fmt: skip


def _prepared(session: Session) -> Iterator[Values]:
    from pgrepl.lake import prepared

    for each in prepared.every(session):
        yield {
            "transaction": each.xid, "gid": each.gid, "prepared": each.prepared_at,
            "owner": role_display(session, each.owner), "database": _database_name(session, each.database),
        }  # fmt: skip


def _origin_status(session: Session) -> Iterator[Values]:
    for row in rows(session, pg_replication_origin):
        if row.remote_lsn is not None:
            yield {
                "local_id": row.roident, "external_id": row.roname, "remote_lsn": row.remote_lsn,
                "local_lsn": row.local_lsn or 0,
            }  # fmt: skip


def _nothing(session: Session) -> Iterable[Values]:
    """Nothing of the kind ever happens here."""
    return ()


PROVIDERS: dict[str, Provider] = {
    "pg_settings": _settings,
    "pg_file_settings": _file_settings,
    "pg_replication_slots": _slots,
    "pg_stat_replication": _replication,
    "pg_stat_subscription": _subscriptions,
    "pg_stat_progress_copy": _copies,
    "pg_stat_subscription_stats": _subscription_statistics,
    "pg_locks": locks,
    "pg_prepared_xacts": _prepared,
    "pg_replication_origin_status": _origin_status,
    **dict.fromkeys(
        (
            "pg_cursors", "pg_prepared_statements", "pg_policies", "pg_rules",
            "pg_seclabels", "pg_stats", "pg_stats_ext", "pg_stats_ext_exprs",
            "pg_stat_progress_analyze", "pg_stat_progress_vacuum", "pg_stat_progress_cluster",
            "pg_stat_progress_create_index", "pg_stat_progress_basebackup", "pg_stat_wal_receiver",
            "pg_stat_ssl", "pg_stat_gssapi", "pg_available_extensions", "pg_available_extension_versions",
            "pg_hba_file_rules", "pg_ident_file_mappings", "pg_stat_user_functions",
        ),
        _nothing,
    ),
}  # fmt: skip
