"""The copies of a server's tables."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pgrepl.replication.publisher.postgres import key_ranges, published, slots, tables
from pgrepl.replication.publisher.postgres.connection import ServerConnection
from pgrepl.replication.publisher.postgres.copy_columns import ServerRows
from pgrepl.replication.publisher.postgres.copy_workers import readers
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.protocol import KeyRanges, PublisherError, TableCopies
from pgrepl.replication.publisher.table_copy import TableCopy, Undivided, WantedRanges
from pgrepl.replication.wire.copy_ranges import KeyRange, Snapshot
from pgrepl.replication.wire.messages import SentRelation

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
        link = self._connection.link
        slot = _COPY_SLOT.format(link.backend)
        self._connection.copying = link, slot, None
        lsn = slots.create_for_snapshot(link, slot, temporary=True)
        self._connection.target = max(self._connection.target, lsn)
        rows = published.published_rows(link, schema, name, publications)
        query = tables.selection(link, rows, schema, name)
        link.rows(f"{query} LIMIT 0")  # so that the server raises its errors before any row is read
        direct = ServerRows(link, rows, schema, name, self._connection.data_path, self._connection.workers)
        self._connection.copying = link, slot, direct
        return _table_copy(link, tables.copied_relation(rows, schema, name), query, lsn, direct)

    def count(self, schema: str, name: str, publications: Sequence[str]) -> int:
        link = self._connection.link
        rows = published.published_rows(link, schema, name, publications)
        return int(link.value(tables.selection(link, rows, schema, name, ["pg_catalog.count(*)"])))


class ServerKeyRanges(KeyRanges):
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    @property
    def readers(self) -> int:
        return readers()

    def settled(self, lsn: int) -> int:
        """What has no commit record may stay unflushed for long, and is not sent before that; a visible transaction
        that did not wait for the disk is flushed within three times wal_writer_delay."""
        link, until = self._connection.link, time.monotonic() + _FLUSHED
        while (flushed := slots.current_lsn(link)) < lsn and time.monotonic() < until:
            time.sleep(_PAUSE)
        found = min(flushed, lsn)
        self._connection.target = max(self._connection.target, found)
        return found

    def divide(
        self, schema: str, name: str, publications: Sequence[str], size: int
    ) -> tuple[tuple[tuple[str, int], ...], list[KeyRange]] | Undivided | None:
        link = self._connection.link
        rows = published.published_rows(link, schema, name, publications)
        count = -(-published.size(link, rows) // size)
        if count < 2:
            return None
        count = -(-count // readers()) * readers()  # none is left that one reads alone
        key = key_ranges.key_of(link, rows)
        if isinstance(key, Undivided):
            return key
        only = "" if rows.kind == "p" else "ONLY "
        table = f"{only}{link.identifier(schema)}.{link.identifier(name)}"
        return tuple([(column.name, column.type) for column in key]), key_ranges.divide(link, table, rows, key, count)

    def copy(self, schema: str, name: str, publications: Sequence[str], wanted: WantedRanges) -> TableCopy:
        link = self._connection.link
        snapshot, lsn = key_ranges.take_snapshot(link, wanted.passed)
        self._connection.copying = link, "", None
        rows = published.published_rows(link, schema, name, publications)
        key = key_ranges.key_of(link, rows)
        if isinstance(key, Undivided):
            raise PublisherError("55000", f'ERROR:  the key of table "{schema}.{name}" has been changed')
        conditions = [key_ranges.condition(link, key, each) for each in wanted.ranges]
        there = self._connection
        direct = ServerRows(link, rows, schema, name, there.data_path, there.workers, conditions)
        self._connection.copying = link, "", direct
        query = tables.selection(link, rows, schema, name)
        either = " OR ".join(f"({each})" for each in conditions)
        joined = f"{query} {'AND' if rows.condition is not None else 'WHERE'} ({either})"
        return _table_copy(link, tables.copied_relation(rows, schema, name), joined, lsn, direct, snapshot)


def _table_copy(
    link: Link, relation: SentRelation, query: str, lsn: int, direct: ServerRows, snapshot: Snapshot | None = None
) -> TableCopy:
    rows = tables.copied_rows(link, query, len(relation.columns))
    may_be_binary = link.version >= published.UNITED
    return TableCopy(relation, lsn, rows, direct, direct, may_be_binary=may_be_binary, snapshot=snapshot)
