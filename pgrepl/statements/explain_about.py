"""What EXPLAIN says beside the plan: SETTINGS that differ from their defaults, and the MEMORY that planning took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgrepl.catalog.parameters import find

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

# beside those of query tuning (GUC_EXPLAIN)
_EXPLAINED = frozenset(
    (
        "debug_parallel_query", "effective_io_concurrency", "hash_mem_multiplier", "maintenance_io_concurrency",
        "max_parallel_workers", "max_parallel_workers_per_gather", "parallel_leader_participation", "search_path",
        "temp_buffers", "work_mem", "pgrepl.engine", "pgrepl.local_rows", "pgrepl.spark_rows", "pgrepl.memory_limit",
    )
)  # fmt: skip
_NOT_EXPLAINED = "default_statistics_target"


@dataclass
class Memory:
    """Bytes that were in use after planning, and the most at once."""

    used: int = 0
    allocated: int = 0


@contextmanager
def tracing() -> Iterator[Memory]:
    """Measure the memory that is taken meanwhile."""
    import tracemalloc

    found, started = Memory(), not tracemalloc.is_tracing()
    if started:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        yield found
        now, most = tracemalloc.get_traced_memory()
        found.used, found.allocated = max(now - before, 0), max(most - before, 0)
    finally:
        if started:
            tracemalloc.stop()


def changed_settings(session: Session) -> dict[str, str]:
    """The settings that plans depend on and that are not at their defaults (get_explain_guc_options)."""
    found = {}
    for name in session.settings.set_names():
        parameter = find(name)
        if parameter is None or parameter.name == _NOT_EXPLAINED:
            continue
        if parameter.category.startswith("Query Tuning") or parameter.name in _EXPLAINED:
            if session.settings.value(name) != parameter.default:
                found[parameter.name] = session.settings.get(name)
    return found
