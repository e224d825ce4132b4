"""The files of a catalog: syncing, the driver's errors by their codes, reading what cannot be written, and the data
folder's owner.

A catalog that cannot be written is read as it is; if a log is there that no process has open, a copy of both is read.

Paths in the catalog are relative to its data folder. A folder has one owner, because VACUUM removes files that its
catalog does not list. A mark (`.owner`) counts as long as its catalog is there and has its files in this folder:

    cp -r A B           B has its own files; the mark that came along names A, which has its files elsewhere: it is B's
    mv A B              the mark names A, which is gone: it is B's
    cp A/catalog.db B   B reads A's files. It cannot write until it has files of its own
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from pgrepl.catalog.store import sql
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen


def sync(path: str | os.PathLike[str]) -> None:
    """Force a file or a folder of this machine to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Force the names in a folder to the disk, where the file system and its permissions allow that (fsync_fname)."""
    try:
        sync(path)
    except OSError as problem:
        if problem.errno not in (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOENT):
            raise


def sync_log(catalog: str | os.PathLike[str]) -> None:
    """Force the write-ahead log of a catalog in SQLite to the disk, whichever process wrote to it. Without a log, all
    commits are in the catalog's own file, which was synced.

    Another process that restarts the log meanwhile first syncs it and copies it to the catalog."""
    with suppress(FileNotFoundError):
        sync(f"{os.fspath(catalog)}-wal")


# --- driver errors ----------------------------------------------------------------------------------------------------


ERROR, BUSY, LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, CONSTRAINT, NOTADB = 1, 5, 6, 8, 10, 11, 13, 14, 19, 26

# the texts of sqlite3_errstr, for Python 3.10: its exceptions have no sqlite_errorcode yet
_TEXTS = {
    "database is locked": BUSY,
    "database table is locked": LOCKED,
    "database schema is locked": LOCKED,
    "attempt to write a readonly database": READONLY,
    "disk I/O error": IOERR,
    "database disk image is malformed": CORRUPT,
    "malformed database schema": CORRUPT,
    "database or disk is full": FULL,
    "unable to open database": CANTOPEN,
    "UNIQUE constraint failed": CONSTRAINT,
    "file is not a database": NOTADB,
    "no such table": ERROR,
    "no such column": ERROR,
}


def result_code(problem: BaseException) -> int:
    """SQLite's primary result code; 0: the error is not SQLite's."""
    if not isinstance(problem, sqlite3.Error):
        return 0
    code: int | None = getattr(problem, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF
    text = str(problem)
    return next((code for start, code in _TEXTS.items() if text.startswith(start)), 0)


def sqlstate(problem: BaseException) -> str | None:
    """The SQLSTATE of a PostgreSQL server's error."""
    code: str | None = getattr(problem, "sqlstate", None)
    return code


def is_busy(problem: BaseException) -> bool:
    """Does another connection hold the lock of the SQLite file?"""
    return result_code(problem) in (BUSY, LOCKED)


def is_damaged(problem: BaseException) -> bool:
    """Is the file no SQLite database, or does it lack a table or a column?"""
    code, text = result_code(problem), first_line(problem)
    return code in (CORRUPT, NOTADB) or (code == ERROR and text.startswith(("no such table", "no such column")))


def is_not_text(problem: BaseException) -> bool:
    """Is a value, or a name in a message, not UTF-8?"""
    return isinstance(problem, UnicodeDecodeError) or "decode to UTF-8" in first_line(problem)


def first_line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    return lines[0] if lines else type(problem).__name__


# --- read only --------------------------------------------------------------------------------------------------------


_LEAST = 64 * 1024  # bytes of a disk that is not full: SQLite begins with 32 KB


@frozen
class Obstacle:
    """Why a catalog cannot be written."""

    sqlstate: str
    reason: str

    def error(self, name: str) -> PgError:
        return PgError(self.sqlstate, f'catalog "{name}" cannot be written: {self.reason}')


DISK_FULL = Obstacle("53100", os.strerror(errno.ENOSPC))


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
        disk = os.statvfs(path.resolve().parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LEAST


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


# --- data folder ------------------------------------------------------------------------------------------------------


MARK = ".owner"  # in the folder
BESIDE = ".files/"  # behind the name of the catalog


@frozen
class DataFolder:
    """A folder or URI that ends in a slash, and the catalog whose files are in it."""

    path: str
    catalog: str  # its file, or the identity of a database on a server
    system_identifier: int

    @property
    def mark(self) -> bytes:
        return json.dumps({"catalog": self.catalog, "system_identifier": str(self.system_identifier)}).encode() + b"\n"

    def other_owner(self, mark: bytes) -> str | None:
        """The catalog that a mark names, if it is another one that still owns the folder. A folder without a mark
        belongs to the catalog that it stands beside."""
        path = self.path.removeprefix("file://")
        try:
            said = json.loads(mark)
            name, identifier = str(said["catalog"]), int(said["system_identifier"])
        except (ValueError, KeyError, TypeError):
            if not path.endswith(BESIDE) or "://" in path:
                return None
            name, identifier = path.removesuffix(BESIDE), None
        if (name, identifier) == (self.catalog, self.system_identifier):
            return None
        return name if _has_files_in(name, identifier, self) else None


def _has_files_in(name: str, identifier: int | None, folder: DataFolder) -> bool:
    """Is there a catalog of this name with its files in the folder? Yes for one on a server, which is not queried."""
    if not name.startswith("/"):
        return True
    try:
        os.stat(name)
        if os.path.exists(folder.catalog) and os.path.samefile(name, folder.catalog):
            return False
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    asked = _asked(Path(name))
    return asked is None or (identifier in (None, asked[0]) and same_folder(asked[1], folder.path))


def _asked(catalog: Path) -> tuple[int, str] | None:
    """The system identifier and the data path of a catalog; (0, ""): it is no catalog; None: it cannot be read now."""
    try:
        with closing(sqlite3.connect(f"{catalog.as_uri()}?mode=rw", uri=True)) as link:
            row = link.execute(f"SELECT system_identifier, ({sql.DATA_PATH}) FROM pgrepl_instance").fetchone()
    except sqlite3.DatabaseError as problem:
        return (0, "") if result_code(problem) in (ERROR, NOTADB) else None
    return None if row is None else (int(row[0]), str(row[1]))


def same_folder(one: str, other: str) -> bool:
    one, other = one.removeprefix("file://"), other.removeprefix("file://")
    if one == other:
        return True
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def local_mark(path: str) -> bytes:
    """The mark in a folder of this machine; empty: there is none."""
    try:
        return Path(path.removeprefix("file://"), MARK).read_bytes()
    except OSError:
        return b""
