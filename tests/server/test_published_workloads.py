"""Random replication to PostgreSQL subscribers, one of a PostgreSQL publisher and one of a lake: after each catching up
their tables, errors and states are the same."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.postgres.replicas import RealReplicas
from tests.postgres.test_replication_workloads import Play, play_out
from tests.server.lake_publishes import lake_publishes


@pytest.fixture(scope="module")
def lake() -> Iterator[RealReplicas]:
    with lake_publishes(16) as found:
        yield found


NOTHING_IS_SENT = (63, 73)  # the copy fails again and again


def compare(real: RealReplicas, lake: RealReplicas, seed: int) -> None:
    """Odd seeds: all changes are sent by whole columns."""
    for replicas in (real, lake):
        replicas.renew()
    for text in (f"ALTER SYSTEM SET pgrepl.local_rows = {0 if seed % 2 else 'DEFAULT'}", "SELECT pg_reload_conf()"):
        lake.run("pub", text)
    play_out(Play(real, lake), Random(seed))
    sent = "SELECT count(*) FROM pgrepl_stat_engine WHERE work = 'changes sent' AND engine = 'columns'"
    assert seed % 2 == 0 or lake.rows("pub", sent) == [("0" if seed in NOTHING_IS_SENT else "1",)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_random_replication_from_a_lake_ends_the_same(real: RealReplicas, lake: RealReplicas, seed: int) -> None:
    compare(real, lake, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *range(2, 100)])
def test_much_random_replication_from_a_lake_ends_the_same(real: RealReplicas, lake: RealReplicas, seed: int) -> None:
    compare(real, lake, seed)
