"""What a history costs: the batch of replicate_batch applied to a table without one, with its changes, and with the
versions of its rows, in turns of one run: processor seconds of this process, in which threads apply it; on Spark time.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lake import ROWS, Line, ratio
from benchmarks.replicate_batch import TURNS, Batches
from tests.harness.database import ask, visit

_NONE = "none"
_KEPT = ("changes", "versions")
_LIMIT = 1.5


class Kept(Batches):
    """The batch for subscribers that keep none, changes or versions; with rows that were there before."""

    def __init__(self, folder: Path, rows: int) -> None:
        super().__init__(folder, rows)
        for kept in _KEPT:
            shutil.copytree(folder / "made", folder / kept)
            with visit(folder / kept / "catalog.db", "sub") as sub:
                ask(sub, f"ALTER SUBSCRIPTION s SET (history = {kept})")
        (folder / "made").rename(folder / _NONE)
        self.kept = _NONE

    def catalog(self, engine: str) -> Path:
        shutil.copytree(self.folder / self.kept, self.folder / "made")
        try:
            return super().catalog(engine)
        finally:
            shutil.rmtree(self.folder / "made")

    def times(self, engine: str) -> dict[str, float]:
        found = {}
        for kept in (_NONE, *_KEPT):
            self.kept = kept
            found[kept] = self.warm(engine, time.process_time if engine == "local" else time.perf_counter)
        return found


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        batches = Kept(Path(work), ROWS)
        for engine, where in (("local", "in this process"), ("spark", "on Spark")):
            turns = [batches.times(engine) for _ in range(TURNS + 1)][1:]
            fastest = {kept: min(turn[kept] for turn in turns) for kept in turns[0]}
            for kept in _KEPT:
                what = f"{ROWS // 2:,} changes of {ROWS:,} rows with history = {kept}, {where}"
                yield ratio(what, fastest[kept], fastest[_NONE], "without", _LIMIT)


if __name__ == "__main__":
    for line in measure():
        print(*line, sep="  |  ", flush=True)
