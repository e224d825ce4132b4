"""The connections to a server that the parts of its publisher share, and what it publishes now."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pgrepl.ground.interrupts import JoinedThread
from pgrepl.ground.processes import Workers
from pgrepl.replication.conninfo import ConnectionFailure
from pgrepl.replication.publisher.postgres import copy_workers, ddl_trigger, published, slots
from pgrepl.replication.publisher.postgres import schema as server_schema
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.protocol import (
    Published,
    PublisherCatalog,
    PublisherError,
    RemoteSequence,
    RemoteTable,
)
from pgrepl.replication.publisher.tables import RemoteAttribute, RemoteDefinition

if TYPE_CHECKING:
    from pgrepl.replication.publisher.definitions import PresentTables, ToldEnum, ToldTable
    from pgrepl.replication.publisher.postgres.copy_columns import ServerRows
    from pgrepl.replication.publisher.postgres.stream import Stream

_UNUSED = 5.0  # seconds after which the connection beside a stream is closed


class ServerConnection:
    def __init__(self, link: Link, data_path: str) -> None:
        """`data_path`: where files for Spark are written."""
        self.opened = link
        self.data_path = data_path
        self.stream: Stream | None = None  # over `opened`
        self.copying: tuple[Link, str, ServerRows | None] | None = None  # a copy's slot, in whose transaction it is
        self.target = 0  # an LSN that the server's WAL has reached
        self._workers: Workers | None = None  # processes that copy
        self._beside: Link | None = None  # another connection, while the first one streams
        self._used_at = 0.0  # when it was last used
        self._has_read = False  # `opened` has opened tables
        self._telling: JoinedThread | None = None  # confirms a position to the server, over `opened`

    @property
    def link(self) -> Link:
        """The connection, with nothing in progress."""
        self.end_other_work()
        if self.stream is None:
            return self.opened
        if self._beside is None or not self._beside.is_open:
            try:
                self._beside = self.opened.same()
            except ConnectionFailure as failure:
                raise PublisherError(failure.sqlstate, str(failure)) from None
        self._used_at = time.monotonic()
        return self._beside

    @property
    def reading(self) -> Link:
        """The same, for queries that open tables. The server remembers these as they are then: a stream over this
        connection would be decoded under columns of the future."""
        link = self.link
        self._has_read = self._has_read or link is self.opened
        return link

    def to_stream(self) -> Link:
        """The connection, for a stream; a new one if this one has opened tables."""
        self.end_other_work()
        if self._has_read:
            self._has_read = False
            self.opened.end_streaming()
        return self.opened

    def end_other_work(self) -> None:
        self._await_telling()
        self._end_copy()

    def tell(self, slot: str, lsn: int) -> None:
        """Confirm a position in a thread. If that fails, the next worker confirms it again."""

        def advance() -> None:
            with suppress(PublisherError):
                slots.advance(self.opened, slot, lsn)
                slots.bring_restart_forward(self.opened, slot)

        self._telling = JoinedThread(advance, "pgrepl-confirm")
        self._telling.start()

    def _await_telling(self) -> None:
        telling, self._telling = self._telling, None
        if telling is not None:
            telling.join()

    def _end_copy(self) -> None:
        copying, self.copying = self.copying, None
        if copying is None:
            return
        link, slot, rows = copying
        if rows is not None:
            rows.close()
        if link.is_open:
            with suppress(PublisherError):
                link.rows("ROLLBACK")
                if slot:
                    slots.drop(link, slot)

    def workers(self, most: Callable[[], int]) -> Workers | None:
        """Processes that copy a table, and remain for its next ranges; None: there are none. `most` tells the number of
        connections that they may have."""
        if self._workers is None or self._workers.are_lost:
            self._workers = copy_workers.workers(most())
        self._used_at = time.monotonic()
        return self._workers

    def _end_workers(self) -> None:
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.close()

    def stop_streaming(self) -> None:
        """End the stream; what it has confirmed is told."""
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.close()
        self._close_beside()

    def close_unused(self) -> None:
        if self.copying is None and time.monotonic() > self._used_at + _UNUSED:
            self._close_beside()
            self._end_workers()

    def _close_beside(self) -> None:
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.close()

    def interrupt(self) -> None:
        """End the connections' running or waiting commands with an error; called from another thread."""
        stream = self.stream
        if stream is not None:
            stream.interrupt()
        else:
            self.opened.interrupt()
        beside = self._beside
        if beside is not None:
            beside.interrupt()

    def close(self) -> None:
        self.end_other_work()
        self._end_workers()
        self.opened.close()


class ServerCatalog(PublisherCatalog):
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def existing_publications(self, names: Sequence[str]) -> set[str]:
        return published.existing_publications(self._connection.reading, names)

    def published_tables(self, names: Sequence[str]) -> list[RemoteTable]:
        return published.published_tables(self._connection.reading, names)

    @property
    def has_sequences(self) -> bool:
        return self._connection.link.has_sequences

    def published_sequences(self, names: Sequence[str]) -> list[tuple[str, str]]:
        return published.published_sequences(self._connection.reading, names)

    def sequences(self, names: Sequence[tuple[str, str]]) -> list[RemoteSequence]:
        return published.sequences(self._connection.reading, names)

    def sequences_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        return published.sequences_with_other_origins(self._connection.reading, names, known)

    def published_as(self, schema: str, name: str, publications: Sequence[str]) -> Published | None:
        link = self._connection.reading
        condition = "t.rowfilter" if link.version >= published.COLUMN_LISTS else "NULL"
        listed = link.rows(
            f"SELECT p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate, {condition} "
            "FROM pg_catalog.pg_publication_tables t JOIN pg_catalog.pg_publication p ON p.pubname = t.pubname "
            f"WHERE t.schemaname = {link.literal(schema)} AND t.tablename = {link.literal(name)} "
            f"AND p.pubname IN ({link.texts(publications)}) ORDER BY p.pubname"
        )
        if not listed:
            return None
        operations, filters = [], []
        for place, operation in enumerate(("insert", "update", "delete", "truncate")):
            publishing = [row[4] for row in listed if row[place] == "t"]
            if publishing:
                operations.append(operation)
                if operation != "truncate" and None not in publishing:
                    filters.append((operation, " OR ".join(dict.fromkeys(str(text) for text in publishing))))
        rows = published.published_rows(link, schema, name, publications)
        return Published(tuple([column.name for column in rows.columns]), tuple(operations), tuple(filters))

    def attributes(self, relid: int, lsn: int) -> tuple[RemoteAttribute, ...]:
        return server_schema.attributes(self._connection.reading, relid)

    def older_value(self, relid: int, attnum: int, lsn: int) -> str | None:
        return server_schema.older_value(self._connection.reading, relid, attnum)

    def definitions(self, schema: str, name: str, publications: Sequence[str]) -> list[RemoteDefinition]:
        return server_schema.definitions(self._connection.reading, schema, name, publications)

    def told_table(self, relid: int, lsn: int | None, publications: Sequence[str]) -> ToldTable | None:
        link = self._connection.reading
        return ddl_trigger.told_table(link, relid) if link.version >= ddl_trigger.SINCE else None

    def table_versions(self, oids: Sequence[int]) -> dict[int, str] | None:
        link = self._connection.reading
        if not oids or link.version < ddl_trigger.SINCE or link.is_lake:
            return None
        return ddl_trigger.table_versions(link, oids)

    def present_tables(self, known: Sequence[tuple[int, str, str]], names: Sequence[str]) -> PresentTables:
        return ddl_trigger.present_tables(self._connection.reading, known, names)

    def enum_labels(self, names: Sequence[tuple[str, str]]) -> list[ToldEnum]:
        link = self._connection.reading
        return [] if link.is_lake else ddl_trigger.told_enums(link, names)

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        link = self._connection.reading
        tables = (
            "pg_catalog.pg_get_publication_tables(p.pubname::text) t"
            if link.version >= published.COLUMN_LISTS
            else "pg_catalog.pg_get_publication_tables(p.pubname::text) t(relid)"
        )
        listed = link.rows(
            f"SELECT DISTINCT p.pubname FROM pg_catalog.pg_publication p, LATERAL {tables} "
            "JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE p.pubname IN ({link.texts(names)}){published.besides(link, known)} AND EXISTS (SELECT 1 FROM "
            "pg_catalog.pg_subscription_rel r WHERE r.srrelid = t.relid "
            "OR t.relid IN (SELECT relid FROM pg_catalog.pg_partition_ancestors(r.srrelid)) "
            "OR t.relid IN (SELECT relid FROM pg_catalog.pg_partition_tree(r.srrelid))) ORDER BY 1"
        )
        return [row[0] or "" for row in listed]
