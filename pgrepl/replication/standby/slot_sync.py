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
from pgrepl.replication.publisher.slots import slot_or_none
from pgrepl.replication.standby.primary import on_primary
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_FOLLOWED = (
    "restart_lsn",
    "confirmed_flush_lsn",
    "catalog_snapshot",
    "two_phase",
    "two_phase_at",
    "failover",
    "invalidation_reason",
)


def synchronize_slots(standby: Session) -> None:
    """Synchronize all failover slots (SyncReplicationSlots)."""
    if not in_recovery(standby):
        raise PgError("55000", "replication slots can only be synchronized to a standby server")
    with on_primary(standby) as primary, reading(primary):
        remote = {row.slot_name: row for row in rows(primary, tables.pg_replication_slot, failover=True)}
    apart = standby.elsewhere(standby.database_oid, standby.role, apart=True)
    apart.replays = True
    with closing(apart), statement(apart, writes=True):
        for row in rows(apart, tables.pg_replication_slot, synced=True):
            if row.slot_name not in remote:
                delete(apart, tables.pg_replication_slot, slot_name=row.slot_name)
        for row in remote.values():
            if not row.temporary:
                _synchronize(apart, row)


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
    followed = {column: getattr(remote, column) for column in _FOLLOWED}
    update(standby, tables.pg_replication_slot, {"slot_name": name}, **followed, inactive_since=now)
