"""A table is copied and changes are applied, from one instance to another; each step is told when it has come."""

from __future__ import annotations

import pickle
import random
import sys
from pathlib import Path

from tests.faults.powercut import tell
from tests.faults.powercut_work import Told


class ToldByStep(Told):
    """Replicas whose steps of replication are told, too."""

    def caught_up(self) -> None:
        assert self.apply(hear=lambda name: tell(self.folder, step=name)) == 0
        tell(self.folder, applied=len(self.states) - 1)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    replicas = ToldByStep(folder, apart=True)
    chance = random.Random(5)
    assert replicas.apply() == 0
    tell(folder, applied=0, ready=True)
    for _ in range(2):
        replicas.work(chance, 1)
        replicas.add_state()
    replicas.add_table()
    replicas.caught_up()
    folder.with_name("states").write_bytes(pickle.dumps(replicas.states))
