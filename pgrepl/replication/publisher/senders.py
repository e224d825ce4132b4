"""Walsenders of slots, and what a publisher keeps for a slot and why.

    restart point ── held by open transactions ── confirmed ── not confirmed by the subscriber ── end of the WAL

A worker enters itself in the publisher's catalog while it works: a slot is active while it is alive. A lake keeps the
snapshots behind the slot, and the files that only they have.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Protocol

from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.session.sync_rep import walsenders
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, one, update
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

LOST = "lost"  # the wal_status of a slot that cannot be read from any more
_WHY = {  # by pg_replication_slots.invalidation_reason
    "wal_removed": "The server had to keep more WAL for the slot than max_slot_wal_keep_size, and has removed it.",
    "idle_timeout": "The slot has not been read from for longer than the server's idle_replication_slot_timeout.",
    "rows_removed": "The server, a standby, has removed rows of system catalogs that the slot needs.",
    "wal_level_insufficient": "The primary of the server has a wal_level that is lower than logical.",
}
_UNKNOWN = "The server has removed what the slot had to keep, or invalidated it."


def why_invalid(reason: str | None) -> str:
    """Why a slot is lost, in a sentence."""
    return _WHY.get(reason or "", _UNKNOWN)


@frozen
class OpenTransaction:
    """A transaction that has written and is open; so long as it is, the restart points of slots stay before it."""

    seconds: float  # since it began
    pid: int | None  # of its process; None: it is prepared
    gid: str | None = None  # of a prepared one
    database: str | None = None
    user: str | None = None
    application: str | None = None
    state: str | None = None

    @property
    def name(self) -> str:
        return f"process {self.pid}" if self.gid is None else f'prepared transaction "{self.gid}"'


@frozen
class Retained:
    """What a publisher keeps for a slot. Of a lake only `size`, `seconds`, `snapshots` and `is_oldest` have a
    meaning."""

    size: int  # bytes of WAL; of a lake, of files
    seconds: float | None = None  # for so long at least; None: nobody may know
    unconfirmed: int = 0  # bytes of the WAL that the subscriber has not confirmed
    status: str | None = None  # pg_replication_slots.wal_status
    left: int | None = None  # safe_wal_size: bytes that may be written before the slot is in danger; None: any number
    limit: int | None = None  # max_slot_wal_keep_size in bytes; None: there is none
    invalid: str | None = None  # invalidation_reason, where the server knows it
    transaction: OpenTransaction | None = None  # the oldest; None: there is none, or the role may not see it
    sees_all: bool = True  # whether the role may see the transactions of others
    spills: int = 0  # transactions that the server has spilled to its disk for the slot
    spilled: int = 0  # their bytes
    idle: float | None = None  # seconds since the slot was read from; None: it is read from
    idle_limit: float | None = None  # idle_replication_slot_timeout in seconds; None: there is none
    snapshots: int | None = None  # of a lake
    is_oldest: bool = False  # no other slot keeps more


class SlotProbe(Protocol):
    """Asks what a slot retains over a connection of its own, from another thread than the publisher's."""

    def look(self) -> Retained | None:
        """None: there is no such slot."""

    def interrupt(self) -> None:
        """End a look with an error; called from another thread."""

    def close(self) -> None: ...


# --- senders ----------------------------------------------------------------------------------------------------------


@frozen
class WalSender:
    """A worker that is going to read."""

    token: str
    application_name: str
    statement: str  # its START_REPLICATION command, for the log
    role: int = 0
    options: StreamOptions | None = None  # None: the client of a server has given them as text


@frozen
class StreamOptions:
    """How a subscription wants its changes (WalRcvStreamOptions)."""

    publications: tuple[str, ...]
    origin: str
    streaming: str | None = None  # on, parallel
    two_phase: bool = False
    binary: bool = False
    tells: bool = False  # definitions, too (publisher/definitions.py)

    def statement(self, slot: str, lsn: int, version: int = 170000, *, is_lake: bool = False) -> str:
        """START_REPLICATION with what a server of this version knows (libpqrcv_startstreaming)."""
        protocol = next(number for since, number in _PROTOCOLS if version >= since)
        streaming = self.streaming if protocol >= _PARALLEL or self.streaming is None else "on"
        given = {
            "proto_version": str(protocol),
            "streaming": streaming if protocol >= _STREAMING else None,
            "two_phase": "on" if self.two_phase and protocol >= _TWO_PHASE else None,
            "origin": self.origin if version >= _ORIGINS else None,
            "publication_names": ",".join([quoted(name, '"') for name in self.publications]),
            "binary": "true" if self.binary and protocol >= _STREAMING else None,
            "definitions" if is_lake else "messages": "true" if self.tells and protocol >= _STREAMING else None,
        }
        listed = ", ".join([f"{name} {quoted(value, QUOTE)}" for name, value in given.items() if value])
        return f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(lsn)} ({listed})'


QUOTE = "'"
_PROTOCOLS = ((160000, 4), (150000, 3), (140000, 2), (0, 1))  # of pgoutput, by the release that brought them
_STREAMING, _TWO_PHASE, _PARALLEL = 2, 3, 4
_ORIGINS = 160000


def quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, quote * 2) + quote


def active_pid(session: Session, slot: tables.pg_replication_slot, ours: str = "") -> int | None:
    """The process that uses a slot, unless it has the token `ours`."""
    row = one(session, tables.pgrepl_walsender, slot_name=slot.slot_name)
    if row is None:  # a temporary slot belongs to its session
        pid: int | None = slot.active_pid
        return None if slot.temporary and pid == session.pid else pid
    if row.token == ours or not lock_file.is_at_work(row):
        return None
    return int(row.pid)


def user_pid(session: Session, slot: tables.pg_replication_slot) -> int | None:
    """The process that uses a slot."""
    row = one(session, tables.pgrepl_walsender, slot_name=slot.slot_name)
    if row is None:
        pid: int | None = slot.active_pid
        return pid
    return int(row.pid) if lock_file.is_at_work(row) else None


def occupy(session: Session, slot: tables.pg_replication_slot, sender: WalSender) -> None:
    """Enter a worker as the slot's walsender, in a write transaction."""
    pid = active_pid(session, slot, sender.token)
    if pid:
        raise PgError("55006", f'replication slot "{slot.slot_name}" is active for PID {pid}')
    delete(session, tables.pgrepl_walsender, slot_name=slot.slot_name)
    most = int(session.settings.get("max_wal_senders"))
    if len(walsenders(session)) >= most:  # as InitProcess
        raise PgError(
            "53300",
            f'number of requested standby connections exceeds "max_wal_senders" (currently {most})',
            severity="FATAL",
        )
    now = statistics.now()
    insert(
        session,
        tables.pgrepl_walsender,
        slot_name=slot.slot_name,
        token=sender.token,
        pid=lock_file.worker_pid(),
        host=lock_file.machine(),
        beat=lock_file.now(),
        usesysid=sender.role,
        application_name=sender.application_name,
        backend_start=now,
        state="streaming" if (slot.confirmed_flush_lsn or 0) >= current_lsn(session) else "catchup",
        sent_lsn=slot.confirmed_flush_lsn,
        write_lsn=slot.confirmed_flush_lsn,
        flush_lsn=slot.confirmed_flush_lsn,
        replay_lsn=slot.confirmed_flush_lsn,
        reply_time=now,
    )
    update(session, tables.pg_replication_slot, {"slot_name": slot.slot_name}, active_pid=lock_file.worker_pid())


def leave(session: Session, name: str, token: str) -> None:
    if delete(session, tables.pgrepl_walsender, slot_name=name, token=token):
        update(
            session,
            tables.pg_replication_slot,
            {"slot_name": name},
            active_pid=None,
            inactive_since=datetime.now(timezone.utc).isoformat(),
        )


@frozen
class Positions:
    """Up to where a subscriber has written, flushed and applied what it was sent."""

    written: int
    flushed: int
    applied: int


def confirmed(session: Session, name: str, lsn: int, current: int, positions: Positions | None = None) -> None:
    """Enter that the subscriber has all changes before an LSN. `positions`: where it differs."""
    at = positions or Positions(lsn, lsn, lsn)
    row = one(session, tables.pgrepl_walsender, slot_name=name)
    caught_up = lsn >= current or (row is not None and row.state == "streaming")
    update(
        session,
        tables.pgrepl_walsender,
        {"slot_name": name},
        sent_lsn=max(lsn, at.written),
        write_lsn=at.written,
        flush_lsn=at.flushed,
        replay_lsn=at.applied,
        state="streaming" if caught_up else "catchup",
        reply_time=statistics.now(),
        beat=lock_file.now(),
    )
