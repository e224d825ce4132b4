"""The processes that copy large tables: how many there are, what they load, and when they are begun.

They load for a third of a second, so a copy that goes on begins them before its subscription's worker.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.ground import lazy, processes

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.ground.processes import Workers

_WORTH = 4  # times the size of a range: a table that is worth their start
_RANGE = 64 << 20  # bytes, if tables are copied as a whole


def readers() -> int:
    """The connections that read a table at most."""
    return min(os.cpu_count() or 1, 8)


def expect(session: Session) -> None:
    """Begin the processes if a copy has been interrupted."""
    if processes.are_prepared():
        with reading(session):
            left = any(row.number and row.snapshot is None for row in rows(session, tables.pgrepl_copy_range))
        if left:
            processes.expect(readers(), load)


def are_worth_it(session: Session, size: int) -> bool:
    """Whether a table of so many bytes is copied by processes."""
    of_range = int(session.settings.value("pgrepl.copy_range_size")) << 10
    return processes.are_prepared() and size >= _WORTH * (of_range or _RANGE)


def workers(most: int) -> Workers | None:
    """So many processes at most; None: threads read the table."""
    count = min(readers(), most)
    return processes.workers(count, load) if count > 1 else None


def load() -> None:
    """Import what a process that copies needs."""
    import psycopg.pq  # noqa: F401

    from pgrepl.engine import task  # noqa: F401
    from pgrepl.lake.write import file_writer  # noqa: F401
    from pgrepl.replication.publisher.postgres import copy_ranges  # noqa: F401

    lazy.load()
