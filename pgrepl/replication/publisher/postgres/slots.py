"""Replication slots of a server, and their positions.

The position on this side is authoritative: the origin stores L, the end of the last transaction that was committed
here. The server's slot stands at C, which is confirmed after our commit:

    C = L   as it should be
    C < L   we died before confirming, or the server crashed and remembers an older position: confirm again
    C > L   another reader has consumed the slot, and the changes in between are lost: stop

A new subscription has no L yet and begins at C.
"""

from __future__ import annotations

import time

from pgrepl.frozen import frozen
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.protocol import PublisherError, SlotLag, refused, slot_is_ahead
from pgrepl.replication.publisher.retained import why_invalid
from pgrepl.types.lsn import lsn_text, parse_lsn

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
    ((found,),) = link.rows(
        "SELECT min(coalesce(standby.restart_lsn, '0/0')) FROM pg_catalog.pg_replication_slots slot, pg_catalog.unnest("
        "pg_catalog.string_to_array(pg_catalog.current_setting('synchronized_standby_slots'), ',')) AS named "
        "LEFT JOIN pg_catalog.pg_replication_slots standby ON standby.slot_type = 'physical' "
        """AND standby.slot_name = pg_catalog.btrim(named, ' "') """
        f"WHERE slot.slot_name = {link.literal(name)} AND slot.failover AND NOT pg_catalog.pg_is_in_recovery()"
    )
    return parse_lsn(found) if found else None


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
    found = position(link, name)
    if found is None:
        return None
    held_back = sendable_lsn(link, name)
    held_back = None if held_back is None else min(held_back, found.flushed)
    return SlotLag(found.confirmed, found.restart, found.flushed, found.active_pid, found.wal_status, held_back)


def check_free(link: Link, name: str) -> SlotPosition:
    """The slot, if it exists and no process reads from it (ReplicationSlotAcquire). A reader that was killed or cut off
    has it for a moment longer, until the server notices: PostgreSQL's subscriber fails then, and comes again."""
    until = time.monotonic() + _PATIENCE
    while (found := position(link, name)) is not None:
        if found.active_pid is None:
            return found
        if time.monotonic() > until:
            raise PublisherError("55006", f'ERROR:  replication slot "{name}" is active for PID {found.active_pid}')
        time.sleep(_PAUSE)
    raise PublisherError("42704", f'ERROR:  replication slot "{name}" does not exist')


def start(link: Link, name: str, lsn: int, *, tell: bool = True) -> int:
    """The LSN from which the slot sends; everything before `lsn` is committed here, and is confirmed to the server."""
    found = check_free(link, name)
    if found.wal_status == "lost":
        raise PublisherError(
            "55000",
            f'ERROR:  can no longer get changes from replication slot "{name}"\n'
            f"DETAIL:  {why_invalid(found.invalid)}\n"
            "HINT:  Let pgrepl repair make a new slot, and bring the tables to it.",
        )
    if not lsn:
        return found.confirmed
    if lsn > found.flushed:
        raise PublisherError(
            "55000",
            f"ERROR:  the publisher's log ends at {lsn_text(found.flushed)}, before {lsn_text(lsn)}, up to where its "
            "changes are applied here\n"
            "DETAIL:  This is another server, or one that was restored from an older backup.\n"
            "HINT:  Drop the subscription, empty its tables and create it again.",
        )
    if found.confirmed > lsn:
        raise refused(slot_is_ahead(name, found.confirmed, lsn))
    if tell:
        advance(link, name, lsn)
        bring_restart_forward(link, name)
    return lsn


def can_two_phase(link: Link) -> bool:
    return link.version >= _TWO_PHASE


def advance(link: Link, name: str, lsn: int) -> None:
    """Everything before `lsn` is flushed here; never backwards."""
    found = position(link, name)
    if found is not None and found.confirmed >= lsn:
        return
    link.rows(f"SELECT pg_catalog.pg_replication_slot_advance({link.literal(name)}, {link.literal(lsn_text(lsn))})")


def bring_restart_forward(link: Link, name: str) -> None:
    """A reader begins at the slot's restart point, and has to decode all log since then. It moves only at records of
    running transactions: a confirmation moves it to the first of them, and the same one once more to the last, which
    costs far less than to decode. The server writes such a record now and then, or, for the next time, when it is asked
    to."""
    found = position(link, name)
    if found is None or found.confirmed - found.restart < _REREAD:
        return
    confirmed = link.literal(lsn_text(found.confirmed))
    link.rows(f"SELECT pg_catalog.pg_replication_slot_advance({link.literal(name)}, {confirmed})")
    may = "pg_catalog.has_function_privilege('pg_catalog.pg_log_standby_snapshot()', 'EXECUTE')"
    if link.version >= 160000 and link.value(f"SELECT {may} AND NOT pg_catalog.pg_is_in_recovery()") == "t":
        link.rows("SELECT pg_catalog.pg_log_standby_snapshot()")
