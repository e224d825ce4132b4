"""`pgrepl serve` beside PostgreSQL, asked by one client: sessions, small questions, COPY, and a real PostgreSQL that
subscribes. Ratios above 1: pgrepl is faster.

`PGREPL_BENCH_ROWS` (10 million) makes the tables smaller in proportion; `python -m benchmarks.server` runs only this.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.postgres import NARROW, NARROW_ROWS
from benchmarks.replicate_server import PostgresPair
from tests.harness.serving import Serving, serving

ROWS = int(os.environ.get("PGREPL_BENCH_ROWS", 10_000_000))
POINTS = ROWS // 10  # of the table that is asked by its key
COPIED = ROWS // 2
CLIENTS, SECONDS = 8, 5.0
IDLE, BUSY = 200, 100
REST = 10.0  # seconds after which idle sessions have given their memory back

Line = tuple[str, str, str, str, bool]
Connect = Callable[[], psycopg.Connection[Any]]

CHANGES = (  # nine of ten rows
    f"INSERT INTO t {NARROW_ROWS.format(COPIED + 1, COPIED + COPIED * 3 // 10)}",
    f"UPDATE t SET k = k + 1 WHERE id % 10 < 5 AND id <= {COPIED}",
    f"DELETE FROM t WHERE id % 10 = 9 AND id <= {COPIED}",
)


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work, serving(Path(work)) as lake:
        pair = PostgresPair()
        place = f"host={pair.server.host} port={pair.server.port} user=postgres dbname=pub"
        try:
            yield from sessions(lake, lake.connect, lambda: psycopg.connect(place, autocommit=True))
            yield from copies(lake, pair)
        finally:
            pair.close()


# --- small questions --------------------------------------------------------------------------------------------------


def sessions(lake: Serving, ours: Connect, theirs: Connect) -> Iterator[Line]:
    yield idle(lake)  # before Spark is started, which takes memory of its own
    for connect in (ours, theirs):
        with connect() as connection:
            connection.execute(f"CREATE TABLE points {NARROW}")
            connection.execute(f"INSERT INTO points {NARROW_ROWS.format(1, POINTS)}")
    one, their_one = (timed(connect, lambda _: ("SELECT 1", ()), 2000) for connect in (ours, theirs))
    yield latency("SELECT 1", one, their_one, 0.5, 3.0)
    point, their_point = (timed(connect, by_key, 500) for connect in (ours, theirs))
    yield latency(f"SELECT by key of {POINTS:,}, prepared", point, their_point, 10.0, None)
    rate, their_rate = (throughput(connect) for connect in (ours, theirs))
    what = f"SELECT by key, {CLIENTS} clients"
    yield what, f"{rate:,.0f} /s", f"PostgreSQL {their_rate:,.0f} /s", "200 /s", rate >= 200
    come, their_come = (entered(connect) for connect in (ours, theirs))
    yield latency("connect, SELECT 1, close", come, their_come, 30.0, None)
    yield busy(ours)


def by_key(number: int) -> tuple[str, Sequence[object]]:
    return "SELECT v FROM points WHERE id = %s", (number * 7919 % POINTS + 1,)


def timed(connect: Connect, question: Callable[[int], tuple[str, Sequence[object]]], times: int) -> list[float]:
    """Sorted milliseconds of each in a session that is warm, prepared by psycopg."""
    found = []
    with connect() as connection:
        connection.prepare_threshold = 2
        for number in range(-20, times):
            query, values = question(number)
            began = time.perf_counter()
            connection.execute(query, values).fetchall()
            if number >= 0:
                found.append((time.perf_counter() - began) * 1000)
    return sorted(found)


def entered(connect: Connect) -> list[float]:
    found = []
    for _ in range(60):
        began = time.perf_counter()
        with connect() as connection:
            connection.execute("SELECT 1")
        found.append((time.perf_counter() - began) * 1000)
    return sorted(found[10:])


def together(
    connect: Connect, clients: int, seconds: float, work: Callable[[int, psycopg.Connection[Any], float], None]
) -> None:
    """Each client in a thread of its own, after its first question."""
    with ExitStack() as stack:
        each = [stack.enter_context(connect()) for _ in range(clients)]
        for connection in each:
            connection.prepare_threshold = 0
            connection.execute(*by_key(0))
        until = time.perf_counter() + seconds
        threads = [threading.Thread(target=work, args=(number, each[number], until)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def throughput(connect: Connect) -> float:
    answered = [0] * CLIENTS

    def ask(client: int, connection: psycopg.Connection[Any], until: float) -> None:
        while time.perf_counter() < until:
            connection.execute(*by_key(answered[client] * CLIENTS + client)).fetchall()
            answered[client] += 1

    together(connect, CLIENTS, SECONDS, ask)
    return sum(answered) / SECONDS


def idle(lake: Serving) -> Line:
    before, count = memory(lake.process.pid), IDLE // 2 - 5  # max_connections is 100
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(lake.connect()).execute("SELECT 1")
        time.sleep(REST)
        used = before + (memory(lake.process.pid) - before) * IDLE / count
    return f"memory of {IDLE} idle sessions", f"{used:,.0f} MB", "", "1,024 MB", used <= 1024


def memory(parent: int) -> float:
    """MB of a process and of all below it; what they share counts once."""
    found, pages = [parent], 0
    for process in found:
        for thread in Path(f"/proc/{process}/task").iterdir():
            found += [int(child) for child in (thread / "children").read_text().split()]
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            pages += int(line.split()[1]) if line.startswith("Pss:") else 0
    return pages / 1024


def busy(connect: Connect) -> Line:
    """Sessions that were opened first have been released when the last one is open: what their first question waits is
    shown by itself."""
    waits: list[list[float]] = [[] for _ in range(BUSY - 10)]

    def ask(client: int, connection: psycopg.Connection[Any], until: float) -> None:
        while time.perf_counter() < until:
            began = time.perf_counter()
            connection.execute(*by_key(client)).fetchall()
            waits[client].append(time.perf_counter() - began)

    together(connect, len(waits), 3 * SECONDS, ask)
    first, worst = max(each[0] for each in waits), max(wait for each in waits for wait in each[1:])
    shown = f"{worst:.2f} s (first question {first:.2f} s)"
    return f"longest wait of {len(waits)} busy sessions", shown, "", "2 s", worst <= 2


# --- COPY and a subscriber --------------------------------------------------------------------------------------------


def copies(lake: Serving, pair: PostgresPair) -> Iterator[Line]:
    rows = NARROW_ROWS.format(1, COPIED)
    pair.table(NARROW, rows)
    with lake.connect() as connection:
        connection.execute(f"CREATE TABLE t {NARROW}")
        connection.execute(f"INSERT INTO t {rows}")
        connection.execute("CREATE PUBLICATION p FOR TABLE t")
        ours, theirs = (copied_out(each) for each in (connection, pair.pub))
        yield compared(f"COPY (SELECT …) TO STDOUT, {COPIED:,} rows", theirs, ours, 0.5)

        theirs = pair.subscribe("FOR TABLE t")
        changed = pair.catch_up(lambda publisher: [publisher.execute(change) for change in CHANGES])
        delays = arrivals(pair.pub, pair.sub)
        pair.unsubscribe()
        pair.sub.execute("DROP TABLE t")
        pair.sub.execute(f"CREATE TABLE t {NARROW}")
        yield compared(f"PostgreSQL subscribes: copy of {COPIED:,} rows", theirs, subscribe(lake, pair), 0.9)
        ours = pair.catch_up(lambda _: [connection.execute(change) for change in CHANGES], connection)
        yield compared(f"PostgreSQL subscribes: {COPIED * 9 // 10:,} changes", changed, ours, 0.9)
        yield latency("commit to subscriber's row", arrivals(connection, pair.sub), delays, None, 50.0)


def copied_out(connection: psycopg.Connection[Any]) -> float:
    began = time.perf_counter()
    with connection.cursor().copy("COPY (SELECT * FROM t) TO STDOUT") as copy:
        size = sum(len(block) for block in copy)
    assert size > COPIED * 10
    return time.perf_counter() - began


def subscribe(lake: Serving, pair: PostgresPair) -> float:
    place = f"host=127.0.0.1 port={lake.port} user=postgres dbname=postgres"
    began = time.perf_counter()
    pair.sub.execute(f"CREATE SUBSCRIPTION s CONNECTION '{place}' PUBLICATION p")
    pair.wait("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel")
    return time.perf_counter() - began


def arrivals(publisher: psycopg.Connection[Any], subscriber: psycopg.Connection[Any]) -> list[float]:
    """Sorted milliseconds from a commit's answer until the subscriber's worker has written the row."""
    subscriber.execute("ALTER TABLE t ADD COLUMN IF NOT EXISTS arrived timestamptz DEFAULT clock_timestamp()")
    told = {}
    for number in range(-5, 60):
        publisher.execute(f"INSERT INTO t (id) VALUES ({number - 1000})")
        told[number - 1000] = time.time()
        time.sleep(0.1)
    time.sleep(2)
    query = "SELECT id, extract(epoch FROM arrived)::float8 FROM t WHERE id < -10"
    arrived = dict(subscriber.execute(query).fetchall())
    publisher.execute("DELETE FROM t WHERE id < -10")
    return sorted((arrived[number] - told[number]) * 1000 for number in told if number >= -1000)


# --- lines ------------------------------------------------------------------------------------------------------------


def latency(what: str, ours: list[float], theirs: list[float], half: float | None, most: float | None) -> Line:
    """Its median, and of a hundred the second longest; of fewer than 100, of twenty."""
    share, name = (0.99, "p99") if len(ours) >= 1000 else (0.95, "p95")
    (middle, high), beside = ((each[len(each) // 2], each[int(len(each) * share)]) for each in (ours, theirs))
    limits = [f"{name} {most} ms"] * (most is not None) + [f"p50 {half} ms"] * (half is not None)
    holds = (half is None or middle <= half) and (most is None or high <= most)
    shown = f"p50 {beside[0]:.2f} {name} {beside[1]:.2f} ms"
    return what, f"p50 {middle:.2f} {name} {high:.2f} ms", f"PostgreSQL {shown}", ", ".join(reversed(limits)), holds


def compared(what: str, theirs: float, ours: float, limit: float) -> Line:
    ratio = theirs / ours
    return what, f"{ours:.1f} s ({ratio:.2f} x)", f"PostgreSQL {theirs:.1f} s", f"{limit} x", ratio >= limit


def main() -> None:
    for line in measure():
        print("  ".join(line[:4]), "" if line[4] else "TOO SLOW", flush=True)


if __name__ == "__main__":
    main()
