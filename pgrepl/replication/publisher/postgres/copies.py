"""The copies of a server's tables, and the pieces of a large one: ranges of its key, each read in a snapshot of its
own.

A snapshot needs no slot: pg_current_snapshot() tells which transactions it sees. The bounds are keys of a sample. A
key whose order is not that of the pages makes the server read all pages for each range: then there are few.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from itertools import pairwise

from pgrepl.replication.publisher.postgres import published, slots
from pgrepl.replication.publisher.postgres.connection import ServerConnection
from pgrepl.replication.publisher.postgres.copy_columns import ServerRows, restricted
from pgrepl.replication.publisher.postgres.copy_workers import readers
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.published import PublishedColumn, PublishedRows
from pgrepl.replication.publisher.protocol import KeyRanges, PublisherError, TableCopies
from pgrepl.replication.publisher.tables import (
    Bound,
    KeyRange,
    Snapshot,
    TableCopy,
    Undivided,
    WantedRanges,
    is_ordered,
)
from pgrepl.replication.wire.messages import SentRelation
from pgrepl.types.oids import TEXT, VARCHAR
from pgrepl.types.plain import parse_lsn

_TEXTS = (TEXT, VARCHAR)
_IN_ORDER = 0.9  # the least correlation of a key's order with that of the pages
_SCANS = 8  # ranges of a key without such an order
_PAGES = 50  # of the sample for each range: neighbours on a page have neighbouring keys
_LINES = 32  # of a page, of which one is in the sample
_PAGE = 8192  # bytes
_SNAPSHOT_PAUSE = 0.05  # seconds until another snapshot is tried
_ATTEMPTS = 200


def key_of(link: Link, rows: PublishedRows) -> tuple[PublishedColumn, ...] | Undivided:
    """The columns of the replica identity's index or the primary key, if they are sent, and ordered here as there."""
    if rows.kind not in ("r", "p"):
        return Undivided("it is not a table of the publisher's own")
    if link.value("SELECT pg_catalog.pg_is_in_recovery()") == "t":
        return Undivided("the publisher is a standby")
    if link.value("SELECT pg_catalog.current_setting('server_encoding')") != "UTF8":
        return Undivided("the publisher's encoding is not UTF8")
    if rows.replident == "n":
        return Undivided("its REPLICA IDENTITY is NOTHING")
    listed = published.key_names(link, rows)
    if not listed:
        return Undivided("it has no primary key and no index as its replica identity")
    sent = {column.name: column for column in rows.columns}
    key = []
    for name in listed:
        column = sent.get(name)
        if column is None:
            return Undivided(f'column "{name}" of its key is not published')
        if not is_ordered(column.type):
            return Undivided(f'column "{name}" of its key has type {column.type_name}, which is ordered otherwise here')
        key.append(column)
    return tuple(key)


def divide(link: Link, table: str, rows: PublishedRows, key: Sequence[PublishedColumn], count: int) -> list[KeyRange]:
    """About `count` ranges of the key with as many rows in each. `table`: as FROM names it."""
    if not is_in_order(link, rows, key):
        count = min(count, _SCANS)
    pages = float(link.value(f"SELECT relpages FROM pg_catalog.pg_class WHERE oid = {rows.relid}"))
    share = min(100.0, max(0.01, 100.0 * count * _PAGES / pages)) if pages > 0 else 10.0
    names = ", ".join(link.identifier(column.name) for column in key)
    sample = (
        f"(SELECT {names} FROM {table} TABLESAMPLE SYSTEM ({share:.4f}) REPEATABLE (0) "
        f"WHERE (ctid::pg_catalog.text::pg_catalog.point)[1]::pg_catalog.int4 % {_LINES} = 1) sample"
    )
    keys = _keys(link, sample, key)
    return _between([keys[len(keys) * number // count] for number in range(1, count)] if len(keys) >= count else [])


def divide_by_pages(
    link: Link, table: str, rows: PublishedRows, key: Sequence[PublishedColumn], count: int
) -> list[KeyRange]:
    """The same for a table whose order is the key's, without a sample: between the keys of `count` pages."""
    pages = published.size(link, rows) // _PAGE
    wanted = ",".join(f'"({pages * number // count},1)"' for number in range(1, count))
    keys = _keys(link, f"{table} WHERE ctid = ANY ('{{{wanted}}}'::pg_catalog.tid[])", key)
    return _between(keys) if 2 * len(keys) >= count else divide(link, table, rows, key, count)


def _keys(link: Link, source: str, key: Sequence[PublishedColumn]) -> list[tuple[str, ...]]:
    """The keys of some rows, in their order."""
    # without names of their own, the texts would be what ORDER BY means
    texts = ", ".join(
        f"{link.identifier(column.name)}::pg_catalog.text AS text_{number}" for number, column in enumerate(key)
    )
    rows = link.rows(f"SELECT {texts} FROM {source} ORDER BY {_order(link, key)}")
    return [tuple([text or "" for text in row]) for row in rows]


def _between(cuts: Sequence[tuple[str, ...]]) -> list[KeyRange]:
    bounds = [None, *(Bound(cut) for cut in dict.fromkeys(cuts)), None]
    return [KeyRange(lower, upper) for lower, upper in pairwise(bounds)]


def is_in_order(link: Link, rows: PublishedRows, key: Sequence[PublishedColumn]) -> bool:
    """Whether rows that follow each other by the key stand near each other."""
    first = key[0]
    listed = link.rows(
        "SELECT s.correlation, coalesce(co.collname IN ('C', 'POSIX') OR co.collprovider = 'd' AND "
        "(SELECT datcollate IN ('C', 'POSIX') FROM pg_catalog.pg_database "
        "WHERE datname = pg_catalog.current_database()), false) "
        "FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "LEFT JOIN pg_catalog.pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname "
        "AND s.attname = a.attname AND NOT s.inherited "
        "LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation "
        f"WHERE c.oid = {rows.relid} AND a.attname = {link.literal(first.name)}"
    )
    correlation, is_c = listed[0]
    return abs(float(correlation or 0)) >= _IN_ORDER and (first.type not in _TEXTS or is_c == "t")


def _order(link: Link, key: Sequence[PublishedColumn]) -> str:
    return ", ".join(_expression(link, column) for column in key)


def _expression(link: Link, column: PublishedColumn) -> str:
    return link.identifier(column.name) + (' COLLATE "C"' if column.type in _TEXTS else "")


def condition(link: Link, key: Sequence[PublishedColumn], wanted: KeyRange) -> str:
    """The condition in SQL for the keys of a range."""
    order = _order(link, key)

    def side(bound: Bound, sign: str) -> str:
        texts = zip(bound.key, key, strict=True)
        values = ", ".join(f"{link.literal(text)}::{column.type_name}" for text, column in texts)
        return f"({order}) {sign} ({values})"

    parts = []
    if wanted.lower is not None:
        parts.append(side(wanted.lower, ">" if wanted.lower.is_behind else ">="))
    if wanted.upper is not None:
        parts.append(side(wanted.upper, "<=" if wanted.upper.is_behind else "<"))
    return " AND ".join(parts) or "true"


def take_snapshot(link: Link, passed: Collection[int]) -> tuple[Snapshot, int]:
    """Begin a transaction in a snapshot behind everything that the stream has delivered, `passed` among it: the
    snapshot, and an LSN behind all transactions that it sees. A transaction is in the log before it is visible; while
    it waits for a synchronous standby, for as long as that takes."""
    for _ in range(_ATTEMPTS):
        link.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        snapshot = Snapshot.read(link.value("SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text"))
        waiting = link.rows(
            "SELECT backend_xid FROM pg_catalog.pg_stat_activity "
            "WHERE wait_event = 'SyncRep' AND backend_xid IS NOT NULL"
        )
        if not snapshot.has_in_progress(passed) and not snapshot.has_in_progress([int(xid or 0) for (xid,) in waiting]):
            return snapshot, parse_lsn(link.value("SELECT pg_catalog.pg_current_wal_insert_lsn()"))
        link.rows("ROLLBACK")
        time.sleep(_SNAPSHOT_PAUSE)
    raise PublisherError("55000", "ERROR:  transactions that have been received do not become visible")


# --- copies -----------------------------------------------------------------------------------------------------------


_FLUSHED = 2.0  # seconds within which the server flushes what has committed
_PAUSE = 0.05  # seconds until that is looked at again
_COPY_SLOT = "pgrepl_copy_{}"  # name of a copy's slot, by the PID of the walsender


class ServerCopies(TableCopies):
    copies_directly = True

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self.ranges = ServerKeyRanges(connection)

    def copy(self, schema: str, name: str, publications: Sequence[str]) -> TableCopy:
        """The rows are read while they are taken, in the snapshot of a temporary slot, which is dropped afterwards."""
        link = self._connection.reading
        slot = _COPY_SLOT.format(link.backend)
        self._connection.copying = link, slot, None
        lsn = slots.create_for_snapshot(link, slot, temporary=True)
        self._connection.target = max(self._connection.target, lsn)
        rows = published.published_rows(link, schema, name, publications)
        query = published.selection(link, rows, schema, name)
        link.rows(f"{query} LIMIT 0")  # so that the server raises its errors before any row is read
        direct = ServerRows(link, rows, schema, name, self._connection.data_path, self._connection.workers)
        self._connection.copying = link, slot, direct
        return _table_copy(link, published.copied_relation(rows, schema, name), query, lsn, direct)

    def count(self, schema: str, name: str, publications: Sequence[str]) -> int:
        link = self._connection.reading
        rows = published.published_rows(link, schema, name, publications)
        return int(link.value(published.selection(link, rows, schema, name, ["pg_catalog.count(*)"])))


class ServerKeyRanges(KeyRanges):
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    @property
    def readers(self) -> int:
        return readers()

    def settled(self, lsn: int) -> int:
        """What has no commit record may stay unflushed for long, and is not sent before that; a visible transaction
        that did not wait for the disk is flushed within three times wal_writer_delay."""
        link, until = self._connection.reading, time.monotonic() + _FLUSHED
        while (flushed := slots.current_lsn(link)) < lsn and time.monotonic() < until:
            time.sleep(_PAUSE)
        settled = min(flushed, lsn)
        self._connection.target = max(self._connection.target, settled)
        return settled

    def divide(
        self, schema: str, name: str, publications: Sequence[str], size: int
    ) -> tuple[tuple[tuple[str, int], ...], list[KeyRange]] | Undivided | None:
        link = self._connection.reading
        rows = published.published_rows(link, schema, name, publications)
        count = -(-published.size(link, rows) // size)
        if count < 2:
            return None
        count = -(-count // readers()) * readers()  # none is left that one reads alone
        key = key_of(link, rows)
        if isinstance(key, Undivided):
            return key
        only = "" if rows.kind == "p" else "ONLY "
        table = f"{only}{link.identifier(schema)}.{link.identifier(name)}"
        return tuple([(column.name, column.type) for column in key]), divide(link, table, rows, key, count)

    def copy(self, schema: str, name: str, publications: Sequence[str], wanted: WantedRanges) -> TableCopy:
        link = self._connection.reading
        snapshot, lsn = take_snapshot(link, wanted.passed)
        self._connection.copying = link, "", None
        rows = published.published_rows(link, schema, name, publications)
        key = key_of(link, rows)
        if isinstance(key, Undivided):
            raise PublisherError("55000", f'ERROR:  the key of table "{schema}.{name}" has been changed')
        conditions = [condition(link, key, key_range) for key_range in wanted.ranges]
        there = self._connection
        direct = ServerRows(link, rows, schema, name, there.data_path, there.workers, conditions)
        self._connection.copying = link, "", direct
        query = published.selection(link, rows, schema, name)
        joined = restricted(query, rows, f"({' OR '.join(f'({one})' for one in conditions)})")
        return _table_copy(link, published.copied_relation(rows, schema, name), joined, lsn, direct, snapshot)


def _table_copy(
    link: Link, relation: SentRelation, query: str, lsn: int, direct: ServerRows, snapshot: Snapshot | None = None
) -> TableCopy:
    rows = published.copied_rows(link, query, len(relation.columns))
    may_be_binary = link.version >= published.UNITED
    return TableCopy(relation, lsn, rows, direct, direct, may_be_binary=may_be_binary, snapshot=snapshot)
