"""Synchronizes the slots of a standby with the primary's, between two synchronizations (slotsync.c).

Only a slot that needs nothing beyond the standby's last snapshot is synchronized: one whose subscriber is past it would
miss changes after a failover.
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.numbering import current_lsn
from pgrepl.catalog.recovery import in_recovery
from pgrepl.catalog.store import delete, insert, rows, update
from pgrepl.catalog.transaction import reading, statement
from pgrepl.errors import PgError
from pgrepl.replication.libpq.conninfo import check_conninfo
from pgrepl.replication.publisher.slots import slot_or_none
from pgrepl.replication.publisher.standby_slots import standby_slot
from pgrepl.replication.standby.primary import on_primary
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_FOLLOWED = (
    "plugin",
    "datoid",
    "restart_lsn",
    "confirmed_flush_lsn",
    "catalog_snapshot",
    "two_phase",
    "two_phase_at",
    "failover",
)
_LOST = ("invalidation_reason", "wal_status")
_REQUIRES = "replication slot synchronization requires"


def synchronize_slots(standby: Session) -> None:
    """Synchronize all failover slots (SyncReplicationSlots)."""
    if not in_recovery(standby):
        raise PgError("55000", "replication slots can only be synchronized to a standby server")
    _check_settings(standby)
    with on_primary(standby) as primary, reading(primary):
        standby_slot(primary, standby.settings.get("primary_slot_name"))
        remote = {row.slot_name: row for row in rows(primary, tables.pg_replication_slot, failover=True)}
    apart = standby.elsewhere(standby.database_oid, standby.role, apart=True)
    apart.replays = True
    with closing(apart), statement(apart, writes=True):
        for row in rows(apart, tables.pg_replication_slot, synced=True):
            if _is_obsolete(row, remote.get(row.slot_name)):
                delete(apart, tables.pg_replication_slot, slot_name=row.slot_name)
        for row in remote.values():
            _synchronize(apart, row)


def _check_settings(standby: Session) -> None:
    """Raise unless the settings say how to follow the primary (ValidateSlotSyncParams)."""
    settings = standby.settings
    conninfo = settings.get("primary_conninfo")
    for is_met, what in (
        (settings.get("wal_level") == "logical", '"wal_level" >= "logical"'),
        (settings.get("primary_slot_name"), '"primary_slot_name" to be set'),
        (settings.value("hot_standby_feedback"), '"hot_standby_feedback" to be enabled'),
        (conninfo, '"primary_conninfo" to be set'),
        (check_conninfo(conninfo, False).get("dbname"), '"dbname" to be specified in "primary_conninfo"'),
    ):
        if not is_met:
            raise PgError("22023", f"{_REQUIRES} {what}")


def _is_obsolete(own: tables.pg_replication_slot, remote: tables.pg_replication_slot | None) -> bool:
    """Whether a synchronized slot goes, maybe to be made anew (local_sync_slot_required)."""
    return remote is None or bool(own.invalidation_reason and not remote.invalidation_reason)


def _synchronize(standby: Session, remote: tables.pg_replication_slot) -> None:
    """Create or update one slot (synchronize_one_slot)."""
    name, reached = remote.slot_name, current_lsn(standby)
    confirmed = remote.confirmed_flush_lsn or 0
    if confirmed > reached:
        raise PgError(
            "55000",
            f"skipping slot synchronization because the received slot sync LSN {lsn_text(confirmed)} "
            f'for slot "{name}" is ahead of the standby position {lsn_text(reached)}',
        )
    own = slot_or_none(standby, name)
    now = datetime.now(timezone.utc).isoformat()
    if own is None:
        if not remote.invalidation_reason:
            values = {**remote._asdict(), "synced": True, "active_pid": None, "inactive_since": now}
            insert(standby, tables.pg_replication_slot, **values)
        return
    if not own.synced:
        raise PgError(
            "55000",
            f'exiting from slot synchronization because same name slot "{name}" already exists on the standby',
        )
    followed = {column: getattr(remote, column) for column in (_LOST if remote.invalidation_reason else _FOLLOWED)}
    update(standby, tables.pg_replication_slot, {"slot_name": name}, **followed, inactive_since=now)
