"""Functions about cumulative statistics, and their reset (pgstatfuncs.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import statistics
from pgrepl.catalog.statistics import DATABASE, ENGINE, RELATION, SLOT
from pgrepl.catalog.store import one, rows
from pgrepl.catalog.tables import pg_class, pg_database, pg_replication_slot, pg_subscription
from pgrepl.errors import PgError
from pgrepl.expr.functions.registry import Family

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.context import Call

implements = Family()

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
