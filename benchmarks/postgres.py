"""A real server as the publisher, followed by pgrepl and by PostgreSQL's own subscriber, one after the other: initial
copies, a large backlog of changes, and many small transactions. Ratios above 1: pgrepl is faster.

`PGREPL_BENCH_ROWS` (10 million) makes everything smaller in proportion; `python -m benchmarks.postgres` runs only this.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.replicate_server import PostgresPair

ROWS = int(os.environ.get("PGREPL_BENCH_ROWS", 10_000_000))
SLOT = "pgrepl"

Line = tuple[str, str, str, str, bool]

NARROW = "(id bigint PRIMARY KEY, k int, v text, d timestamptz)"
NARROW_ROWS = (
    "SELECT g, g % 1000, 'value ' || g, timestamptz '2024-01-01 00:00+00' + g * interval '1 second' "
    "FROM generate_series({}, {}) g"
)
WIDE = (
    "(id bigint PRIMARY KEY, i int, s smallint, f float8, n numeric(12,2), b boolean, v varchar(40), x text, d date, "
    "ts timestamp, tz timestamptz, j jsonb)"
)
WIDE_ROWS = (
    "SELECT g, g % 1000, g % 100, g / 3.0, g / 4.0, g % 2 = 0, 'value ' || g, CASE WHEN g % 5 > 0 THEN "
    "repeat('x', (g % 30)::int) END, date '2024-01-01' + (g % 1000)::int, timestamp '2024-01-01' + g * interval '1 s', "
    "timestamptz '2024-01-01 00:00+00' + g * interval '1 s', jsonb_build_object('a', g) FROM generate_series({}, {}) g"
)


class Both:
    """A publishing database and its two subscribers."""

    def __init__(self, folder: Path) -> None:
        from pgrepl.backend import open_session
        from pgrepl.catalog.store.opening import open_catalog

        self.pair = PostgresPair()
        self.pair.pub.execute("SET synchronous_commit = on")  # what is not on the disk yet is not sent
        self.catalog = open_catalog(folder / "catalog.db")
        self.session = open_session(self.catalog)

    def sql(self, text: str) -> list[tuple[str | None, ...]]:
        from pgrepl.statements.run import run

        return [row for result in run(self.session, text) for row in result.rows]

    def table(self, columns: str, rows: str) -> None:
        self.pair.table(columns, rows)
        self.sql("DROP TABLE IF EXISTS t")
        self.sql(f"CREATE TABLE t {columns}")
        self.pair.pub.execute("CHECKPOINT")

    def subscribe(self) -> tuple[float, float]:
        """Seconds of the copy: PostgreSQL's, ours."""
        theirs = self.pair.subscribe("FOR TABLE t")
        began = time.perf_counter()
        self.subscribe_only(f"slot_name = {SLOT}")
        self.catch_up()
        return theirs, time.perf_counter() - began

    def subscribe_only(self, options: str) -> None:
        server = self.pair.server
        connection = f"host={server.host} port={server.port} user=postgres dbname=pub"
        self.sql(f"CREATE SUBSCRIPTION s CONNECTION '{connection}' PUBLICATION p WITH ({options})")

    def catch_up(self) -> float:
        from pgrepl.replication.subscriber.launcher import CatchUp

        began = time.perf_counter()
        CatchUp(self.session).now()
        return time.perf_counter() - began

    def change(self, *statements: str, between: Callable[[], None] = lambda: None) -> tuple[float, float]:
        """Seconds that the changes take to be applied: PostgreSQL's, ours. `between` is called between the two."""

        def changed(publisher: Any) -> None:
            for statement in statements:
                publisher.execute(statement)

        theirs = self.pair.catch_up(changed)
        between()
        return theirs, self.catch_up()

    def check(self) -> None:
        query = "SELECT count(*), sum(id), sum(k) FROM t"
        ((*here,),) = self.sql(query)
        there = self.pair.sub.execute(query).fetchone()
        assert here == [str(value) for value in there], (here, there)

    def unsubscribe(self) -> None:
        self.sql("DROP SUBSCRIPTION s")
        self.pair.unsubscribe()

    def close(self) -> None:
        self.session.close()
        self.catalog.close()
        self.pair.close()


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        both = Both(Path(work))
        try:
            warm_up(both)
            yield from copies(both)
            yield from changes(both)
        finally:
            both.close()


def warm_up(both: Both) -> None:
    """The JVM starts, Spark compiles, both servers have been connected to."""
    both.table(NARROW, NARROW_ROWS.format(1, 100_000))
    both.subscribe()
    for number in range(2):
        both.change(f"UPDATE t SET k = k + 1 WHERE id % 2 = {number}", "DELETE FROM t WHERE id = -1")
    both.unsubscribe()


def copies(both: Both) -> Iterator[Line]:
    wide = ROWS // 5
    both.table(WIDE, WIDE_ROWS.format(1, wide))
    yield compared(f"copy of {wide:,} rows of 12 columns", *both.subscribe(), 1.6)
    both.unsubscribe()
    both.table(NARROW, NARROW_ROWS.format(1, ROWS))
    yield compared(f"copy of {ROWS:,} rows of 4 columns", *both.subscribe(), 2.0)


def changes(both: Both) -> Iterator[Line]:
    """The table has ROWS rows; 45 of 100 changes insert, 10 delete, 45 update."""
    many, few = ROWS // 2 * 45 // 100, ROWS // 2 * 10 // 100
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    theirs, ours = both.change(
        *(
            f"INSERT INTO t {NARROW_ROWS.format(ROWS + 1 + n * many // 9, ROWS + (n + 1) * many // 9)}"
            for n in range(9)
        ),
        *(f"UPDATE t SET k = k + 1 WHERE id BETWEEN {1 + n * many // 9} AND {(n + 1) * many // 9}" for n in range(9)),
        f"DELETE FROM t WHERE id BETWEEN {ROWS - few + 1} AND {ROWS}",
    )
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    both.check()
    yield compared(f"{2 * many + few:,} changes, 45/10/45", theirs, ours, 1.5)
    yield "memory that they took", f"{grown:,.0f} MB", "", "1,500 MB", grown <= 1500
    yield one_row_each(both)


def one_row_each(both: Both) -> Line:
    """Many transactions of one row."""
    both.pair.pub.execute("DELETE FROM t WHERE id = -1")
    both.catch_up()
    small = ROWS * 3 // 100
    rows = NARROW_ROWS.format("i", "i")
    theirs, ours = both.change(
        f"DO $$ BEGIN FOR i IN {ROWS * 3}..{ROWS * 3 + small} LOOP INSERT INTO t {rows}; COMMIT; END LOOP; END $$"
    )
    both.check()
    return compared(f"{small:,} transactions of one row", theirs, ours, 3.0)


def compared(what: str, theirs: float, ours: float, least: float) -> Line:
    ratio = theirs / ours
    return what, f"{ours:.2f} s, {ratio:.2f} x", f"PostgreSQL's subscriber {theirs:.2f} s", f"{least} x", ratio >= least


def main() -> None:
    for line in measure():
        sys.stdout.write("  ".join(str(part) for part in line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
