"""The walsenders of slots: PostgreSQL's WAL senders.

A worker enters itself in the publisher's catalog while it works, with its position. A slot is active while that worker
is alive.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pgrepl.catalog import processes, statistics, tables
from pgrepl.catalog.numbering import current_lsn
from pgrepl.catalog.store import delete, insert, one, update
from pgrepl.catalog.sync_rep import is_alive, walsenders
from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


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

    def statement(self, slot: str, lsn: int, version: int = 170000) -> str:
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
    if row.token == ours or not is_alive(row):
        return None
    return int(row.pid)


def user_pid(session: Session, slot: tables.pg_replication_slot) -> int | None:
    """The process that uses a slot."""
    row = one(session, tables.pgrepl_walsender, slot_name=slot.slot_name)
    if row is None:
        pid: int | None = slot.active_pid
        return pid
    return int(row.pid) if is_alive(row) else None


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
        pid=processes.worker_pid(),
        host=processes.machine(),
        beat=processes.now(),
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
    update(session, tables.pg_replication_slot, {"slot_name": slot.slot_name}, active_pid=processes.worker_pid())


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
        beat=processes.now(),
    )
