"""Iceberg metadata of a table of 1,000 and of 10,000 data files, every second with a delete file: made for the first
time, unchanged, after one commit more, and the memory of the process; their data files are named in the catalog and
are not there. Then DuckDB's scan of a table as an Iceberg table beside its scan of the same files as a DuckLake table:
whole, and with 5 % of the rows deleted.

With deleted rows DuckDB 1.5.5 is slower by itself: its reader of Iceberg copies the data file's path for each position
(105 ms for 500,000; DuckLake's 17 ms) and looks up each row in a hash set (IcebergPositionalDeleteFilter::Filter has
13 % of the processor's time by perf, DuckLakeDeleteData::Filter 2.5 %). Deletion vectors load in 10 ms, but looking up
rows in them takes longer: the whole scan took 1.2 times as long as with positions.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.clock import ROOT, environment, paired, process
from benchmarks.lake import COLUMNS, ROWS, Line, ratio
from benchmarks.replicate_copy import DUCK, write_source
from benchmarks.scale import ROWS as ROWS_OF_FILE

LIMITS = {1000: (0.3, 0.005, 0.025), 10_000: (3.0, 0.06, 0.15)}  # seconds: first, unchanged, one commit more
MEMORY = 100  # MB
COMMITS, SCANS = 5, 7
LIMIT_WITH_DELETED = 1.5  # DuckDB's own, see above
TYPES = ("bigint", "text", "float8", "int", "timestamp", "numeric(10,2)", "bigint", "text", "date", "uuid")
SCAN = "SELECT count(*), sum(k), max(s), avg(d) FROM {0}"
SCANS_OF = """
import json
for name in ("avro", "iceberg"):
    link.execute("LOAD '" + extension(name) + "'")
link.execute("ATTACH 'ducklake:sqlite:" + sys.argv[1] + "/catalog.db' AS lake")
for line in sys.stdin:
    began = time.perf_counter()
    found = link.execute(line).fetchall()
    print(json.dumps([time.perf_counter() - began, [str(each) for each in found[0]]]), flush=True)
"""

ASK = """
import gc, json, sys, time
from pgrepl.backend import open_session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.catalog.session.transaction import reading
from pgrepl.iceberg import metadata, place, tables
gc.set_threshold(100_000)  # as every command has it
session = open_session(open_catalog(sys.argv[1] + "/catalog.db"))
for _ in sys.stdin:
    began = time.perf_counter()
    with reading(session):
        metadata.table_metadata(tables.find(session, ("postgres",), "t"), place.place_of(session))
    seconds = time.perf_counter() - began
    (most,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
    print(json.dumps([seconds, int(most) // 1024]), flush=True)
"""


# --- metadata ---------------------------------------------------------------------------------------------------------


def bounds(chance: random.Random) -> list[tuple[str, str]]:
    """Of the columns, in their order."""
    low, high = sorted(chance.sample(range(10**9), 2))
    whole, words = (str(low), str(high)), (f"text {low}", f"text {high}")
    floats, numbers = (str(low / 7), str(high / 7)), (f"{low % 10**6}.25", f"{10**7}.50")
    times = (f"2020-01-01 00:00:00.{low % 10**6:06}", "2021-01-01 00:00:00")
    uuids = ("0001a004-5e4e-450b-a885-d8e594abd293", "ff41eff5-de24-4bb8-b71b-337451a77acb")
    return [whole, words, floats, whole, times, numbers, whole, words, ("2020-01-01", "2020-02-02"), uuids]


def name_files(folder: Path, count: int) -> None:
    """Name so many data files in the catalog, with their statistics; every second has a delete file, which is there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = random.Random(1)
    link = sqlite3.connect(folder / "catalog.db")
    ((table, snapshot),) = link.execute("SELECT table_id, begin_snapshot FROM ducklake_table")
    there = folder / "catalog.db.files/postgres/t"
    there.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([
        pa.field(name, kind, False, {"PARQUET:field_id": number})
        for name, kind, number in (("file_path", pa.string(), "2147483546"), ("pos", pa.int64(), "2147483545"))
    ])  # fmt: skip
    for at in range(count):
        number, name = 2 * at, f"ducklake-{at:032}"
        data = (number, table, snapshot, f"{name}.parquet", 1, "parquet", ROWS_OF_FILE, 30_000, 900, at * ROWS_OF_FILE)
        link.execute(f"{_into('data')} row_id_start) VALUES ({', '.join('?' * len(data))})", data)
        for column, (low, high) in enumerate(bounds(chance), 1):
            statistics = (number, table, column, chance.randrange(10_000), ROWS_OF_FILE, 0, low, high, 0, None)
            link.execute("INSERT INTO ducklake_file_column_stats VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", statistics)
        if at % 2:
            path = there / f"{name}-delete.parquet"
            pq.write_table(pa.table([[f"{there}/{name}.parquet"] * 10, range(10)], schema=schema), path)
            size = path.stat().st_size
            deletes = (number + 1, table, snapshot, path.name, 1, "parquet", 10, size, 900, number)
            link.execute(f"{_into('delete')} data_file_id) VALUES ({', '.join('?' * len(deletes))})", deletes)
    link.execute("UPDATE ducklake_snapshot SET next_file_id = ?", (2 * count,))
    link.commit()
    link.close()


def _into(kind: str) -> str:
    rows, file_format = ("record_count", "file_format") if kind == "data" else ("delete_count", "format")
    return (
        f"INSERT INTO ducklake_{kind}_file ({kind}_file_id, table_id, begin_snapshot, path, path_is_relative,"
        f" {file_format}, {rows}, file_size_bytes, footer_size,"
    )


class Asked:
    """A process that is asked by lines, and answers each with JSON."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def __call__(self, line: str = "") -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def metadata_of(count: int) -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(TYPES))
        process(["-m", "pgrepl", "-X", "-q", "-c", f"CREATE TABLE t ({columns})"], folder)
        name_files(folder, count)
        asked = Asked("-c", ASK, str(folder))
        try:
            first, memory = asked()
            unchanged = min(asked()[0] for _ in range(COMMITS))
            more = []
            for _ in range(COMMITS):
                process(["-m", "pgrepl", "-q", "-c", "INSERT INTO t SELECT generate_series(1, 200)"], folder)
                more.append(asked()[0])
        finally:
            asked.close()
    limits = LIMITS[count]
    for what, taken, limit in zip(
        ("for the first time", "unchanged", "after a commit"), (first, unchanged, min(more)), limits, strict=True
    ):
        yield (
            f"Iceberg metadata of {count:,} files {what}",
            f"{taken * 1000:.0f} ms",
            "",
            f"{limit * 1000:.0f} ms",
            taken <= limit,
        )
    yield f"… memory with {count:,} files", f"{memory} MB", "", f"{MEMORY} MB", memory <= MEMORY


# --- a scan -----------------------------------------------------------------------------------------------------------


def scan() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        write_source(folder / "source.parquet")
        text = "".join(
            f"CREATE TABLE {name} {COLUMNS};\nCOPY {name} FROM '{folder}/source.parquet' (FORMAT parquet);\n"
            for name in ("whole", "t")
        )
        text += "DELETE FROM t WHERE id % 20 = 0;\n"
        process(["-m", "pgrepl", "-X", "-q", "-v", "ON_ERROR_STOP=1"], folder, text, PGOPTIONS="-c pgrepl.engine=local")
        process(["-m", "pgrepl", "iceberg", "export"], folder)
        ask_duck = Asked("-c", DUCK + SCANS_OF, str(folder))
        try:
            for name, what, limit in (("whole", "", 1.2), ("t", ", 5 % of them deleted,", LIMIT_WITH_DELETED)):
                ours, floor = turns(ask_duck, folder, name)
                yield ratio(f"DuckDB scans {ROWS:,} rows{what} as an Iceberg table", ours, floor, "as DuckLake", limit)
        finally:
            ask_duck.close()


def turns(ask_duck: Asked, folder: Path, name: str) -> tuple[float, float]:
    """Seconds of the scan as an Iceberg table and as a DuckLake table."""
    iceberg = SCAN.format(f"iceberg_scan('{folder}/catalog.db.iceberg/postgres/{name}')")
    lake = SCAN.format(f"lake.postgres.{name}")
    assert ask_duck(iceberg)[1] == ask_duck(lake)[1]
    return paired(lambda: float(ask_duck(iceberg)[0]), lambda: float(ask_duck(lake)[0]), SCANS)


def measure() -> Iterator[Line]:
    for count in LIMITS:
        yield from metadata_of(count)
    yield from scan()


if __name__ == "__main__":
    for line in measure():
        print(*line, sep=" | ", flush=True)
