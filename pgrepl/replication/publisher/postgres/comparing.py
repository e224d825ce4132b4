"""The rows of a server's tables in one snapshot, hashed by the server or sent as texts.

The snapshot is that of a new slot, as a copy's: it sees exactly what the slot does not send. Other connections take the
same snapshot, so that several ranges are hashed at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from itertools import pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.threads import ThreadPool
from pgrepl.replication.conninfo import ConnectionFailure
from pgrepl.replication.publisher.postgres import copies, published, slots
from pgrepl.replication.publisher.postgres.copy_columns import restricted
from pgrepl.replication.publisher.postgres.copy_ranges import enter_snapshot
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.publisher.tables import Comparing, HashedPiece, Limits, Pace, TableAtLsn, TablesAtLsn, Undivided

if TYPE_CHECKING:
    from pgrepl.engine.run_kernels import KernelSource
    from pgrepl.replication.publisher.postgres.connection import ServerConnection
    from pgrepl.replication.publisher.postgres.link import Link
    from pgrepl.replication.publisher.postgres.published import PublishedColumn, PublishedRows
    from pgrepl.replication.publisher.tables import KeyRange

Answer = list[tuple[str | None, ...]]

_SLOT = "pgrepl_compare_{}"  # name of a comparison's slot, by the PID of the walsender
_PACED = 1000  # rows that are read before the pace is looked at
_LOCKED = "55P03"
_AHEAD = 2  # queries that wait for each connection
_PAGE = 8192  # bytes
_PAGES = 4096  # that are hashed by one query
_ROW = 100  # bytes, where the server has no statistics
_KNOWN_HASH = (  # of a text and of numbers, so that a server that hashes in another way is found out
    "SELECT hashtextextended('pgrepl ü' COLLATE \"C\", hashint8extended(-5, hashint4extended(7, 4611686018427387904)))"
)
KNOWN_HASH = 4475637882331867740


class ServerComparing(Comparing):
    knows_past = False

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def begin(self, lsn: int, limits: Limits, slot: str = "") -> ServerTables:
        link = self._connection.reading
        link.rows(f"SET lock_timeout = {int(limits.timeout * 1000)}")
        name = slot or _SLOT.format(link.backend)
        self._connection.copying = link, "" if slot else name, None
        try:
            begun = slots.create_for_snapshot(link, name, temporary=not slot)
        except PublisherError as error:
            self._connection.end_other_work()
            raise (_waits() if error.sqlstate == _LOCKED else error) from None
        link.rows("SET lock_timeout = 0")
        self._connection.target = max(self._connection.target, begun)
        return ServerTables(self._connection, link, begun, limits)


def _waits() -> PgError:
    return PgError(
        "55000",
        "the publisher's snapshot waits for transactions that have written and are open there",
        hint="End them, or wait longer with --timeout.",
    )


class ServerTables(TablesAtLsn):
    def __init__(self, connection: ServerConnection, link: Link, lsn: int, limits: Limits) -> None:
        self._connection = connection
        self.lsn = lsn
        self.pace = Pace(limits.rows_per_second)
        self.links = [link]
        if limits.connections > 1:
            snapshot = link.value("SELECT pg_catalog.pg_export_snapshot()")
            with suppress(ConnectionFailure, PublisherError):  # as many as the server allows
                for _ in range(limits.connections - 1):
                    other = link.another()
                    self.links.append(other)
                    enter_snapshot(other, snapshot)

    def table(self, schema: str, name: str, publications: Sequence[str]) -> ServerTable:
        return ServerTable(self, schema, name, publications)

    def stop(self) -> None:
        self.pace.stop()
        for link in self.links:
            link.interrupt()

    def close(self) -> None:
        for link in self.links[1:]:
            link.close()
        self._connection.end_other_work()


class ServerTable(TableAtLsn):
    """A table (TableAtLsn, HashingServer)."""

    def __init__(self, of: ServerTables, schema: str, name: str, publications: Sequence[str]) -> None:
        self._of = of
        self._link = link = of.links[0]
        self._rows = published.published_rows(link, schema, name, publications)
        self._schema, self._name = schema, name
        self.relation = self.sent = published.copied_relation(self._rows, schema, name)
        link.rows(f"{self._selected(None)} LIMIT 0")  # so that the server raises its errors before any row is read
        self.estimate = _estimate(link, self._rows)
        key = copies.key_of(link, self._rows)
        self._key: tuple[PublishedColumn, ...] = () if isinstance(key, Undivided) else key
        self.key = published.key_names(link, self._rows)
        self.server: ServerTable | None = self if _hashes_as_we_do(link) else None

    def sources(self) -> list[KernelSource]:
        return []

    def texts(self) -> Iterator[tuple[str | None, ...]]:
        return self._counted(published.copied_rows(self._link, self._selected(None), len(self._rows.columns)))

    def _counted(self, rows: Iterator[Any]) -> Iterator[Any]:
        for number, row in enumerate(rows, 1):
            yield row
            if not number % _PACED:
                self._of.pace.read(_PACED)

    # --- hashes -------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        self._of.stop()

    def identifier(self, name: str) -> str:
        return self._link.identifier(name)

    def divide(self, key: Sequence[str], size: int) -> list[KeyRange] | None:
        count = self.estimate // size
        if tuple(column.name for column in self._key) != tuple(key):
            return None
        if count < 2 or not copies.is_in_order(self._link, self._rows, self._key):
            return None
        is_whole = self._rows.kind == "p"
        table = f"{'' if is_whole else 'ONLY '}{self.identifier(self._schema)}.{self.identifier(self._name)}"
        divide = copies.divide if is_whole else copies.divide_by_pages
        return divide(self._link, table, self._rows, self._key, count)

    def digests_of_ranges(self, hash: str, wanted: Sequence[tuple[int, KeyRange]]) -> Iterator[HashedPiece]:
        expressions = ["pg_catalog.count(*)", f"pg_catalog.sum({hash})"]
        asked = ((number, self._selected(self._condition([key_range]), expressions)) for number, key_range in wanted)
        for number, answer in self._asked(asked, lambda rows: int(rows[0][0] or 0)):
            count, total = answer[0]
            yield HashedPiece(number, int(count or 0), int(total or 0))

    def digests_by_bits(self, hash: str, mask: int) -> Iterator[HashedPiece]:
        grouped = (
            f"SELECT h & {mask}, pg_catalog.count(*), pg_catalog.sum(h) FROM "
            f"({self._selected(condition, [f'{hash} AS h'])} OFFSET 0) hashed GROUP BY 1"
            for condition in self._pages()
        )
        for _, answer in self._asked(enumerate(grouped), lambda rows: sum(int(count or 0) for _, count, _ in rows)):
            for number, count, total in answer:
                yield HashedPiece(int(number or 0), int(count or 0), int(total or 0))

    def _pages(self) -> list[str | None]:
        """Conditions for ranges of the table's pages, which are all of it."""
        pages = published.size(self._link, self._rows) // _PAGE if self._rows.kind == "r" else 0
        bounds = list(range(0, pages, _PAGES)) or [0]
        if len(bounds) == 1:
            return [None]
        conditions: list[str | None] = [
            f"ctid >= '({one},0)' AND ctid < '({other},0)'" for one, other in pairwise(bounds)
        ]
        return [*conditions, f"ctid >= '({bounds[-1]},0)'"]

    def _asked(
        self, queries: Iterator[tuple[int, str]] | enumerate[str], counted: Callable[[Answer], int]
    ) -> Iterator[tuple[int, Answer]]:
        """The answers to queries, several at a time, in any order. `counted`: how many rows were read for one."""
        free: SimpleQueue[Link] = SimpleQueue()
        for link in self._of.links:
            free.put(link)

        def ask(number: int, query: str) -> tuple[int, Answer]:
            link = free.get()
            try:
                rows = link.rows(query)
            finally:
                free.put(link)
            self._of.pace.read(counted(rows))
            return number, rows

        with ThreadPool(len(self._of.links), "pgrepl-compare") as pool:
            running: set[Future[tuple[int, Answer]]] = set()
            try:
                while True:
                    while len(running) < _AHEAD * len(self._of.links) and (one := next(queries, None)) is not None:
                        running.add(pool.submit(ask, *one))
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                for future in running:
                    future.cancel()

    def rows_of_ranges(self, hash: str, wanted: Sequence[KeyRange]) -> Iterator[tuple[int, tuple[str | None, ...]]]:
        return self._hashed_rows(hash, self._condition(wanted))

    def rows_by_bits(self, hash: str, mask: int, wanted: Sequence[int]) -> Iterator[tuple[int, tuple[str | None, ...]]]:
        numbers = ",".join(map(str, wanted))
        return self._hashed_rows(hash, f"({hash} & {mask}) = ANY ('{{{numbers}}}'::int8[])")

    def _hashed_rows(self, hash: str, condition: str) -> Iterator[tuple[int, tuple[str | None, ...]]]:
        names = [self.identifier(column.name) for column in self._rows.columns]
        query = self._selected(condition, [hash, *names])
        for hashed, *row in self._counted(published.copied_rows(self._link, query, 1 + len(names))):
            yield int(hashed), tuple(row)

    def _condition(self, wanted: Sequence[KeyRange]) -> str:
        return " OR ".join(f"({copies.condition(self._link, self._key, key_range)})" for key_range in wanted)

    def _selected(self, condition: str | None, expressions: Sequence[str] | None = None) -> str:
        query = published.selection(self._link, self._rows, self._schema, self._name, expressions)
        return query if condition is None else restricted(query, self._rows, f"({condition})")


def _estimate(link: Link, rows: PublishedRows) -> int:
    """By the statistics of VACUUM and ANALYZE, and the size that the table has now."""
    relations = (
        f"SELECT relid FROM pg_catalog.pg_partition_tree({rows.relid}) WHERE isleaf"
        if rows.kind == "p"
        else f"SELECT {rows.relid}"
    )
    row = link.row(
        "SELECT sum(CASE WHEN reltuples > 0 AND relpages > 0 "
        "THEN reltuples / relpages * (pg_catalog.pg_relation_size(oid) / 8192) "
        f"ELSE pg_catalog.pg_relation_size(oid) / {_ROW} END)::pg_catalog.int8 "
        f"FROM pg_catalog.pg_class WHERE relkind = 'r' AND oid IN ({relations})"
    )
    return int(row[0] or 0)


def _hashes_as_we_do(link: Link) -> bool:
    """Whether the server has texts in UTF8, and hashes them as this side does; one on another kind of machine may
    not."""
    is_utf8 = link.value("SELECT pg_catalog.current_setting('server_encoding')") == "UTF8"
    return is_utf8 and int(link.value(_KNOWN_HASH)) == KNOWN_HASH
