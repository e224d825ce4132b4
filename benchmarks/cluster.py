"""A standalone cluster of pyspark's own: one master, and workers of one core and 1 GiB."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.clock import ROOT

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CPU = "cpu", "cpu.cfs_quota_us", "cpu.max"  # microseconds of each 100,000
MEMORY = "memory", "memory.limit_in_bytes", "memory.max"
_PERIOD = 100_000


def driven(folder: Path, events: Path, workers: int, script: str, *words: str, share: float = 1.0) -> str:
    """What a driver with so many workers printed, each of which has a share of a core. Spark's event log is in
    `events`."""
    events.mkdir()
    with cluster(folder, workers, share) as master:
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
            [sys.executable, "-c", script, *words],
            cwd=ROOT,
            env={**os.environ, **settings, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def executors(events: Path, step: str) -> set[str]:
    """On which the tasks of a step of the work were."""
    found: set[str] = set()
    stages: list[int] = []
    for file in events.glob("*/events*"):
        for event in map(json.loads, file.read_text().splitlines()):
            if event["Event"] == "SparkListenerJobStart":
                told = event["Properties"].get("spark.job.description") or ""
                stages += event["Stage IDs"] if told.endswith(f": {step}") else []
            elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in stages:
                found.add(event["Task Info"]["Executor ID"])
    return found


def can_be_held(kind: tuple[str, str, str] = CPU) -> bool:
    """May this process make control groups, so that several workers and a driver fit on a small machine?"""
    try:
        with group(kind, 1 << 30 if kind is MEMORY else _PERIOD):
            return True
    except OSError:
        return False


@contextmanager
def group(kind: tuple[str, str, str], limit: int) -> Iterator[Path]:
    """A control group, of version 1 or 2, with a limit for all its processes together."""
    controller, first, second = kind
    parent = Path("/sys/fs/cgroup") / controller
    if not parent.exists():
        parent, first = parent.parent, second
    made = parent / f"pgrepl-bench-{secrets.token_hex(4)}"
    made.mkdir()
    try:
        (made / first).write_text(str(limit))
        yield made
    finally:
        for _ in range(100):
            try:
                made.rmdir()
                break
            except OSError:  # its processes have not ended yet
                time.sleep(0.1)


def inside(made: Path, command: list[str]) -> list[str]:
    """The command, which a process in this group runs."""
    return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(made), *command]


@contextmanager
def cluster(folder: Path, workers: int, share: float = 1.0) -> Iterator[str]:
    """The URL of its master."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    small = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_DIR": str(folder / "work")}
    with ExitStack() as stack:

        def start(*words: str) -> None:
            command = [str(home / "bin" / "spark-class"), *words]
            if share < 1 and words[0] == WORKER:
                command = inside(stack.enter_context(group(CPU, int(share * _PERIOD))), command)
            with (folder / "log").open("a") as log:
                made = subprocess.Popen(command, env={**os.environ, **small}, stdout=log, stderr=log)
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
