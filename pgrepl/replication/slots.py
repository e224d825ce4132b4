"""Replication slots: what a publisher remembers of a subscription between two visits.

A slot keeps the position up to which its subscriber has everything (`confirmed_flush_lsn`), and with it all that was
written since. Slots belong to the instance; a logical one reads one database.

A slot is no part of the transaction that makes it: it stays when that is rolled back (slot.c, slotfuncs.c).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.roles import has_attribute
from pgrepl.catalog.store import Row, delete, insert, one, rows, update
from pgrepl.catalog.transaction import Sql
from pgrepl.errors import PgError, unsupported
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

PLUGIN = "pgoutput"
NAME_LENGTH = 64
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")


def check_slot_name(name: str) -> None:
    """As ReplicationSlotValidateName."""
    if not name:
        raise PgError("42602", f'replication slot name "{name}" is too short')
    if len(name.encode()) >= NAME_LENGTH:
        raise PgError("42622", f'replication slot name "{name}" is too long')
    if not _ALLOWED.issuperset(name):
        raise PgError(
            "42602",
            f'replication slot name "{name}" contains invalid character',
            hint="Replication slot names may only contain lower case letters, numbers, and the underscore character.",
        )


def check_slot_permissions(session: Session) -> None:
    if not has_attribute(session, session.role, "rolreplication"):
        raise PgError(
            "42501",
            "permission denied to use replication slots",
            detail="Only roles with the REPLICATION attribute may use replication slots.",
        )


def check_slot_requirements(session: Session) -> None:
    """As CheckSlotRequirements."""
    if int(session.settings.get("max_replication_slots")) == 0:
        raise PgError("55000", 'replication slots can only be used if "max_replication_slots" > 0')
    if session.settings.get("wal_level") == "minimal":
        raise PgError("55000", 'replication slots can only be used if "wal_level" >= "replica"')


def check_decoding_requirements(session: Session) -> None:
    """As CheckLogicalDecodingRequirements."""
    check_slot_requirements(session)
    if session.settings.get("wal_level") != "logical":
        raise PgError("55000", 'logical decoding requires "wal_level" >= "logical"')


def current_lsn(session: Session) -> int:
    """The end of what has been written: what comes next will have this LSN (pg_current_wal_lsn)."""
    return session.transaction.numbering.last_snapshot() + 1


@contextmanager
def at_once(session: Session) -> Iterator[Session]:
    """A session whose work on slots is done at once, whatever becomes of the caller's transaction.

    A transaction that has written holds the catalog's write lock, and nobody else can have it: there the work becomes
    part of it.
    """
    if session.transaction.sql is Sql.WRITE:
        yield session
        return
    apart = session.elsewhere(session.database.oid, session.role, apart=True)
    try:
        apart.transaction.begin_statement(writes=True)
        yield apart
        apart.transaction.end_statement()
    finally:
        apart.close()


def slot_or_none(session: Session, name: str) -> Row | None:
    return one(session, tables.pg_replication_slot, slot_name=name)


def all_slots(session: Session) -> list[Row]:
    return rows(session, tables.pg_replication_slot)


def acquire(session: Session, name: str) -> Row:
    """The slot, if nobody is using it (ReplicationSlotAcquire)."""
    row = slot_or_none(session, name)
    if row is None:
        raise PgError("42704", f'replication slot "{name}" does not exist')
    if row.active_pid:
        raise PgError("55006", f'replication slot "{name}" is active for PID {row.active_pid}')
    return row


def check_new_slot(session: Session, name: str, *, failover: bool, temporary: bool) -> None:
    """Can there be such a slot? (ReplicationSlotCreate)"""
    check_slot_name(name)
    if failover and temporary:
        raise PgError("0A000", "cannot enable failover for a temporary replication slot")
    if temporary:
        raise unsupported("a temporary replication slot")
    if slot_or_none(session, name) is not None:
        raise PgError("42710", f'replication slot "{name}" already exists')
    if len(all_slots(session)) >= int(session.settings.get("max_replication_slots")):
        raise PgError(
            "53400",
            "all replication slots are in use",
            hint='Free one or increase "max_replication_slots".',
        )


def create_slot(
    session: Session,
    name: str,
    *,
    plugin: str = PLUGIN,
    two_phase: bool = False,
    failover: bool = False,
    temporary: bool = False,
) -> Row:
    """A logical slot of the session's database, from here on (CreateInitDecodingContext)."""
    check_new_slot(session, name, failover=failover, temporary=temporary)
    if plugin != PLUGIN:
        raise PgError("58P01", f'could not access file "{plugin}": No such file or directory')
    start = current_lsn(session)
    insert(
        session,
        tables.pg_replication_slot,
        slot_name=name,
        plugin=plugin,
        slot_type="logical",
        datoid=session.database.oid,
        temporary=False,
        active_pid=None,
        restart_lsn=start,
        confirmed_flush_lsn=start,
        two_phase=two_phase,
        failover=failover,
        synced=False,
        inactive_since=datetime.now(timezone.utc).isoformat(),
        conflicting=False,
        invalidation_reason=None,
        wal_status="reserved",
        catalog_snapshot=start - 1,
    )
    made = slot_or_none(session, name)
    assert made is not None
    return made


def drop_slot(session: Session, name: str) -> None:
    acquire(session, name)
    delete(session, tables.pg_replication_slot, slot_name=name)


def alter_slot(session: Session, name: str, *, failover: bool) -> None:
    """As ReplicationSlotAlter."""
    acquire(session, name)
    update(session, tables.pg_replication_slot, {"slot_name": name}, failover=failover)


def advance_slot(session: Session, name: str, lsn: int) -> int:
    """Move the slot forward, at most to the end of what has been written; where it stands then."""
    if lsn == 0:
        raise PgError("XX000", "invalid target WAL LSN")
    target = min(lsn, current_lsn(session))
    row = acquire(session, name)
    if not row.restart_lsn or row.invalidation_reason:
        raise PgError(
            "55000",
            f'replication slot "{name}" cannot be advanced',
            detail="This slot has never previously reserved WAL, or it has been invalidated.",
        )
    if target < row.confirmed_flush_lsn:
        minimum = lsn_text(row.confirmed_flush_lsn)
        raise PgError("55000", f"cannot advance replication slot to {lsn_text(target)}, minimum is {minimum}")
    update(session, tables.pg_replication_slot, {"slot_name": name}, restart_lsn=target, confirmed_flush_lsn=target)
    return target


def check_usable(row: Row) -> None:
    """As CreateDecodingContext: what a slot needs may be gone."""
    if row.invalidation_reason:
        raise PgError(
            "55000",
            f'can no longer get changes from replication slot "{row.slot_name}"',
            detail="This slot has been invalidated because it exceeded the maximum reserved size."
            if row.invalidation_reason == "wal_removed"
            else "This slot has been invalidated because it was conflicting with recovery.",
        )


def confirm(session: Session, name: str, lsn: int) -> None:
    """A subscriber has what comes before `lsn`; a slot never goes back (LogicalConfirmReceivedLocation)."""
    row = slot_or_none(session, name)
    if row is not None and row.confirmed_flush_lsn < lsn:
        update(session, tables.pg_replication_slot, {"slot_name": name}, restart_lsn=lsn, confirmed_flush_lsn=lsn)
