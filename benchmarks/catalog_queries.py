"""What drivers, ORMs and tools ask of the catalog, of `pgrepl serve` and of PostgreSQL, in sessions that are warm: the
fastest of five. The schema has fifty tables."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.lake import Line
from tests.harness.serving import serving
from tests.postgres.server import Server, wheel_binaries
from tests.query.catalog_queries import queries, schema

TIMES, LIMIT, RECURSIVE = 5, 50.0, 100.0


def measure() -> Iterator[Line]:
    server = Server(wheel_binaries(16)).start()
    try:
        place = f"host={server.host} port={server.port} user=postgres dbname=postgres"
        with (
            tempfile.TemporaryDirectory() as work,
            serving(Path(work)) as lake,
            lake.connect() as ours,
            psycopg.connect(place, autocommit=True) as theirs,
        ):
            for connection in (ours, theirs):
                for statement in schema():
                    connection.execute(statement)
            for name, query in queries("clients").items():
                limit = RECURSIVE if "RECURSIVE" in query else LIMIT
                taken, beside = fastest(ours, query), fastest(theirs, query)
                yield name, f"{taken:.1f} ms", f"PostgreSQL {beside:.1f} ms", f"{limit:.0f} ms", taken <= limit
    finally:
        server.stop()


def fastest(connection: psycopg.Connection[Any], query: str) -> float:
    """Milliseconds."""
    found = []
    for _ in range(TIMES + 1):
        began = time.perf_counter()
        connection.execute(query).fetchall()
        found.append((time.perf_counter() - began) * 1000)
    return min(found[1:])
