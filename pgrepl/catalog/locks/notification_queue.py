"""The queue of notifications, in the file of the lock table (async.c).

What a transaction tells is entered when it has committed, if anybody listens in its database. Each listener has a
position, up to which it has seen the queue; what all have seen is deleted. Listeners of a server are woken by a signal;
others look whether the file has changed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.catalog.locks import lock_file

if TYPE_CHECKING:
    from pgrepl.catalog.locks.lock_table import LockTable

PAGE = 8192  # bytes
_HEAD = 18  # bytes of an entry besides channel and payload (AsyncQueueEntryEmptySize)
_LARGEST = _HEAD + 64 + 8000


class Notification(NamedTuple):
    channel: str
    payload: str
    pid: int  # of the session that notified


def entry_size(channel: str, payload: str) -> int:
    """The bytes that PostgreSQL's queue needs for a notification."""
    return (_HEAD + len(channel.encode()) + len(payload.encode()) + 3) & ~3


class NotificationQueue:
    """The queue, as a session of one database uses it."""

    def __init__(self, table: LockTable, database: int) -> None:
        self._table = table
        self._database = database
        self._version = -1  # of the file, when the listener last looked
        self.listener: int | None = None  # this session's

    # --- telling ----------------------------------------------------------------------------------------------------

    def has_listeners(self) -> bool:
        """Does a session of the database listen?"""
        if not self._table.exists():
            return False
        link = self._table.open()
        return (
            link.execute("SELECT 1 FROM listener WHERE database = ? LIMIT 1", (self._database,)).fetchone() is not None
        )

    def used(self, most: int) -> int:
        """The bytes of all notifications in the queue, if they can be about as many as `most`."""
        if not self._table.exists():
            return 0
        link = self._table.open()
        first, last = link.execute("SELECT min(number), max(number) FROM notification").fetchone()
        if first is None or (last - first + 1) * _LARGEST < most:
            return 0
        return int(link.execute("SELECT total(size) FROM notification").fetchone()[0])

    def furthest_behind(self) -> int:
        """The PID of the listener that has seen the least of the queue."""
        return int(self._table.open().execute("SELECT pid FROM listener ORDER BY position LIMIT 1").fetchone()[0])

    def publish(self, messages: Iterable[tuple[str, str]], pid: int) -> None:
        """Enter notifications, and wake the listeners."""
        link = self._table.open()
        rows = [(self._database, channel, payload, pid, entry_size(channel, payload)) for channel, payload in messages]
        with link.changing():
            if not self.has_listeners():
                return
            link.executemany(
                "INSERT INTO notification (database, channel, payload, pid, size) VALUES (?, ?, ?, ?, ?)", rows
            )
        self._version = -1  # for a session that hears itself: its own commit does not change the file's version
        self._wake()

    def _wake(self) -> None:
        link = self._table.open()
        listeners = link.execute(
            "SELECT pid, host, token, beat FROM listener WHERE database = ? AND signalled AND id IS NOT ?",
            (self._database, self.listener),
        ).fetchall()
        for pid, host, token, beat in listeners:
            if host == lock_file.machine() and lock_file.holds(pid, host, token, beat):
                with suppress(OSError):  # it has just ended, or belongs to another user
                    os.kill(pid, signal.SIGUSR1)

    # --- listening --------------------------------------------------------------------------------------------------

    def listen(self, pid: int, token: str, *, signalled: bool) -> None:
        """Enter the session as a listener, who hears what is published from now on."""
        link = self._table.open()
        self.listener = link.execute(
            "INSERT INTO listener (database, pid, host, token, beat, signalled, position)"
            " SELECT ?, ?, ?, ?, ?, ?, coalesce(max(number), 0) FROM notification",
            (self._database, pid, lock_file.machine(), token, lock_file.now(), signalled),
        ).lastrowid

    def leave(self) -> None:
        if self.listener is not None:
            link = self._table.open()
            link.execute("DELETE FROM listener WHERE id = ?", (self.listener,))
            self.listener = None
            self._clean()

    def take(self, channels: Collection[str]) -> list[Notification]:
        """The notifications in these channels since the last time."""
        link = self._table.open()
        version = int(link.execute("PRAGMA data_version").fetchone()[0])
        if version == self._version:
            return []
        self._version = version
        rows = link.execute(
            "SELECT number, channel, payload, pid FROM notification WHERE database = ? AND number >"
            " (SELECT position FROM listener WHERE id = ?) ORDER BY number",
            (self._database, self.listener),
        ).fetchall()
        if rows:
            link.execute("UPDATE listener SET position = ? WHERE id = ?", (rows[-1][0], self.listener))
            self._clean()
        return [Notification(*row[1:]) for row in rows if row[1] in channels]

    def _clean(self) -> None:
        """Delete what all listeners of the database have seen. The one that is furthest behind goes, if its process has
        died."""
        link = self._table.open()
        listeners = link.execute(
            "SELECT id, position, pid, host, token, beat FROM listener WHERE database = ?", (self._database,)
        ).fetchall()
        last = min(listeners, key=lambda row: row[1], default=None)
        if last is not None and not lock_file.holds(*last[2:]):
            link.execute("DELETE FROM listener WHERE id = ?", (last[0],))
        link.execute(
            "DELETE FROM notification WHERE database = ? AND number <= coalesce("
            "(SELECT min(position) FROM listener WHERE database = ?), number)",
            (self._database, self._database),
        )
