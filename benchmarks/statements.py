"""UPDATE of 22 %, DELETE of 5 % and INSERT of 22 % of a lake's table by three statements, beside DuckDB doing the same
to a DuckLake of the same rows; COPY of a Parquet file of all rows beside its CREATE TABLE … AS: warm, in one process
each. Both sides take turns: others may work, too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lake import COLUMNS, ROWS, Bench, Line, ratio
from benchmarks.replicate_copy import DUCK, MAKE, write_source

TURNS = 3
AGAIN = """
for line in sys.stdin:
    began = time.perf_counter()
    for text in line.split(";"):
        link.execute(text)
    print(time.perf_counter() - began, flush=True)
"""
UPDATED, DELETED, INSERTED = ROWS * 225 // 1000, ROWS * 5 // 100, ROWS * 225 // 1000


def statements(turn: int, table: str, series: str) -> list[str]:
    """Each turn changes other rows; `series` gives numbers up to the last, or to the one behind it."""
    low, gone, fresh = turn * UPDATED, ROWS - (turn + 1) * DELETED, ROWS + turn * INSERTED
    return [
        f"UPDATE {table} SET k = k + 1, s = 'changed ' || id WHERE id >= {low} AND id < {low + UPDATED}",
        f"DELETE FROM {table} WHERE id >= {gone} AND id < {gone + DELETED}",
        f"INSERT INTO {table} SELECT g, g % 1000 + 1, 'new ' || g, g * 0.5 "
        f"FROM {series.format(fresh, fresh + INSERTED, fresh + INSERTED - 1)}",
    ]


class Changes:
    def __init__(self, folder: Path, engine: str) -> None:
        self.bench, self.folder = Bench(folder), folder
        write_source(folder / "source.parquet")
        self.bench.sql(f"SET pgrepl.engine = {engine}")
        self.bench.sql(f"CREATE TABLE t {COLUMNS}")
        self.bench.sql(f"COPY t FROM '{folder}/source.parquet' (FORMAT parquet)")
        self.bench.sql("ALTER TABLE t ADD PRIMARY KEY (id)")
        command = [sys.executable, "-c", DUCK + MAKE + AGAIN, str(folder)]
        self.duck = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ours(self, turn: int) -> float:
        began = time.perf_counter()
        for text in statements(turn, "t", "generate_series({0}, {2}) g"):
            self.bench.sql(text)
        return time.perf_counter() - began

    def theirs(self, turn: int) -> float:
        return self._duck(";".join(statements(turn, "l.t", "range({0}, {1}) r(g)")))

    def our_copy(self, turn: int) -> float:
        self.bench.sql(f"CREATE TABLE c{turn} {COLUMNS}")
        copy = f"COPY c{turn} FROM '{self.folder}/source.parquet' (FORMAT parquet)"
        return self.bench.timed(lambda: self.bench.sql(copy))

    def their_copy(self, turn: int) -> float:
        return self._duck(f"CREATE TABLE l.c{turn} AS SELECT * FROM '{self.folder}/source.parquet'")

    def _duck(self, line: str) -> float:
        assert self.duck.stdin is not None and self.duck.stdout is not None
        self.duck.stdin.write(line + "\n")
        self.duck.stdin.flush()
        return float(self.duck.stdout.readline())

    def close(self) -> None:
        self.duck.kill()
        self.duck.wait()
        self.bench.close()


def measure() -> Iterator[Line]:
    for engine in ("auto", "local"):
        with tempfile.TemporaryDirectory() as work:
            changes = Changes(Path(work), engine)
            try:
                changed = [(changes.ours(turn), changes.theirs(turn)) for turn in range(TURNS)]
                copied = [(changes.our_copy(turn), changes.their_copy(turn)) for turn in range(TURNS)]
            finally:
                changes.close()
        for what, turns in (
            (f"UPDATE, DELETE, INSERT of half as many as {ROWS:,} rows", changed),
            (f"COPY of a Parquet file of {ROWS:,} rows", copied),
        ):
            ours, theirs = (min(times) for times in zip(*turns, strict=True))
            yield ratio(f"{what}, engine = {engine}", ours, theirs, "DuckDB", 2)


if __name__ == "__main__":
    for line in measure():
        print(*line, sep="  |  ", flush=True)
