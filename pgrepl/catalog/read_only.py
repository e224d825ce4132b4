"""Reading a catalog that cannot be written: its file or folder is protected, its file system is read-only, or its disk
is full.

SQLite makes two files beside a catalog before it reads it (`-wal`, `-shm`). Where it cannot:

    another process has them open, or left them over     they are read as they are, and commits of others are seen
    there is no log, or an empty one                     the catalog's file is read as one that does not change
    there is a log that no process has open              a copy of both is read, in the folder for temporary files
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from pgrepl.errors import PgError
from pgrepl.frozen import frozen

_LEAST = 64 * 1024  # bytes of a disk that is not full: SQLite begins with 32 KB


@frozen
class Obstacle:
    """Why a catalog cannot be written."""

    sqlstate: str
    reason: str

    def error(self, name: str) -> PgError:
        return PgError(self.sqlstate, f'catalog "{name}" cannot be written: {self.reason}')


FULL = Obstacle("53100", os.strerror(errno.ENOSPC))


def obstacle(path: Path) -> Obstacle | None:
    """The permissions or the mount that keep SQLite from writing the file and beside it; None: there is no such
    obstacle."""
    folder = path.resolve().parent
    if os.access(path, os.W_OK) and os.access(folder, os.W_OK):
        return None
    mounted = os.statvfs(folder).f_flag & os.ST_RDONLY
    return Obstacle("25006", os.strerror(errno.EROFS if mounted else errno.EACCES))


def is_full(path: Path) -> bool:
    try:
        found = os.statvfs(path.resolve().parent)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _LEAST


@frozen
class ReadOnlyAccess:
    """The way to connect to a catalog in order to read it, and to clean up at the end."""

    connect: Callable[[], sqlite3.Connection]
    close: Callable[[], None]


def reader(path: Path) -> ReadOnlyAccess:
    """Read-only access to the catalog; sqlite3.Error or OSError if it cannot be read either."""
    live = f"file:{quote(str(path))}?mode=ro"
    try:
        with closing(_connected(live)) as tried:
            tried.execute("SELECT count(*) FROM sqlite_master").fetchall()
        return ReadOnlyAccess(lambda: _connected(live), lambda: None)
    except sqlite3.OperationalError:
        log = Path(f"{path.resolve()}-wal")
        if not log.exists() or not log.stat().st_size:
            return ReadOnlyAccess(lambda: _connected(f"{live}&immutable=1"), lambda: None)
    folder = tempfile.mkdtemp(prefix="pgrepl-catalog-")
    copy = os.path.join(folder, "catalog.db")
    try:
        shutil.copyfile(path, copy)
        shutil.copyfile(log, f"{copy}-wal")
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    os.chmod(copy, 0o600)
    return ReadOnlyAccess(lambda: _connected(f"file:{quote(copy)}"), lambda: shutil.rmtree(folder, ignore_errors=True))


def _connected(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=0.2, cached_statements=512
    )
