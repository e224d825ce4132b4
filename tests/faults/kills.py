"""A process that is killed while it writes, and what must be true afterwards."""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.lake import compact
from pgrepl.replication.log import ServerLog
from pgrepl.statements.run import run
from pgrepl.statements.upkeep.background import Autovacuum
from tests.harness import forked
from tests.harness.programs import environment
from tests.lake.duck import close, duck

# Statements of every kind of write: inlined, into files, deletes in files and in the catalog, all of a transaction.
STATEMENTS = [
    "CREATE TABLE t (a int PRIMARY KEY, b text, c int REFERENCES t)",
    "INSERT INTO t VALUES (1, 'one', NULL), (2, 'two', 1)",
    "INSERT INTO t SELECT g, 'v' || g, NULL FROM generate_series(10, 800) g",
    "UPDATE t SET b = 'new' WHERE a = 2",
    "UPDATE t SET b = b || '!' WHERE a % 3 = 0",
    "DELETE FROM t WHERE a % 5 = 4",
    "DELETE FROM t WHERE a = 10",
    "AUTOVACUUM",
    "DELETE FROM t WHERE a BETWEEN 20 AND 25",
    "AUTOVACUUM",
    "INSERT INTO t VALUES (900, 'x', 2) ON CONFLICT (a) DO UPDATE SET b = 'conflict'",
    "ALTER TABLE t ADD COLUMN d int DEFAULT 7",
    "BEGIN; INSERT INTO t SELECT g, 'w', NULL FROM generate_series(1000, 1400) g;"
    " DELETE FROM t WHERE a BETWEEN 100 AND 500; UPDATE t SET c = 1 WHERE a < 60; COMMIT",
    "DELETE FROM t WHERE a % 7 = 3",
    "ALTER TABLE t ALTER COLUMN b TYPE varchar(30)",
    "ALTER TABLE t ALTER COLUMN d TYPE text USING d || '0'",
    "VACUUM t",
    "INSERT INTO t SELECT g, 'z', NULL, 'q' FROM generate_series(2000, 2300) g",
    "VACUUM FULL",
    "UPDATE t SET b = 'last'",
    "TRUNCATE t",
    "INSERT INTO t VALUES (5, 'five', 5)",
]

State = list[tuple[str | None, ...]] | None  # None: there is no table


def work(catalog: Path, first: int, engine: str, kill: str | float) -> tuple[int, int]:
    """Run the statements from `first` on, until the end, a crash point or so many seconds of computing: how many are
    known to be done, and the exit code."""
    at, after = (kill, 0.0) if isinstance(kill, str) else ("", kill)
    program = ["tests.faults.kills", str(catalog), str(first), engine, str(after)]
    done = forked.run(program, env=environment(PGREPL_KILL_AT=at), timeout=300)
    known = [int(line) for line in done.stdout.split()]
    assert done.returncode in (0, -signal.SIGKILL, -signal.SIGPROF), done.stderr
    return (known[-1] + 1 if known else first), done.returncode


def play(session: Session, text: str) -> None:
    if text == "AUTOVACUUM":
        Autovacuum(session, ServerLog(None)).look()
        return
    for _ in run(session, text):
        pass


def main(catalog: str, first: str, engine: str, after: str) -> None:
    """In a process of its own."""
    compact.POSITIONS = 3  # so few deleted positions are worth a file
    session = open_session(open_catalog(catalog), settings={"pgrepl.engine": engine})
    signal.setitimer(signal.ITIMER_PROF, float(after))  # it kills, as nothing handles it
    for number, text in enumerate(STATEMENTS):
        if number >= int(first):
            play(session, text)
            print(number, flush=True)
    session.close()


def state(catalog: Path) -> State:
    opened = open_catalog(catalog)
    session = open_session(opened, settings={"pgrepl.engine": "local"})
    try:
        there = [row for result in run(session, "SELECT to_regclass('t')") for row in result.rows]
        if there == [(None,)]:
            return None
        return [row for result in run(session, "SELECT * FROM t ORDER BY a") for row in result.rows]
    finally:
        session.close()
        opened.close()


def states(folder: Path) -> list[State]:
    """What the table is after each number of statements, when nobody is killed."""
    catalog = folder / "whole.db"
    opened = open_catalog(catalog)
    session = open_session(opened, settings={"pgrepl.engine": "local"})
    found: list[State] = [None]
    for text in STATEMENTS:
        play(session, text)
        found.append([row for result in run(session, "SELECT * FROM t ORDER BY a") for row in result.rows])
    session.close()
    opened.close()
    return found


def check_survival(catalog: Path, expected: list[State], engine: str, kills: list[str | float]) -> int:
    """Kill and go on until all is done: after each kill the table is as before the statement or as after it. How often
    the process was killed."""
    done = killed = 0
    for kill in [*kills, ""]:
        known, code = work(catalog, done, engine, kill)
        killed += code != 0
        now = state(catalog) if catalog.exists() else None
        assert now in expected[known : known + 2], f"killed at {kill!r} in statement {known}"
        done = known + (now != expected[known])  # what leaves the table as it was may be done once more
        if code == 0:
            break
    assert done == len(STATEMENTS)
    theirs = sorted(duck(catalog, "SELECT a, b FROM postgres.t"), key=lambda row: int(row[0] or 0))
    close(catalog)
    assert theirs == [row[:2] for row in expected[-1] or []]
    return killed


def random_kills(seed: int, count: int) -> list[str | float]:
    chance = random.Random(seed)
    return [chance.uniform(0.01, 0.5) for _ in range(count)]


if __name__ == "__main__":
    main(*sys.argv[1:])
