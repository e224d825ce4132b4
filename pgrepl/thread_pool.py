"""Threads that work for another one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from pgrepl.interrupts import check_for_interrupts, hold_interrupts

Done = TypeVar("Done")


class ThreadPool(ThreadPoolExecutor):
    """An interrupt amid `submit` could leave a lock of the pool taken, for which its threads would wait for ever."""

    def submit(self, work: Callable[..., Done], /, *given: Any, **named: Any) -> Future[Done]:
        with hold_interrupts():
            found = super().submit(work, *given, **named)
        check_for_interrupts()
        return found
