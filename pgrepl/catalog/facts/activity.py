"""What sessions and copies do, for pg_stat_activity and pg_stat_progress_copy.

The processes of a server share memory with a place for each; elsewhere a session sees itself only. A copy counts its
rows in a `Copying`, which a thread writes into the catalog.
"""

from __future__ import annotations

import marshal
import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, rows, update

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_PLACE = 4096  # bytes of one session
_HEAD = struct.Struct("!II")  # a number that changes with each writing, and the length of what follows
_LOOKS, _MOMENT = 50, 0.001  # how often, and after how many seconds, an entry is looked at that is being written
_MOMENTS = ("xact_start", "query_start", "state_change")
_SEEN = 0.2  # seconds in which a session sees a signal, unless it is in the middle of a long computation
QUERY_BYTES = 1024  # of a query that are shown (track_activity_query_size)


class ActivityTable:
    """The places of all processes; made before they are forked."""

    def __init__(self, places: int) -> None:
        self._memory = mmap.mmap(-1, _PLACE * places)
        self._cancels = mmap.mmap(-1, places)
        self.places = places

    def write(self, place: int, entry: dict[str, Any] | None) -> None:
        """Write a session's entry; None: the place is free."""
        data = b"" if entry is None else marshal.dumps(entry)
        if len(data) > _PLACE - _HEAD.size:
            data = marshal.dumps({**(entry or {}), "query": ""})
        begin = place * _PLACE
        number = _HEAD.unpack_from(self._memory, begin)[0] | 1  # odd while it is being written
        _HEAD.pack_into(self._memory, begin, number, 0)
        self._memory[begin + _HEAD.size : begin + _HEAD.size + len(data)] = data
        _HEAD.pack_into(self._memory, begin, (number + 1) & 0xFFFF_FFFF, len(data))

    def entries(self) -> Iterator[dict[str, Any]]:
        """The entries of processes that are alive. One whose process has ended while writing it is left out."""
        for place in range(self.places):
            data = self._read(place * _PLACE)
            if not data:
                continue
            with suppress(ValueError, EOFError, TypeError):
                entry = marshal.loads(data)
                if os.path.exists(f"/proc/{entry['pid']}"):
                    yield {**shown(entry), "place": place}

    def note_cancel(self, place: int) -> None:
        """Note that the session there has seen a request to cancel its statement."""
        self._cancels[place] = self._cancels[place] + 1 & 0xFF

    def cancels(self, place: int) -> int:
        """A number that changes with each request that it sees."""
        return self._cancels[place]

    def _read(self, begin: int) -> bytes:
        for _ in range(_LOOKS):
            number, length = head = _HEAD.unpack_from(self._memory, begin)
            data = bytes(self._memory[begin + _HEAD.size : begin + _HEAD.size + length])
            if not number & 1 and _HEAD.unpack_from(self._memory, begin) == head:
                return data
            time.sleep(_MOMENT)
        return b""


def found(pid: int) -> dict[str, Any] | None:
    """The entry of the session with this PID."""
    there = table()
    return None if there is None else next((entry for entry in there.entries() if entry["pid"] == pid), None)


def send_signal(entry: Mapping[str, Any], number: int) -> None:
    """Signal the session of an entry; ProcessLookupError if it has ended. The process that serves it now gets the
    signal before any message that is sent from now on, and has seen it unless it computes. To end it, that of its
    connection is told, too: the session may be about to be released (connection_process.py)."""
    pid, there = entry["pid"], table()
    before = None if there is None or "place" not in entry else there.cancels(entry["place"])
    if not _has_signalled(entry.get("process", pid), pid, number) or number == signal.SIGTERM:
        os.kill(pid, number)
    elif there is not None and number == signal.SIGINT:
        until = time.monotonic() + _SEEN
        while there.cancels(entry["place"]) == before and time.monotonic() < until:
            time.sleep(_MOMENT)


def _has_signalled(process: int, parent: int, number: int) -> bool:
    """Signal a child process of the parent, and no other that has got its PID meanwhile."""
    if process == parent or not hasattr(os, "pidfd_open"):
        return False
    with suppress(OSError):
        handle = os.pidfd_open(process)
        try:
            with open(f"/proc/{process}/stat", encoding="latin-1") as file:
                if int(file.read().rpartition(")")[2].split()[1]) != parent:
                    return False
            signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
        return True
    return False


def shown(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with its moments as texts; sessions write them as seconds, which takes less time."""
    for name in _MOMENTS:
        if isinstance(moment := entry.get(name), float):
            entry[name] = datetime.fromtimestamp(moment, timezone.utc).isoformat()
    return entry


def entry_of(session: Session, state: str = "active") -> dict[str, Any]:
    """The present activity of a session, by pg_stat_activity's columns."""
    transaction = session.transaction
    begun, asked = transaction.started_at, transaction.string_at
    return {
        "pid": session.pid, "datid": session.database_oid, "usesysid": session.authenticated_user,
        "application_name": session.settings.get("application_name"), "client_port": -1,
        "xact_start": None if begun is None or state == "idle" else begun.timestamp(),
        "query_start": None if asked is None else asked.timestamp(),
        "state_change": time.time(), "state": state,
        "query": session.query.encode()[:QUERY_BYTES].decode("utf-8", "ignore"), "backend_type": "client backend",
    }  # fmt: skip


def show_process(place: int, kind: str) -> None:
    """Enter this process of a server's, which is no session."""
    if _served is not None:
        now = datetime.now(timezone.utc).isoformat()
        _served.write(place, {"pid": os.getpid(), "backend_start": now, "backend_type": kind})


_served: ActivityTable | None = None


def serve(table: ActivityTable) -> None:
    """Note that this process is one of a server's."""
    global _served
    _served = table


def table() -> ActivityTable | None:
    """The server's table; None: this process is no server's."""
    return _served


# --- copies -----------------------------------------------------------------------------------------------------------


@dataclass
class Copying:
    """One copy: of a table, or of a query (relid 0)."""

    relid: int
    command: str = "COPY FROM"
    kind: str = "CALLBACK"  # pg_stat_progress_copy.type
    bytes_total: int = 0  # 0: unknown
    bytes_processed: int = 0
    tuples_processed: int = 0
    tuples_excluded: int = 0  # by WHERE
    tuples_skipped: int = 0  # by ON_ERROR
    tuples_total: int | None = None
    pieces_total: int = 0  # 0: the table is copied as a whole
    pieces_processed: int = 0
    pid: int = field(default_factory=lock_file.worker_pid)
    _since: tuple[float, int] | None = None  # when it was known how many pieces had been copied before
    _last: float = 0.0  # when the last piece was finished
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, tuples: int, size: int) -> None:
        """Count more rows and bytes; from any thread."""
        with self._lock:
            self.tuples_processed += tuples
            self.bytes_processed += size

    def count_pieces(self, done: int, total: int) -> None:
        """So many pieces of all are copied, those of earlier attempts among them."""
        now = time.monotonic()
        if self._since is None or done < self.pieces_processed:
            self._since = now, done
        if done != self.pieces_processed:
            self._last = now
        self.pieces_processed, self.pieces_total = done, total

    @property
    def seconds_left(self) -> float | None:
        """About how long the other pieces take, if they take as long as those before; None: none has been copied."""
        if self._since is None or self.pieces_processed <= self._since[1]:
            return None
        since, before = self._since
        per_piece = (self._last - since) / (self.pieces_processed - before)
        left = per_piece * (self.pieces_total - self.pieces_processed)
        return max(0.0, left - (time.monotonic() - self._last))


def report(session: Session, token: str, copying: Copying) -> None:
    """Write the copy's counts into pgrepl_copy, in a write transaction."""
    numbers = {
        "bytes_processed": copying.bytes_processed, "bytes_total": copying.bytes_total,
        "tuples_processed": copying.tuples_processed, "tuples_excluded": copying.tuples_excluded,
        "tuples_skipped": copying.tuples_skipped, "pieces_total": copying.pieces_total,
        "pieces_processed": copying.pieces_processed, "seconds_left": copying.seconds_left, "beat": lock_file.now(),
    }  # fmt: skip
    if update(session, tables.pgrepl_copy, {"token": token, "relid": copying.relid}, **numbers):
        return
    for row in rows(session, tables.pgrepl_copy):
        if not lock_file.is_at_work(row):
            delete(session, tables.pgrepl_copy, token=row.token, relid=row.relid)
    insert(
        session,
        tables.pgrepl_copy,
        token=token,
        relid=copying.relid,
        pid=copying.pid,
        host=lock_file.machine(),
        datid=session.database_oid,
        command=copying.command,
        type=copying.kind,
        **numbers,
    )


def ended(session: Session, token: str, relid: int | None = None) -> None:
    """Remove the row of a worker's copy, or of all its copies."""
    if relid is None:
        delete(session, tables.pgrepl_copy, token=token)
    else:
        delete(session, tables.pgrepl_copy, token=token, relid=relid)


def under_way(session: Session) -> list[tables.pgrepl_copy]:
    return [row for row in rows(session, tables.pgrepl_copy) if lock_file.is_at_work(row)]
