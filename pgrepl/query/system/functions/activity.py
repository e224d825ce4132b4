"""Functions about activity: advisory locks, NOTIFY, exported snapshots, transaction IDs, statistics.

A transaction's ID is the number of its first snapshot. Once it has one it holds the catalog's write lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.locks.lock_table import MODE_NAMES, LockRequest, RelationMode
from pgrepl.catalog.locks.locks import AdvisoryKey
from pgrepl.catalog.locks.notifications import export_snapshot, notifications
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.context import in_recovery, refuse_in_recovery
from pgrepl.catalog.session.statistics import DATABASE, ENGINE, RELATION, SLOT
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.tables import pg_class, pg_database, pg_replication_slot, pg_subscription
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.ground.errors import PgError
from pgrepl.lake import sql
from pgrepl.lake.read.local import pin
from pgrepl.types import oids
from pgrepl.types.arrays import array_of
from pgrepl.types.plain import PgSnapshot, parse_snapshot

if TYPE_CHECKING:
    from pgrepl.catalog.locks.locks import Locks
    from pgrepl.catalog.session.session import Session

implements = Family()

_WORD = 0xFFFF_FFFF
_VOID = ""


def _locks(session: Session) -> Locks:
    session.transaction.locks.require("an advisory lock")
    return session.transaction.locks


def _lock(session: Session, numbers: tuple[int, ...], mode: RelationMode) -> LockRequest:
    if len(numbers) == 1:
        key = AdvisoryKey(session.database_oid, numbers[0] >> 32 & _WORD, numbers[0] & _WORD, 1)
    else:
        key = AdvisoryKey(session.database_oid, numbers[0] & _WORD, numbers[1] & _WORD, 2)
    return key.lock(mode)


def _taking(mode: RelationMode, *, of_session: bool, wait: bool) -> Callable[..., Any]:
    def take(call: Call, *numbers: int) -> object:
        locks = _locks(call.session)
        taken = locks.take_advisory(_lock(call.session, numbers, mode), of_session=of_session, wait=wait)
        return _VOID if wait else taken

    return take


def _releasing(mode: RelationMode) -> Callable[..., bool]:
    def release(call: Call, *numbers: int) -> bool:
        released = _locks(call.session).release_advisory(_lock(call.session, numbers, mode))
        if not released:
            call.session.notice("WARNING", f"you don't own a lock of type {MODE_NAMES[mode]}")
        return released

    return release


for _mode, _suffix in ((RelationMode.EXCLUSIVE, ""), (RelationMode.SHARE, "_shared")):
    for _keys in ("int8", "int4"):
        for _owner in ("", "xact_"):
            for _try in ("", "try_"):
                implements(f"pg_{_try}advisory_{_owner}lock{_suffix}_{_keys}", context=True)(
                    _taking(_mode, of_session=not _owner, wait=not _try)
                )
        implements(f"pg_advisory_unlock{_suffix}_{_keys}", context=True)(_releasing(_mode))


@implements("pg_advisory_unlock_all", context=True)
def pg_advisory_unlock_all(call: Call) -> str:
    _locks(call.session).release_session_locks()
    return _VOID


@implements("pg_blocking_pids", context=True)
def pg_blocking_pids(call: Call, pid: int) -> Any:
    """The sessions that a session waits for; 0 stands for a prepared transaction."""
    locks = call.session.transaction.locks
    pids: list[int] = []
    if locks.possible and locks.table.exists():
        table = locks.table
        table.remove_dead_holders(None)
        holders = table.holders()
        waiting = [
            waiter for waiter in table.waiters() if waiter.holder in holders and holders[waiter.holder].pid == pid
        ]
        pids = [holders[other].pid for waiter in waiting for other, _ in table.blockers(waiter) if other in holders]
    return array_of(oids.INT4, pids)


# --- notifications ----------------------------------------------------------------------------------------------------


@implements("pg_notify", context=True)
def pg_notify(call: Call, channel: str | None, payload: str | None) -> str:
    refuse_in_recovery(call.session, "NOTIFY")
    notifications(call.session).notify(channel or "", payload or "")
    return ""


@implements("pg_listening_channels", context=True)
def pg_listening_channels(call: Call) -> Iterator[str]:
    notifications = call.session.transaction.notifications
    return iter([] if notifications is None else list(notifications.channels))


@implements("pg_notification_queue_usage", context=True)
def pg_notification_queue_usage(call: Call) -> float:
    return notifications(call.session).queue_usage()


# --- snapshots --------------------------------------------------------------------------------------------------------


@implements("pg_export_snapshot", context=True)
def pg_export_snapshot(call: Call) -> str:
    """The transaction's snapshot without what it has written itself, as that is not committed."""
    session = call.session
    numbering = session.transaction.numbering
    own = numbering.first_snapshot
    return export(session, numbering.committed_snapshot() if own is None else own - 1)


def export(session: Session, snapshot: int) -> str:
    """Export a snapshot, and keep its files."""
    if session.transaction.savepoints:
        raise PgError("25001", "cannot export a snapshot from a subtransaction")
    pin(session, snapshot)
    return export_snapshot(session, snapshot)


# --- transactions -----------------------------------------------------------------------------------------------------


@implements("pg_current_xact_id", context=True)
def pg_current_xact_id(call: Call) -> int:
    session = call.session
    if in_recovery(session):
        raise PgError("25006", "cannot execute pg_current_xact_id() during recovery")
    numbering = session.transaction.numbering
    if numbering.first_snapshot is None:
        session.snapshot()
    assert numbering.first_snapshot is not None
    return numbering.first_snapshot


@implements("pg_current_xact_id_if_assigned", context=True)
def pg_current_xact_id_if_assigned(call: Call) -> int | None:
    return call.session.transaction.numbering.first_snapshot


@implements("pg_current_snapshot", context=True)
def pg_current_snapshot(call: Call) -> str:
    following = _next_xid(call.session)
    return str(PgSnapshot(following, following))


_FIRST_NORMAL = 3  # FirstNormalTransactionId


def _next_xid(session: Session) -> int:
    """The first ID whose transaction has not ended: this transaction's, or the next one's."""
    numbering = session.transaction.numbering
    own = numbering.first_snapshot
    return numbering.last_snapshot() + 1 if own is None else own


@implements("pg_snapshot_xmin")
def pg_snapshot_xmin(snapshot: str) -> int:
    return parse_snapshot(snapshot).xmin


@implements("pg_snapshot_xmax")
def pg_snapshot_xmax(snapshot: str) -> int:
    return parse_snapshot(snapshot).xmax


@implements("pg_snapshot_xip")
def pg_snapshot_xip(snapshot: str) -> Iterator[int]:
    return iter(parse_snapshot(snapshot).xip)


@implements("pg_visible_in_snapshot")
def pg_visible_in_snapshot(xid: int, snapshot: str) -> bool:
    return parse_snapshot(snapshot).sees(xid)


@implements("xid_age", context=True)
def xid_age(call: Call, xid: int) -> int:
    return _next_xid(call.session) - xid if xid >= _FIRST_NORMAL else 2**31 - 1


@implements("pg_xact_status", context=True)
def pg_xact_status(call: Call, xid: int) -> str | None:
    """The status of a transaction; NULL if its snapshot has expired."""
    session = call.session
    following = _next_xid(session)
    own = session.transaction.numbering.first_snapshot
    if own is not None and xid == own:
        return "in progress"
    if xid >= following:
        raise PgError("22023", f"transaction ID {xid} is in the future")
    committed = session.link.execute(sql.IS_SNAPSHOT, (xid,))
    return "committed" if committed and xid > 0 else None


# --- statistics -------------------------------------------------------------------------------------------------------


VOID = ""
_OF_THE_INSTANCE = ("archiver", "bgwriter", "checkpointer", "io", "slru", "wal")
_TARGETS = ("archiver", "bgwriter", "checkpointer", "io", "recovery_prefetch", "slru", "wal")


@implements("pg_stat_force_next_flush", context=True)
def pg_stat_force_next_flush(call: Call) -> str:
    statistics.counters(call.session.catalog).flush()
    return VOID


@implements("pg_stat_clear_snapshot")
def pg_stat_clear_snapshot() -> str:
    """Does nothing: there is no snapshot of statistics, each query reads the present ones."""
    return VOID


@implements("pg_stat_have_stats", context=True)
def pg_stat_have_stats(call: Call, kind: str, database: int, oid: int) -> bool:
    session = call.session
    word = kind.lower()
    if word in _OF_THE_INSTANCE:
        return True
    if word == "database":
        return oid == 0 and one(session, pg_database, oid=database) is not None
    if word == "relation":
        known = statistics.counters(session.catalog).read(RELATION)
        return (database, str(oid)) in known and one(session, pg_class, oid=oid) is not None
    if word == "replslot":
        return database == 0 and oid < len(_logical_slots(session))
    if word == "subscription":
        return database == 0 and one(session, pg_subscription, oid=oid) is not None
    if word == "function":
        return False
    raise PgError("22023", f'invalid statistics kind: "{kind}"')


def _logical_slots(session: Session) -> list[str]:
    return sorted(row.slot_name for row in rows(session, pg_replication_slot) if row.slot_type == "logical")


@implements("pg_stat_get_numscans", context=True)
def pg_stat_get_numscans(call: Call, oid: int) -> int:
    """The scans of a table, or of an index; 0 of what is neither. Tools ask for it of each index."""
    known = statistics.counters(call.session.catalog).read(RELATION).get((call.session.database_oid, str(oid)), {})
    return int(known.get("scans") or known.get("seq_scan") or 0)


@implements("pg_stat_reset", context=True)
def pg_stat_reset(call: Call) -> str:
    """Reset all statistics of the database."""
    session = call.session
    counters, database = statistics.counters(session.catalog), session.database_oid
    for kind in (RELATION, DATABASE, ENGINE):
        counters.forget(kind, database)
    statistics.count(session, DATABASE, database, stats_reset=statistics.now())
    return VOID


@implements("pg_stat_reset_single_table_counters", context=True)
def pg_stat_reset_single_table_counters(call: Call, oid: int) -> str:
    session = call.session
    statistics.counters(session.catalog).forget(RELATION, session.database_oid, oid)
    statistics.count(session, DATABASE, session.database_oid, stats_reset=statistics.now())
    return VOID


@implements("pg_stat_reset_single_function_counters")
def pg_stat_reset_single_function_counters(oid: int) -> str:
    """Does nothing: calls of functions are not counted."""
    return VOID


@implements("pg_stat_reset_shared", context=True)
def pg_stat_reset_shared(call: Call, target: str | None) -> str:
    """Does nothing but check the target: pgrepl has no counters for these."""
    if target is not None and target not in _TARGETS:
        raise PgError(
            "22023",
            f'unrecognized reset target: "{target}"',
            hint='Target must be "archiver", "bgwriter", "checkpointer", "io", "recovery_prefetch", "slru", or "wal".',
        )
    return VOID


@implements("pg_stat_reset_slru")
def pg_stat_reset_slru(target: str | None) -> str:
    return VOID


@implements("pg_stat_reset_replication_slot", context=True)
def pg_stat_reset_replication_slot(call: Call, name: str | None) -> str:
    """Reset the statistics of one slot, or of all."""
    session = call.session
    if name is not None:
        slot = one(session, pg_replication_slot, slot_name=name)
        if slot is None:
            raise PgError("22023", f'replication slot "{name}" does not exist')
        if slot.slot_type != "logical":
            return VOID
    counters = statistics.counters(session.catalog)
    for slot_name in _logical_slots(session) if name is None else [name]:
        counters.forget(SLOT, 0, slot_name)
        counters.add(SLOT, 0, slot_name, {"stats_reset": statistics.now()})
    return VOID
