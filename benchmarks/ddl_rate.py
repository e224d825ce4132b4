"""A script of 10,000 DDL statements: how many a second, each its own transaction."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clock import process

STATEMENTS = 10_000
LIMIT = 400


def script() -> str:
    lines = []
    for n in range(STATEMENTS // 4):
        lines.append(f"CREATE TABLE t{n} (id bigint PRIMARY KEY, name text NOT NULL, total numeric(10,2) DEFAULT 0);")
        lines.append(f"CREATE PUBLICATION p{n} FOR TABLE t{n} (id, name) WHERE (id > {n});")
        lines.append(f"ALTER PUBLICATION p{n} SET (publish = 'insert, update');")
        lines.append(f"COMMENT ON TABLE t{n} IS 'number {n}';")
    return "\n".join(lines) + "\n"


def measure() -> Iterator[tuple[str, str, str, str, bool]]:
    with tempfile.TemporaryDirectory() as work:
        seconds = process(["-m", "pgrepl", "-X", "-q", "-v", "ON_ERROR_STOP=1"], Path(work), script())
    rate = STATEMENTS / seconds
    yield f"{STATEMENTS:,} DDL statements", f"{rate:,.0f}/s", "", f"{LIMIT}/s", rate >= LIMIT
