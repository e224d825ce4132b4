"""Batches of changes in a table and in one ten times as large, in files of 500,000 rows: 100,000 rows next to each
other, and one row of each hundred, which is in every file.

`PGREPL_BENCH_ROWS` makes both tables smaller.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lake import COLUMNS, ROWS, Line, ratio
from tests.harness.pair import Pair

IN_FILE = ROWS // 20
CLUSTERED, TURNS = ROWS // 100, 3


def table(folder: Path, rows: int) -> Pair:
    """A publisher and a subscriber with the same rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    pair = Pair(folder)
    pair.both(f"CREATE TABLE t {COLUMNS}")
    for low in range(0, rows, IN_FILE):
        ids = np.arange(low, low + IN_FILE)
        columns = {"id": ids, "k": pa.array(ids % 1000, pa.int32()), "s": [f"value {n}" for n in ids], "d": ids * 0.5}
        pq.write_table(pa.table(columns), folder / "part.parquet")
        pair.both(f"COPY t FROM '{folder}/part.parquet' (FORMAT parquet)")
    pair.both("ALTER TABLE t ADD PRIMARY KEY (id)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.sub.subscribe("p", "host=localhost dbname=pub", "WITH (copy_data = false)")
    return pair


def fastest(pair: Pair, conditions: list[str]) -> float:
    """Seconds that the batch takes, for each of these conditions."""
    times = []
    for condition in conditions:
        pair.pub(f"UPDATE t SET k = k + 1 WHERE {condition}")
        began = time.perf_counter()
        assert pair.catch_up() == []
        times.append(time.perf_counter() - began)
    totals = "SELECT count(*), sum(k) FROM t"
    assert pair.pub(totals) == pair.sub(totals)
    return min(times)


def measure() -> Iterator[Line]:
    clustered, scattered = [], []
    for rows in (ROWS, 10 * ROWS):
        with tempfile.TemporaryDirectory() as work:
            pair = table(Path(work), rows)
            starts = [rows // 10 * (1 + 2 * turn) for turn in range(TURNS)]
            clustered.append(fastest(pair, [f"id >= {low} AND id < {low + CLUSTERED}" for low in starts]))
            scattered.append(fastest(pair, [f"id % 100 = {7 + turn}" for turn in range(TURNS)]))
            pair.close()
    (few, many), (small, large) = clustered, scattered
    yield ratio(f"{CLUSTERED:,} clustered changes of {10 * ROWS:,} rows", many, few, f"of {ROWS:,}", 1.5)
    yield ratio(f"1 % of {10 * ROWS:,} rows, scattered", large, small, f"of {ROWS:,}", 10)


if __name__ == "__main__":
    for line in measure():
        print(*line, sep="  |  ", flush=True)
