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


# of the odd ones: there are only copies, some of which fail again and again
NOTHING_IS_SENT = (5, 13, 19, 39, 41, 63, 71, 73, 77, 79, 87)


def sent(lake: RealReplicas, declined: str) -> int:
    """How many times changes were sent by whole columns ('IS NULL'), or declined to be ('IS NOT NULL')."""
    asked = (
        f"SELECT coalesce(sum(calls), 0) FROM pgrepl_stat_engine WHERE work = 'changes sent' AND declined {declined}"
    )
    return int(lake.rows("pub", asked)[0][0])


def compare(real: RealReplicas, lake: RealReplicas, seed: int) -> None:
    """Odd seeds: all changes are sent by whole columns."""
    for replicas in (real, lake):
        replicas.renew()
    for text in (f"ALTER SYSTEM SET pgrepl.local_rows = {0 if seed % 2 else 'DEFAULT'}", "SELECT pg_reload_conf()"):
        lake.run("pub", text)
    by_columns, declined = sent(lake, "IS NULL"), sent(lake, "IS NOT NULL")
    play_out(Play(real, lake), Random(seed))
    if seed % 2:
        assert sent(lake, "IS NOT NULL") == declined
        assert (sent(lake, "IS NULL") > by_columns) == (seed not in NOTHING_IS_SENT)


@pytest.mark.parametrize("seed", [1])
def test_random_replication_from_a_lake_ends_the_same(real: RealReplicas, lake: RealReplicas, seed: int) -> None:
    compare(real, lake, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *range(2, 100)])
def test_much_random_replication_from_a_lake_ends_the_same(real: RealReplicas, lake: RealReplicas, seed: int) -> None:
    compare(real, lake, seed)
