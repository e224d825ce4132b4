"""The catalog's SQL database: how to connect to it, its transactions, and its driver's errors as PgErrors.

Writers queue: a transaction that changes something takes the one write lock at its start (`BEGIN IMMEDIATE`, an
advisory lock on PostgreSQL) and waits for it, by default up to 30 seconds. Readers never wait (WAL, MVCC).

A commit is on the disk before others see it (`PRAGMA synchronous = FULL`: SQLite syncs its log). One that was begun
with `synchronous_commit = off` is not waited for; `flush` syncs what such commits have left. A catalog in PostgreSQL
is told the setting, and waits as that server does.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

from pgrepl.catalog.store import files
from pgrepl.catalog.store.files import DataFolder, Obstacle
from pgrepl.catalog.store.sql import ADD_TO_SUM, DATA_PATH, VERSION_ON_SERVER
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import check_for_interrupts

FORMAT_VERSION = 16
APPLICATION_ID = 0x7067_726C  # "pgrl", in the header of the SQLite file
LOCK_TIMEOUT = 30.0  # seconds a writer waits for another
_GIVING_UP = 0.8  # seconds that a session which is about to end still waits
_ADVISORY_KEY = APPLICATION_ID
PG_SCHEMA = "pgrepl"
_FILE = "NULL"
_DATABASE = """'postgresql:' || (SELECT system_identifier FROM pg_catalog.pg_control_system()) || '/'
    || (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())"""
_SECRETS = re.compile(r"([?&](?:ssl)?password=)[^&]*")

_connections: WeakSet[CatalogConnection] = WeakSet()  # of this process


@lru_cache(1024)
def for_psycopg(sql: str) -> str:
    """The statement with psycopg's `%s` for each parameter `?`, and `%%` for `%` in quoted names and texts."""
    return re.sub(r"""("[^"]*"|'[^']*')|\?""", lambda match: match[1].replace("%", "%%") if match[1] else "%s", sql)


class CatalogConnection:
    """One connection to the catalog. Its user begins and ends transactions; the driver begins none by itself."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.driver: Any = catalog.open_driver()
        self._cursor: Any = self.driver.cursor()
        self.is_sqlite = catalog.is_sqlite
        self.file = _identity(catalog.path)
        self._gives_up = False
        self._waits = False  # is it waiting for the lock in PostgreSQL?
        self._syncs = True  # SQLite syncs its log with each commit
        self._is_writing = False
        self._sums: dict[str, tuple[int, int]] = {}  # of rows written since they were last stored (declarative.py)
        self.changes = 0  # another number when this connection may have changed something
        _connections.add(self)
        if not self.is_sqlite:
            self._cursor.execute(f"SET search_path = {PG_SCHEMA}, pg_catalog")

    def execute(self, sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        """Run one statement, whose parameters are written `?`, and fetch all of its rows."""
        if not self.is_sqlite:
            sql = for_psycopg(sql)
        try:
            cursor = self._cursor
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description is not None else []
        except self.catalog.driver_error as problem:
            if not self._is_busy(problem):
                raise self.catalog.failure(problem) from problem
        return self._wait_for(sql, parameters, LOCK_TIMEOUT)

    def execute_many(self, sql: str, parameters: Sequence[Any]) -> None:
        try:
            self._cursor.executemany(sql if self.is_sqlite else for_psycopg(sql), parameters)
        except self.catalog.driver_error as problem:
            raise self.catalog.failure(problem) from problem

    @property
    def changed_rows(self) -> int:
        return int(self._cursor.rowcount)

    @property
    def column_names(self) -> list[str]:
        """The columns of the rows that were fetched last."""
        return [column[0] for column in self._cursor.description or ()]

    def begin(self, *, write: bool, lock_timeout: float = LOCK_TIMEOUT, synchronous_commit: str | None = None) -> None:
        """Begin a transaction; `synchronous_commit` is the setting that its commit is most likely to have."""
        self._is_writing = write
        if write:
            self.changes += 1
            self.catalog.check_writable()
        if self.is_sqlite:
            if not write:
                self.execute("BEGIN")
                return
            self._sync_commits(synchronous_commit != "off")
            try:
                self._cursor.execute("BEGIN IMMEDIATE")
            except self.catalog.driver_error as problem:
                if not self._is_busy(problem):
                    raise self.catalog.failure(problem) from problem
                self._wait_for("BEGIN IMMEDIATE", (), lock_timeout)
            return
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ" if not write else "BEGIN")
        if write:
            self._waits = True
            lock_timeout = self.patience(lock_timeout)
            try:
                self.execute(f"SET LOCAL lock_timeout = {int(lock_timeout * 1000)}")
                self.execute("SELECT pg_advisory_xact_lock(%s)", (_ADVISORY_KEY,))
            except PgError as problem:
                if problem.sqlstate == "55P03" or self._gives_up:
                    raise self.catalog.lock_failure(lock_timeout) from problem
                raise
            finally:
                self._waits = False

    def give_up(self) -> None:
        """Wait for no lock longer than `_GIVING_UP` from now on. May be called from any thread."""
        self._gives_up = True
        if self._waits:
            with suppress(*self.catalog.driver_error):
                self.driver.cancel_safe(timeout=_GIVING_UP)

    @property
    def gives_up(self) -> bool:
        """Is its session to wait for nothing any more?"""
        return self._gives_up

    def patience(self, lock_timeout: float) -> float:
        """The seconds to wait for a lock: `lock_timeout`, or less after `give_up`."""
        return min(lock_timeout, _GIVING_UP) if self._gives_up else lock_timeout

    def commit(self, synchronous_commit: str | None = None) -> None:
        """Commit. With `synchronous_commit = off` the commit does not wait for the disk. None: the setting has
        its default; SQLite waits, and a server follows its own configuration."""
        if not self.is_sqlite and synchronous_commit is not None:
            self.execute(f"SET LOCAL synchronous_commit = '{synchronous_commit}'")
        self.store_sums()
        self.execute("COMMIT")
        self.changes += self._is_writing
        if self.is_sqlite and self._is_writing and synchronous_commit != "off":
            if self._syncs:
                self.catalog.sync_folder()
            else:
                self.flush()

    def _sync_commits(self, wanted: bool) -> None:
        """Have SQLite sync its log with each commit from now on, or not. SQLite allows it between transactions only."""
        if wanted != self._syncs:
            self._cursor.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self._syncs = wanted

    def flush(self) -> None:
        """Sync to disk what all sessions have committed so far (XLogFlush)."""
        if self.is_sqlite:
            self.catalog.sync_log()
        elif self.in_transaction:
            other = CatalogConnection(self.catalog)
            try:
                other.flush()
            finally:
                other.close()
        else:
            self.execute("BEGIN")
            self.execute("SET LOCAL synchronous_commit = 'local'")
            self.execute("SELECT pg_catalog.pg_logical_emit_message(true, 'pgrepl', '')")  # for a commit record
            self.execute("COMMIT")

    def savepoint(self, name: str) -> None:
        self.store_sums()
        self.execute(f"SAVEPOINT {name}")

    def rollback_to_savepoint(self, name: str) -> None:
        self._sums.clear()
        self.execute(f"ROLLBACK TO SAVEPOINT {name}")

    def add_to_sum(self, table: str, row_count: int, checksum: int) -> None:
        """Add to what pgrepl_sum says of a table, at the transaction's end."""
        rows, sum_ = self._sums.get(table, (0, 0))
        self._sums[table] = rows + row_count, sum_ + checksum

    def store_sums(self) -> None:
        if self._sums:
            self.execute_many(ADD_TO_SUM, [(table, *added) for table, added in self._sums.items()])
            self._sums.clear()

    def rollback(self) -> None:
        self._sums.clear()
        self.changes += self._is_writing
        if self.in_transaction:
            self.execute("ROLLBACK")

    @property
    def in_transaction(self) -> bool:
        if self.is_sqlite:
            return bool(self.driver.in_transaction)
        return int(self.driver.info.transaction_status) != 0

    def version(self) -> int:
        """A number that differs when another connection has committed since. In PostgreSQL it grows with each
        transaction of pgrepl and with each snapshot of any DuckLake writer."""
        if self.is_sqlite:
            return int(self.execute("PRAGMA data_version")[0][0])
        return int(self.execute(VERSION_ON_SERVER)[0][0])

    def close(self) -> None:
        self._cursor.close()
        self.driver.close()

    def _is_busy(self, problem: Exception) -> bool:
        return self.is_sqlite and files.is_busy(problem)

    def _wait_for(self, sql: str, parameters: Any, timeout: float) -> list[tuple[Any, ...]]:
        began = time.monotonic()
        while True:
            check_for_interrupts()
            try:
                self._cursor.execute(sql, parameters)
                return self._cursor.fetchall() if self._cursor.description is not None else []
            except self.catalog.driver_error as problem:
                if not self._is_busy(problem):
                    raise self.catalog.failure(problem) from problem
                if time.monotonic() - began >= self.patience(timeout):
                    raise self.catalog.lock_failure(timeout) from problem


class Catalog:
    """An opened catalog: where it is and how to connect to it."""

    def __init__(
        self, name: str, path: Path | None, open_driver: Callable[[], Any], error: type[Exception] = sqlite3.Error
    ) -> None:
        """`open_driver` gives a connection of the driver, outside of any transaction; `error` is what it raises."""
        self.name = name  # as the user wrote it, without a password
        self.path = path  # of the SQLite file
        self.open_driver = open_driver
        self.is_sqlite = path is not None
        # a damaged name in SQLite's message about it is no text
        self.driver_error: tuple[type[Exception], ...] = (error, UnicodeDecodeError)
        self.statements: dict[Any, Any] = {}  # compiled once, by store.py
        self.identity = ""  # the file, or which database of which server
        self.system_identifier = 0
        self.data_path = ""  # where the files of its tables are: a folder or a URI that ends in a slash
        self.obstacle: Obstacle | None = None  # why it can only be read
        self.is_rehearsal = False  # a copy in which statements are tried: nothing outside of it is touched
        self.at_close: Callable[[], None] = lambda: None
        self._spare: CatalogConnection | None = None
        self._folder_synced = False

    def connect(self) -> CatalogConnection:
        spare, self._spare = self._spare, None
        if spare is not None:
            return spare
        try:
            return CatalogConnection(self)
        except Exception as problem:
            if isinstance(problem, PgError) or not _is_database_error(problem):
                raise
            if self.is_sqlite:
                failure = self.failure(problem)
                raise fatal(failure.sqlstate, failure.message) from problem
            raise fatal("08006", f'could not open catalog "{self.name}": {files.first_line(problem)}') from problem

    def keep(self, link: CatalogConnection) -> None:
        """Keep a connection that its user has left for who connects next: to open the file costs milliseconds."""
        if self._spare is None and not link.in_transaction:
            self._spare = link
        else:
            link.close()

    def check_writable(self) -> None:
        if self.obstacle is not None:
            raise self.obstacle.error(self.name)

    def probe(self) -> None:
        """Raise PgError if the catalog cannot be opened. The connection is kept for the first session."""
        link = self.connect()
        try:
            link.execute("SELECT count(*) FROM sqlite_master")
        except PgError:
            link.close()
            raise
        self._spare = link

    def sync_log(self) -> None:
        """Sync to disk what was committed to the SQLite file."""
        assert self.path is not None
        try:
            files.sync_log(self.path)
        except OSError as problem:
            raise PgError("58030", f'catalog "{self.name}" cannot be synced: {problem.strerror}') from problem
        self.sync_folder()

    def sync_folder(self) -> None:
        """Sync the folder, for the name of the log in it. SQLite does so only in the connection that made the log."""
        if self.path is not None and not self._folder_synced:
            files.sync_folder(os.path.dirname(os.path.abspath(self.path)))
            self._folder_synced = True

    def close(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None
        self.at_close()

    @property
    def folder(self) -> DataFolder:
        """The folder of the tables' files, and the catalog that owns it."""
        return DataFolder(self.data_path, self.identity, self.system_identifier)

    def check_format(self) -> None:
        """Read the catalog's format, and refuse an unknown one. The connection is kept for the first session."""
        link = self.connect()
        try:
            rows = link.execute(
                f"SELECT format_version, ({DATA_PATH}), system_identifier,"
                f" {_FILE if self.is_sqlite else _DATABASE} FROM pgrepl_instance"
            )
        except PgError as problem:
            link.close()
            raise fatal(problem.sqlstate, problem.message) from problem
        if len(rows) != 1 or rows[0][0] != FORMAT_VERSION:
            link.close()
            raise wrong_version(self.name, rows[0][0] if rows else 0)
        self.data_path, self.system_identifier = str(rows[0][1]), int(rows[0][2])
        self.identity = str(rows[0][3]) if self.path is None else os.path.realpath(self.path)
        self._spare = link

    def lock_failure(self, timeout: float) -> PgError:
        return PgError(
            "55P03",
            f'could not lock catalog "{self.name}" within {timeout:g} s',
            detail="Another session holds an open transaction that has changed the catalog.",
            hint="Finish that transaction, then try again.",
        )

    def failure(self, problem: Exception) -> PgError:
        """A driver's error as a PgError."""
        text, code = files.first_line(problem), files.result_code(problem)
        sqlstate = files.sqlstate(problem)
        if sqlstate == "55P03":
            return self.lock_failure(LOCK_TIMEOUT)
        if sqlstate is not None:
            return PgError("58000", f'catalog "{self.name}" failed: {text}')
        if code == files.CONSTRAINT and ": ducklake_snapshot" in text:
            return PgError("XX001", f'catalog "{self.name}" is damaged: the next snapshot is there already')
        if files.is_damaged(problem) or files.is_not_text(problem):
            return PgError("XX001", f'catalog "{self.name}" is damaged: {text}')
        if code == files.READONLY:
            return PgError("25006", f'catalog "{self.name}" cannot be written: {text}')
        if code == files.FULL:
            return files.DISK_FULL.error(self.name)
        if code in (files.IOERR, files.CANTOPEN):
            if self.path is not None and files.is_full(self.path):
                return files.DISK_FULL.error(self.name)
            return PgError("58030", f'catalog "{self.name}" cannot be read: {text}')
        return PgError("XX000", f'catalog "{self.name}" failed: {text}')


def _identity(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    status = os.stat(path)
    return status.st_dev, status.st_ino


def is_connected(path: Path) -> bool:
    """Has this process connections to the file?"""
    file = _identity(path)
    return any(connection.file == file for connection in list(_connections))


def wrong_version(name: str, version: int) -> PgError:
    if version > FORMAT_VERSION:
        return fatal(
            "0A000",
            f'catalog "{name}" was made by a newer pgrepl: it has format {version}, '
            f"this one knows format {FORMAT_VERSION}",
        )
    return fatal("XX001", f'catalog "{name}" has format {version}, which no pgrepl has written')


def without_password(name: str) -> str:
    """A catalog's name for messages: of a URL the passwords are hidden, which may stand in its query, too."""
    scheme, separator, rest = name.partition("://")
    if not separator:
        return name
    credentials, at, place = rest.rpartition("@")
    if at and ":" in credentials:
        rest = f"{credentials.partition(':')[0]}:***@{place}"
    return scheme + separator + _SECRETS.sub(r"\1***", rest)


def fatal(sqlstate: str, message: str, hint: str | None = None) -> PgError:
    return PgError(sqlstate, message, hint=hint, severity="FATAL")


def _is_database_error(problem: Exception) -> bool:
    return isinstance(problem, (sqlite3.Error, UnicodeDecodeError)) or hasattr(problem, "sqlstate")
