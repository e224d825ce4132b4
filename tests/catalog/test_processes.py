"""Several processes at one catalog, some of them killed: what stands in it are whole transactions."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import ducklake, tables
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.catalog.store.store import rows
from tests.harness.programs import PATIENCE

# each transaction makes a role and a schema of that name; the name is told when it has committed
WORKER = """
import sys
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.backend import open_session
from pgrepl.statements.run import run

path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
session = open_session(open_catalog(path))
for number in range(count):
    work = f"{name}_{number}"
    for text in ("BEGIN", f"CREATE ROLE {work}", f"CREATE SCHEMA {work} AUTHORIZATION {work}", "COMMIT"):
        list(run(session, text))
    print(work, flush=True)
"""
ROOT = Path(__file__).resolve().parents[2]


def start(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(path), name, str(count)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def state(path: Path) -> tuple[set[str], set[str], list[int], list[int]]:
    """Roles, schemas, OIDs given and snapshots made by the workers."""
    session = open_session(open_catalog(path))
    with reading(session):
        roles = [r for r in rows(session, tables.pg_authid) if r.oid >= 16384]
        schemas = [n for n in rows(session, tables.pg_namespace, datid=5) if n.oid >= 16384]
        snapshots = sorted(s.snapshot_id for s in rows(session, ducklake.ducklake_snapshot))
        assert session.link.execute("PRAGMA integrity_check") == [("ok",)]
    session.close()
    return (
        {r.rolname for r in roles},
        {n.nspname for n in schemas},
        sorted([r.oid for r in roles] + [n.oid for n in schemas]),
        snapshots,
    )


def test_writers_take_turns_and_none_fails(path: Path) -> None:
    workers = [start(path, f"w{n}", 25) for n in range(4)]
    for worker in workers:
        output, errors = worker.communicate(timeout=PATIENCE)
        assert (worker.returncode, errors) == (0, "")
        assert len(output.split()) == 25
    roles, schemas, oids, snapshots = state(path)
    assert roles == schemas == {f"w{n}_{i}" for n in range(4) for i in range(25)}
    assert oids == list(range(16384, 16384 + 200))
    assert snapshots == list(range(101))


@pytest.mark.slow
def test_killed_writers_leave_whole_transactions_only(path: Path) -> None:
    open_catalog(path).close()
    chance = random.Random(4)
    told: set[str] = set()
    for turn in range(3):
        workers = [start(path, f"w{turn}{n}", 100_000) for n in range(3)]
        first = [worker.stdout.readline() for worker in workers if worker.stdout is not None]
        time.sleep(chance.uniform(0.05, 0.3))
        for worker in workers:
            worker.send_signal(signal.SIGKILL)
        for worker, line in zip(workers, first, strict=True):
            output, errors = worker.communicate(timeout=PATIENCE)
            assert errors == ""
            whole = (line + output).rpartition("\n")[0]
            told |= set(whole.split())
        roles, schemas, oids, snapshots = state(path)
        assert roles == schemas
        assert told <= roles
        assert len(oids) == len(set(oids))
        assert snapshots == list(range(len(schemas) + 1))
    assert len(told) > 3
