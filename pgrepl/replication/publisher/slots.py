"""Replication slots: the position of a subscription at its publisher.

A slot has the position up to which its subscriber has all changes (`confirmed_flush_lsn`), and keeps the snapshots
since then from expiry. Slots belong to the instance; a logical one reads one database.

A slot is no part of the transaction that makes it: it stays when that is rolled back (slot.c, slotfuncs.c).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.roles import has_attribute
from pgrepl.catalog.locks.lock_file import is_alive
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.context import in_recovery
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.session.parameters import check_slot_name
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, one, rows, update
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.replication.publisher import senders
from pgrepl.replication.publisher.senders import WalSender
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


PLUGIN = "pgoutput"
TEXT_PLUGIN = "test_decoding"


def check_slot_permissions(session: Session) -> None:
    if not has_attribute(session, session.role, "rolreplication"):
        raise PgError(
            "42501",
            "permission denied to use replication slots",
            detail="Only roles with the REPLICATION attribute may use replication slots.",
        )


def check_slot_requirements(session: Session) -> None:
    """Raise unless settings allow replication slots (CheckSlotRequirements)."""
    if int(session.settings.get("max_replication_slots")) == 0:
        raise PgError("55000", 'replication slots can only be used if "max_replication_slots" > 0')
    if session.settings.get("wal_level") == "minimal":
        raise PgError("55000", 'replication slots can only be used if "wal_level" >= "replica"')


def check_decoding_requirements(session: Session) -> None:
    """Raise unless settings allow logical decoding (CheckLogicalDecodingRequirements)."""
    check_slot_requirements(session)
    if session.settings.get("wal_level") != "logical":
        raise PgError("55000", 'logical decoding requires "wal_level" >= "logical"')


@contextmanager
def at_once(session: Session) -> Iterator[Session]:
    """A session whose changes of slots are committed at once, also if the caller's transaction is rolled back.

    A transaction that has written holds the catalog's write lock, so that no other can: then the changes become part of
    it.
    """
    if session.transaction.is_writing:
        session.transaction.waits_for_disk = True
        yield session
        return
    apart = session.elsewhere(session.database_oid, session.role, apart=True)
    try:
        apart.transaction.waits_for_disk = True
        apart.transaction.begin_statement(writes=not in_recovery(session))  # there checks come first
        yield apart
        apart.transaction.end_statement()
    finally:
        apart.close()


def slot_or_none(session: Session, name: str) -> tables.pg_replication_slot | None:
    return one(session, tables.pg_replication_slot, slot_name=name)


def all_slots(session: Session) -> list[tables.pg_replication_slot]:
    return rows(session, tables.pg_replication_slot)


def is_decoded(session: Session) -> bool:
    """Whether a slot decodes this database: then transactions must not be merged into one, because a subscriber would
    see it."""
    database = session.database_oid
    return any(row.datoid == database and not row.invalidation_reason for row in all_slots(session))


def acquire(session: Session, name: str, token: str = "") -> tables.pg_replication_slot:
    """The slot, if no other process is using it (ReplicationSlotAcquire). `token`: of a worker that may be using it."""
    row = slot_or_none(session, name)
    if row is None:
        raise PgError("42704", f'replication slot "{name}" does not exist')
    pid = senders.active_pid(session, row, token)
    if pid:
        raise PgError("55006", f'replication slot "{name}" is active for PID {pid}')
    return row


def occupy(session: Session, name: str, sender: WalSender) -> None:
    """Enter a worker that begins to read from the slot."""
    row = acquire(session, name, sender.token)
    _check_not_synchronized(session, row)
    senders.occupy(session, row, sender)


def check_decodable(session: Session, row: tables.pg_replication_slot, *, fast_forward: bool = False) -> None:
    """Raise unless the slot is a logical one of this database (CreateDecodingContext)."""
    if row.slot_type != "logical":
        raise PgError("55000", "cannot use physical replication slot for logical decoding")
    if row.datoid != session.database_oid and not fast_forward:
        raise PgError("55000", f'replication slot "{row.slot_name}" was not created in this database')
    _check_not_synchronized(session, row)
    check_usable(row)


def _check_not_synchronized(session: Session, row: tables.pg_replication_slot) -> None:
    if row.synced and in_recovery(session):
        raise PgError(
            "55000",
            f'cannot use replication slot "{row.slot_name}" for logical decoding',
            detail=_BEING_SYNCHRONIZED,
            hint="Specify another replication slot.",
        )


def check_start(session: Session, lsn: int) -> None:
    """Raise if a subscriber is ahead of this publisher: it has received changes from another one, and the LSNs to come
    would be other changes than it believes."""
    end = current_lsn(session)
    if lsn > end:
        raise PgError(
            "55000",
            f"requested starting point {lsn_text(lsn)} is ahead of the WAL flush position of this server "
            f"{lsn_text(end)}",
        )


_BEING_SYNCHRONIZED = "This replication slot is being synchronized from the primary server."


def check_new_slot(session: Session, name: str, *, failover: bool, temporary: bool) -> None:
    """Raise unless such a slot can be created (ReplicationSlotCreate)."""
    check_slot_name(name)
    if failover and in_recovery(session):
        raise PgError("0A000", "cannot enable failover for a replication slot created on the standby")
    if failover and temporary:
        raise PgError("0A000", "cannot enable failover for a temporary replication slot")
    if in_recovery(session):
        raise unsupported("a replication slot of a standby's own")
    if slot_or_none(session, name) is not None:
        raise PgError("42710", f'replication slot "{name}" already exists')
    if len(all_slots(session)) >= int(session.settings.get("max_replication_slots")):
        raise PgError("53400", "all replication slots are in use", hint='Free one or increase "max_replication_slots".')


def create_slot(
    session: Session,
    name: str,
    *,
    plugin: str = PLUGIN,
    two_phase: bool = False,
    failover: bool = False,
    temporary: bool = False,
) -> tables.pg_replication_slot:
    """Create a logical slot of the session's database that begins now (CreateInitDecodingContext)."""
    forget_temporary_slots(session)
    check_new_slot(session, name, failover=failover, temporary=temporary)
    check_plugin(plugin)
    start = current_lsn(session)
    return insert_slot(
        session,
        name,
        plugin=plugin,
        slot_type="logical",
        datoid=session.database_oid,
        temporary=temporary,
        restart_lsn=start,
        confirmed_flush_lsn=start,
        two_phase=two_phase,
        two_phase_at=start if two_phase else None,
        failover=failover,
        catalog_snapshot=start - 1,
    )


def insert_slot(session: Session, name: str, *, temporary: bool, **values: object) -> tables.pg_replication_slot:
    insert(
        session,
        tables.pg_replication_slot,
        slot_name=name,
        temporary=temporary,
        active_pid=session.pid if temporary else None,
        synced=False,
        inactive_since=None if temporary else datetime.now(timezone.utc).isoformat(),
        conflicting=False,
        invalidation_reason=None,
        wal_status="reserved" if values["restart_lsn"] else None,
        **values,
    )
    slot = slot_or_none(session, name)
    assert slot is not None
    return slot


def check_plugin(plugin: str) -> None:
    if plugin not in (PLUGIN, TEXT_PLUGIN):
        raise PgError("58P01", f'could not access file "{plugin}": No such file or directory')


def copy_slot(
    session: Session, source: str, name: str, *, temporary: bool | None, plugin: str | None
) -> tables.pg_replication_slot:
    """Create a logical slot at the position of another (copy_replication_slot). It does not fail over."""
    row = slot_or_none(session, source)
    if row is None:
        raise PgError("42704", f'replication slot "{source}" does not exist')
    if row.slot_type != "logical":  # the message has the kinds the wrong way round, as PostgreSQL's
        raise PgError("0A000", f'cannot copy logical replication slot "{source}" as a physical replication slot')
    if row.restart_lsn is None:
        raise PgError("55000", "cannot copy a replication slot that doesn't reserve WAL")
    if row.invalidation_reason:
        raise PgError("55000", f'cannot copy invalidated replication slot "{source}"')
    kept = bool(row.temporary) if temporary is None else temporary
    forget_temporary_slots(session)
    check_new_slot(session, name, failover=False, temporary=kept)
    check_plugin(plugin or row.plugin or "")
    return insert_slot(
        session,
        name,
        plugin=plugin or row.plugin,
        slot_type="logical",
        datoid=row.datoid,
        temporary=kept,
        restart_lsn=row.restart_lsn,
        confirmed_flush_lsn=row.confirmed_flush_lsn,
        two_phase=False,
        failover=False,
        catalog_snapshot=row.catalog_snapshot,
    )


# --- temporary slots --------------------------------------------------------------------------------------------------


def forget_temporary_slots(session: Session) -> None:
    """Drop the temporary slots of processes that were killed."""
    for row in rows(session, tables.pg_replication_slot, temporary=True):
        if session.link.is_sqlite and not (row.active_pid and is_alive(row.active_pid)):
            delete(session, tables.pg_replication_slot, slot_name=row.slot_name)


def drop_with_session(session: Session, name: str) -> None:
    """Drop a temporary slot when its session ends, or when a statement in it fails (ReplicationSlotCleanup)."""

    def drop() -> None:
        with at_once(session) as there:
            delete(there, tables.pg_replication_slot, slot_name=name, temporary=True, active_pid=session.pid)

    session.at_close.append(drop)
    session.at_error.append(drop)


def drop_slot(session: Session, name: str) -> None:
    row = acquire(session, name)
    if row.synced and in_recovery(session):
        raise PgError("55000", f'cannot drop replication slot "{name}"', detail=_BEING_SYNCHRONIZED)
    delete(session, tables.pg_replication_slot, slot_name=name)
    delete(session, tables.pgrepl_walsender, slot_name=name)
    statistics.counters(session.catalog).forget(statistics.SLOT, 0, name)


def alter_slot(session: Session, name: str, *, failover: bool | None, two_phase: bool | None) -> None:
    """Set whether a slot fails over, and whether transactions are sent at PREPARE (ReplicationSlotAlter). None: as
    before."""
    row = acquire(session, name)
    if row.slot_type != "logical":
        raise PgError("0A000", "cannot use ALTER_REPLICATION_SLOT with a physical replication slot")
    if in_recovery(session):
        if row.synced:
            raise PgError("55000", f'cannot alter replication slot "{name}"', detail=_BEING_SYNCHRONIZED)
        if failover:
            raise PgError("0A000", "cannot enable failover for a replication slot on the standby")
    if failover and row.temporary:
        raise PgError("0A000", "cannot enable failover for a temporary replication slot")
    changes: dict[str, Any] = {} if failover is None else {"failover": failover}
    if two_phase is not None and two_phase != bool(row.two_phase):
        changes |= {"two_phase": two_phase, "two_phase_at": 0 if two_phase else None}
    if changes:
        update(session, tables.pg_replication_slot, {"slot_name": name}, **changes)


def enable_two_phase(session: Session, row: tables.pg_replication_slot, start: int) -> tables.pg_replication_slot:
    """The subscriber has asked for two_phase (CreateDecodingContext): from now on transactions are sent at PREPARE."""
    if not row.two_phase:
        enabled = {"two_phase": True, "two_phase_at": start}
        with at_once(session) as there:
            update(there, tables.pg_replication_slot, {"slot_name": row.slot_name}, **enabled)
        row = row._replace(**enabled)
    return row


def two_phase_at(row: tables.pg_replication_slot) -> int | None:
    """The LSN from which on transactions are sent at PREPARE; None: they are not."""
    return int(row.two_phase_at or 0) if row.two_phase else None


def advance_slot(session: Session, name: str, lsn: int) -> int:
    """Move the slot forward, at most to the end of the WAL; returns its position."""
    if lsn == 0:
        raise PgError("XX000", "invalid target WAL LSN")
    target = min(lsn, current_lsn(session))
    row = acquire(session, name)
    if not row.restart_lsn:
        raise PgError(
            "55000",
            f'replication slot "{name}" cannot be advanced',
            detail="This slot has never previously reserved WAL, or it has been invalidated.",
        )
    minimum = row.confirmed_flush_lsn or row.restart_lsn
    if target < minimum:
        message = f"cannot advance replication slot to {lsn_text(target)}, minimum is {lsn_text(minimum)}"
        raise PgError("55000", message)
    moved = {"restart_lsn": target}
    if row.slot_type == "logical":
        check_decodable(session, row, fast_forward=True)
        moved["confirmed_flush_lsn"] = target
    update(session, tables.pg_replication_slot, {"slot_name": name}, **moved)
    return target


_IDLE = "idle_timeout"


def invalidate_idle(session: Session) -> list[str]:
    """Give up the slots that nobody has read from for longer than idle_replication_slot_timeout; their names. The
    caller holds the write lock, and removes what was kept for them."""
    seconds = int(session.settings.value("idle_replication_slot_timeout"))
    if not seconds:
        return []
    since = datetime.now(timezone.utc) - timedelta(seconds=seconds)
    idle = [row for row in all_slots(session) if _is_idle(session, row, since)]
    for row in idle:
        lost = {"invalidation_reason": _IDLE, "wal_status": "lost"}
        update(session, tables.pg_replication_slot, {"slot_name": row.slot_name}, **lost)
        session.notice("LOG", f'invalidating obsolete replication slot "{row.slot_name}"')
    return [row.slot_name for row in idle]


def _is_idle(session: Session, row: tables.pg_replication_slot, since: datetime) -> bool:
    """Has nobody read from it since then? One who was killed has not said when he left: his last word counts."""
    if row.invalidation_reason or row.synced or row.temporary or not row.restart_lsn:
        return False
    if senders.user_pid(session, row) is not None:
        return False
    last = one(session, tables.pgrepl_walsender, slot_name=row.slot_name)
    known = [row.inactive_since] if last is None else [row.inactive_since, last.backend_start, last.reply_time]
    times = [datetime.fromisoformat(text) for text in known if text is not None]
    return bool(times) and max(times) < since


def check_usable(row: tables.pg_replication_slot) -> None:
    """Raise if changes that a slot needs have been removed (CreateDecodingContext)."""
    if row.invalidation_reason == _IDLE:
        raise PgError(
            "55000",
            f'can no longer access replication slot "{row.slot_name}"',
            detail=f'This replication slot has been invalidated due to "{_IDLE}".',
        )
    if row.invalidation_reason:
        raise PgError(
            "55000",
            f'can no longer get changes from replication slot "{row.slot_name}"',
            detail="This slot has been invalidated because it exceeded the maximum reserved size."
            if row.invalidation_reason == "wal_removed"
            else "This slot has been invalidated because it was conflicting with recovery.",
        )


def check_retained(session: Session, row: tables.pg_replication_slot, start: int) -> None:
    """Raise unless everything from `start` on still exists. Other writers of the lake may expire what a slot needs:
    then it is lost (InvalidateObsoleteReplicationSlots)."""
    last = session.transaction.numbering.last_snapshot()
    if start > last:
        return
    from pgrepl.lake import sql

    ((kept,),) = session.link.execute(sql.COUNT_SNAPSHOTS_FROM, (start - 1,))
    if kept == last - start + 2:
        return
    with at_once(session) as writing:
        lost = {"restart_lsn": None, "invalidation_reason": "wal_removed", "wal_status": "lost"}
        update(writing, tables.pg_replication_slot, {"slot_name": row.slot_name}, **lost)
    check_usable(row._replace(**lost))


def begin_at(session: Session, row: tables.pg_replication_slot, lsn: int) -> int:
    """Move a new slot back to a past LSN, 0: to the first whose changes are still there; returns its position.
    PostgreSQL has nothing like it: its log is not kept for a slot to come."""
    from pgrepl.lake import sql

    ((oldest,),) = session.link.execute(sql.FIRST_SNAPSHOT)
    first = int(oldest) + 1  # the catalog before a change decides how it is sent
    if 0 < lsn < first:
        raise PgError(
            "55000",
            f"requested starting point {lsn_text(lsn)} is before the first change that is there, {lsn_text(first)}",
            detail="VACUUM has removed the changes before it, because no replication slot needed them.",
        )
    start = max(lsn, first)
    moved = {"restart_lsn": start, "confirmed_flush_lsn": start, "catalog_snapshot": start - 1}
    update(session, tables.pg_replication_slot, {"slot_name": row.slot_name}, **moved)
    return start


def confirm(session: Session, name: str, lsn: int, positions: senders.Positions | None = None) -> None:
    """A subscriber has flushed everything before `lsn`; a slot never goes back (LogicalConfirmReceivedLocation).
    `positions`: see senders.confirmed."""
    row = slot_or_none(session, name)
    if row is not None and (row.confirmed_flush_lsn or 0) < lsn:
        update(session, tables.pg_replication_slot, {"slot_name": name}, restart_lsn=lsn, confirmed_flush_lsn=lsn)
    if row is not None:
        own = session.transaction.numbering.first_snapshot  # the subscriber's own commit is not to be sent to it
        senders.confirmed(session, name, lsn, current_lsn(session) if own is None else own, positions)


def confirm_and_leave(session: Session, name: str, lsn: int) -> None:
    """Confirm the position of a subscriber that has received and applied all changes in one transaction, without a
    walsender, and mark the slot as inactive."""
    now = datetime.now(timezone.utc).isoformat()
    moved = {"restart_lsn": lsn, "confirmed_flush_lsn": lsn, "active_pid": None, "inactive_since": now}
    update(session, tables.pg_replication_slot, {"slot_name": name}, **moved)
