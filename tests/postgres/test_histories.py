"""Random histories of several sessions, here and on a real server: the same answers, the same waits, the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.postgres.histories import Ours, Servers, Side, history
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


def check(sides: tuple[Side, Side], seed: int) -> None:
    """Of several that wait for one row any may be the next on a server: what differs is played again."""
    for _ in range(3):
        theirs, ours = (side.outcome(history(seed)) for side in sides)
        if ours == theirs:
            return
    assert ours == theirs, f"history {seed}"


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_several_sessions_see_what_they_see_on_a_server(sides: tuple[Side, Side], first: int) -> None:
    for seed in range(first, first + 20):
        check(sides, seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 6000, 100))
def test_many_histories(sides: tuple[Side, Side], first: int) -> None:
    for seed in range(first, first + 100):
        check(sides, seed)
