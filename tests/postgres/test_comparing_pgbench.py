"""A server under pgbench, a follower that applies, and differences planted in the lake: each comparison reports these,
and nothing that is only late; repairs mend them meanwhile."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.forked import pgrepl
from tests.harness.programs import PATIENCE, environment, eventually, started
from tests.postgres.served import PublishingServer, Served
from tests.postgres.server import wheel_binaries

ACCOUNTS, TELLERS = 100_000, 10  # what pgbench updates; rows behind these it leaves alone
TABLES = """
CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
"""
COLD = """
INSERT INTO pgbench_accounts SELECT 100000 + i, 101, 0, '' FROM generate_series(1, 50) i;
INSERT INTO pgbench_branches SELECT 100 + i, 0, NULL FROM generate_series(1, 50) i;
INSERT INTO pgbench_tellers SELECT 100 + i, 101, 0, NULL FROM generate_series(1, 50) i;
INSERT INTO pgbench_history SELECT 101, 101, 100001, 500000 + i, '2024-01-01', NULL FROM generate_series(1, 50) i;
ALTER TABLE pgbench_history REPLICA IDENTITY FULL;
CREATE PUBLICATION p FOR ALL TABLES
"""
Found = Counter[tuple[str, str, str]]  # table, kind, and the key; of the history the delta


class Planter:
    """Makes differences in the lake that no change of pgbench's takes away: of the rows that it updates only missing
    ones."""

    def __init__(self, served: Served, rnd: random.Random) -> None:
        self._served, self._rnd = served, rnd
        self.planted: Found = Counter()

    def plant(self) -> None:
        rnd, self.planted = self._rnd, Counter()
        statements = []
        for aid in rnd.sample(range(1, ACCOUNTS), 3):
            statements.append(f"DELETE FROM pgbench_accounts WHERE aid = {aid}")
            self._note("accounts", "missing", aid)
        for aid in rnd.sample(range(ACCOUNTS + 1, ACCOUNTS + 51), 3):
            statements.append(f"UPDATE pgbench_accounts SET abalance = -1 WHERE aid = {aid}")
            self._note("accounts", "different", aid)
        for aid in rnd.sample(range(-1000, 0), 2):
            statements.append(f"INSERT INTO pgbench_accounts VALUES ({aid}, 1, 0, '')")
            self._note("accounts", "extra", aid)
        tid, cold = rnd.randint(1, TELLERS), rnd.randint(101, 150)
        statements.append(f"DELETE FROM pgbench_tellers WHERE tid = {tid}")
        statements.append(f"UPDATE pgbench_tellers SET filler = 'x' WHERE tid = {cold}")
        self._note("tellers", "missing", tid)
        self._note("tellers", "different", cold)
        bid = rnd.choice((1, rnd.randint(101, 150)))  # every transaction updates the first
        statements.append(f"DELETE FROM pgbench_branches WHERE bid = {bid}")
        self._note("branches", "missing", bid)
        gone, changed = rnd.sample(range(500_001, 500_051), 2)
        statements.append(f"DELETE FROM pgbench_history WHERE delta = {gone}")
        statements.append(f"UPDATE pgbench_history SET delta = 900000 WHERE delta = {changed}")
        for kind, delta in (("missing", gone), ("missing", changed), ("extra", 900_000)):
            self._note("history", kind, delta)
        rnd.shuffle(statements)
        self._served.sub(*statements)

    def _note(self, table: str, kind: str, key: int) -> None:
        self.planted[f"public.pgbench_{table}", kind, str(key)] += 1


def _found(answer: dict[str, Any]) -> Found:
    found: Found = Counter()
    for table in answer["tables"]:
        assert "error" not in table, table
        for each in table["differences"]:
            key = each["key"]
            found[table["table"], each["kind"], key.get("delta") or next(iter(key.values()))] += 1
    return found


@contextmanager
def _benched(program: Sequence[str], seconds: int) -> Iterator[subprocess.Popen[str]]:
    """pgbench's usual transactions, 200 a second; `scale`: it would count our rows, too."""
    command = [*program, "-n", "-c", "4", "-j", "1", "-T", str(seconds), "-R", "200", "-D", "scale=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize("publishing", [18], indirect=True)
@pytest.mark.parametrize("seconds", [4, pytest.param(600, marks=pytest.mark.slow)])
def test_a_comparison_under_pgbench_finds_what_was_planted_and_nothing_else(
    publishing: PublishingServer, tmp_path: Path, seconds: int
) -> None:
    served = Served(publishing, tmp_path)
    host, port = publishing.server.host, str(publishing.server.port)
    program = [str(wheel_binaries(18) / "pgbench"), "-h", host, "-p", port, "-U", "postgres", "-d", served.database]
    subprocess.run([*program, "-i", "-q"], check=True, capture_output=True)
    served.pub(COLD)
    served.sub(TABLES)
    served.subscribe()
    served.sub.leave()
    active = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{served.slot}'"
    eventually(lambda: served.pub(active) == [("f",)])
    planter = Planter(served, random.Random(seconds))
    log = tmp_path / "log"
    follow = ["apply", "-d", "sub", "s", "--follow", "--interval", "0.1", "--log-file", str(log)]
    named = ["-d", "sub", "s", "--timeout", str(PATIENCE)]
    compared = repaired = 0
    with started(*follow, cwd=tmp_path, env=environment()) as follower, _benched(program, seconds) as running:
        while running.poll() is None:
            planter.plant()
            for _ in range(2):
                done = pgrepl("compare", *named, "--json", cwd=tmp_path)
                assert done.returncode == 1, done.stderr
                assert _found(json.loads(done.stdout)) == planter.planted
                compared += 1
            done = pgrepl("repair", *named, "--yes", "--json", cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            answer = json.loads(done.stdout)
            kinds = Counter(kind for _, kind, _ in planter.planted.elements())
            assert _found(answer) == planter.planted
            assert [answer["repaired"][n] for n in ("inserted", "deleted", "updated")] == [
                kinds["missing"], kinds["extra"], kinds["different"]
            ]  # fmt: skip
            done = pgrepl("compare", *named, cwd=tmp_path)
            assert done.returncode == 0, done.stdout + done.stderr
            repaired += 1
            compared += 1
        told = running.stdout.read() if running.stdout else ""
        assert running.returncode == 0, told
        assert follower.poll() is None
        query = "SELECT count(*), sum(delta) FROM pgbench_history"
        eventually(lambda: served.sub(query) == served.pub(query))
    errors = [line for line in log.read_text().splitlines() if "ERROR" in line]
    assert [line for line in errors if "is active for PID" not in line] == []  # which the worker waits for
    print(f"{compared} comparisons, {repaired} repairs", *[line for line in told.splitlines() if "processed" in line])
    for table, key in (("accounts", "aid"), ("tellers", "tid"), ("branches", "bid")):
        served.same(f"SELECT * FROM pgbench_{table} ORDER BY {key}")
    served.close()
