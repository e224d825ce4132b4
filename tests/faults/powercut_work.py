"""What is recorded while power cuts are thought of: a publisher and a subscriber at work, told of step by step."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgrepl.catalog.store.files import sync
from tests.faults.powercut import tell
from tests.faults.replication import Replicas


class Told(Replicas):
    """Replicas that say what they have been told: how many states of the publisher there are."""

    def __init__(self, folder: Path, *, apart: bool) -> None:
        self.folder = folder
        super().__init__(folder, apart=apart)
        sync(folder)  # which the instances' folders were made in

    def add_state(self) -> None:
        tell(self.folder, published=len(self.states) - 1)

    def caught_up(self) -> None:
        """`pgrepl apply` has said that it has."""
        assert self.apply() == 0
        tell(self.folder, applied=len(self.states) - 1)


def work(folder: Path, *, apart: bool, seed: int, rounds: int, synchronous_commit: str) -> Told:
    replicas = Told(folder, apart=apart)
    chance = random.Random(seed)
    for play in (replicas.pub, replicas.sub):  # VACUUM removes all that nobody needs, at once
        play("ALTER SYSTEM SET pgrepl.file_grace = 0")
        play("ALTER SYSTEM SET pgrepl.keep_snapshots = 0")
    replicas.sub(f"ALTER SUBSCRIPTION s SET (synchronous_commit = {synchronous_commit})")
    replicas.caught_up()
    tell(folder, ready=True)
    with _others(replicas):
        _rounds(replicas, chance, rounds)
    return replicas


@contextmanager
def _others(replicas: Replicas) -> Iterator[None]:
    """Somebody else has the catalogs open all the time, so that nobody is the last to close one, who copies its log
    into it."""
    script = "import sqlite3, sys; " + "; ".join(
        f"c{number} = sqlite3.connect({str(path)!r}); c{number}.execute('SELECT count(*) FROM pg_class')"
        for number, path in enumerate((replicas.publisher, replicas.subscriber))
    )
    command = [sys.executable, "-c", f"{script}; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        yield
        other.stdin.close()


def _rounds(replicas: Told, chance: random.Random, rounds: int) -> None:
    for number in range(rounds):
        for _ in range(chance.randint(1, 3)):
            replicas.work(chance, 1)
            replicas.add_state()
        if number % 4 == 2:
            replicas.add_table()
        if number % 3 == 1:
            chance.choice((replicas.pub, replicas.sub))(chance.choice(("VACUUM", "VACUUM FULL")))
        replicas.caught_up()


if __name__ == "__main__":
    disk, apart, seed, rounds, synchronous_commit = sys.argv[1:]
    done = work(
        Path(disk), apart=apart == "apart", seed=int(seed), rounds=int(rounds), synchronous_commit=synchronous_commit
    )
    Path(disk).with_name("states").write_bytes(pickle.dumps(done.states))
