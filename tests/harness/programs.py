"""pgrepl in a process of its own, and waiting for what another process or thread is to do."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.mutants.mutate import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
STORAGE = ("PGREPL_S3_ENDPOINT",)  # where a test's bucket is
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # the last optimizations cost more than they spare
QUICK_JVM = f"spark.driver.extraJavaOptions={_QUICK}"
QUICK_CONF = {"PGREPL_CONF": shlex.quote(QUICK_JVM)}
QUICK_EXECUTORS = f"spark.executor.extraJavaOptions={_QUICK}"
NAMED = {"PGREPL_CATALOG": "catalog.db"}  # the usual one: no notice says where it is made
QUICK_SUBMIT = {"SPARK_SUBMIT_OPTS": _QUICK}  # for the JVMs that pyspark starts by itself
PATIENCE = 120.0  # seconds until something that does not come is a failure: no test is to depend on the machine's load


def environment(home: Path | None = None, **more: str) -> dict[str, str]:
    """This process's, without what PostgreSQL's programs and a terminal would read in it."""
    theirs = ("PG", "PSQL", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if name in STORAGE or not name.startswith(theirs)}
    if home is not None:
        kept["HOME"] = str(home)
    ours = {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "TZ": "UTC", **NAMED, **QUICK_CONF, **QUICK_SUBMIT}
    return {**kept, **ours, **more}


def eventually(holds: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until it holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, holds
        time.sleep(0.02)


def child_of(parent: int) -> int:
    """The first process that it started, once there is one."""
    children: list[str] = []

    def is_there() -> bool:
        for thread in Path(f"/proc/{parent}/task").iterdir():
            children.extend((thread / "children").read_text().split())
        return bool(children)

    eventually(is_there)
    return int(children[0])


def cpu_seconds(pid: int) -> float:
    """What a process has computed so far: whether it is at work depends on no clock."""
    if not Path("/proc").exists():
        shown = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
        return sum(float(part) * 60**n for n, part in enumerate(reversed(shown.strip().split(":"))))
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def started(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """It runs beside the test; what still runs at the end is told to stop."""
    module = "tests.mutants.program" if VARIABLE in os.environ else "pgrepl"
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        **{"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.communicate(timeout=PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise
