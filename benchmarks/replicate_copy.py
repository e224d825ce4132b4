"""The initial copy of half of a lake's table beside DuckDB's CREATE TABLE … AS SELECT … WHERE into a DuckLake of the
same rows: warm, in one process each, and as whole commands from cold. Both sides take turns: others may work, too.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.clock import ROOT, environment
from benchmarks.lake import COLUMNS, ROWS, Line, ratio

TURNS = 5
DUCK = """
import glob, importlib, sys, time, duckdb
def extension(name):
    folder = next(iter(importlib.import_module("duckdb_extension_" + name).__path__))
    return glob.glob(folder + "/**/*.duckdb_extension", recursive=True)[0]
link = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("sqlite_scanner", "ducklake"):
    link.execute("LOAD '" + extension(name) + "'")
link.execute("SET enable_progress_bar = false")
link.execute("ATTACH 'ducklake:sqlite:" + sys.argv[1] + "/duck.db' AS l (DATA_PATH '" + sys.argv[1] + "/duck')")
"""
COPY = """
def copy():
    link.execute("DROP TABLE IF EXISTS l.half")
    began = time.perf_counter()
    link.execute("CREATE TABLE l.half AS SELECT * FROM l.t WHERE id % 2 = 0")
    print(time.perf_counter() - began, flush=True)
"""
MAKE = 'link.execute("CREATE TABLE l.t AS SELECT * FROM \'" + sys.argv[1] + "/source.parquet\'")'
ONCE = "copy()"
AGAIN = "for line in sys.stdin: copy()"


class Copies:
    """A publisher and a subscriber of one catalog, and DuckDB beside them."""

    def __init__(self, folder: Path) -> None:
        from pgrepl.backend import open_session
        from pgrepl.catalog.store.opening import open_catalog

        self.folder = folder
        self.catalog = open_catalog(folder / "catalog.db")
        first = open_session(self.catalog)
        self._run(first, "CREATE DATABASE pub", "CREATE DATABASE sub")
        first.close()
        self.pub, self.sub = open_session(self.catalog, "pub"), open_session(self.catalog, "sub")
        write_source(folder / "source.parquet")
        self._run(self.pub, f"CREATE TABLE t {COLUMNS}", f"COPY t FROM '{folder}/source.parquet' (FORMAT parquet)")
        self._run(self.pub, "ALTER TABLE t ADD PRIMARY KEY (id)")
        self._run(self.pub, "CREATE PUBLICATION half FOR TABLE t WHERE (id % 2 = 0)")
        self._run(self.sub, "CREATE TABLE t (id bigint PRIMARY KEY, k int, s text, d double precision)")
        self._python(DUCK + MAKE)
        command = [sys.executable, "-c", DUCK + COPY + AGAIN, str(folder)]
        self.duck = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _run(self, session: Any, *statements: str) -> list[tuple[str | None, ...]]:
        from pgrepl.statements.run import run

        return [row for text in statements for result in run(session, text) for row in result.rows]

    def _python(self, code: str) -> None:
        subprocess.run([sys.executable, "-c", code, str(self.folder)], check=True, capture_output=True)

    def prepare(self, engine: str) -> None:
        if self._run(self.sub, "SELECT 1 FROM pg_subscription"):
            self._run(self.sub, "DROP SUBSCRIPTION half", "TRUNCATE t")
        self._run(self.sub, f"ALTER DATABASE sub SET pgrepl.engine = {engine}")
        self._run(self.sub, "CREATE SUBSCRIPTION half CONNECTION 'dbname=pub' PUBLICATION half")

    def check(self) -> None:
        assert self._run(self.sub, "SELECT count(*) FROM t") == [(str((ROWS + 1) // 2),)]

    # --- warm ---------------------------------------------------------------------------------------------------------

    def warm_duck(self) -> float:
        assert self.duck.stdin is not None and self.duck.stdout is not None
        self.duck.stdin.write("copy\n")
        self.duck.stdin.flush()
        return float(self.duck.stdout.readline())

    def warm(self, engine: str) -> float:
        from benchmarks.replicate import worked

        self.prepare(engine)
        began = time.perf_counter()
        worked(self.sub, "half")
        taken = time.perf_counter() - began
        self.check()
        return taken

    # --- from cold ----------------------------------------------------------------------------------------------------

    def cold_duck(self) -> float:
        return _timed(lambda: self._python(DUCK + COPY + ONCE))

    def cold(self, engine: str) -> float:
        self.prepare(engine)
        command = [sys.executable, "-m", "pgrepl", "sync", "--catalog", str(self.folder / "catalog.db")]
        taken = _timed(lambda: subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, check=True))
        self.check()
        return taken

    def close(self) -> None:
        self.duck.kill()
        self.duck.wait()
        for session in (self.pub, self.sub):
            session.close()
        self.catalog.close()


def _timed(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def write_source(path: Path, rows: int = ROWS) -> None:
    """In 20 row groups, clustered by id."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for ids in np.array_split(np.arange(rows), 20):
        columns = {"id": ids, "k": pa.array(ids % 1000, pa.int32()), "s": [f"value {n}" for n in ids], "d": ids * 0.5}
        group = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, group.schema)
        writer.write_table(group, len(ids))
    assert writer is not None
    writer.close()


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        copies = Copies(Path(work))
        what = f"copy of half of {ROWS:,} rows"
        try:
            for _ in range(2):
                for engine in ("spark", "local"):
                    copies.warm(engine)
                copies.warm_duck()
            turns = [(copies.warm_duck(), copies.warm("spark"), copies.warm("local")) for _ in range(TURNS)]
            duck, on_spark, here = (min(times) for times in zip(*turns, strict=True))
            yield ratio(f"{what}, warm, on Spark", on_spark, duck, "DuckDB", 1.1)
            yield ratio(f"{what}, warm, in this process", here, duck, "DuckDB", 1.1)
            turns = [(copies.cold_duck(), copies.cold("spark"), copies.cold("local")) for _ in range(TURNS)]
            duck, on_spark, here = (min(times) for times in zip(*turns, strict=True))
            yield ratio(f"{what}, whole command on Spark", on_spark, duck, "DuckDB", 4.2)
            yield ratio(f"{what}, whole command in this process", here, duck, "DuckDB", 1.4)
            most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            yield f"{what}, memory of Python", f"{most:.0f} MB", "the largest process", "600 MB", most <= 600
        finally:
            copies.close()


if __name__ == "__main__":
    for line in measure():
        print(*line, sep="  |  ", flush=True)
