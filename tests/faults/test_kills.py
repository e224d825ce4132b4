"""A process is killed at every step of a write, and at random times: nothing is lost, nothing is there by half."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults.kills import State, check_survival, random_kills, states
from tests.harness.dose import dose

LAKE = Path(__file__).resolve().parents[2] / "pgrepl" / "lake"
SPARK_ONLY = {"stage.written"}
# tests/statements/test_two_phase.py kills at the steps of prepared transactions
SOURCE = "".join(path.read_text() for path in LAKE.glob("*.py") if path.name != "prepared.py")
STEPS = sorted(set(re.findall(r'\bcrash_point\("([^"]+)"\)', SOURCE)))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[State]:
    return states(tmp_path_factory.mktemp("whole"))


HERE = [step for step in STEPS if step not in SPARK_ONLY]


@pytest.mark.parametrize("steps", dose([HERE[n::4] for n in range(4)], 4), ids=" ".join)
def test_killed_at_each_step(tmp_path: Path, expected: list[State], steps: list[str | float]) -> None:
    """One after the other, wherever the one before has left the table."""
    assert check_survival(tmp_path / "catalog.db", expected, "local", steps) == len(steps)


def test_killed_at_random_times(tmp_path: Path, expected: list[State]) -> None:
    check_survival(tmp_path / "catalog.db", expected, "local", random_kills(7, 2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_killed_at_many_random_times(tmp_path: Path, expected: list[State], seed: int) -> None:
    check_survival(tmp_path / "catalog.db", expected, "local", random_kills(seed, 12))


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_killed_at_each_step_with_spark(tmp_path: Path, expected: list[State], name: str) -> None:
    check_survival(tmp_path / "catalog.db", expected, "spark", [f"{name}:{n}" for n in (1, 3)])
