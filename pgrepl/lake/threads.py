"""Kernels run by threads of this process: Arrow computes and reads without Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from threading import Event
from typing import TYPE_CHECKING, Any

from pgrepl.ground import interrupts
from pgrepl.ground.threads import ThreadPool

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.part import Kernel

_PAUSE = 0.1  # seconds between two checks for interrupts


class _Stopped(Exception):
    """The work has been cancelled."""


class _Watch:
    def __init__(self, count_rows: Callable[[int, int], None] | None) -> None:
        self.over = Event()
        self._count_rows = count_rows

    def check(self) -> None:
        if self.over.is_set():
            raise _Stopped

    def add(self, rows: int, size: int) -> None:
        if self._count_rows is not None:
            self._count_rows(rows, size)


def parallelism() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_parts(session: Session, parts: Sequence[Any], kernel: Kernel, check: Callable[[], None]) -> list[Any]:
    """The answers, in the order of the parts; the first error ends them all. `check` raises what ends the work."""
    watch = _Watch(session.rows_written)
    with ThreadPool(parallelism(), "pgrepl-kernel") as threads:
        tasks = [threads.submit(kernel, part, watch) for part in parts]
        try:
            waiting: set[Any] = set(tasks)
            while waiting:
                done, waiting = wait(waiting, _PAUSE, FIRST_EXCEPTION)
                for task in done:
                    task.result()
                interrupts.check_for_interrupts()
                check()
        except BaseException:
            watch.over.set()
            for task in tasks:
                task.cancel()
            raise
    return [task.result() for task in tasks]
