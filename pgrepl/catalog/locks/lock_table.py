"""The locks of all sessions of an instance, in a small SQLite database beside the catalog (lock.c, heapam.c).

Relations have PostgreSQL's eight modes, rows its four strengths, keys of unique indexes one; who has changed
definitions holds the catalog as a whole. A session that finds a lock in its way removes those of killed processes.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from enum import Enum, IntEnum
from pathlib import Path
from typing import NamedTuple

from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.locks.lock_file import LockFile


class LockKind(Enum):
    RELATION = "relation"
    ROW = "row"
    KEY = "key"  # of a unique index, by its hash
    CHANGE = "change"  # of a row with unique keys: an UPDATE or DELETE that has not committed
    CATALOG = "catalog"
    ADVISORY = "advisory"  # by a number of the user's
    NOTIFY = "notify"  # of a database: the right to commit notifications


class RelationMode(IntEnum):
    ACCESS_SHARE = 1
    ROW_SHARE = 2
    ROW_EXCLUSIVE = 3
    SHARE_UPDATE_EXCLUSIVE = 4
    SHARE = 5
    SHARE_ROW_EXCLUSIVE = 6
    EXCLUSIVE = 7
    ACCESS_EXCLUSIVE = 8


class RowMode(IntEnum):
    KEY_SHARE = 1
    SHARE = 2
    NO_KEY_UPDATE = 3
    UPDATE = 4


MODE_NAMES = {
    1: "AccessShareLock", 2: "RowShareLock", 3: "RowExclusiveLock", 4: "ShareUpdateExclusiveLock", 5: "ShareLock",
    6: "ShareRowExclusiveLock", 7: "ExclusiveLock", 8: "AccessExclusiveLock",
}  # fmt: skip

_RELATION_CONFLICTS = {
    1: (8,),
    2: (7, 8),
    3: (5, 6, 7, 8),
    4: (4, 5, 6, 7, 8),
    5: (3, 4, 6, 7, 8),
    6: (3, 4, 5, 6, 7, 8),
    7: (2, 3, 4, 5, 6, 7, 8),
    8: (1, 2, 3, 4, 5, 6, 7, 8),
}
_ROW_CONFLICTS = {1: (4,), 2: (3, 4), 3: (2, 3, 4), 4: (1, 2, 3, 4)}
# the relation mode in which a waiter for a row queues (tupleLockExtraInfo)
TUPLE_MODES = {1: 1, 2: 2, 3: 7, 4: 8}
EXCLUSIVE = 7  # of keys and of the catalog

ROW_MODES = {
    "KEY SHARE": RowMode.KEY_SHARE,
    "SHARE": RowMode.SHARE,
    "NO KEY UPDATE": RowMode.NO_KEY_UPDATE,
    "UPDATE": RowMode.UPDATE,
}


def conflicts(kind: LockKind, mode: int) -> tuple[int, ...]:
    """The modes that others may not hold beside this one."""
    if kind in (LockKind.RELATION, LockKind.ADVISORY):
        return _RELATION_CONFLICTS[mode]
    return _ROW_CONFLICTS[mode] if kind is LockKind.ROW else (EXCLUSIVE,)


# --- lock table -------------------------------------------------------------------------------------------------------


_FIRST_XID = 700  # as a new cluster has it, more or less
# locks of others on what a statement works on
_OF_OTHERS = "SELECT 1 FROM lock WHERE holder IS NOT ? AND kind NOT IN ('advisory', 'notify') LIMIT 1"
SESSION_LEVEL = -1  # the level of locks that are not their transaction's, but their session's


class LockRequest(NamedTuple):
    """One lock that a session asks for. `item` is a row id or the hash of a key."""

    kind: LockKind
    object: int
    item: int
    mode: int


class Waiter(NamedTuple):
    ticket: int
    holder: int
    wanted: LockRequest
    since: float


class Holder(NamedTuple):
    id: int
    pid: int
    backend: str
    database: int
    prepared: str | None  # number and identifier of a prepared transaction, which needs no process

    @property
    def xid(self) -> int:
        return _FIRST_XID + self.id if self.prepared is None else int(self.prepared.partition(" ")[0])


class LockTable(LockFile):
    def __init__(self, catalog: Path) -> None:
        super().__init__(catalog)
        self._seen: int | None = None  # the file's version at which no other transaction held a lock

    # --- prepared transactions --------------------------------------------------------------------------------------

    def prepare(self, holder: int, name: str) -> None:
        """Name a transaction that is being prepared. If its process dies before the catalog's commit, its locks go."""
        self.open().execute("UPDATE holder SET prepared = ? WHERE id = ?", (name, holder))

    def finish_prepare(self, holder: int) -> None:
        """Free a transaction of its process, once the catalog has it as prepared."""
        self.open().execute("UPDATE holder SET pid = 0, token = '' WHERE id = ?", (holder,))
        self._seen = None

    def claim(self, holder: int, pid: int, token: str) -> None:
        """Give a prepared transaction to the process that is about to end it. If that dies, the catalog says whether
        the locks go."""
        self.open().execute(
            "UPDATE holder SET pid = ?, token = ?, host = ?, beat = ? WHERE id = ?",
            (pid, token, lock_file.machine(), lock_file.now(), holder),
        )

    # --- holders ----------------------------------------------------------------------------------------------------

    def enter(self, pid: int, backend: str, token: str, database: int) -> Holder:
        link = self.open()
        values = (pid, backend, lock_file.machine(), token, lock_file.now(), database)
        cursor = link.execute(
            "INSERT INTO holder (pid, backend, host, token, beat, database) VALUES (?, ?, ?, ?, ?, ?)", values
        )
        assert cursor.lastrowid is not None
        return Holder(cursor.lastrowid, pid, backend, database, None)

    def leave(self, holder: int) -> None:
        """Remove a transaction that is over."""
        link = self.open()
        with link.changing():
            self._remove(link, holder)

    def _remove(self, link: sqlite3.Connection, holder: int) -> None:
        link.execute("DELETE FROM lock WHERE holder = ?", (holder,))
        link.execute("DELETE FROM waiting WHERE holder = ?", (holder,))
        link.execute("DELETE FROM holder WHERE id = ?", (holder,))

    def end_transaction(self, holder: int) -> None:
        """Release the locks of a transaction that is over; the session keeps its own."""
        link = self.open()
        with link.changing():
            link.execute("DELETE FROM lock WHERE holder = ? AND level <> ?", (holder, SESSION_LEVEL))
            link.execute("DELETE FROM waiting WHERE holder = ?", (holder,))

    def move_session_locks(self, holder: int, to: int) -> None:
        """Leave a transaction that is being prepared without the locks of its session."""
        self.open().execute("UPDATE lock SET holder = ? WHERE holder = ? AND level = ?", (to, holder, SESSION_LEVEL))

    def holders(self) -> dict[int, Holder]:
        holders = self.open().execute("SELECT id, pid, backend, database, prepared FROM holder").fetchall()
        return {row[0]: Holder(*row) for row in holders}

    def has_others(self, holder: int | None) -> bool:
        """Does another transaction hold a lock? Each statement asks, so the answer costs next to nothing."""
        if not self.exists():
            return False
        link = self.open()
        version = int(link.execute("PRAGMA data_version").fetchone()[0])
        if version == self._seen:
            return False
        if link.execute(_OF_OTHERS, (holder,)).fetchone() is None:
            self._seen = version
            return False
        self.remove_dead_holders(holder)
        return link.execute(_OF_OTHERS, (holder,)).fetchone() is not None

    def remove_dead_holders(self, holder: int | None) -> None:
        """Remove the locks that killed processes have left."""
        link = self.open()
        others = link.execute(
            "SELECT id, prepared, pid, host, token, beat FROM holder WHERE id IS NOT ? AND pid <> 0", (holder,)
        ).fetchall()
        dead = {row[0]: row[1] for row in others if not lock_file.holds(*row[2:])}
        known = {row[0] for row in self._remembered("holder")} if any(dead.values()) else set()
        for number in known.intersection(dead):
            self.finish_prepare(number)
        gone = [number for number in dead if number not in known]
        if gone:
            with link.changing():
                for number in gone:
                    self._remove(link, number)

    # --- locks ------------------------------------------------------------------------------------------------------

    def take(
        self, holder: int, wanted: Sequence[LockRequest], level: int, ticket: int | None = None
    ) -> LockRequest | None:
        """Take the locks one after the other. The first that is not granted is returned, those before it are held;
        None: all are held. Waiters behind `ticket` are not waited for."""
        link = self.open()
        with link.changing():
            blocked = self._first_blocked(link, holder, wanted, ticket)
            upto = len(wanted) if blocked is None else blocked
            if upto:
                link.executemany(
                    "INSERT OR IGNORE INTO lock (kind, object, item, holder, mode, level) VALUES (?, ?, ?, ?, ?, ?)",
                    [(w.kind.value, w.object, w.item, holder, w.mode, level) for w in wanted[:upto]],
                )
            if blocked is None and ticket is not None:
                link.execute("DELETE FROM waiting WHERE ticket = ?", (ticket,))
        return None if blocked is None else wanted[blocked]

    def _first_blocked(
        self, link: sqlite3.Connection, holder: int, wanted: Sequence[LockRequest], ticket: int | None
    ) -> int | None:
        contested: dict[tuple[LockKind, int], bool] = {}
        for number, request in enumerate(wanted):
            about = (request.kind, request.object)
            if about not in contested:
                contested[about] = bool(
                    link.execute(
                        "SELECT 1 FROM lock WHERE kind = ? AND object = ? AND holder <> ? UNION ALL"
                        " SELECT 1 FROM waiting WHERE kind = ? AND object = ? AND holder <> ? LIMIT 1",
                        (request.kind.value, request.object, holder) * 2,
                    ).fetchone()
                )
            if contested[about] and self._is_blocked(link, holder, request, ticket):
                return number
        return None

    def _is_blocked(self, link: sqlite3.Connection, holder: int, wanted: LockRequest, ticket: int | None) -> bool:
        if self._conflicting_holders(link, holder, wanted):
            return True
        # a transaction that waits longer and could have it now goes first; one that holds a lock on it need not queue
        if self._held_modes(link, holder, wanted):
            return False
        return any(
            not self._conflicting_holders(link, waiter.holder, waiter.wanted)
            for waiter in self._waiting_for(link, wanted)
            if waiter.holder != holder
            and (ticket is None or waiter.ticket < ticket)
            and queue_conflict(wanted, waiter.wanted)
        )

    def _held_modes(self, link: sqlite3.Connection, holder: int, wanted: LockRequest) -> list[int]:
        modes = link.execute(
            "SELECT mode FROM lock WHERE kind = ? AND object = ? AND item = ? AND holder = ?",
            (wanted.kind.value, wanted.object, wanted.item, holder),
        )
        return [row[0] for row in modes]

    def _conflicting_holders(self, link: sqlite3.Connection, holder: int, wanted: LockRequest) -> list[int]:
        modes = conflicts(wanted.kind, wanted.mode)
        holders = link.execute(
            f"SELECT DISTINCT holder FROM lock WHERE kind = ? AND object = ? AND item = ? AND holder <> ?"
            f" AND mode IN ({', '.join(map(str, modes))}) ORDER BY holder",
            (wanted.kind.value, wanted.object, wanted.item, holder),
        )
        return [row[0] for row in holders]

    def conflicting_holders(self, holder: int, wanted: LockRequest) -> list[int]:
        return self._conflicting_holders(self.open(), holder, wanted)

    def held(self) -> list[tuple[int, LockRequest]]:
        """All locks, with their holders."""
        locks = self.open().execute("SELECT holder, kind, object, item, mode FROM lock")
        return [(row[0], LockRequest(LockKind(row[1]), *row[2:])) for row in locks]

    def held_by(self, holder: int) -> list[LockRequest]:
        """The locks of a transaction, without those of its session."""
        locks = self.open().execute(
            "SELECT kind, object, item, mode FROM lock WHERE holder = ? AND level <> ?", (holder, SESSION_LEVEL)
        )
        return [LockRequest(LockKind(row[0]), *row[1:]) for row in locks]

    def with_transaction(self) -> set[int]:
        """The holders whose transaction holds a lock or waits for one; others have locks of their session only."""
        holders = self.open().execute(
            "SELECT holder FROM lock WHERE level <> ? UNION SELECT holder FROM waiting", (SESSION_LEVEL,)
        )
        return {row[0] for row in holders}

    def set_level(self, holder: int, lock: LockRequest, level: int) -> None:
        """Make a lock that is held the session's, or the transaction's since a savepoint."""
        self.open().execute(
            "UPDATE lock SET level = ? WHERE kind = ? AND object = ? AND item = ? AND holder = ? AND mode = ?",
            (level, lock.kind.value, lock.object, lock.item, holder, lock.mode),
        )

    def release(self, holder: int, lock: LockRequest) -> None:
        self.open().execute(
            "DELETE FROM lock WHERE kind = ? AND object = ? AND item = ? AND holder = ? AND mode = ?",
            (lock.kind.value, lock.object, lock.item, holder, lock.mode),
        )

    def release_after(self, holder: int, level: int) -> None:
        """Release the locks that were taken after a savepoint, which is rolled back."""
        self.open().execute("DELETE FROM lock WHERE holder = ? AND level > ?", (holder, level))

    def is_held_by_others(
        self, holder: int | None, kind: LockKind, objects: Iterable[int], modes: Iterable[int]
    ) -> bool:
        locks = self.open().execute(
            f"SELECT 1 FROM lock WHERE kind = ? AND object IN ({', '.join(map(str, objects))})"
            f" AND mode IN ({', '.join(map(str, map(int, modes)))}) AND holder IS NOT ? LIMIT 1",
            (kind.value, holder),
        )
        return locks.fetchone() is not None

    def locked_by_others(self, holder: int | None, kind: LockKind, oid: int) -> set[int]:
        """The rows or keys of a table that other transactions have locked."""
        locks = self.open().execute(
            "SELECT item FROM lock WHERE kind = ? AND object = ? AND holder IS NOT ?", (kind.value, oid, holder)
        )
        return {row[0] for row in locks}

    # --- waiting ----------------------------------------------------------------------------------------------------

    def wait(self, holder: int, wanted: LockRequest) -> int:
        """Queue for a lock; returns the ticket."""
        cursor = self.open().execute(
            "INSERT INTO waiting (holder, kind, object, item, mode, since) VALUES (?, ?, ?, ?, ?, ?)",
            (holder, wanted.kind.value, wanted.object, wanted.item, wanted.mode, time.time()),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def give_up(self, ticket: int) -> None:
        self.open().execute("DELETE FROM waiting WHERE ticket = ?", (ticket,))

    def waiters(self) -> list[Waiter]:
        waiters = self.open().execute("SELECT ticket, holder, kind, object, item, mode, since FROM waiting ORDER BY 1")
        return [Waiter(row[0], row[1], LockRequest(LockKind(row[2]), *row[3:6]), row[6]) for row in waiters]

    def _waiting_for(self, link: sqlite3.Connection, wanted: LockRequest) -> list[Waiter]:
        waiters = link.execute(
            "SELECT ticket, holder, kind, object, item, mode, since FROM waiting"
            " WHERE kind = ? AND object = ? AND item = ? ORDER BY ticket",
            (wanted.kind.value, wanted.object, wanted.item),
        ).fetchall()
        return [Waiter(row[0], row[1], LockRequest(LockKind(row[2]), *row[3:6]), row[6]) for row in waiters]

    def blockers(self, waiter: Waiter) -> list[tuple[int, bool]]:
        """The transactions that a waiter waits for: holders of the lock, and (True) those before it in the queue."""
        link = self.open()
        hard = self._conflicting_holders(link, waiter.holder, waiter.wanted)
        if self._held_modes(link, waiter.holder, waiter.wanted):  # it does not queue
            return [(blocker, False) for blocker in hard]
        soft = [
            other.holder
            for other in self._waiting_for(link, waiter.wanted)
            if other.ticket < waiter.ticket
            and other.holder not in hard
            and other.holder != waiter.holder
            and queue_conflict(waiter.wanted, other.wanted)
        ]
        return [*((blocker, False) for blocker in hard), *((blocker, True) for blocker in dict.fromkeys(soft))]


def queue_conflict(one: LockRequest, other: LockRequest) -> bool:
    """Does a request have to queue behind the other?"""
    if one.kind is LockKind.ROW:
        return TUPLE_MODES[other.mode] in conflicts(LockKind.RELATION, TUPLE_MODES[one.mode])
    return other.mode in conflicts(one.kind, one.mode)
