"""Asks a real PostgreSQL 17 the queries of `queries.txt` and `catalogs.txt`, and writes the answers beside them.

    python -m tests.query.make_queries "host=/var/run/postgresql user=postgres dbname=scratch"

The database is to be empty: `schema.sql` is played in it first. A line is one query, `# ` starts a heading. An answer
is {"columns": [[name, type OID, type modifier], …], "rows": [[text or null, …], …]} or the error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.types.asked import save

FOLDER = Path(__file__).parent
SCHEMA = FOLDER / "schema.sql"
FILES = (FOLDER / "queries.txt", FOLDER / "catalogs.txt")


def queries(path: Path) -> Iterator[tuple[str, str]]:
    """(heading, query)."""
    heading = ""
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("# "):
            heading = line[2:]
        elif line:
            yield heading, line


def ask(conninfo: str, path: Path) -> Iterator[list[Any]]:
    from psycopg import pq

    server = pq.PGconn.connect(conninfo.encode())
    assert server.status == pq.ConnStatus.OK, server.error_message.decode()
    server.exec_(b"SET timezone = 'GMT'; SET client_min_messages = error")
    for heading, query in queries(path):
        result = server.exec_(query.encode())
        if result.status == pq.ExecStatus.TUPLES_OK:
            columns = [
                [(result.fname(i) or b"").decode(), result.ftype(i), result.fmod(i)] for i in range(result.nfields)
            ]
            rows = [
                [None if (v := result.get_value(r, i)) is None else v.decode() for i in range(result.nfields)]
                for r in range(result.ntuples)
            ]
            yield [heading, query, {"columns": columns, "rows": rows}]
        else:
            fields = {"sqlstate": pq.DiagnosticField.SQLSTATE, "message": pq.DiagnosticField.MESSAGE_PRIMARY}
            errors = {name: result.error_field(field) for name, field in fields.items()}
            yield [heading, query, {name: text.decode() for name, text in errors.items() if text is not None}]


def make(conninfo: str) -> None:
    from psycopg import pq

    server = pq.PGconn.connect(conninfo.encode())
    played = server.exec_(SCHEMA.read_bytes())
    assert played.status == pq.ExecStatus.COMMAND_OK, server.error_message.decode()
    for path in FILES:
        save(path.with_suffix(".jsonl"), ask(conninfo, path))


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else "")
