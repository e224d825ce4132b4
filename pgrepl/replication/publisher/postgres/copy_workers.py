"""The processes that copy large tables: how many there are, what they load, and when they are begun.

It takes a third of a second until they have loaded what they need. So they begin when it is known that they will be
needed: a copy that goes on begins them before its subscription's worker.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgrepl import processes
from pgrepl.catalog import tables
from pgrepl.catalog.store import rows
from pgrepl.catalog.transaction import reading

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.processes import Workers

WORTH_PROCESSES = 256 << 20  # bytes of a table that are worth their start
_LOADED = (
    "pgrepl.replication.publisher.postgres.copy_ranges",
    "pgrepl.lake.kernels.task",
    "pgrepl.lake.file_writer",
    "psycopg.pq",
    "pyarrow.parquet",
    "pyarrow.compute",
)


def readers() -> int:
    """The connections that read a table at most."""
    return min(os.cpu_count() or 1, 8)


def expect(session: Session) -> None:
    """Begin the processes if a copy has been interrupted."""
    if processes.are_prepared():
        with reading(session):
            left = any(row.number and row.snapshot is None for row in rows(session, tables.pgrepl_copy_range))
        if left:
            processes.expect(readers(), _LOADED)


def workers(size: int, most: Callable[[], int]) -> Workers | None:
    """Processes for a table of this size; None: threads read it."""
    if size < WORTH_PROCESSES or not processes.are_prepared():
        return None
    count = min(readers(), most())
    return processes.workers(count, _LOADED) if count > 1 else None
