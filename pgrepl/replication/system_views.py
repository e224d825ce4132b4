"""The system views of replication: slots and their walsenders, subscriptions with workers and statistics, origins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgrepl.catalog import statistics
from pgrepl.catalog.databases import database_name
from pgrepl.catalog.roles import has_privs_of_role, is_superuser, role_display
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import one, rows
from pgrepl.catalog.sync_rep import states, walsenders
from pgrepl.catalog.tables import (
    pg_replication_origin,
    pg_replication_slot,
    pg_stat_subscription_stats,
    pg_subscription,
    pgrepl_conflict,
)
from pgrepl.query.system.forms import Provider, Values
from pgrepl.replication.libpq.conninfo import names_files
from pgrepl.replication.publisher import senders
from pgrepl.replication.publisher.files import memory
from pgrepl.replication.subscriber import lease
from pgrepl.replication.subscriber.outcome import CONFLICTS
from pgrepl.types.json import Jsonb


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
    found = walsenders(session)
    for row, (priority, state) in zip(found, states(session, found), strict=True):
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
    for row in rows(session, pg_subscription):
        counted = one(session, pg_stat_subscription_stats, subid=row.oid)
        known: dict[str, Any] = counted._asdict() if counted is not None else {}
        yield {
            "subid": row.oid, "subname": row.subname, "apply_error_count": known.get("apply_error_count") or 0,
            "sync_error_count": known.get("sync_error_count") or 0, "stats_reset": known.get("stats_reset"),
        }  # fmt: skip


def _conflict_statistics(session: Session) -> Iterator[Values]:
    """The columns that pg_stat_subscription_stats has in PostgreSQL 18."""
    found = statistics.counters(session.catalog).read(statistics.SUBSCRIPTION)
    for row in rows(session, pg_subscription):
        counted = one(session, pg_stat_subscription_stats, subid=row.oid)
        known = found.get((row.subdbid, str(row.oid)), {})
        yield {
            "subid": row.oid, "subname": row.subname, "stats_reset": None if counted is None else counted.stats_reset,
            **{name: known.get(name, 0) for name in (f"confl_{kind}" for kind in CONFLICTS)},
        }  # fmt: skip


def _conflicts(session: Session) -> Iterator[Values]:
    """The conflicts of subscriptions whose rows the role may read: those of itself and of its roles."""
    for each in rows(session, pg_subscription, subdbid=session.database_oid):
        if is_superuser(session) or has_privs_of_role(session, session.role, each.subowner):
            for row in sorted(rows(session, pgrepl_conflict, subid=each.oid), key=lambda row: row.id):
                yield {
                    **row._asdict(), "subname": each.subname, "remote_lsn": row.finish_lsn, "remote_xid": row.xid,
                    "conflict_type": row.kind, "local_origin": row.origin,
                    **{name: _row(getattr(row, name)) for name in ("key", "local_row", "remote_row", "mended_row")},
                }  # fmt: skip


def _row(text: str | None) -> Jsonb | None:
    return None if text is None else Jsonb(text)


def _files(session: Session) -> Iterator[Values]:
    """Subscriptions to files of changes: how many files were read, the last of them, and the rejected records."""
    for row in rows(session, pg_subscription):
        if names_files(row.subconninfo):
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
    "pgrepl_stat_subscription_conflicts": _conflict_statistics,
    "pgrepl_conflicts": _conflicts,
}
