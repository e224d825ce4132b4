"""Files of changes read and applied by a standalone cluster of pyspark's own: two workers beside one, and beside files
that the driver reads. `PGREPL_BENCH_ROWS` makes it smaller."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cluster import driven, executors
from benchmarks.files import EVENTS, make_events, make_rows, ready
from benchmarks.lake import Line

APPLY = """
import sys, time
from pathlib import Path
from pgrepl.backend import open_session
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.engine.choice import Choice, Engine
from pgrepl.engine import spark
from pgrepl.replication.log import ServerLog
from pgrepl.replication.publisher.files import publisher
from pgrepl.replication.subscriber.worker import Worker

if sys.argv[2] == "driver":
    publisher.choose_files = lambda session, size, changes: Choice(Engine.COLUMNS, "the benchmark", changes, size)
session = open_session(open_catalog(Path(sys.argv[1])), "sub")
with reading(session):
    (subscription,) = rows(session, tables.pg_subscription)
# executors have started, and Python in them
spark.session().sparkContext.parallelize(range(8), 8).map(lambda n: time.sleep(2)).collect()
began = time.perf_counter()
done = Worker(session, subscription.oid, ServerLog(None)).round()
assert done.error is None, done.error
seconds = time.perf_counter() - began
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(done.changes, seconds, int(peak) >> 10)
"""


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        made, events = folder / "made", folder / "events"
        made.mkdir()
        events.mkdir()
        make_rows(folder / "base")
        ready(made, folder / "base", str(events), "ALTER SYSTEM SET pgrepl.spark_rows = 1;")
        make_events(events)
        by_driver, _ = _applied(folder, 2, "driver")
        one, _ = _applied(folder, 1, "tasks")
        two, memory = _applied(folder, 2, "tasks")
    told = f"{one:.1f} s, {two:.1f} s; read by the driver {by_driver:.1f} s"
    yield (
        f"{EVENTS:,} Debezium events, two workers beside one",
        f"{one / two:.2f} ({told})",
        "",
        "1.6",
        one >= 1.6 * two,
    )
    yield "… the driver's Python", f"{memory} MB", "", "400 MB", memory <= 400


def _applied(folder: Path, workers: int, reader: str) -> tuple[float, int]:
    """Seconds, and megabytes of the driver."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    shutil.copytree(folder / "made", folder / "run")
    log = folder / f"log{workers}{reader}"
    said = driven(folder, log, workers, APPLY, str(folder / "run" / "catalog.db"), reader)
    changes, seconds, memory = said.split()
    assert int(changes) == EVENTS
    assert len(executors(log, "read")) == (workers if reader == "tasks" else 0)
    return float(seconds), int(memory)


if __name__ == "__main__":
    for line in measure():
        print(*line, sep=" | ")
