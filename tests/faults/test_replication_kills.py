"""A worker is killed at every step of its work, and at random times: each transaction is applied once, and whole."""

from __future__ import annotations

import random
import re
import signal
from pathlib import Path

import pytest

from pgrepl.replication.wire import message_files, messages
from pgrepl.replication.wire.messages import PORTION
from tests.faults.replication import Replicas
from tests.harness.dose import dose

REPLICATION = Path(__file__).resolve().parents[2] / "pgrepl" / "replication"
SUBSCRIBER = REPLICATION / "subscriber"
SOURCE = "".join(path.read_text() for path in SUBSCRIBER.rglob("*.py"))
_NAMED = set(re.findall(r'\bcrash_point\("((?:apply|copy)\.[^"]+)"\)', SOURCE))
STEPS = sorted(_NAMED - {"apply.prepared"})  # of two-phase commit: tests/replication/test_two_phase.py
LAKE_STEPS = ["stage.write", "commit.begin", "commit.rows", "commit.end"]


@pytest.mark.parametrize("apart", dose([True, False], 2), ids=["two instances", "one instance"])
def test_killed_at_each_step(tmp_path: Path, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    replicas = Replicas(tmp_path, apart=apart)
    chance = random.Random(1)
    assert len(STEPS) >= 8
    for name in [*STEPS, *([] if apart else LAKE_STEPS)]:
        if name == "apply.flushed" and not apart:  # there is no other to tell
            continue
        replicas.work(chance, 1)
        monkeypatch.setattr(messages, "PORTION", 1 if name == "apply.portion" else PORTION)
        if name.startswith("copy."):
            replicas.add_table()
        assert replicas.apply(name) == -signal.SIGKILL, name
        replicas.check_whole_transactions()
    assert replicas.apply() == 0
    replicas.check_equal()


def test_killed_at_random_times(tmp_path: Path) -> None:
    assert _killed_at_random(Replicas(tmp_path, apart=False, history="changes"), random.Random(2), 2) > 0


@pytest.mark.slow
def test_killed_at_random_times_with_two_instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows in one transaction are applied in portions."""
    monkeypatch.setattr(messages, "PORTION", 50)
    assert _killed_at_random(Replicas(tmp_path, apart=True), random.Random(3), 2) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_many_random_times(tmp_path: Path, seed: int) -> None:
    history = "changes" if seed % 3 == 0 else "none"
    _killed_at_random(Replicas(tmp_path, apart=seed % 2 == 0, history=history), random.Random(seed), 40)


def _by_columns(folder: Path, rows: int, *, apart: bool) -> Replicas:
    """What is more than so many rows goes by whole columns, if no filter asks for Spark; ten times as much by Spark."""
    replicas = Replicas(folder, apart=apart, history="changes")
    replicas.pub("DELETE FROM t WHERE a < 0")  # what the filter has kept back would be missing when it changes
    assert replicas.apply() == 0
    replicas.pub("ALTER PUBLICATION p SET TABLE t, u, p")
    replicas.sub(f"ALTER SYSTEM SET pgrepl.local_rows = {rows}")
    replicas.pub(f"ALTER SYSTEM SET pgrepl.local_rows = {rows}")
    return replicas


def test_killed_where_batches_go_by_whole_columns(tmp_path: Path) -> None:
    replicas = _by_columns(tmp_path, 100, apart=False)
    replicas.pub("INSERT INTO t SELECT 800000 + g, 'many' FROM generate_series(1, 400) g")
    replicas.states.append(replicas.published())
    assert replicas.apply("columns.staged") == -signal.SIGKILL
    _killed_at_random(replicas, random.Random(4), 3)


@pytest.mark.slow
def test_killed_where_batches_go_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some seven messages each."""
    monkeypatch.setattr(message_files, "MESSAGE_BYTES", (64 << 20) // 8)
    replicas = _by_columns(tmp_path, 10, apart=False)
    replicas.pub("INSERT INTO t SELECT 800000 + g, 'many' FROM generate_series(1, 400) g")
    replicas.states.append(replicas.published())
    assert replicas.apply("columns.part") == -signal.SIGKILL
    replicas.check_whole_transactions()
    assert replicas.apply("stage.deletes") in (0, -signal.SIGKILL)
    _killed_at_random(replicas, random.Random(6), 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_many_random_times_by_columns(tmp_path: Path, seed: int) -> None:
    _killed_at_random(_by_columns(tmp_path, 100, apart=seed % 2 == 0), random.Random(seed), 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_killed_while_spark_works(tmp_path: Path, seed: int) -> None:
    """Its JVM goes with it; long enough for some to die in the middle of a job."""
    _killed_at_random(_by_columns(tmp_path, 10, apart=seed % 2 == 0), random.Random(seed), 12, longest=14.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_followers_killed_at_many_random_times(tmp_path: Path, seed: int) -> None:
    """Two subscriptions of one process, each in a thread."""
    replicas = Replicas(tmp_path, apart=seed % 2 == 0)
    assert replicas.apply() == 0
    replicas.subscribe_another()
    chance = random.Random(seed)
    for _ in range(30):
        replicas.work(chance)
        replicas.apply(after=chance.uniform(0.0, 0.6), options=("--follow", "--interval", "0.02"))
        replicas.check_whole_transactions()
    assert replicas.apply() == 0
    replicas.check_equal()
    assert replicas.sub("SELECT * FROM other ORDER BY a") == replicas.pub("SELECT * FROM other ORDER BY a")


def _killed_at_random(replicas: Replicas, chance: random.Random, times: int, longest: float = 0.25) -> int:
    killed = 0
    for _ in range(times):
        replicas.work(chance)
        if chance.random() < 0.4:
            replicas.add_table()
        killed += replicas.apply(after=chance.uniform(0.0, longest)) == -signal.SIGKILL
        replicas.check_whole_transactions()
    assert replicas.apply() == 0
    replicas.check_equal()
    return killed
