"""Cumulative statistics of relations, databases and slots (pgstat.c), of the engines and of subscriptions.

Counters are kept in memory and added to the file `catalog.db.stats` beside the catalog at most once a second, when a
session ends, and when a query reads them. As PostgreSQL's they are no part of any transaction, and a crash may lose
the last of them; a damaged file is begun anew. For a catalog on a server each process has counters of its own.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_index

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession
    from pgrepl.catalog.store.connection import Catalog

RELATION, DATABASE, SLOT, ENGINE, SUBSCRIPTION = "relation", "database", "replslot", "engine", "subscription"
Key = tuple[str, int, str]  # kind, database, and an OID, a slot's name or a kind of work
Values = dict[str, Any]

_INTERVAL = 1.0  # PGSTAT_MIN_INTERVAL
_PATIENCE = 0.2
_TABLE = (
    "CREATE TABLE IF NOT EXISTS stat (kind TEXT, datid INTEGER, object TEXT, name TEXT, value,"
    " PRIMARY KEY (kind, datid, object, name)) WITHOUT ROWID"
)
# numbers are added; a time replaces an older one
_ADD = (
    "INSERT INTO stat VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET value ="
    " CASE WHEN typeof(excluded.value) = 'integer' THEN value + excluded.value ELSE excluded.value END"
)


class Counters:
    """The counters of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._path = None if catalog.path is None else f"{catalog.path}.stats"
        self._lock = threading.Lock()
        self._pending: dict[Key, Values] = {}
        self._flushed = time.monotonic()

    def add(self, kind: str, database: int, name: object, changes: Values) -> None:
        with self._lock:
            known = self._pending.setdefault((kind, database, str(name)), {})
            _join(known, changes)

    def end_transaction(self) -> None:
        """Flush the counters if the last flush is a second ago."""
        if time.monotonic() - self._flushed >= _INTERVAL:
            self.flush()

    def end_session(self) -> None:
        """Flush the counters. Transactions alone make no file."""
        if any(kind != DATABASE for kind, _, _ in self._pending) or (self._path and os.path.exists(self._path)):
            self.flush()

    def flush(self) -> None:
        """Add the counters to the file. Those that cannot be written now are kept."""
        self._flushed = time.monotonic()
        with self._lock:
            if self._path is None or not self._pending:
                return
            pending, self._pending = self._pending, {}
            rows = [(*key, name, value) for key, values in pending.items() for name, value in values.items()]
            if not self._in_file(lambda link: link.executemany(_ADD, rows), create=True):
                self._pending = pending

    def read(self, kind: str) -> dict[tuple[int, str], Values]:
        """The counters of a kind, by database and object."""
        self.flush()
        totals: dict[tuple[int, str], Values] = {}

        def take(link: sqlite3.Connection) -> None:
            for database, name, counter, value in link.execute(
                "SELECT datid, object, name, value FROM stat WHERE kind = ?", (kind,)
            ):
                totals.setdefault((database, name), {})[counter] = value

        self._in_file(take)
        with self._lock:
            for (of_kind, database, name), values in self._pending.items():
                if of_kind == kind:
                    _join(totals.setdefault((database, name), {}), values)
        return totals

    def forget(self, kind: str, database: int | None = None, name: object = None) -> None:
        """Reset the counters of a kind, or of one database or object."""
        self.flush()
        names = {"kind": kind, "datid": database, "object": None if name is None else str(name)}
        given = {column: value for column, value in names.items() if value is not None}
        with self._lock:
            for key in [key for key in self._pending if all(key[_AT[c]] == value for c, value in given.items())]:
                del self._pending[key]
        condition = " AND ".join(f"{column} = ?" for column in given)
        self._in_file(lambda link: link.execute(f"DELETE FROM stat WHERE {condition}", tuple(given.values())))

    def _in_file(self, work: Callable[[sqlite3.Connection], object], *, create: bool = False) -> bool:
        """Do something with the file; whether that succeeded. A damaged file is removed."""
        path = self._path
        if path is None or not (create or os.path.exists(path)):
            return False
        try:
            if not os.path.exists(path):
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as link:
                link.execute("PRAGMA synchronous = OFF")
                link.execute("PRAGMA journal_mode = MEMORY")
                link.execute("BEGIN IMMEDIATE")
                link.execute(_TABLE)
                work(link)
                link.execute("COMMIT")
        except (sqlite3.OperationalError, OSError):  # another process has its lock, or it cannot be written
            return False
        except sqlite3.DatabaseError:
            with suppress(OSError):
                os.unlink(path)
            return False
        return True


_AT = {"kind": 0, "datid": 1, "object": 2}


def _join(known: Values, changes: Values) -> None:
    for name, value in changes.items():
        known[name] = known.get(name, 0) + value if isinstance(value, int) else value


_of: WeakKeyDictionary[Catalog, Counters] = WeakKeyDictionary()
_lock = threading.Lock()


def counters(catalog: Catalog) -> Counters:
    with _lock:
        known = _of.get(catalog)
        if known is None:
            known = _of[catalog] = Counters(catalog)
        return known


def count(session: CatalogSession, kind: str, name: object, **changes: Any) -> None:
    """Add to counters of the session's database; slots belong to none."""
    database = 0 if kind == SLOT else session.database_oid
    counters(session.catalog).add(kind, database, name, changes)


def count_scan(session: CatalogSession, oid: int, rows: int) -> None:
    """Count a sequential scan: rows that were read, of all files or of those that may have matching rows."""
    count(session, RELATION, oid, seq_scan=1, seq_tup_read=rows, last_seq_scan=now())


def count_index_scans(session: CatalogSession, oid: int, attnums: Collection[int], keys: int) -> None:
    """Count look-ups of rows by columns. The lake has no indexes; they count for the index that PostgreSQL would use:
    the replica identity, the primary key, or another whose first column is among these."""
    indexes = [row for row in rows(session, pg_index, indrelid=oid) if row.indkey and row.indpred is None]
    indexes = [row for row in indexes if row.indkey[0] in attnums and 0 not in row.indkey]
    indexes.sort(key=lambda row: (not row.indisreplident, not row.indisprimary, not row.indisunique, row.indexrelid))
    if indexes and keys:
        count(session, RELATION, indexes[0].indexrelid, scans=keys, last_idx_scan=now())
        count(session, RELATION, oid, idx_scan=keys, last_idx_scan=now())


def now() -> str:
    """The present time as the catalog keeps it."""
    return datetime.now(timezone.utc).isoformat(sep=" ")
