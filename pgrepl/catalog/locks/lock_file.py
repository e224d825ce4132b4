"""The file of the lock table, `catalog.db-locks`, and whether the processes that it lists are alive.

A process of this machine is known by PID and start time, another one by its heartbeat; each worker has a token of its
own.

    holder    a transaction that holds locks or waits for one, with its process
    lock      what it holds
    waiting   what it waits for; the ticket is its place in the queue
    listener  a session that listens to channels; all notifications up to its position it has seen
    snapshot  one that a transaction lets others use
    notification   what sessions of its database have yet to see

Locks end with their processes, except those of prepared transactions, which the catalog remembers: nothing is synced.
A file that was copied along, or is older than the machine's start, is made anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.store import files
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import hold_interrupts

if TYPE_CHECKING:
    from pgrepl.catalog.store.tables import pgrepl_copy, pgrepl_meeting, pgrepl_walsender, pgrepl_worker

SILENCE = 60.0  # seconds after which a process elsewhere counts as gone
SIGN_OF_LIFE = 10.0  # seconds between two heartbeats
_STUCK = 600.0  # seconds without a heartbeat after which a worker of a living process here counts as gone
_LONGEST = 86400.0  # seconds that a transaction on another machine keeps its locks

STARTED = time.time()  # when this process began, about: this module is among the first

_at_work: set[str] = set()  # the tokens of this process
_known_as = 0  # the PID of the process that this one works for; 0: it works for none


def machine() -> str:
    return os.uname().nodename


def now() -> float:
    return time.time()


def work_for(pid: int) -> None:
    """Note that this process works for another one, by whose PID it is known."""
    global _known_as
    _known_as = pid


def session_pid() -> int:
    """The PID by which users know the sessions of this process."""
    return _known_as or os.getpid()


def worker_pid() -> int:
    """The running thread's number in the kernel (of the first thread the process's), on other systems the process's."""
    number = threading.get_native_id() if sys.platform == "linux" else os.getpid()
    return session_pid() if number == os.getpid() else number


@cache
def boot() -> str:
    """The id of the machine's last start; empty: the system has none."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""


def new_token() -> str:
    """A token for a worker of this process, valid until it is retired."""
    token = f"{_started(os.getpid())}.{os.urandom(8).hex()}.{os.getpid()}"
    _at_work.add(token)
    return token


def retire(token: str) -> None:
    _at_work.discard(token)


def is_alive(pid: int) -> bool:
    """Is there a process with this PID on this machine?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def is_at_work(row: pgrepl_copy | pgrepl_meeting | pgrepl_walsender | pgrepl_worker) -> bool:
    """Is the worker alive that has the row? `beat` is its last heartbeat."""
    silent = now() - row.beat
    if row.host != machine():
        return silent < SILENCE
    return _has_token(row.pid, row.token) and (silent < _STUCK or row.token in _at_work)


def holds(pid: int, host: str, token: str, since: float) -> bool:
    """Is the transaction's process alive? A transaction has no heartbeat; `since` is its start."""
    if host != machine():
        return now() - since < _LONGEST
    return _has_token(pid, token)


def _has_token(pid: int, token: str) -> bool:
    """Is the process alive that has made the token? It is the one with this PID unless the token names another."""
    started, _, rest = token.partition(".")
    _, _, named = rest.partition(".")
    process = int(named) if named else pid
    if process == os.getpid():
        return token in _at_work
    return is_alive(process) and _started(process) == started


def _started(pid: int) -> str:
    """The start of a process, in the kernel's ticks; empty: not known."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19].decode()
    return ""


# --- lock file --------------------------------------------------------------------------------------------------------


_OF_LOCKS = """
CREATE TABLE file (identity TEXT);
CREATE TABLE holder (id INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER, backend TEXT, host TEXT, token TEXT,
    beat REAL, database INTEGER, prepared TEXT);
CREATE TABLE lock (kind TEXT, object INTEGER, item INTEGER, holder INTEGER, mode INTEGER, level INTEGER,
    PRIMARY KEY (kind, object, item, holder, mode)) WITHOUT ROWID;
CREATE INDEX lock_of_holder ON lock (holder);
CREATE TABLE waiting (ticket INTEGER PRIMARY KEY AUTOINCREMENT, holder INTEGER, kind TEXT, object INTEGER,
    item INTEGER, mode INTEGER, since REAL);
"""
_OF_NOTIFICATIONS = """
CREATE TABLE listener (id INTEGER PRIMARY KEY, database INTEGER, pid INTEGER, host TEXT, token TEXT, beat REAL,
    signalled INTEGER, position INTEGER);
CREATE TABLE notification (number INTEGER PRIMARY KEY AUTOINCREMENT, database INTEGER, channel TEXT, payload TEXT,
    pid INTEGER, size INTEGER);
"""
_OF_SNAPSHOTS = """
CREATE TABLE snapshot (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, lsn INTEGER, database INTEGER, pid INTEGER,
    host TEXT, token TEXT, beat REAL, serializable INTEGER, read_only INTEGER);
PRAGMA user_version = 3
"""
_VERSIONS = ((1, _OF_LOCKS), (2, _OF_NOTIFICATIONS), (3, _OF_SNAPSHOTS))  # of the file, and what each has brought
_DAMAGED = (files.CORRUPT, files.NOTADB, files.ERROR)  # the file has other tables than ours
_PATIENCE = 30.0  # seconds to wait for another process that writes here


def path_of(catalog: Path) -> Path:
    return catalog.with_name(f"{catalog.name}-locks")


class LockLink(sqlite3.Connection):
    """A connection whose errors are PgErrors: the disk is full, the file is damaged."""

    path: Path

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().execute(*arguments)
        except sqlite3.DatabaseError as problem:
            raise self._failure(problem) from problem

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().executemany(*arguments)
        except sqlite3.DatabaseError as problem:
            raise self._failure(problem) from problem

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A transaction, which no interrupt breaks off: one that is left open would stop all sessions."""
        with hold_interrupts():
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self.in_transaction:
                    self.rollback()
                raise

    def _failure(self, problem: sqlite3.DatabaseError) -> PgError:
        """The error, after a rollback."""
        if self.in_transaction:
            self.rollback()
        if files.is_full(self.path):
            return files.DISK_FULL.error(str(self.path))
        damaged = files.result_code(problem) in _DAMAGED
        return PgError("XX001" if damaged else "58030", f'file "{self.path}" cannot be used: {problem}')


class LockFile:
    def __init__(self, catalog: Path) -> None:
        self._catalog = catalog
        self._path = path_of(catalog)
        self._link: LockLink | None = None

    def exists(self) -> bool:
        return self._link is not None or os.path.exists(self._path)

    def open(self) -> LockLink:
        if self._link is None:
            self._link = self._opened()
        return self._link

    def _opened(self) -> LockLink:
        try:
            link = self._connected()
        except PgError as problem:
            if problem.sqlstate != "XX001":
                raise
        else:
            if self._is_of_this_start(link):
                return link
            link.close()
        with self._alone():
            return self._begun_anew()

    def _connected(self) -> LockLink:
        if not os.path.exists(self._path):
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        link = sqlite3.connect(
            self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, factory=LockLink
        )
        link.path = self._path
        try:
            link.execute("PRAGMA synchronous = OFF")
            if self._version(link) < _VERSIONS[-1][0]:
                link.execute("PRAGMA journal_mode = WAL")
                with link.changing():
                    version = self._version(link)
                    for number, statements in _VERSIONS:
                        if number > version:
                            for statement in statements.split(";"):
                                link.execute(statement)
                    if version == 0:
                        link.execute("INSERT INTO file VALUES (?)", (self._identity(),))
                        self._restore(link)
            self._keep_to_one_file(link)
        except BaseException:
            link.close()
            raise
        return link

    def _version(self, link: LockLink) -> int:
        return int(link.execute("PRAGMA user_version").fetchone()[0])

    def _identity(self) -> str:
        status = os.stat(self._path)
        return f"{status.st_dev}:{status.st_ino} {boot()}"

    def _keep_to_one_file(self, link: LockLink) -> None:
        """Empty the file if it is a copy: its locks are those of another catalog's sessions."""
        known = link.execute("SELECT identity FROM file").fetchone()
        identity = self._identity()
        if known is not None and (known[0] == identity or not known[0].endswith(f" {boot()}")):
            return
        with link.changing():
            for table in ("file", "lock", "waiting", "holder", "listener", "notification", "snapshot"):
                link.execute(f"DELETE FROM {table}")
            link.execute("INSERT INTO file VALUES (?)", (identity,))
            self._restore(link)

    def _restore(self, link: LockLink) -> None:
        """Enter the locks of prepared transactions that the catalog remembers."""
        for holder, xid, gid, database, locks in self._remembered("holder, xid, gid, datid, locks"):
            link.execute(
                "INSERT INTO holder (id, pid, backend, host, token, beat, database, prepared)"
                " VALUES (?, 0, '', '', '', 0, ?, ?)",
                (holder, database, f"{xid} {gid}"),
            )
            link.executemany(
                "INSERT OR IGNORE INTO lock (kind, object, item, holder, mode, level) VALUES (?, ?, ?, ?, ?, 0)",
                [(kind, about, item, holder, mode) for kind, about, item, mode in json.loads(locks)],
            )

    def _remembered(self, columns: str) -> list[Any]:
        """Columns of the catalog's pgrepl_prepared; none where an older catalog has no such table."""
        catalog = sqlite3.connect(self._catalog, timeout=_PATIENCE)
        try:
            return catalog.execute(f"SELECT {columns} FROM pgrepl_prepared").fetchall()
        except sqlite3.OperationalError as problem:
            if files.result_code(problem) != files.ERROR:
                raise
            return []
        finally:
            catalog.close()

    def _is_of_this_start(self, link: LockLink) -> bool:
        row: tuple[str] | None = link.execute("SELECT identity FROM file").fetchone()
        return row == (self._identity(),)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process at a time delete and make the file."""
        handle = os.open(self._path.parent, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _begun_anew(self) -> LockLink:
        try:
            link = self._connected()
            if self._is_of_this_start(link):  # another process was faster
                return link
            link.close()
        except PgError as problem:
            if problem.sqlstate != "XX001":
                raise
        for end in ("", "-wal", "-shm"):
            Path(f"{self._path}{end}").unlink(missing_ok=True)
        return self._connected()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
