"""Changes applied by a standalone cluster of pyspark's own: one master, and workers of one core and 1 GiB. Two of them
beside one, what the driver's Python holds, and where the tasks were.

PGREPL_BENCH_CHANGES makes it smaller.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.clock import ROOT
from benchmarks.lake import Line
from tests.harness.pair import Pair
from tests.replication.test_parts_memory import changed

CHANGES = int(os.environ.get("PGREPL_BENCH_CHANGES", 10_000_000))
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
APPLY = """
import sys, time
from pathlib import Path
from pgrepl.backend import open_session
from pgrepl.catalog.opening import open_catalog
from pgrepl.lake import spark
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
        for workers in (1, 2):
            seconds[workers], memory[workers] = _applied(folder, workers, str(subid), count)
    ratio = seconds[1] / seconds[2]
    told = f"{seconds[1]:.1f} s, {seconds[2]:.1f} s"
    yield f"{count} changes, two workers beside one", f"{ratio:.2f} ({told})", "", "1.6", ratio >= 1.6
    yield "… the driver's Python", f"{max(memory.values())} MB", "", "400 MB", max(memory.values()) <= 400


def _applied(folder: Path, workers: int, subid: str, count: int) -> tuple[float, int]:
    """Seconds, and megabytes of the driver."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    shutil.copytree(folder / "made", folder / "run")
    events = folder / f"events{workers}"
    events.mkdir()
    with _cluster(folder, workers) as master:
        conf = {
            "spark.executor.memory": "768m",
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": str(events),
        }
        settings = {"PGREPL_MASTER": master, "PGREPL_CONF": " ".join(f"{name}={value}" for name, value in conf.items())}
        done = subprocess.run(
            [sys.executable, "-c", APPLY, str(folder / "run" / "catalog.db"), subid],
            cwd=ROOT,
            env={**os.environ, **settings, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    changes, seconds, memory = done.stdout.split()
    assert int(changes) == count
    assert len(_executors(events)) == workers
    return float(seconds), int(memory)


def _executors(events: Path) -> set[str]:
    """On which parts have been applied."""
    found: set[str] = set()
    stages: list[int] = []
    for file in events.glob("*/events*"):
        for event in map(json.loads, file.read_text().splitlines()):
            if event["Event"] == "SparkListenerJobStart":
                told = event["Properties"].get("spark.job.description") or ""
                stages += event["Stage IDs"] if told.endswith(": apply") else []
            elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in stages:
                found.add(event["Task Info"]["Executor ID"])
    return found


@contextmanager
def _cluster(folder: Path, workers: int) -> Iterator[str]:
    """The URL of its master."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    small = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_DIR": str(folder / "work")}
    with ExitStack() as stack:

        def start(*words: str) -> None:
            with (folder / "log").open("a") as log:
                made = subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *words], env={**os.environ, **small}, stdout=log, stderr=log
                )
            stack.callback(made.wait)
            stack.callback(made.terminate)

        start(MASTER, "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(_free_port()))
        _wait_for(port)
        for _ in range(workers):
            start(WORKER, "--host", "127.0.0.1", "-c", "1", "-m", "1g", "--webui-port", str(_free_port()), master)
        yield master


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


def _wait_for(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("no master within a minute")
