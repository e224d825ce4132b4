"""The progress of running copies, which pg_stat_progress_copy shows, and of pieces pgrepl_stat_progress_copy.

A copy counts its rows in a `Copying`; a thread writes the counts into the catalog every now and then. The row of a
process that has died is removed when another copy begins.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgrepl.catalog import processes, tables
from pgrepl.catalog.store import delete, insert, rows, update

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


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
    pid: int = field(default_factory=processes.worker_pid)
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
        each = (self._last - since) / (self.pieces_processed - before)
        left = each * (self.pieces_total - self.pieces_processed)
        return max(0.0, left - (time.monotonic() - self._last))


def report(session: Session, token: str, copying: Copying) -> None:
    """Write the copy's counts into pgrepl_copy, in a write transaction."""
    numbers = {
        "bytes_processed": copying.bytes_processed, "bytes_total": copying.bytes_total,
        "tuples_processed": copying.tuples_processed, "tuples_excluded": copying.tuples_excluded,
        "tuples_skipped": copying.tuples_skipped, "pieces_total": copying.pieces_total,
        "pieces_processed": copying.pieces_processed, "seconds_left": copying.seconds_left, "beat": processes.now(),
    }  # fmt: skip
    if update(session, tables.pgrepl_copy, {"token": token, "relid": copying.relid}, **numbers):
        return
    for row in rows(session, tables.pgrepl_copy):
        if not _is_under_way(row):
            delete(session, tables.pgrepl_copy, token=row.token, relid=row.relid)
    insert(
        session,
        tables.pgrepl_copy,
        token=token,
        relid=copying.relid,
        pid=copying.pid,
        host=processes.machine(),
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
    return [row for row in rows(session, tables.pgrepl_copy) if _is_under_way(row)]


def _is_under_way(row: tables.pgrepl_copy) -> bool:
    return processes.is_at_work(row.pid, row.host, row.token, row.beat)
