"""A transaction with half as many changes as the table has rows (45 updates, 10 deletes, 45 inserts of a hundred),
applied, beside DuckDB's DELETE, UPDATE … FROM and INSERT in one transaction on a DuckLake of the same rows: warm, in
one process each, and from cold, as whole commands. Both sides take turns: others may work, too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.clock import ROOT, environment
from benchmarks.lake import COLUMNS, ROWS, Line, ratio
from benchmarks.replicate_copy import DUCK, write_source
from benchmarks.replicate_history import Step, play
from tests.harness.database import ask, visit
from tests.harness.pair import Pair

TURNS = 3
TOTALS = "SELECT count(*), sum(id), sum(k), sum(length(s)) FROM t"
BATCH = """
began = time.perf_counter()
for name, low, high, word in CHANGES:
    link.execute(f"CREATE TEMP TABLE {name} AS SELECT id, (id % 1000 + 1)::INTEGER AS k, '{word} ' || id AS s, "
                 f"id * 0.5::DOUBLE AS d FROM range({low}, {high}) r(id)")
def batch():
    link.execute("DROP TABLE IF EXISTS l.t")
    link.execute("CREATE TABLE l.t AS SELECT * FROM '" + sys.argv[1] + "/source.parquet'")
    began = time.perf_counter()
    link.execute("BEGIN")
    link.execute("DELETE FROM l.t WHERE id IN (SELECT id FROM gone)")
    link.execute("UPDATE l.t AS t SET k = c.k, s = c.s, d = c.d FROM changed c WHERE t.id = c.id")
    link.execute("INSERT INTO l.t SELECT * FROM fresh")
    link.execute("COMMIT")
    return time.perf_counter() - began
"""
ONCE = "\nprint(loaded + batch())"
AGAIN = "\nfor line in sys.stdin: print(batch(), flush=True)"


def step(rows: int) -> Step:
    many, gone = rows * 225 // 1000, rows * 5 // 100
    return Step((0, many), (rows - gone, rows), (rows, rows + many))


def prepare(folder: Path, rows: int) -> None:
    """A publisher with the changes, and a subscriber that has the rows and not the changes."""
    write_source(folder / "source.parquet", rows)
    pair = Pair(folder / "made")
    pair.both(f"CREATE TABLE t {COLUMNS}")
    pair.both(f"COPY t FROM '{folder}/source.parquet' (FORMAT parquet)")
    pair.both("ALTER TABLE t ADD PRIMARY KEY (id)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.sub.subscribe("p", "host=localhost dbname=pub", "WITH (copy_data = false)")
    play(pair.pub.session, "t", rows, [step(rows)])
    pair.close()


class Batches:
    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.rows = folder, rows
        prepare(folder, rows)
        changed = step(rows)
        changes = [
            ("gone", *changed.deleted, "old"),
            ("changed", *changed.updated, "changed"),
            ("fresh", *changed.inserted, "new"),
        ]
        self._script = f"import time\nstarted = time.perf_counter()\n{DUCK}\nloaded = time.perf_counter() - started\n"
        self._script += f"CHANGES = {changes!r}\n{BATCH}"

    @contextmanager
    def duck(self) -> Iterator[Callable[[], float]]:
        """A warm DuckDB, which plays the batch at each call."""
        command = [sys.executable, "-c", self._script + AGAIN, str(self.folder)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def once() -> float:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        with process:
            yield once
            process.kill()

    def cold_duck(self) -> float:
        """With the start of Python and the extensions; its tables are made before."""
        command = [sys.executable, "-c", self._script + ONCE, str(self.folder)]
        return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)

    def catalog(self, engine: str) -> Path:
        """A copy of the publisher and the subscriber."""
        run = self.folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(self.folder / "made", run)
        with visit(run / "catalog.db") as session:
            ask(session, f"ALTER DATABASE sub SET pgrepl.engine = {engine}")
        return run / "catalog.db"

    def command(self, engine: str) -> list[str]:
        return [sys.executable, "-m", "pgrepl", "apply", "--catalog", str(self.catalog(engine))]

    def check(self) -> None:
        catalog = self.folder / "run" / "catalog.db"
        with visit(catalog, "pub") as pub, visit(catalog, "sub") as sub:
            assert ask(pub, TOTALS) == ask(sub, TOTALS)

    def warm(self, engine: str, clock: Callable[[], float] = time.perf_counter) -> float:
        from benchmarks.replicate import worked

        with visit(self.catalog(engine), "sub") as sub:
            ask(sub, f"SET pgrepl.engine = {engine}")
            began = clock()
            done = worked(sub, "s")
            taken = clock() - began
        assert done.changes >= self.rows // 2 - 2
        self.check()
        return taken

    def cold(self, engine: str) -> float:
        command = self.command(engine)
        began = time.perf_counter()
        subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, check=True)
        taken = time.perf_counter() - began
        self.check()
        return taken


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        batches = Batches(Path(work), ROWS)
        what = f"{ROWS // 2:,} changes in one transaction on {ROWS:,} rows"
        with batches.duck() as theirs:
            for engine in ("spark", "local"):
                batches.warm(engine)
            turns = [(batches.warm("auto"), batches.warm("local"), theirs()) for _ in range(TURNS + 1)]
        on_spark, here, floor = _fastest(turns[1:])
        yield ratio(f"{what}, warm, on Spark", on_spark, floor, "DuckDB", 0.6)
        yield ratio(f"{what}, warm, in this process", here, floor, "DuckDB", 0.8)
        cold = [(batches.cold("auto"), batches.cold("local"), batches.cold_duck()) for _ in range(TURNS)]
        on_spark, here, floor = _fastest(cold)
        yield ratio(f"{what}, whole command on Spark", on_spark, floor, "DuckDB", 1.6)
        yield ratio(f"{what}, whole command in this process", here, floor, "DuckDB", 1.0)


def _fastest(turns: Sequence[tuple[float, ...]]) -> list[float]:
    return [min(times) for times in zip(*turns, strict=True)]


if __name__ == "__main__":
    for line in measure():
        print(*line, sep="  |  ", flush=True)
