"""A worker is killed at every step of its work, and at random times: each transaction is applied once, and whole."""

from __future__ import annotations

import random
import re
import signal
from pathlib import Path

import pytest

from tests.faults.replication import Replicas

REPLICATION = Path(__file__).resolve().parents[2] / "pgrepl" / "replication"
STEPS = sorted({n for path in REPLICATION.glob("*.py") for n in re.findall(r'\bstep\("([^"]+)"\)', path.read_text())})
LAKE_STEPS = ["stage.write", "commit.begin", "commit.rows", "commit.end"]


@pytest.mark.parametrize("apart", [False, True], ids=["one instance", "two instances"])
def test_killed_at_each_step(tmp_path: Path, apart: bool) -> None:
    replicas = Replicas(tmp_path, apart=apart)
    chance = random.Random(1)
    assert len(STEPS) >= 8
    for name in [*STEPS, *([] if apart else LAKE_STEPS)]:
        replicas.work(chance, 1)
        if name.startswith("copy."):
            replicas.add_table()
        assert replicas.apply(name) == -signal.SIGKILL, name
        replicas.check_whole_transactions()
    assert replicas.apply() == 0
    replicas.check_equal()


def test_killed_at_random_times(tmp_path: Path) -> None:
    assert _killed_at_random(Replicas(tmp_path, apart=False), random.Random(2), 10) > 3


def test_killed_at_random_times_with_two_instances(tmp_path: Path) -> None:
    assert _killed_at_random(Replicas(tmp_path, apart=True), random.Random(3), 10) > 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_many_random_times(tmp_path: Path, seed: int) -> None:
    _killed_at_random(Replicas(tmp_path, apart=seed % 2 == 0), random.Random(seed), 40)


def _killed_at_random(replicas: Replicas, chance: random.Random, times: int) -> int:
    killed = 0
    for _ in range(times):
        replicas.work(chance)
        if chance.random() < 0.4:
            replicas.add_table()
        killed += replicas.apply(after=chance.uniform(0.0, 0.25)) == -signal.SIGKILL
        replicas.check_whole_transactions()
    assert replicas.apply() == 0
    replicas.check_equal()
    return killed
