"""A repair is killed at each of its moments: it has done all or nothing, and the next one makes both sides equal."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.faults.replication import command
from tests.harness.database import Rows, ask, visit

TABLES = "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, v text)"
_ROWS = "SELECT * FROM t UNION ALL SELECT id + 1000, v FROM u ORDER BY id"


class Broken:
    """A subscription whose rows differ in two tables, of which one has the rows of a prepared transaction."""

    def __init__(self, folder: Path, *, apart: bool, loses_slot: bool) -> None:
        self.publisher = folder / "pub" / "catalog.db"
        self.subscriber = folder / "sub" / "catalog.db" if apart else self.publisher
        self.loses_slot = loses_slot
        self._number = 0
        for catalog in {self.publisher, self.subscriber}:
            catalog.parent.mkdir()
            with visit(catalog) as session:
                ask(session, "ALTER SYSTEM SET max_prepared_transactions = 10")
        self._say(self.publisher, "postgres", "CREATE DATABASE pub")
        self._say(self.subscriber, "postgres", "CREATE DATABASE sub")
        self.pub(TABLES)
        self.sub(TABLES)
        self.pub("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 40) i; INSERT INTO u VALUES (1, 'v')")
        self.pub("CREATE PUBLICATION p FOR TABLE t, u")
        where = f"host={self.publisher.parent}" if apart else "host=localhost"
        self.sub(f"CREATE SUBSCRIPTION s CONNECTION '{where} dbname=pub' PUBLICATION p WITH (two_phase = on)")
        self.whole()

    def _say(self, catalog: Path, database: str, *texts: str) -> Rows:
        with visit(catalog, database) as session:
            return ask(session, *texts)

    def pub(self, *texts: str) -> Rows:
        return self._say(self.publisher, "pub", *texts)

    def sub(self, *texts: str) -> Rows:
        return self._say(self.subscriber, "sub", *texts)

    def run(self, *arguments: str, hear: Callable[[str], None] | None = None) -> int:
        return command(self.subscriber, arguments, hear=hear)

    def whole(self) -> None:
        """Both sides come to be equal by the worker alone, which goes on with two_phase."""
        for _ in range(2):
            assert self.run("apply", "s") == 0
        assert self.sub(_ROWS) == self.pub(_ROWS)
        assert self.sub("SELECT subtwophasestate FROM pg_subscription") == [("e",)]

    def breaks(self, *, ends: bool) -> None:
        """`ends`: one of the prepared transactions is committed after the slot was lost."""
        self._number += 1
        n = self._number
        for name in ("ends", "stays"):
            key = 100 * n + len(name)
            self.pub(f"BEGIN; INSERT INTO t VALUES ({key}, '{name}')", f"PREPARE TRANSACTION '{name}'")
        assert self.run("apply", "s") == 0
        assert self.sub("SELECT count(*) FROM pg_prepared_xacts WHERE database = 'sub'") == [("2",)]
        self.sub(f"DELETE FROM t WHERE id = {n % 40 + 1}; UPDATE u SET v = 'wrong'; INSERT INTO u VALUES (7, 'extra')")
        if self.loses_slot:
            self.pub("SELECT pg_drop_replication_slot('s')")
        if ends:
            self.pub("COMMIT PREPARED 'ends'")

    def ended(self) -> None:
        for name in ("ends", "stays"):
            if self.pub(f"SELECT FROM pg_prepared_xacts WHERE gid = '{name}'"):
                self.pub(f"COMMIT PREPARED '{name}'")


def killer(step: str, times: int) -> Callable[[str], None]:
    """Kills this process when it reaches a crash point for the so manieth time; of no name: whichever it is."""
    reached = count(1)

    def hear(name: str) -> None:
        if name.startswith(step) and next(reached) == times:
            os.kill(os.getpid(), signal.SIGKILL)

    return hear


def check(broken: Broken, hear: Callable[[str], None], *, ends: bool, worker: bool) -> int:
    """Break the subscription, and repair it in two turns, of which the first is killed; how that ended. `worker`: one
    comes before the second."""
    broken.breaks(ends=ends)
    wrong = broken.sub(_ROWS)
    code = broken.run("repair", "s", "--yes", hear=hear)
    rows, right = broken.sub(_ROWS), broken.pub(_ROWS)
    assert rows in (wrong, right)
    if worker:  # that does not go on without its slot, if there were changes since
        goes_on = rows == right or not broken.loses_slot
        assert broken.run("apply", "s") == (0 if goes_on else 1) or not ends
    assert broken.run("repair", "s", "--yes") == 0
    assert broken.sub(_ROWS) == broken.pub(_ROWS)
    broken.ended()
    broken.whole()
    return code


def test_a_repair_is_killed_when_prepared_transactions_have_been_rolled_back(tmp_path: Path) -> None:
    broken = Broken(tmp_path, apart=False, loses_slot=True)
    assert check(broken, killer("repair.written", 1), ends=True, worker=True) == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(("loses_slot", "ends"), [(True, True), (True, False), (False, False)])
def test_a_repair_is_killed_at_each_moment(tmp_path: Path, loses_slot: bool, apart: bool, ends: bool) -> None:
    broken = Broken(tmp_path, apart=apart, loses_slot=loses_slot)
    for moment in count(1):
        code = check(broken, killer("", moment), ends=ends, worker=moment % 2 == 0)
        assert code in (0, -signal.SIGKILL)
        if code == 0:
            assert moment > 5
            return
