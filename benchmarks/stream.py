"""A server that is streamed from: how late a row arrives, what the server's processor gives for it, how much memory one
long transaction takes, and how fast tables come, interrupted or not. Beside PostgreSQL's own subscriber, and beside a
binary COPY of the same rows that nobody reads.

`PGREPL_BENCH_ROWS` (10 million) makes everything smaller in proportion; `PGREPL_BENCH_SECONDS` (60) is how long rows
are sent one by one. `python -m benchmarks.stream [latency|backlog|long|copies ...]` runs only this, or a part.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.clock import ROOT, environment
from benchmarks.postgres import NARROW, NARROW_ROWS, ROWS, SLOT, Both, Line, compared, one_row_each
from benchmarks.replicate_memory import peak, tree
from tests.postgres.server import wheel_binaries

SECONDS = int(os.environ.get("PGREPL_BENCH_SECONDS", 60))
RATE = 50  # transactions a second
BEHIND = ROWS * 200  # bytes of WAL behind an open transaction: 2 GB
KILLS = 5

_SIX = range(6)  # of each of six types: 38 columns, 500 bytes in a row
WIDE = "(id bigint PRIMARY KEY, {}, x text)".format(
    ", ".join(f"i{n} int, f{n} float8, n{n} numeric(12,2), v{n} varchar(40), d{n} date, z{n} timestamptz" for n in _SIX)
)
WIDE_ROWS = "SELECT g, {}, repeat('x', (g % 200)::int) FROM generate_series({{}}, {{}}) g".format(
    ", ".join(
        f"(g + {n}) % 1000, g / {n + 3}.0, g / {n + 4}.0, 'value ' || g + {n}, "
        f"date '2024-01-01' + (g + {n})::int % 999, "
        f"timestamptz '2024-01-01 00:00+00' + g * interval '{n + 1} s'"
        for n in _SIX
    )
)


def measure(parts: Sequence[str] = ()) -> Iterator[Line]:
    known = {"latency": latency, "backlog": backlog, "long": long_transaction, "copies": copies}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        both = Both(folder)
        try:
            for name in parts or known:
                yield from known[name](both, folder)
                with suppress(Exception):
                    both.unsubscribe()
        finally:
            both.close()


@contextmanager
def following(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = started(folder, "apply", "--follow")
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def started(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pgrepl", *words, "--catalog", str(folder / "catalog.db")]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=nowhere, stderr=nowhere)


# --- one row after the other ------------------------------------------------------------------------------------------


def latency(both: Both, folder: Path) -> Iterator[Line]:
    both.table(NARROW, NARROW_ROWS.format(1, 1000))
    both.subscribe()
    both.pair.pub.execute("CREATE TABLE elsewhere (a text)")
    with following(folder):
        one_by_one(both, 1_000_000, 2)
        yield from late("commit at a server, visible in the lake", one_by_one(both, 2_000_000, SECONDS))
        both.pair.pub.execute("TRUNCATE t")  # a SELECT of many rows that came one by one takes longer
        other = both.pair.connect("pub")
        other.autocommit = False
        other.execute("INSERT INTO elsewhere VALUES ('open')")
        (begin,) = both.pair.pub.execute("SELECT pg_current_wal_lsn()").fetchone()
        written = 0
        while written < BEHIND:
            both.pair.pub.execute("INSERT INTO elsewhere SELECT repeat('x', 1000) FROM generate_series(1, 100000)")
            (written,) = both.pair.pub.execute("SELECT pg_current_wal_lsn() - %s::pg_lsn", (begin,)).fetchone()
        size = f"{int(written) / 1e9:.1f} GB of WAL behind an open transaction"
        decoded = "SELECT bool_and(sent_lsn - %s::pg_lsn >= %s) FROM pg_stat_replication"
        while both.pair.pub.execute(decoded, (begin, written)).fetchone() != (True,):
            time.sleep(0.2)
        one_by_one(both, 3_000_000, 2)
        yield from late(f"the same, {size}", one_by_one(both, 4_000_000, SECONDS))
        other.rollback()
        other.close()


def one_by_one(both: Both, first: int, seconds: int) -> list[float]:
    """Seconds between the commit of each row at the server and the moment when a session of the lake sees it."""
    committed: dict[int, float] = {}
    until = first + seconds * RATE

    def commit() -> None:
        with both.pair.connect("pub") as link:
            link.execute("SET synchronous_commit = on")  # what is not on disk is not sent
            began = time.perf_counter()
            for number in range(first, until):
                time.sleep(max(0.0, began + (number - first) / RATE - time.perf_counter()))
                link.execute(f"INSERT INTO t {NARROW_ROWS.format(number, number)}")
                committed[number] = time.perf_counter()

    thread = threading.Thread(target=commit)
    thread.start()
    found: list[float] = []
    version, seen = -1, first
    while seen < until:
        if (now := both.session.link.version()) == version:
            time.sleep(0.0005)
            continue
        version = now
        ((highest,),) = both.sql(f"SELECT max(id) FROM t WHERE id < {until}")
        at = time.perf_counter()
        for number in range(seen, int(highest or 0) + 1):
            found.append(max(0.0, at - committed.get(number, at)))
            seen = number + 1
    thread.join()
    return sorted(found)


def late(what: str, found: list[float]) -> Iterator[Line]:
    for name, share, limit in (("p50", 0.5, 40), ("p99", 0.99, 200)):
        value = found[int(len(found) * share)] * 1000
        yield f"{what}: {name} of {len(found):,}", f"{value:.1f} ms", "", f"{limit} ms", value <= limit


# --- many changes -----------------------------------------------------------------------------------------------------


def backlog(both: Both, folder: Path) -> Iterator[Line]:
    """Half as many changes as the table has rows, a hundred in each transaction; then transactions of one row."""
    both.table(NARROW, NARROW_ROWS.format(1, ROWS))
    both.subscribe()
    both.change("INSERT INTO t (id) VALUES (-2)")
    both.pair.pub.execute("DELETE FROM t WHERE id = -1")
    both.catch_up()
    each = ROWS // 200
    work = "UPDATE t SET k = k + 1 WHERE id BETWEEN i * 100 + 1 AND i * 100 + 100"
    with Processor(both) as processor:
        theirs, ours = both.change(
            f"DO $$ BEGIN FOR i IN 0..{each - 1} LOOP {work}; COMMIT; END LOOP; END $$", between=processor.next
        )
    both.check()
    what = f"{ROWS // 2:,} changes in {each:,} transactions"
    yield compared(what, theirs, ours, 2.7)
    by_postgres, by_us = processor.taken
    yield beside(f"{what}: the server's processor", by_us, by_postgres, 1.2, "for PostgreSQL's subscriber")
    yield one_row_each(both)


class Processor:
    """The processor time of the publisher's processes that serve subscribers: first PostgreSQL's, then ours."""

    def __init__(self, both: Both) -> None:
        self._own = both.pair.pub.info.backend_pid  # makes the changes
        self._root = int((both.pair.server.folder / "data" / "postmaster.pid").read_text().split()[0])
        self._taken: list[dict[int, float]] = [{}]  # since their start
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Processor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def next(self) -> None:
        self._taken.append(dict(self._taken[-1]))

    @property
    def taken(self) -> list[float]:
        theirs, ours = (sum(each.values()) for each in self._taken)
        return [theirs, ours - theirs]

    def _run(self) -> None:
        while not self._over.wait(0.02):
            for pid in tree(self._root):
                with suppress(OSError):  # it has ended
                    if pid != self._own and b" pub " in Path(f"/proc/{pid}/cmdline").read_bytes():
                        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                        self._taken[-1][pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- one long transaction ---------------------------------------------------------------------------------------------


def long_transaction(both: Both, folder: Path) -> Iterator[Line]:
    """Twice as many changes as the table of the others has rows, received while the transaction is in progress. No
    subscriber of PostgreSQL's takes them, too: the time would be that of both."""
    both.table(NARROW, NARROW_ROWS.format(1, 1000))
    both.pair.pub.execute("DROP PUBLICATION IF EXISTS p")
    both.pair.pub.execute("CREATE PUBLICATION p FOR TABLE t")
    both.subscribe_only(f"slot_name = {SLOT}, streaming = on")
    both.catch_up()
    changes = ROWS * 2
    with both.pair.connect("pub") as link, following(folder) as process:
        link.autocommit = False
        memory = Peak(process.pid)
        sending = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')"
        while both.pair.pub.execute(sending).fetchone() != (True,):
            time.sleep(0.1)
        for part in range(10):
            first, behind = (10**6 + n * changes // 10 for n in (part, part + 1))
            link.execute(f"INSERT INTO t {NARROW_ROWS.format(first, behind - 1)}")
        link.commit()
        began = time.perf_counter()
        while both.sql("SELECT count(*) FROM t") != [(str(changes + 1000),)]:
            time.sleep(0.2)
        taken = time.perf_counter() - began
    streamed = "SELECT stream_txns > 0 FROM pg_stat_replication_slots WHERE slot_name = %s"
    assert both.pair.pub.execute(streamed, (SLOT,)).fetchone() == (True,)
    what = f"{changes:,} changes in one transaction, streamed while in progress"
    most = memory.megabytes
    yield f"{what}: memory", f"{most} MB ({taken:.1f} s after its commit)", "", "700 MB", most <= 700


class Peak:
    """The largest memory of a process, which is looked at until it ends."""

    def __init__(self, pid: int) -> None:
        self.megabytes = 0
        self._pid = pid
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError, StopIteration):  # it has ended
            while True:
                self.megabytes = max(self.megabytes, peak(self._pid)[1])
                time.sleep(0.2)


# --- copies -----------------------------------------------------------------------------------------------------------


def copies(both: Both, folder: Path) -> Iterator[Line]:
    for columns, rows, count in ((WIDE, WIDE_ROWS, ROWS // 5), (NARROW, NARROW_ROWS, ROWS * 2)):
        both.table(columns, rows.format(1, count))
        both.pair.pub.execute("VACUUM ANALYZE t")  # the server does not while it is measured
        floor = min(into_nothing(both) for _ in range(2))
        what = f"copy of {count:,} rows of {columns.count(',') + 1 - columns.count('(12,')} columns"
        both.pair.pub.execute("DROP PUBLICATION IF EXISTS p")
        both.pair.pub.execute("CREATE PUBLICATION p FOR TABLE t")
        local = min(copied(both, folder, "local") for _ in range(2))
        yield beside(f"{what}, in this process", local, floor, 1.5)
        yield beside(f"{what}, whole command as a Spark job", copied(both, folder, "spark"), floor, 2.5)
    yield beside(f"{what}, killed {KILLS} times", copied(both, folder, "local", KILLS), local, 1.3, "undisturbed")


def into_nothing(both: Both) -> float:
    """Seconds of psql for a binary COPY whose bytes are thrown away."""
    server = both.pair.server
    began = time.perf_counter()
    command = [
        wheel_binaries(16) / "psql",
        "-X",
        "-h",
        server.host,
        "-p",
        str(server.port),
        "-U",
        "postgres",
        "-d",
        "pub",
    ]
    copy = [*command, "-c", "COPY t TO STDOUT (FORMAT binary)"]
    subprocess.run(copy, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def copied(both: Both, folder: Path, engine: str, kills: int = 0) -> float:
    """Seconds of `pgrepl sync`, killed at random moments. What has passed while it did not run does not count."""
    both.sql(f"TRUNCATE t; ALTER DATABASE postgres SET pgrepl.engine = {engine}")
    both.subscribe_only("enabled = true")
    taken, dice = 0.0, random.Random(1)
    for patience in [*(dice.uniform(2.0, 8.0) for _ in range(kills)), None]:
        process = started(folder, "sync", "s")
        began = time.perf_counter()
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        process.kill()
        process.wait()
        taken += time.perf_counter() - began
    (count,) = both.pair.pub.execute("SELECT count(*) FROM t").fetchone()
    assert both.sql("SELECT count(*), count(DISTINCT id) FROM t") == [(str(count), str(count))]
    both.sql("DROP SUBSCRIPTION s")
    return taken


def beside(what: str, taken: float, floor: float, limit: float, name: str = "binary COPY into nothing") -> Line:
    ratio = taken / floor
    return what, f"{taken:.2f} s, {ratio:.2f} x", f"{name} {floor:.2f} s", f"{limit} x", ratio <= limit


if __name__ == "__main__":
    for line in measure(sys.argv[1:]):
        print(*line, sep="  |  ", flush=True)
