"""A publisher, a subscriber, and workers that are killed: what must be true whenever one has died.

Workers are forks of the test's process: nothing of a catalog is open in it while one lives.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from pgrepl.catalog.session.session import Session
from pgrepl.lake.storage import crash_point
from tests.harness.database import Rows, ask, visit

State = tuple[Rows, ...]

_TABLES = """
CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE u (b text);
CREATE TABLE p (a int PRIMARY KEY, b text) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (50);
CREATE TABLE p2 PARTITION OF p DEFAULT
"""


class Replicas:
    """One database replicated to another: of the same instance, or of one in another folder."""

    def __init__(self, folder: Path, *, apart: bool, history: str = "none") -> None:
        self.publisher, self.subscriber = folder / "pub" / "catalog.db", folder / "sub" / "catalog.db"
        self.publisher.parent.mkdir()
        if apart:
            self.subscriber.parent.mkdir()
        else:
            self.subscriber = self.publisher
        self.pub("CREATE DATABASE pub", "postgres")
        self.sub("CREATE DATABASE sub", "postgres")
        for play in (self.pub, self.sub):
            play(_TABLES)
        self.pub("ALTER TABLE u REPLICA IDENTITY FULL")
        self.pub("CREATE PUBLICATION p FOR TABLE t WHERE (a >= 0), u, p WITH (publish_via_partition_root)")
        self.pub(
            "INSERT INTO t SELECT g - 50, 'v' || g FROM generate_series(0, 500) g; INSERT INTO u VALUES ('x'), ('x')"
        )
        host = str(self.publisher.parent) if apart else "localhost"
        self.sub(f"CREATE SUBSCRIPTION s CONNECTION 'host={host} dbname=pub' PUBLICATION p WITH (history = {history})")
        self.states = [self.published()]
        self._history = history
        self._past: list[tuple[str, State]] = []  # states with their LSNs
        self._number = 0
        self._slots = [("s", "f")]

    def pub(self, text: str, database: str = "pub") -> Rows:
        with visit(self.publisher, database) as session:
            return ask(session, text)

    def sub(self, text: str, database: str = "sub") -> Rows:
        with visit(self.subscriber, database) as session:
            return ask(session, text)

    # --- what happens at the publisher ----------------------------------------------------------------------------

    def work(self, chance: random.Random, transactions: int = 2) -> None:
        """Some transactions; what is published after each is remembered."""
        with visit(self.publisher, "pub") as pub:
            for _ in range(transactions):
                self._work(pub, chance)

    def _work(self, pub: Session, chance: random.Random) -> None:
        self._number += 1
        n, key = self._number, chance.randrange(-40, 900)
        statements = [
            f"INSERT INTO t VALUES ({1000 + n}, 'new {n}')",
            f"INSERT INTO u VALUES ('x'), ('n{n}')",
            f"UPDATE t SET b = b || '{n}' WHERE a % 7 = {n % 7}",
            f"DELETE FROM t WHERE a = {key}",
            f"UPDATE t SET a = a + 5000 WHERE a = {key + 1} AND NOT EXISTS (SELECT FROM t WHERE a = {key + 5001})",
            f"INSERT INTO p VALUES ({n % 100}, 'p{n}') ON CONFLICT (a) DO UPDATE SET a = p.a + 100",
            f"INSERT INTO t SELECT {10000 * n} + g, 'many' FROM generate_series(1, 400) g",
            "DELETE FROM u WHERE b = 'x'",
            "TRUNCATE u",
        ]
        chosen = chance.sample(statements, 3)
        if len(self._slots) > 1:
            chosen.append(f"INSERT INTO other VALUES ({n})")
        ask(pub, "BEGIN; " + "; ".join(chosen) + "; COMMIT")
        self.states.append(_state(pub, "WHERE a >= 0"))
        self._past.append((str(ask(pub, "SELECT pg_current_wal_lsn()")[0][0]), self.states[-1]))

    def add_table(self) -> None:
        """A table that waits for its copy."""
        self._number += 1
        name = f"c{self._number}"
        for play in (self.pub, self.sub):
            play(f"CREATE TABLE {name} (a int PRIMARY KEY, b text)")
        self.pub(
            f"INSERT INTO {name} SELECT g, 'c' FROM generate_series(1, 300) g; ALTER PUBLICATION p ADD TABLE {name}"
        )
        self.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")

    def subscribe_another(self) -> None:
        """To a table of its own, which each transaction adds a row to."""
        for play in (self.pub, self.sub):
            play("CREATE TABLE other (a int PRIMARY KEY)")
        self.pub("CREATE PUBLICATION q FOR TABLE other")
        host = str(self.publisher.parent) if self.publisher != self.subscriber else "localhost"
        self.sub(f"CREATE SUBSCRIPTION another CONNECTION 'host={host} dbname=pub' PUBLICATION q")
        self._slots = [("another", "f"), ("s", "f")]

    # --- what must be true ----------------------------------------------------------------------------------------

    def published(self) -> State:
        with visit(self.publisher, "pub") as session:
            return _state(session, "WHERE a >= 0")

    def received(self) -> State:
        with visit(self.subscriber, "sub") as session:
            return _state(session, "")

    def check_whole_transactions(self) -> None:
        """What has been received is what was published after one of the transactions, in all tables at once."""
        if self.sub(
            "SELECT DISTINCT srsubstate FROM pg_subscription_rel WHERE srrelid::regclass::text IN ('t', 'u', 'p')"
        ) == [("r",)]:
            assert self.received() in self.states

    def check_history(self) -> None:
        """The past of the tables is what was published after each transaction that has come since the last of them was
        copied."""
        with visit(self.subscriber, "sub") as session:
            histories = ask(session, "SELECT oid::regclass FROM pg_class WHERE relname ~ '_history$' AND relkind = 'r'")
            copies = " UNION ALL ".join(f"SELECT lsn FROM {name} WHERE operation = 'copy'" for (name,) in histories)
            begun = int(ask(session, f"SELECT max(lsn) - '0/0' FROM ({copies}) copied")[0][0] or 0)
            for lsn, there in self._past[-10:]:
                if ask(session, f"SELECT '{lsn}'::pg_lsn - '0/0' > {begun}") == [("t",)]:
                    assert _state(session, "", lambda name, lsn=lsn: f"{name}_at('{lsn}')") == there, lsn

    def check_equal(self) -> None:
        assert self.received() == self.states[-1] == self.published()
        if self._history == "changes":
            self.check_history()
        added = [
            row[0] for row in self.sub("SELECT relname FROM pg_class WHERE relname ~ '^c[0-9]+$' AND relkind = 'r'")
        ]
        for name in added:
            assert self.sub(f"SELECT * FROM {name} ORDER BY a") == self.pub(f"SELECT * FROM {name} ORDER BY a")
        assert self.sub("SELECT DISTINCT srsubstate FROM pg_subscription_rel") == [("r",)]
        assert self.sub("SELECT DISTINCT apply_error_count, sync_error_count FROM pg_stat_subscription_stats") == [
            ("0", "0")
        ]
        assert self.pub("SELECT slot_name, active FROM pg_replication_slots ORDER BY 1") == self._slots

    # --- workers --------------------------------------------------------------------------------------------------

    def apply(
        self,
        kill_at: str = "",
        after: float | None = None,
        options: Sequence[str] = (),
        hear: Callable[[str], None] | None = None,
    ) -> int:
        """Run `pgrepl apply` in a process of its own, perhaps killed on its way; how it ended. `hear` is told each step
        of it."""
        return command(self.subscriber, ("apply", *options), kill_at, after, hear)


def command(
    catalog: Path,
    arguments: Sequence[str],
    kill_at: str = "",
    after: float | None = None,
    hear: Callable[[str], None] | None = None,
) -> int:
    """Run a command of pgrepl, as `Replicas.apply` does."""
    process = os.fork()
    if process == 0:
        _command(catalog, arguments, kill_at, hear)
    if after is not None:
        time.sleep(after)
        os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _command(catalog: Path, arguments: Sequence[str], kill_at: str, hear: Callable[[str], None] | None) -> None:
    """In the child."""
    from pgrepl.cli import run as command_line

    code = 70
    try:
        os.environ["PGREPL_KILL_AT"] = kill_at
        if hear is not None:
            _listen(hear)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        code = command_line([*arguments, "--catalog", str(catalog)])
    finally:
        os._exit(code)


def _listen(hear: Callable[[str], None]) -> None:
    """To each call of a crash point, in all threads."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is crash_point.__code__:
            hear(frame.f_locals["name"])

    threading.setprofile(profile)
    sys.setprofile(profile)


def _state(session: Session, condition: str, named: Callable[[str], str] = str) -> State:
    return (
        ask(session, f"SELECT * FROM {named('t')} {condition} ORDER BY a"),
        ask(session, f"SELECT * FROM {named('u')} ORDER BY b"),
        ask(session, f"SELECT * FROM {named('p')} ORDER BY a"),
    )
