"""Iceberg's REST catalog of a server: what an answer takes, and what it costs commits that a reader asks all the time.

A client inserts single rows while a process asks for the table, up to 50 times a second and each time for metadata that
has to be made anew.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from benchmarks.clock import environment, paired
from tests.harness.serving import Serving, serving
from tests.postgres.server import free_port

RATE = 50  # requests a second
COMMITS = 400
TURNS = 7

Line = tuple[str, str, str, str, bool]

_ASKING = """
import sys, time, urllib.request
asked, began = 0, time.monotonic()
while True:
    urllib.request.urlopen(sys.argv[1]).read()
    print(flush=True)
    asked += 1
    time.sleep(max(began + asked / float(sys.argv[2]) - time.monotonic(), 0))
"""


def measure() -> Iterator[Line]:
    port = free_port()
    with tempfile.TemporaryDirectory() as work, serving(Path(work), "--iceberg", str(port)) as served:
        where = f"http://127.0.0.1:{port}/v1/postgres/namespaces/public/tables/t"
        served.ask("CREATE TABLE t (a bigint PRIMARY KEY, b text)")
        served.ask("INSERT INTO t SELECT g, 'b' || g FROM generate_series(1, 100000) g")
        yield answers(where)
        yield commits(served, where)


def answers(where: str) -> Line:
    for _ in range(20):
        took(where)
    same = median(took(where) for _ in range(200))
    tag = urllib.request.urlopen(where).headers["ETag"]
    known = median(took(where, tag) for _ in range(200))
    text = f"{same:.1f} ms, with If-None-Match {known:.1f} ms"
    return "REST: a table that has not changed", text, "", "10 ms", same <= 10


def took(where: str, tag: str = "") -> float:
    began = time.perf_counter()
    try:
        urllib.request.urlopen(urllib.request.Request(where, headers={"If-None-Match": tag} if tag else {})).read()
    except urllib.error.HTTPError as answer:
        assert answer.code == 304, answer
    return (time.perf_counter() - began) * 1000


def commits(served: Serving, where: str) -> Line:
    with served.connect() as connection:
        connection.prepare_threshold = 0
        number = iter(range(1_000_000, 10_000_000))
        answered: list[float] = []

        def insert() -> float:
            """Milliseconds of a commit."""
            times = [inserted(connection, next(number)) for _ in range(COMMITS)]
            return median(times)

        def while_asked() -> float:
            with asking(where, answered):
                return insert()

        insert()
        asked, alone = paired(while_asked, insert, TURNS)
    text = f"{asked:.2f} ms, {asked / alone:.2f} times as long; {median(answered):.0f} answers a second"
    return (
        f"INSERT of a row while asked {RATE} times a second",
        text,
        f"unasked {alone:.2f} ms",
        "1.1",
        asked <= alone * 1.1,
    )


def inserted(connection: psycopg.Connection[Any], number: int) -> float:
    began = time.perf_counter()
    connection.execute("INSERT INTO t VALUES (%s, 'x')", (number,))
    return (time.perf_counter() - began) * 1000


@contextmanager
def asking(where: str, answered: list[float]) -> Iterator[None]:
    """Ask from another process; how many answers a second it got."""
    program = [sys.executable, "-c", _ASKING, where, str(RATE)]
    with subprocess.Popen(program, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            began = time.perf_counter()
            yield
        finally:
            process.terminate()
            answered.append(len(process.communicate()[0]) / (time.perf_counter() - began))


if __name__ == "__main__":
    for line in measure():
        print(line, flush=True)
