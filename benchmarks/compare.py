"""`pgrepl compare` of equal rows: with a server, beside its own hash of all rows; with a lake, beside a copy."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clock import ROOT, environment
from benchmarks.lake import COLUMNS, ROWS, Line, ratio
from benchmarks.replicate_server import SETTINGS

_MOST = 300  # MB
_OWN = "SELECT count(*), sum(hashtext(t::text)) FROM t"
_ROWS = f"SELECT i, i % 1000, 'row number ' || i, i * 0.25 FROM generate_series(1, {ROWS}) i"
_KEYED = COLUMNS.replace("id bigint", "id bigint PRIMARY KEY")


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _with_server(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield from _with_lake(Path(folder))


def _with_server(folder: Path) -> Iterator[Line]:
    import psycopg

    from tests.postgres.server import Server, wheel_binaries

    server = Server(wheel_binaries(16), settings=SETTINGS).start()
    try:
        conninfo = f"host={server.host} port={server.port} user=postgres dbname=postgres"
        with psycopg.connect(conninfo, autocommit=True) as link:
            link.execute(f"CREATE TABLE t {_KEYED}".encode())
            link.execute(f"INSERT INTO t {_ROWS}".encode())
            link.execute("VACUUM ANALYZE t")
            link.execute("CREATE PUBLICATION p FOR TABLE t")
            _run(folder, "-q", "-c", "CREATE DATABASE sub")
            made = f"CREATE TABLE t {_KEYED}", f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION p"
            _run(folder, "-q", "-d", "sub", *[word for text in made for word in ("-c", text)])
            _run(folder, "sync")
            own = []
            for _ in range(3):
                began = time.perf_counter()
                link.execute(_OWN).fetchall()
                own.append(time.perf_counter() - began)
        ours = min(_run(folder, "compare", "s") for _ in range(3))
        peak = _peak(folder, "compare", "s")
    finally:
        server.stop()
    yield ratio(f"compare with a server, {ROWS:,} rows, the whole command", ours, min(own), _OWN, 2.0)
    yield "  its memory", f"{peak:,.0f} MB", "", f"{_MOST} MB", peak <= _MOST


def _with_lake(folder: Path) -> Iterator[Line]:
    _run(folder, "-q", "-c", "CREATE DATABASE pub", "-c", "CREATE DATABASE sub")
    made = f"CREATE TABLE t {_KEYED}", f"INSERT INTO t {_ROWS}", "CREATE PUBLICATION p FOR TABLE t"
    _run(folder, "-q", "-d", "pub", *[word for text in made for word in ("-c", text)])
    made = f"CREATE TABLE t {_KEYED}", "CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION p"
    _run(folder, "-q", "-d", "sub", *[word for text in made for word in ("-c", text)])
    _run(folder, "sync")
    copy = min(_run(folder, "sync", "s", "--again", "t") for _ in range(3))
    ours = min(_run(folder, "compare", "s") for _ in range(3))
    yield ratio(f"compare with a lake, {ROWS:,} rows, the whole command", ours, copy, "pgrepl sync --again", 1.5)


def _run(folder: Path, *arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pgrepl", *arguments],
        cwd=folder, env=environment(PYTHONPATH=str(ROOT)), check=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - began


def _peak(folder: Path, *arguments: str) -> float:
    """The largest resident set of a command, in MB."""
    code = (
        "import resource, sys; from pgrepl.cli import run; run(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder, env=environment(PYTHONPATH=str(ROOT)), check=True, capture_output=True, text=True,
    )  # fmt: skip
    return int(done.stdout.split()[-1]) / 1024
