"""The memory that a transaction with half as many changes as the table has rows takes, and one that is four times as
large in a table four times as large; the time a change; and whether it fits into 2 GiB for all processes together,
where control groups can be made. Each is a whole command, in this process and on Spark. `PGREPL_BENCH_ROWS` makes it
smaller.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from benchmarks.clock import ROOT, environment
from benchmarks.cluster import MEMORY, can_be_held, group, inside
from benchmarks.lake import ROWS, Line, ratio
from benchmarks.replicate_batch import Batches


def measure() -> Iterator[Line]:
    each: dict[str, list[float]] = {"auto": [], "spark": []}
    for rows in (ROWS, 4 * ROWS):
        with tempfile.TemporaryDirectory() as work:
            batches = Batches(Path(work), rows)
            for engine, found in each.items():
                taken, python, java = watched(batches.command(engine))
                batches.check()
                found.append(taken / rows)
                what = f"{rows // 2:,} changes in one transaction, engine = {engine}"
                yield f"{what}: Python", f"{python} MB ({taken:.1f} s)", "", "1024 MB", python <= 1024
                yield f"{what}: JVM", f"{java} MB", "", "1536 MB", java <= 1536
            if rows > ROWS and can_be_held(MEMORY):
                for engine in each:
                    taken, *_ = watched(batches.command(engine), limit=2 << 30)
                    batches.check()
                    what = f"{rows // 2:,} changes in one transaction, engine = {engine}"
                    yield f"{what}: in 2 GiB", f"{taken:.1f} s", "", "it ends well", True
    for engine, (small, large) in each.items():
        yield ratio(f"… time a change, engine = {engine}", large, small, f"that of {ROWS // 2:,}", 1.3)


def watched(command: list[str], limit: int | None = None) -> tuple[float, int, int]:
    """Seconds that it takes, and the megabytes of the largest Python and of the largest JVM among its processes."""
    python = java = 0
    with ExitStack() as stack:
        if limit is not None:
            command = inside(stack.enter_context(group(MEMORY, limit)), command)
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)
        while process.poll() is None:
            for pid in tree(process.pid):
                with suppress(OSError, StopIteration):  # it has ended
                    name, most = peak(pid)
                    if name == "java":
                        java = max(java, most)
                    else:
                        python = max(python, most)
            time.sleep(0.05)
        taken = time.perf_counter() - began
        assert process.returncode == 0, process.returncode
    return taken, python, java


def peak(pid: int) -> tuple[str, int]:
    """The name of a process, and the megabytes that it has held at most."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return status[0].split()[1], next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM"))


def tree(root: int) -> Iterator[int]:
    """The process and all below it."""
    yield root
    with suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{root}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from tree(int(child))


if __name__ == "__main__":
    for line in measure():
        print(*line, sep="  |  ", flush=True)
