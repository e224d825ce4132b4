"""Changes applied by a standalone cluster of pyspark's own: one master, and workers of one core and 1 GiB. Two of them
beside one, what the driver's Python holds, and where the tasks were.

Two workers and a driver do not fit on two cores: where control groups can be made, each worker has half a core.

PGREPL_BENCH_CHANGES makes it smaller.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cluster import can_be_held, driven, executors
from benchmarks.lake import Line
from tests.harness.pair import Pair
from tests.replication.test_parts_memory import changed

CHANGES = int(os.environ.get("PGREPL_BENCH_CHANGES", 10_000_000))
APPLY = """
import sys, time
from pathlib import Path
from pgrepl.backend import open_session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.engine import spark
from pgrepl.replication.log import ServerLog
from pgrepl.replication.subscriber.worker import Worker

session = open_session(open_catalog(Path(sys.argv[1])), "sub")
# executors have started, and Python in them
spark.session().sparkContext.parallelize(range(8), 8).map(lambda n: time.sleep(2)).collect()
began = time.perf_counter()
done = Worker(session, int(sys.argv[2]), ServerLog(None)).round()
assert done.error is None, done.error
seconds = time.perf_counter() - began
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(done.changes, seconds, int(peak) >> 10)
"""


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        (folder / "made").mkdir()
        pair = Pair(folder / "made")
        pair.sub("ALTER SYSTEM SET pgrepl.spark_rows = 1")
        count = changed(pair, CHANGES // 22 * 20)
        ((subid,),) = pair.sub("SELECT oid FROM pg_subscription")
        pair.close()
        seconds, memory = {}, {}
        share = 0.5 if (os.cpu_count() or 1) < 4 and can_be_held() else 1.0
        for workers in (1, 2):
            seconds[workers], memory[workers] = _applied(folder, workers, share, str(subid), count)
    ratio = seconds[1] / seconds[2]
    told = f"{seconds[1]:.1f} s, {seconds[2]:.1f} s"
    cores = "" if share == 1 else f" of {share} cores"
    yield f"{count} changes, two workers{cores} beside one", f"{ratio:.2f} ({told})", "", "1.6", ratio >= 1.6
    yield "… the driver's Python", f"{max(memory.values())} MB", "", "400 MB", max(memory.values()) <= 400


def _applied(folder: Path, workers: int, share: float, subid: str, count: int) -> tuple[float, int]:
    """Seconds, and megabytes of the driver."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    shutil.copytree(folder / "made", folder / "run")
    events = folder / f"events{workers}"
    said = driven(folder, events, workers, APPLY, str(folder / "run" / "catalog.db"), subid, share=share)
    changes, seconds, memory = said.split()
    assert int(changes) == count
    assert len(executors(events, "apply")) == workers
    return float(seconds), int(memory)
