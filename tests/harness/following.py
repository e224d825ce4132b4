"""Workers of all of a database's subscriptions, each in a thread, beside a test that changes what they follow."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pgrepl.backend import open_session
from pgrepl.replication.subscriber.launcher import Launcher
from tests.harness.database import HeardLog
from tests.harness.pair import Pair
from tests.harness.programs import PATIENCE


class Following(threading.Thread):
    """The launcher at work, beside a test that changes what it follows."""

    def __init__(self, pair: Pair) -> None:
        super().__init__(daemon=True)
        self.log = HeardLog()
        self.problem: BaseException | None = None
        self._session = open_session(pair.sub.session.catalog, "sub")
        self._launcher = Launcher(self._session, self.log, keeps_leases=True)
        self._over = False

    def run(self) -> None:
        def ends(_rounds: object) -> bool:
            return self._over

        try:
            self._launcher.follow(0.02, lambda _, worker: worker.round(), ends)
        except BaseException as problem:
            self.problem = problem
        finally:
            self._launcher.close()
            self._session.close()

    def end(self, patience: float = PATIENCE) -> None:
        self._over = True
        self.join(patience)
        assert not self.is_alive()
        assert self.problem is None


@contextmanager
def following(pair: Pair) -> Iterator[Following]:
    made = Following(pair)
    made.start()
    try:
        yield made
    finally:
        made.end()
