"""Replication slots of a server, what it keeps for them, and what a receiver tells the walsender.

The position on this side is authoritative: the origin stores L, the end of the last transaction that was committed
here. The server's slot stands at C, which is confirmed after our commit:

    C = L   as it should be
    C < L   we died before confirming, or the server crashed and remembers an older position: confirm again
    C > L   another reader has consumed the slot, and the changes in between are lost: stop

A position is `written` when everything before it was received, `flushed` when it is committed here, and on disk.
"""

from __future__ import annotations

import time

from pgrepl.ground.frozen import frozen
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.protocol import PublisherError, SlotLag, refused, slot_is_ahead
from pgrepl.replication.publisher.senders import OpenTransaction, Retained, why_invalid
from pgrepl.replication.wire import pgoutput
from pgrepl.types.plain import lsn_text, parse_lsn

FLUSHED = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END"
OPTIONS_IN_PARENTHESES = 150000
_REREAD = 16 << 20  # bytes of log before the slot that are worth a new restart point
_PATIENCE = 2.0  # seconds for a reader that is gone
_PAUSE = 0.02  # seconds until the slot is looked at again

_TWO_PHASE = 150000  # the release whose pgoutput tells of prepared transactions
_STANDBYS = 170000  # the release that knows synchronized_standby_slots
REASONS = 170000  # the release that knows invalidation_reason


@frozen
class SlotPosition:
    """A slot as pg_replication_slots shows it, and the end of the server's log."""

    confirmed: int
    restart: int
    flushed: int
    active_pid: int | None
    wal_status: str
    invalid: str | None  # invalidation_reason, where the server knows it


def current_lsn(link: Link) -> int:
    return parse_lsn(link.value(f"SELECT {FLUSHED}"))


def sendable_lsn(link: Link, name: str) -> int | None:
    """The LSN before which a slot that fails over may send, because standbys have no more (StandbySlotsHaveCaughtup);
    None: it waits for none. The server would let a peek wait."""
    if link.version < _STANDBYS:
        return None
    ((lsn,),) = link.rows(
        "SELECT min(coalesce(standby.restart_lsn, '0/0')) FROM pg_catalog.pg_replication_slots slot, pg_catalog.unnest("
        "pg_catalog.string_to_array(pg_catalog.current_setting('synchronized_standby_slots'), ',')) AS named "
        "LEFT JOIN pg_catalog.pg_replication_slots standby ON standby.slot_type = 'physical' "
        """AND standby.slot_name = pg_catalog.btrim(named, ' "') """
        f"WHERE slot.slot_name = {link.literal(name)} AND slot.failover AND NOT pg_catalog.pg_is_in_recovery()"
    )
    return parse_lsn(lsn) if lsn else None


def create_for_snapshot(link: Link, name: str, *, temporary: bool) -> int:
    """Create a slot whose snapshot the transaction that begins here uses; returns its consistent point."""
    link.rows("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
    kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
    command = f"CREATE_REPLICATION_SLOT {link.identifier(name)} {kind} pgoutput"
    use = " (SNAPSHOT 'use')" if link.version >= OPTIONS_IN_PARENTHESES else " USE_SNAPSHOT"
    return parse_lsn(link.row(command + use)[1] or "")


def copy(link: Link, name: str, other: str) -> None:
    """Create a temporary slot at the position of another, for as long as the connection lives. It may be consumed."""
    names = f"{link.literal(name)}, {link.literal(other)}"
    link.rows(f"SELECT pg_catalog.pg_copy_logical_replication_slot({names}, true)")


def drop_copy(link: Link, name: str) -> None:
    """Drop the copy, if there is one."""
    link.rows(
        "SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots "
        f"WHERE slot_name = {link.literal(name)}"
    )


def drop(link: Link, name: str) -> None:
    link.rows(f"DROP_REPLICATION_SLOT {link.identifier(name)} WAIT")


def end_reader(link: Link, name: str) -> None:
    """End the walsender that sends from the slot, if there is one."""
    link.rows(
        "SELECT pg_catalog.pg_terminate_backend(active_pid) FROM pg_catalog.pg_replication_slots "
        f"WHERE slot_name = {link.literal(name)} AND active_pid IS NOT NULL"
    )


def position(link: Link, name: str) -> SlotPosition | None:
    reason = "invalidation_reason" if link.version >= REASONS else "NULL"
    listed = link.rows(
        f"SELECT confirmed_flush_lsn, restart_lsn, {FLUSHED}, active_pid, coalesce(wal_status, 'lost'), {reason} "
        f"FROM pg_catalog.pg_replication_slots WHERE slot_name = {link.literal(name)} AND slot_type = 'logical'"
    )
    if not listed:
        return None
    confirmed, restart, flushed, pid, status, invalid = listed[0]
    reader = int(pid) if pid else None
    return SlotPosition(_lsn(confirmed), _lsn(restart), _lsn(flushed), reader, status or "", invalid)


def _lsn(text: str | None) -> int:
    return parse_lsn(text) if text else 0


def lag(link: Link, name: str) -> SlotLag | None:
    slot = position(link, name)
    if slot is None:
        return None
    held_back = sendable_lsn(link, name)
    held_back = None if held_back is None else min(held_back, slot.flushed)
    return SlotLag(slot.confirmed, slot.restart, slot.flushed, slot.active_pid, slot.wal_status, held_back)


def check_free(link: Link, name: str) -> SlotPosition:
    """The slot, if it exists and no process reads from it (ReplicationSlotAcquire). A reader that was killed or cut off
    has it for a moment longer, until the server notices: PostgreSQL's subscriber fails then, and comes again."""
    until = time.monotonic() + _PATIENCE
    while (slot := position(link, name)) is not None:
        if slot.active_pid is None:
            return slot
        if time.monotonic() > until:
            raise PublisherError("55006", f'ERROR:  replication slot "{name}" is active for PID {slot.active_pid}')
        time.sleep(_PAUSE)
    raise PublisherError("42704", f'ERROR:  replication slot "{name}" does not exist')


def start(link: Link, name: str, lsn: int, *, tell: bool = True) -> int:
    """The LSN from which the slot sends; everything before `lsn` is committed here, and is confirmed to the server."""
    slot = check_free(link, name)
    if slot.wal_status == "lost":
        raise PublisherError(
            "55000",
            f'ERROR:  can no longer get changes from replication slot "{name}"\n'
            f"DETAIL:  {why_invalid(slot.invalid)}\n"
            "HINT:  Let pgrepl repair make a new slot, and bring the tables to it.",
        )
    if not lsn:
        return slot.confirmed
    if lsn > slot.flushed:
        raise PublisherError(
            "55000",
            f"ERROR:  the publisher's log ends at {lsn_text(slot.flushed)}, before {lsn_text(lsn)}, up to where its "
            "changes are applied here\n"
            "DETAIL:  This is another server, or one that was restored from an older backup.\n"
            "HINT:  Drop the subscription, empty its tables and create it again.",
        )
    if slot.confirmed > lsn:
        raise refused(slot_is_ahead(name, slot.confirmed, lsn))
    if tell:
        advance(link, name, lsn)
        bring_restart_forward(link, name)
    return lsn


def can_two_phase(link: Link) -> bool:
    return link.version >= _TWO_PHASE


def advance(link: Link, name: str, lsn: int) -> None:
    """Everything before `lsn` is flushed here; never backwards."""
    slot = position(link, name)
    if slot is not None and slot.confirmed >= lsn:
        return
    link.rows(f"SELECT pg_catalog.pg_replication_slot_advance({link.literal(name)}, {link.literal(lsn_text(lsn))})")


def bring_restart_forward(link: Link, name: str) -> None:
    """A reader begins at the slot's restart point, and has to decode all log since then. It moves only at records of
    running transactions: a confirmation moves it to the first of them, and the same one once more to the last, which
    costs far less than to decode. The server writes such a record now and then, or, for the next time, when it is asked
    to."""
    slot = position(link, name)
    if slot is None or slot.confirmed - slot.restart < _REREAD:
        return
    confirmed = link.literal(lsn_text(slot.confirmed))
    link.rows(f"SELECT pg_catalog.pg_replication_slot_advance({link.literal(name)}, {confirmed})")
    may = "pg_catalog.has_function_privilege('pg_catalog.pg_log_standby_snapshot()', 'EXECUTE')"
    if link.version >= 160000 and link.value(f"SELECT {may} AND NOT pg_catalog.pg_is_in_recovery()") == "t":
        link.rows("SELECT pg_catalog.pg_log_standby_snapshot()")


# --- retained ---------------------------------------------------------------------------------------------------------


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
    sees_files = sees_files and not link.is_lake  # which has no WAL
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
    ages = link.rows(
        "SELECT extract(epoch FROM pg_catalog.clock_timestamp() - modification) FROM pg_catalog.pg_ls_waldir() "
        f"WHERE name = pg_catalog.pg_walfile_name({link.literal(restart)}) AND name <> pg_catalog.pg_walfile_name("
        f"{link.literal(lsn_text(end))})"
    )
    return max(0.0, float(ages[0][0] or 0)) if ages else 0.0


TIMED_OUT = "terminating logical replication worker due to timeout"
_MOMENT = 0.005  # seconds after which a written position is told


class Feedback:
    """The positions of one stream, and the moments of its last messages."""

    def __init__(self, start: int, interval: float, timeout: float | None, now: float) -> None:
        """`interval`, `timeout`: seconds; 0 or None: none."""
        self.written = self.flushed = start
        self._interval = interval
        self._timeout = timeout or 0.0
        self._heard_at = self._told_at = now
        self._told = 0, 0
        self._asked = True  # the server waits for an answer; and it is told at first where the receiver stands
        self._asks = False  # the server was asked for an answer

    def hear(self, now: float) -> None:
        """Note that something has come from the server."""
        self._heard_at, self._asks = now, False

    def answer(self) -> None:
        """Note that the server asks for an answer."""
        self._asked = True

    def due(self, now: float) -> bytes | None:
        """The message to be sent now; an error if the server has been silent for too long."""
        silent = now - self._heard_at
        if self._timeout and silent >= self._timeout:
            raise PublisherError("08006", TIMED_OUT)
        asks = bool(self._timeout) and not self._asks and silent >= self._timeout / 2
        if not (self._asked or asks or now >= self._next(now)):
            return None
        self._told, self._told_at, self._asked = (self.written, self.flushed), now, False
        self._asks = self._asks or asks
        return pgoutput.STATUS.pack(b"r", self.written, self.flushed, self.flushed, pgoutput.now(), asks)

    def wait(self, now: float) -> float:
        """The seconds until something may be due."""
        if self._asked:
            return 0.0
        moments = [self._next(now)]
        if self._timeout:
            moments.append(self._heard_at + self._timeout / (1 if self._asks else 2))
        return max(0.0, min(moments) - now)

    def _next(self, now: float) -> float:
        """When the positions are to be told."""
        written, flushed = self._told
        if self.flushed > flushed:
            return now
        if self.written > written:
            return self._told_at + _MOMENT
        return self._told_at + self._interval if self._interval else now + 3600.0
