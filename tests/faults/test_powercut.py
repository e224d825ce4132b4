"""The power is cut while a publisher and a subscriber work: what was told is there, each transaction is applied once.

Every write that was not synced may be gone (powercut.py).
"""

from __future__ import annotations

import os
import pickle
import random
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.catalog.locks import lock_file
from tests.faults.powercut import TOLD, Disk, Record, recorded
from tests.faults.replication import Replicas, State
from tests.lake.duck import close, duck


@pytest.mark.parametrize(
    "apart", [pytest.param(False, marks=pytest.mark.slow, id="one instance"), pytest.param(True, id="two instances")]
)
def test_what_was_told_outlives_a_power_cut(tmp_path: Path, apart: bool) -> None:
    _cut_at_random(tmp_path, apart=apart, seed=1, rounds=2, cuts=1, synchronous_commit="off")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_was_told_outlives_many_power_cuts(tmp_path: Path, seed: int) -> None:
    synchronous_commit = "on" if seed == 3 else "off"
    _cut_at_random(tmp_path, apart=seed > 0, seed=seed, rounds=12, cuts=30, synchronous_commit=synchronous_commit)


@pytest.mark.slow
def test_all_that_is_not_synced_is_lost_at_each_step_of_replication(tmp_path: Path) -> None:
    records = recorded(tmp_path, "tests.faults.powercut_steps")
    states: list[State] = pickle.loads((tmp_path / "states").read_bytes())
    disk = Disk(tmp_path / "disk")
    steps: set[str] = set()
    for record in records:
        disk.play(record)
        step = str(disk.told[-1].get("step", "")) if disk.told and record.path.endswith(TOLD) else ""
        if not step or step in steps:
            continue
        steps.add(step)
        disk.cut(None)
        told = _last(disk, "published", 0), _last(disk, "applied", 0)
        failure = _in_child(lambda: _check(tmp_path / "disk", True, states, told, 0.5))  # noqa: B023
        assert failure == "", f"cut at {step}\n{failure}"
    assert steps >= {"copy.begun", "copy.slot", "copy.received", "copy.written", "copy.committed", "apply.flushed"}


@pytest.mark.slow
def test_what_a_commit_waits_for(tmp_path: Path) -> None:
    """synchronous_commit as PostgreSQL has it; a slot is on the disk whatever it says."""
    records = recorded(tmp_path, "tests.faults.powercut_settings")
    disk = Disk(tmp_path / "disk")
    kept = []
    for record in records:
        disk.play(record)
        told = disk.told[-1].get("done") if disk.told and record.path.endswith(TOLD) else None
        if told is None:
            continue
        disk.cut(None)
        if _has(tmp_path / "disk" / "catalog.db", str(told)):
            kept.append(told)
    assert kept == ["on", "on for this one", "a_slot", "many"]


def _has(catalog: Path, told: str) -> bool:
    """Is what a step has written in the catalog, with its files?"""
    with closing(sqlite3.connect(catalog)) as link:
        names = link.execute("SELECT table_name FROM ducklake_inlined_data_tables").fetchall()
        rows = [row for (name,) in names for row in link.execute(f"SELECT a FROM {name}")]
        slots = link.execute("SELECT slot_name FROM pg_replication_slot").fetchall()
        files = link.execute("SELECT path FROM ducklake_data_file").fetchall()
    assert all(list(catalog.parent.rglob(path)) for (path,) in files)
    return (told,) in rows + slots or (told == "many" and len(files) == 1)


def _cut_at_random(folder: Path, *, apart: bool, seed: int, rounds: int, cuts: int, synchronous_commit: str) -> None:
    chance = random.Random(seed)
    work = ("apart" if apart else "together", str(seed), str(rounds), synchronous_commit)
    records = recorded(folder, "tests.faults.powercut_work", *work)
    states: list[State] = pickle.loads((folder / "states").read_bytes())
    ready = next(
        number for number, record in enumerate(records) if record.path.endswith(TOLD) and b"ready" in record.data
    )
    points = sorted([*(chance.randrange(ready, len(records)) for _ in range(cuts - 1)), len(records) - 1])
    disk = Disk(folder / "disk")
    played = 0
    for point in points:
        for record in records[played : point + 1]:
            disk.play(record)
        played = point + 1
        disk.cut(chance)
        told = _last(disk, "published", 0), _last(disk, "applied", 0)
        seed_here = chance.random()
        failure = _in_child(lambda: _check(folder / "disk", apart, states, told, seed_here))  # noqa: B023
        assert failure == "", f"cut behind record {point} of {len(records)}: {_shown(records, point)}\n{failure}"


def _last(disk: Disk, what: str, default: int) -> int:
    return next((int(str(line[what])) for line in reversed(disk.told) if what in line), default)


def _shown(records: list[Record], point: int) -> str:
    return ", ".join(
        f"{record.op} {os.path.basename(record.path)}" for record in records[max(0, point - 5) : point + 1]
    )


class _Found(Replicas):
    """What the cut has left."""

    def __init__(self, folder: Path, *, apart: bool, states: list[State]) -> None:
        self.publisher = folder / "pub" / "catalog.db"
        self.subscriber = folder / "sub" / "catalog.db" if apart else self.publisher
        self._number = 5060  # other keys than before
        self._slots = [("s", "f")]
        self.states = states
        self._past = []


def _check(folder: Path, apart: bool, states: list[State], told: tuple[int, int], seed: float) -> None:
    setattr(lock_file, "boot", lambda: "another")  # noqa: B010
    published, applied = told
    replicas = _Found(folder, apart=apart, states=list(states))
    chance = random.Random(seed)
    found = replicas.published()
    assert found in states[published : published + 2], f"state {published} was told"
    reached = max(number for number in (published, published + 1) if states[number : number + 1] == [found])
    if all(row == ("r",) for row in replicas.sub("SELECT srsubstate FROM pg_subscription_rel")):
        assert replicas.received() in states[applied : reached + 1], f"state {applied} was told to be applied"
    replicas.states = states[: reached + 1]
    _apply(replicas)
    _check_equal(replicas)
    replicas.work(chance, 2)
    _apply(replicas)
    for play in (replicas.pub, replicas.sub):
        play("VACUUM")
    _check_equal(replicas)
    for catalog, database in ((replicas.publisher, "pub"), (replicas.subscriber, "sub")):
        condition = "WHERE a >= 0" if database == "pub" else ""
        theirs = duck(catalog, f"SELECT a, b FROM {database}.t {condition} ORDER BY a")
        close(catalog)
        assert [(str(a), b) for a, b in theirs] == replicas.states[-1][0]


def _apply(replicas: Replicas) -> None:
    if replicas.apply() != 0:
        with closing(sqlite3.connect(replicas.subscriber)) as link:
            raise AssertionError(link.execute("SELECT * FROM pgrepl_subscription_error").fetchall())


def _check_equal(replicas: Replicas) -> None:
    assert replicas.received() == replicas.states[-1] == replicas.published()
    for (name,) in replicas.sub(
        "SELECT srrelid::regclass::text FROM pg_subscription_rel WHERE srrelid::regclass::text LIKE 'c%'"
    ):
        assert replicas.sub(f"SELECT * FROM {name} ORDER BY a") == replicas.pub(f"SELECT * FROM {name} ORDER BY a")
    assert replicas.sub("SELECT DISTINCT srsubstate FROM pg_subscription_rel") == [("r",)]
    errors = replicas.sub("SELECT apply_error_count, sync_error_count FROM pg_stat_subscription_stats")
    assert errors == [("0", "0")]
    assert replicas.pub("SELECT slot_name, active FROM pg_replication_slots") == [("s", "f")]


def _in_child(check: Callable[[], None]) -> str:
    """The error of a check that is made in a process of its own, which remembers nothing of the disks before."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        text = ""
        try:
            check()
        except BaseException:
            text = traceback.format_exc()
        finally:
            os.write(writer, text.encode()[-60000:])
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        failure = pipe.read().decode()
    os.waitpid(process, 0)
    return failure
