"""The memory limit of a statement, and the counters of EXPLAIN ANALYZE.

`Meter.watch` reads the process's memory a few dozen times a second while rows pass, so every structure that keeps
rows counts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import check_for_interrupts

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


# --- instrument -------------------------------------------------------------------------------------------------------


class Instrumentation:
    """The counters of one plan node, summed over its runs."""

    __slots__ = ("_clock", "is_timed", "joins_removed", "loops", "removed", "rows", "startup", "total")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.is_timed = clock is perf_counter
        self.loops = 0
        self.rows = 0
        self.removed = 0  # rows that did not pass the filter
        self.joins_removed = 0  # pairs that did not pass the filter of a join
        self.startup = 0.0  # seconds until the first row
        self.total = 0.0

    def run(self, make: Callable[[], Iterable[Item]], size: Callable[[Item], int] | None = None) -> Iterator[Item]:
        """The rows of one run, counted. `size` is the number of rows that an item stands for."""
        clock = self._clock
        self.loops += 1
        begin = clock()
        items = iter(make())
        item = next(items, _END)
        spent = clock() - begin
        self.startup += spent
        self.total += spent
        while item is not _END:
            self.rows += 1 if size is None else size(item)
            yield item
            begin = clock()
            item = next(items, _END)
            self.total += clock() - begin

    def before(self, work: Callable[[], Item]) -> Item:
        """Do work that precedes the first row, and time it."""
        begin = self._clock()
        try:
            return work()
        finally:
            spent = self._clock() - begin
            self.startup += spent
            self.total += spent

    def filter(self, passes: Callable[[Item], bool]) -> Callable[[Item], bool]:
        def counted(item: Item) -> bool:
            if passes(item):
                return True
            self.removed += 1
            return False

        return counted

    def join_filter(self, passes: Callable[[Item], bool]) -> Callable[[Item], bool]:
        def counted(item: Item) -> bool:
            if passes(item):
                return True
            self.joins_removed += 1
            return False

        return counted


@dataclass
class TriggerCalls:
    """The counters of one trigger of a statement."""

    relid: int
    relation: str
    name: str
    is_constraint: bool
    calls: int = 0
    total: float = 0.0


_END: Any = object()


def counted(node: Instrumentation | None, make: Callable[[], Iterable[Item]]) -> Iterable[Item]:
    """The rows of a run, counted for the node; None: they are not counted."""
    return make() if node is None else node.run(make)


class Instruments:
    """The counters of one statement, by query and step. Equal queries share their counters, because a statement may be
    analysed twice."""

    def __init__(self, *, timing: bool) -> None:
        self._clock: Callable[[], float] = perf_counter if timing else _no_clock
        self.aliases: dict[str, tuple[object, Hashable]] = {}  # queries and steps by their names in Spark's SQL
        self._known: list[tuple[object, dict[Hashable, Instrumentation]]] = []
        self.triggers: dict[int, TriggerCalls] = {}  # by their OIDs
        self._stand_ins: list[tuple[object, object, Mapping[Hashable, Hashable]]] = []

    def of(self, query: object, step: Hashable) -> Instrumentation:
        for other, meant, steps in self._stand_ins:
            if other is query:
                return self.of(meant, steps.get(step, step))
        nodes = self._of_query(query)
        if nodes is None:
            nodes = {}
            self._known.append((_without_statements(query), nodes))
        return nodes.setdefault(step, Instrumentation(self._clock))

    def find(self, query: object, step: Hashable) -> Instrumentation | None:
        """The counters of a step; None: it has none."""
        return (self._of_query(query) or {}).get(step)

    def stands_for(self, query: object, meant: object, steps: Mapping[Hashable, Hashable] | None = None) -> None:
        """Count a query's steps for the query in whose place it runs; `steps` maps those with other names there."""
        self._stand_ins.append((query, meant, steps or {}))

    def call_trigger(self, trigger: int, about: TriggerCalls, call: Callable[[], Item]) -> Item:
        """Call a trigger, and count that (ExecCallTriggerFunc)."""
        counters = self.triggers.setdefault(trigger, about)
        begin = self._clock()
        try:
            return call()
        finally:
            counters.calls += 1
            counters.total += self._clock() - begin

    def _of_query(self, query: object) -> dict[Hashable, Instrumentation] | None:
        query = _without_statements(query)
        return next((nodes for known, nodes in self._known if known is query or known == query), None)


def _without_statements(query: Any) -> object:
    """A query without a WITH list that changes rows, which has the rows that the statements return while it runs."""
    ctes = getattr(query, "ctes", ())
    changes = any(cte.modify is not None or any(entry.rows is not None for entry in cte.query.rtable) for cte in ctes)
    return replace(query, ctes=()) if changes else query


def _no_clock() -> float:
    return 0.0
