"""Asks a real PostgreSQL 17 the queries of `typical.txt`, and writes the answers beside them.

    python -m tests.query.make_typical "host=/var/run/postgresql user=postgres dbname=scratch"

The database is to be empty: `tables.sql` is played in it first.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.query.make_queries import ask
from tests.types.asked import save

FOLDER = Path(__file__).parent
TABLES = FOLDER / "tables.sql"
QUERIES = FOLDER / "typical.txt"


def make(conninfo: str) -> None:
    from psycopg import pq

    server = pq.PGconn.connect(conninfo.encode())
    played = server.exec_(TABLES.read_bytes())
    assert played.status == pq.ExecStatus.COMMAND_OK, played.error_message.decode()
    save(QUERIES.with_suffix(".jsonl"), ask(conninfo, QUERIES))


if __name__ == "__main__":
    make(sys.argv[1])
