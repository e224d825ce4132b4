"""Replication beside PostgreSQL and beside bare Spark: an initial copy, a large batch, small ones, many tables.

Both sides have a publisher and a subscriber as two databases of one instance, both are warmed up. `PGREPL_BENCH_ROWS`
makes it smaller. The large batch is applied once more by a process whose driver has a heap of 2 GiB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.clock import ROOT, environment
from benchmarks.lake import COLUMNS, ROWS, Bench, Line, best, ratio, seconds
from benchmarks.replicate_history import Step, play

TABLE = "(id bigint PRIMARY KEY, k int, s text, d double precision)"
SELECT = "SELECT g, g % 1000, 'value ' || g, g * 0.5 FROM generate_series(0, {} - 1) g"
TRANSACTIONS = 500
ROWS_OF_FILE = 500_000
UPDATES, DELETES, INSERTS = 45, 10, 45  # of a hundred changes, of which there are half as many as rows


class Replicated(Bench):
    """A publisher `pub` (the session of the bench) and a subscriber `sub`."""

    def __init__(self, folder: Path) -> None:
        from pgrepl.backend import open_session

        super().__init__(folder)
        for name in ("pub", "sub", "small_heap"):
            self.sql(f"CREATE DATABASE {name}")
        self.session.close()
        self.session = open_session(self.catalog, "pub")
        self.subscriber = open_session(self.catalog, "sub")

    def at_subscriber(self, text: str, session: Any = None) -> list[tuple[str | None, ...]]:
        from pgrepl.statements.run import run

        return [row for result in run(session or self.subscriber, text) for row in result.rows]

    def create(self, name: str, rows: int) -> None:
        """A published table, clustered by id, in several files: a transaction rewrites what is deleted of a file."""
        columns = ("id", "cast(id % 1000 AS int) AS k", "concat('value ', id) AS s", "id * 0.5D AS d")
        self.sql(f"CREATE TABLE {name} {COLUMNS}")
        for low in range(0, rows, ROWS_OF_FILE):
            path = self.fresh("source")
            self.spark.range(low, min(low + ROWS_OF_FILE, rows), 1, 1).selectExpr(*columns).write.parquet(path)
            self.sql(f"COPY {name} FROM '{path}' (FORMAT parquet)")
        self.sql(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
        self.at_subscriber(f"CREATE TABLE {name} {TABLE}")

    def subscribe(self, name: str, publication: str) -> float:
        """Seconds for the copy."""
        self.sql(f"CREATE PUBLICATION {name} {publication}")
        self.at_subscriber(f"CREATE SUBSCRIPTION {name} CONNECTION 'dbname=pub' PUBLICATION {name}")
        return self.timed(lambda: self.catch_up(name))

    def catch_up(self, subscription: str) -> None:
        worked(self.subscriber, subscription)

    def close(self) -> None:
        self.subscriber.close()
        super().close()


def worked(session: Any, subscription: str) -> Any:
    """One round of the subscription's worker."""
    from pgrepl.replication.log import ServerLog
    from pgrepl.replication.subscriber.worker import Worker
    from pgrepl.statements.run import run

    query = f"SELECT oid FROM pg_subscription WHERE subname = '{subscription}'"
    ((subid,),) = [row for result in run(session, query) for row in result.rows]
    worker = Worker(session, int(subid), ServerLog(None))
    try:
        done = worker.round()
    finally:
        worker.close()
    assert done.error is None, done.error
    return done


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        bench = Replicated(Path(work))
        try:
            warm_up(bench)
            yield from copies(bench)
            yield from changes(bench)
            yield from small_batches(bench)
            yield from many_tables(bench)
        finally:
            bench.close()


def warm_up(bench: Replicated) -> None:
    bench.create("warm", 100_000)
    bench.subscribe("warm", "FOR TABLE warm WHERE (id % 2 = 0)")
    for n in range(2):
        bench.sql(f"UPDATE warm SET k = k + 1 WHERE id % 3 < 2; DELETE FROM warm WHERE id % 5 = {n}")
        bench.catch_up("warm")
    bench.at_subscriber("DROP SUBSCRIPTION warm")
    bench.at_subscriber("DROP TABLE warm")
    bench.sql("DROP PUBLICATION warm; DROP TABLE warm")


# --- the initial copy -------------------------------------------------------------------------------------------------


def copies(bench: Replicated) -> Iterator[Line]:
    bench.create("t", ROWS)
    half = "FOR TABLE t WHERE (id % 2 = 0)"
    files = bench.files("t")

    def bare() -> float:
        rows = bench.spark.read.parquet(*files).filter("id % 2 = 0")
        return bench.timed(lambda: rows.write.parquet(bench.fresh("half")))

    floor = best(2, bare)
    ours = bench.subscribe("half", half)
    assert bench.at_subscriber("SELECT count(*) FROM t") == [(str((ROWS + 1) // 2),)]
    bench.at_subscriber("DROP SUBSCRIPTION half")
    bench.at_subscriber("TRUNCATE t")
    again = bench.subscribe("half2", half)
    ours = min(ours, again)
    bench.at_subscriber("DROP SUBSCRIPTION half2")
    bench.at_subscriber("TRUNCATE t")
    bench.sql("DROP PUBLICATION half; DROP PUBLICATION half2")
    yield ratio(f"initial copy, half of {ROWS:,} rows", ours, floor, "read.filter.write", 1.3)
    server = _server_copy(half)
    yield faster(f"initial copy, half of {ROWS:,} rows", ours, server, "PostgreSQL's table sync", 3)


def faster(what: str, ours: float, theirs: float, beside: str, limit: float) -> Line:
    found = theirs / ours
    return (
        what,
        f"{found:.1f} times as fast ({ours:.2f} s)",
        f"{beside}: {theirs:.2f} s",
        f"{limit} times",
        found >= limit,
    )


def _server_copy(publication: str) -> float:
    from benchmarks.replicate_server import PostgresPair

    pair = PostgresPair()
    try:
        for rows in (10_000, ROWS):  # the first warms up
            pair.table(TABLE, SELECT.format(rows))
            found = pair.subscribe(publication)
            pair.unsubscribe()
        return found
    finally:
        pair.close()


# --- a large batch ----------------------------------------------------------------------------------------------------


def step(number: int) -> Step:
    """One of the transactions: updates and deletes of rows next to each other, and new rows."""
    of_each = ROWS // 2 // TRANSACTIONS // 100
    room = ROWS // TRANSACTIONS
    low, fresh = number * room, ROWS + number * of_each * INSERTS
    return Step(
        (low, low + of_each * UPDATES), (low + room - of_each * DELETES, low + room), (fresh, fresh + of_each * INSERTS)
    )


def statements(number: int) -> list[str]:
    """The same for PostgreSQL."""
    updated, deleted, inserted = step(number).updated, step(number).deleted, step(number).inserted
    return [
        f"UPDATE t SET k = k + 1, s = 'changed ' || id WHERE id >= {updated[0]} AND id < {updated[1]}",
        f"DELETE FROM t WHERE id >= {deleted[0]} AND id < {deleted[1]}",
        f"INSERT INTO t SELECT g, g % 1000 + 1, 'new ' || g, g * 0.5 "
        f"FROM generate_series({inserted[0]}, {inserted[1] - 1}) g",
    ]


COUNT = f"{ROWS // 2:,} changes of {ROWS:,} rows"


def changes(bench: Replicated) -> Iterator[Line]:
    from pgrepl.backend import open_session

    other = open_session(bench.catalog, "small_heap")
    bench.at_subscriber(f"CREATE TABLE t {TABLE}", other)
    bench.subscribe("everything", "FOR TABLE t")
    bench.at_subscriber("CREATE SUBSCRIPTION small CONNECTION 'dbname=pub' PUBLICATION everything", other)
    worked(other, "small")
    before = bench.files("t")
    play(bench.session, "t", ROWS, map(step, range(TRANSACTIONS)))
    floor = _bare_changes(bench, before)
    ours = bench.timed(lambda: bench.catch_up("everything"))
    totals = "SELECT count(*), sum(id), sum(k), sum(length(s)) FROM t"
    assert bench.at_subscriber(totals) == bench.sql(totals)
    yield ratio(COUNT, ours, floor, "join.write", 1.6)
    server = _server_changes()
    yield faster(COUNT, ours, server, "PostgreSQL's apply worker", 3)
    taken = _with_small_heap(bench.folder)
    assert bench.at_subscriber(totals, other) == bench.sql(totals)
    yield f"{COUNT}, 2 GiB heap", f"{taken:.2f} s", "a process of its own", "it ends well", True
    other.close()


def _bare_changes(bench: Replicated, before: list[str]) -> float:
    """What somebody would write by hand: join the table with the keys that changed, write the rows that came."""
    from pyspark.sql import functions as F

    spark = bench.spark
    came = [path for path in bench.files("t") if path not in before]
    path = bench.fresh("changes")
    new = spark.read.parquet(*came).select("id", "k", "s", "d", F.lit(True).alias("new"))
    gone = spark.range(ROWS).filter(
        f"id % {ROWS // TRANSACTIONS} >= {ROWS // TRANSACTIONS - ROWS // 200 // TRANSACTIONS * DELETES}"
    )
    nothing = [F.lit(None).cast(kind).alias(name) for name, kind in (("k", "int"), ("s", "string"), ("d", "double"))]
    new.unionAll(gone.select("id", *nothing, F.lit(False))).write.parquet(path)

    def job(broadcast: bool) -> float:
        feed = spark.read.parquet(path)
        keys = feed.filter(f"id < {ROWS}").select("id", "new")
        keys = F.broadcast(keys) if broadcast else keys
        old = spark.read.parquet(*before).select("id", F.col("_metadata.row_index").alias("pos"))

        def run() -> None:
            old.join(keys, "id").write.parquet(bench.fresh("old"))
            feed.filter("new").drop("new").write.parquet(bench.fresh("new"))

        return bench.timed(run)

    return min(job(True), job(False), job(True))


def _server_changes() -> float:
    from benchmarks.replicate_server import PostgresPair

    def change(publisher: Any) -> None:
        for number in range(TRANSACTIONS):
            with publisher.transaction():
                for statement in statements(number):
                    publisher.execute(statement)

    pair = PostgresPair()
    try:
        pair.table(TABLE, SELECT.format(ROWS))
        pair.subscribe("FOR TABLE t")
        return pair.catch_up(change)
    finally:
        pair.close()


def _with_small_heap(folder: Path) -> float:
    command = [sys.executable, "-m", "benchmarks.replicate", str(folder / "catalog.db"), "small_heap", "small"]
    settings = environment() | {"PGREPL_CONF": "spark.driver.memory=2g", "PGREPL_BENCH_ROWS": str(ROWS)}
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[-1])


def apply_once(catalog: str, database: str, subscription: str) -> None:
    """What that process does."""
    from pgrepl.backend import open_session
    from pgrepl.catalog.store.opening import open_catalog

    began = time.perf_counter()
    done = worked(open_session(open_catalog(Path(catalog)), database), subscription)
    assert done.changes >= ROWS // 2 // 100 * 100 - 100, done.changes
    print(time.perf_counter() - began)


# --- small ones -------------------------------------------------------------------------------------------------------


def small_batches(bench: Replicated) -> Iterator[Line]:
    ids = iter(range(1, ROWS // TRANSACTIONS // 3))

    def one() -> float:
        bench.sql(f"UPDATE t SET k = -1 WHERE id = {next(ids)}")
        return bench.timed(lambda: bench.catch_up("everything"))

    one()
    yield seconds(f"one changed row of {ROWS:,}, from commit to visible", best(5, one), 1.5)
    batches = {}
    for rows in (ROWS // 10, ROWS):
        name = f"c{rows}"
        bench.create(name, rows)
        bench.subscribe(name, f"FOR TABLE {name}")
        starts = cycle(range(rows // 20, rows, 10_000))

        def batch(name: str = name, starts: Iterator[int] = starts) -> float:
            low = next(starts)
            bench.sql(f"UPDATE {name} SET k = k + 1 WHERE id >= {low} AND id < {low + 10_000}")
            return bench.timed(lambda: bench.catch_up(name))

        batches[rows] = batch
    found = [[batches[rows]() for rows in batches] for _ in range(9)]  # in turn: they take some hundredths of a second
    small, large = (min(times[1:]) for times in zip(*found, strict=True))
    yield ratio("10,000 clustered changes, 10 times the table", large, small, "the smaller table", 1.5)


def many_tables(bench: Replicated, count: int = 200) -> Iterator[Line]:
    names = [f"m{n}" for n in range(count)]
    for name in names:
        bench.sql(f"CREATE TABLE {name} (a int PRIMARY KEY, b text); INSERT INTO {name} VALUES (1, 'x')")
        bench.at_subscriber(f"CREATE TABLE {name} (a int PRIMARY KEY, b text)")
    bench.subscribe("many", f"FOR TABLE {', '.join(names)}")
    for name in names:
        bench.sql(f"UPDATE {name} SET b = 'y'")
    yield seconds(f"{count} tables with one change each", bench.timed(lambda: bench.catch_up("many")), 20)
    assert bench.at_subscriber(f"SELECT b FROM {names[-1]}") == [("y",)]


if __name__ == "__main__":
    if len(sys.argv) == 4:
        apply_once(*sys.argv[1:])
    else:
        for line in measure():
            print(*line, sep="  |  ", flush=True)
