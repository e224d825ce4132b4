"""Commits with different settings of synchronous_commit, each told when it has returned."""

from __future__ import annotations

import sys
from pathlib import Path

from pgrepl.backend import open_session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.statements.run import run
from tests.faults.powercut import tell

COMMITS = {
    "on": "INSERT INTO t VALUES ('on')",
    "off": "SET synchronous_commit = off; INSERT INTO t VALUES ('off')",
    "on for this one": "BEGIN; SET LOCAL synchronous_commit = on; INSERT INTO t VALUES ('on for this one'); COMMIT",
    "off in the end": "SET synchronous_commit = on; BEGIN; INSERT INTO t VALUES ('off in the end');"
    " SET LOCAL synchronous_commit = off; COMMIT",
    "a_slot": "SET synchronous_commit = off; SELECT pg_create_logical_replication_slot('a_slot', 'pgoutput')",
    "many": "SET synchronous_commit = on; INSERT INTO t SELECT g::text FROM generate_series(1, 500) g",
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    catalog = open_catalog(folder / "catalog.db")
    session = open_session(catalog, settings={"pgrepl.engine": "local"})
    list(run(session, "CREATE TABLE t (a text)"))
    tell(folder, ready=True)
    for name, text in COMMITS.items():
        for statement in text.split("; "):
            list(run(session, statement))
        tell(folder, done=name)
    session.close()
    catalog.close()
