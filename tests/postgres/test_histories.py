"""Random histories of several sessions, here and on a real server: the same answers, the same waits, the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.harness.dose import dose
from tests.postgres.histories import DEPENDENCIES, Ours, Servers, Side, history
from tests.postgres.server import new_server


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    path: Path = tmp_path_factory.mktemp("histories") / "catalog.db"
    server = new_server(16, "")
    conninfo = f"host={server.host} port={server.port} user=postgres dbname=postgres"
    watcher = psycopg.connect(conninfo, autocommit=True)
    theirs, ours = Side(lambda: Servers(conninfo, watcher)), Side(lambda: Ours(path))
    yield theirs, ours
    ours.close()
    theirs.close()
    watcher.close()
    server.stop()


def check(sides: tuple[Side, Side], seed: int, *, merges: bool = False) -> None:
    """Of several that wait for one row any may be the next on a server: what differs is played again."""
    for _ in range(3):
        theirs, ours = (side.outcome(history(seed, merges=merges)) for side in sides)
        if ours == theirs:
            return
    assert ours == theirs, f"history {seed}"


def check_serializable(sides: tuple[Side, Side], seed: int) -> bool:
    """The same, up to where one of the two sees dependencies among transactions: there is no rule which transaction
    fails of these, and neither waits for proof. Was that so?"""
    for _ in range(3):
        theirs, ours = (side.outcome(history(seed, ["SERIALIZABLE", "REPEATABLE READ"])) for side in sides)
        ends = [n for seen in (theirs, ours) for n, line in enumerate(seen) if DEPENDENCIES in line]
        upto = min(ends, default=max(len(theirs), len(ours)))
        if ours[:upto] == theirs[:upto]:
            return bool(ends)
    assert ours[:upto] == theirs[:upto], f"history {seed}"
    return False


def test_serializable_sessions_see_the_same_until_one_of_them_fails(sides: tuple[Side, Side]) -> None:
    failed = [check_serializable(sides, seed) for seed in range(188, 200)]
    assert any(failed) and not all(failed)


def test_merges_see_what_they_see_on_a_server(sides: tuple[Side, Side]) -> None:
    for seed in range(4):
        check(sides, seed, merges=True)


@pytest.mark.parametrize("first", dose(range(0, 30, 3), 10))
def test_several_sessions_see_what_they_see_on_a_server(sides: tuple[Side, Side], first: int) -> None:
    for seed in range(first, first + 3):
        check(sides, seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 6000, 100))
def test_many_histories(sides: tuple[Side, Side], first: int) -> None:
    for seed in range(first, first + 100):
        check(sides, seed)
