"""What a server keeps for a slot (publisher/retained.py), by one query.

Transactions of other roles, and since when WAL is kept, are told to roles with pg_monitor only.
"""

from __future__ import annotations

from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.slots import FLUSHED, REASONS
from pgrepl.replication.publisher.retained import OpenTransaction, Retained
from pgrepl.types.lsn import lsn_text, parse_lsn

_IDLE = 170000  # the release that knows inactive_since

_OLDEST = (
    "SELECT * FROM (SELECT backend_xid AS xid, pid, NULL AS gid, xact_start AS began, datname, usename, "
    "application_name, state FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL UNION ALL "
    "SELECT transaction, NULL, gid, prepared, database, owner, NULL, 'prepared' FROM pg_catalog.pg_prepared_xacts) x "
    "ORDER BY pg_catalog.age(xid) DESC LIMIT 1"
)
_QUERY = (
    "SELECT s.wal_status, {flushed}, s.restart_lsn, s.confirmed_flush_lsn, s.safe_wal_size, "
    "pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_slot_wal_keep_size')), {reason}, {idle}, extract(epoch "
    "FROM pg_catalog.current_setting('idle_replication_slot_timeout', true)::pg_catalog.interval), "
    "st.spill_txns, st.spill_bytes, pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'), "
    "pg_catalog.has_function_privilege('pg_catalog.pg_ls_waldir()', 'EXECUTE') AND NOT pg_catalog.pg_is_in_recovery(), "
    "extract(epoch FROM pg_catalog.clock_timestamp() - t.began), t.pid, t.gid, t.datname, t.usename, "
    "t.application_name, t.state FROM pg_catalog.pg_replication_slots s "
    "LEFT JOIN pg_catalog.pg_stat_replication_slots st ON st.slot_name = s.slot_name "
    f"LEFT JOIN LATERAL ({_OLDEST}) t ON true WHERE s.slot_name = {{slot}}"
)


class ServerProbe:
    """A SlotProbe: a connection that is opened by the first look, and again after it was lost."""

    def __init__(self, link: Link, slot: str) -> None:
        self._place, self._patience = link.same_place(), link.patience
        self._slot = slot
        self._link: Link | None = None

    def look(self) -> Retained | None:
        if self._link is None or not self._link.is_open:
            self._link = Link(self._place, "", replication=False, patience=self._patience)
        return retained(self._link, self._slot)

    def interrupt(self) -> None:
        link = self._link
        if link is not None:
            link.interrupt()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()


def retained(link: Link, slot: str) -> Retained | None:
    idle_for = "extract(epoch FROM pg_catalog.clock_timestamp() - s.inactive_since)"
    asked = _QUERY.format(
        flushed=FLUSHED,
        slot=link.literal(slot),
        reason="s.invalidation_reason" if link.version >= REASONS else "NULL",
        idle=idle_for if link.version >= _IDLE else "NULL",
    )
    listed = link.rows(asked)
    if not listed:
        return None
    status, end, restart, confirmed, left, limit, reason, idle, idle_limit, spills, spilled = listed[0][:11]
    sees_all, sees_files = (value == "t" for value in listed[0][11:13])
    at = parse_lsn(end or "0/0")
    size = at - parse_lsn(restart) if restart else 0
    return Retained(
        size,
        _since(link, restart, at) if sees_files and restart else None,
        at - parse_lsn(confirmed) if confirmed and restart else 0,
        status,
        None if left is None else int(left),
        int(limit) if limit is not None and int(limit) >= 0 else None,
        reason,
        _transaction(listed[0][13:]),
        sees_all,
        int(spills or 0),
        int(spilled or 0),
        None if idle is None else float(idle),
        float(idle_limit) if idle_limit and float(idle_limit) else None,
    )


def _transaction(values: tuple[str | None, ...]) -> OpenTransaction | None:
    seconds, pid, gid, database, user, application, state = values
    if seconds is None:
        return None
    return OpenTransaction(float(seconds), int(pid) if pid else None, gid, database, user, application, state)


def _since(link: Link, restart: str, end: int) -> float | None:
    """The seconds since the file with the restart point was last written; 0: it is the one that is written now."""
    found = link.rows(
        "SELECT extract(epoch FROM pg_catalog.clock_timestamp() - modification) FROM pg_catalog.pg_ls_waldir() "
        f"WHERE name = pg_catalog.pg_walfile_name({link.literal(restart)}) AND name <> pg_catalog.pg_walfile_name("
        f"{link.literal(lsn_text(end))})"
    )
    return max(0.0, float(found[0][0] or 0)) if found else 0.0
