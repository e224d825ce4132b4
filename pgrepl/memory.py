"""The memory limit of a statement, which fails before its rows fill the machine's memory.

`Meter.watch` reads the process's memory a few dozen times a second while rows pass. So every structure that keeps rows
counts: a sort, a hash table, a recursion, a result. PostgreSQL's work_mem spills to disk; here Spark does the work that
is larger than memory.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pgrepl.errors import PgError
from pgrepl.interrupts import check_for_interrupts

OUT_OF_MEMORY = "53200"

Item = TypeVar("Item")

_PAUSE = 0.02  # seconds between two looks
_MOST_OF_FREE = 0.8  # the share of the free memory that one statement may take
_REMEMBERED = 1.0  # seconds for which the machine's free memory is remembered
_UNKNOWN = 1 << 62


class Meter:
    """The memory of one statement. `limit` is in bytes; 0: half of the machine's memory, but never all that is free."""

    __slots__ = ("_base", "_limit", "_next")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._base = 0
        self._next = time.monotonic() + _PAUSE  # most statements have ended by then

    def watch(self, rows: Iterable[Item]) -> Iterator[Item]:
        """The rows; an error as soon as the process has grown beyond the limit."""
        clock = time.monotonic
        for row in rows:
            if clock() >= self._next:
                self.check()
            yield row

    def check(self) -> None:
        check_for_interrupts()
        self._next = time.monotonic() + _PAUSE
        now = resident()
        self._base = self._base or now
        taken = now - self._base
        limit = self._limit or _default_limit(taken)
        if taken > limit:
            raise PgError(
                OUT_OF_MEMORY,
                "out of memory",
                detail=f"The rows of the statement take more than {limit >> 20} MB.",
                hint="You may need to increase pgrepl.memory_limit.",
            )


def resident() -> int:
    """Bytes of memory that the process holds."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10


_known: tuple[float, int, int] | None = None


def _default_limit(taken: int) -> int:
    """The limit of a statement that has taken so many bytes. The machine's free memory is read again after a second, as
    other processes take some, but not for each statement: short ones come by the thousand."""
    global _known
    now = time.monotonic()
    if _known is None or now - _known[0] > _REMEMBERED:
        _known = now, *_whole_and_free()
    _, whole, free = _known
    return max(min(whole // 2, int((taken + free) * _MOST_OF_FREE)), 1 << 20)


def whole() -> int:
    """Bytes of memory that the machine has, or its control group may take."""
    return _whole_and_free()[0]


def _whole_and_free() -> tuple[int, int]:
    whole, free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), available()
    allowed = _group("memory.max")
    if allowed is not None:
        whole = min(whole, allowed)
        free = min(free, allowed - (_group("memory.current") or 0))
    return whole, free


def available() -> int:
    """Bytes of memory that the machine has left."""
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return _UNKNOWN


def _group(name: str) -> int | None:
    """A number of the process's control group, such as a container's; None: it is not set."""
    try:
        text = Path("/sys/fs/cgroup", name).read_text("ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
