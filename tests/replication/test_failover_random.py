"""Random work on a primary, synchronized and received at random times, then a failover: nothing is lost or repeated."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pgrepl.replication.standby import synchronize
from tests.harness.dose import dose
from tests.harness.nodes import Node, Nodes

ROWS = "SELECT * FROM t ORDER BY a"


def change(node: Node, chance: Random) -> None:
    """A transaction of one or several statements."""
    block = chance.random() < 0.4
    statements = [one_statement(chance) for _ in range(chance.randint(1, 4) if block else 1)]
    node(*(["BEGIN", *statements, chance.choice(["COMMIT", "COMMIT", "ROLLBACK"])] if block else statements))


def one_statement(chance: Random) -> str:
    first = chance.randint(1, 2000)
    last = first + chance.choice([0, 3, 200])
    return chance.choice(
        [
            f"INSERT INTO t SELECT g, 'v' || g FROM generate_series({first}, {last}) g ON CONFLICT DO NOTHING",
            f"INSERT INTO t SELECT g, 'w' || g FROM generate_series({first}, {last}) g ON CONFLICT DO NOTHING",
            f"UPDATE t SET b = b || '!' WHERE a BETWEEN {first} AND {last}",
            f"UPDATE t SET a = a + 10000 WHERE a BETWEEN {first} AND {last}",
            f"DELETE FROM t WHERE a BETWEEN {first} AND {last}",
            "TRUNCATE t" if chance.random() < 0.2 else f"DELETE FROM t WHERE a = {first}",
        ]
    )


def play(folder: Path, seed: int) -> None:
    chance = Random(seed)
    nodes = Nodes(folder)
    nodes.subscribe()
    standby = nodes.create(slot="standby")
    nodes.primary("ALTER SYSTEM SET synchronized_standby_slots = 'standby'")
    for _ in range(chance.randint(5, 15)):
        kind = chance.random()
        if kind < 0.5:
            change(nodes.primary, chance)
        elif kind < 0.7:
            assert nodes.subscriber.catch_up() == []
        elif kind < 0.9:
            synchronize(standby.session)
            assert standby(ROWS) == nodes.primary(ROWS)
        else:
            nodes.primary("SET pgrepl.file_grace = 0", "VACUUM")
    kept = standby(ROWS)
    assert nodes.fail_over(standby) == []
    assert standby(ROWS) == kept == nodes.subscriber(ROWS)
    for _ in range(4):
        change(standby, chance)
        if chance.random() < 0.5:
            assert nodes.subscriber.catch_up() == []
    assert nodes.subscriber.catch_up() == []
    assert nodes.subscriber(ROWS) == standby(ROWS)
    counts = "SELECT apply_error_count, sync_error_count FROM pg_stat_subscription_stats"
    assert nodes.subscriber(counts) == [("0", "0")]
    nodes.close()


@pytest.mark.parametrize("seed", dose(range(3), 6))
def test_random_failovers(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_failovers(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed)
