"""Random transactions at a server while its subscriber, the server and the network between them fail at random: in the
end both have the same rows, each transaction once, and nothing is left at the server."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from random import Random

import psycopg
import pytest

from tests.harness.dose import dose
from tests.harness.programs import environment, eventually, started
from tests.postgres.relay import Relay, relay, through
from tests.postgres.served import PublishingServer, Served
from tests.postgres.test_server_faults import command

TABLES = (
    "CREATE TABLE t (a int PRIMARY KEY, b text, c int DEFAULT 0); CREATE TABLE u (a int, b text);"
    "CREATE TABLE w (a int PRIMARY KEY, b text)"
)
WANTED = {"t": "SELECT a, b, c FROM t WHERE a % 10 <> 3", "u": "TABLE u", "w": "TABLE w"}  # of the publications
POINTS = (
    "apply.received", "apply.settled", "apply.committed", "apply.flushed", "commit.rows", "copy.begun", "copy.slot",
    "copy.received", "copy.written", "copy.committed", "range.written", "table.settled", "table.left",
)  # fmt: skip
LEFT = "SELECT slot_name, temporary FROM pg_replication_slots WHERE slot_type = 'logical' AND database = '{}'"
ROWS = 4000


class Writer(threading.Thread):
    """A client that writes, and connects again when it has lost the server."""

    def __init__(self, served: Served, random: Random) -> None:
        super().__init__(daemon=True)
        self._served, self._random, self._over = served, random, threading.Event()
        self._number = 0

    def run(self) -> None:
        while not self._over.is_set():
            with suppress(psycopg.Error), psycopg.connect(self._served.conninfo, autocommit=True) as link:
                while not self._over.wait(self._random.choice([0, 0, 0.01, 0.05])):
                    with suppress(psycopg.Rollback), link.transaction() as transaction:
                        for _ in range(self._random.randint(1, 8)):
                            self._number += 1
                            link.execute(self._statement().encode())
                        if self._random.random() < 0.1:
                            raise psycopg.Rollback(transaction)
            self._over.wait(0.05)

    def _statement(self) -> str:
        number, key, other = self._number, *(self._random.randint(1, 2 * ROWS) for _ in range(2))
        kind = self._random.randrange(100)
        if kind < 3:
            return "TRUNCATE u"
        if kind < 6:
            return f"UPDATE t SET c = {number} WHERE a % 4 = {key % 4}"
        return self._random.choice(
            [
                f"INSERT INTO t VALUES ({key}, repeat('{number}', {kind})) ON CONFLICT (a) DO UPDATE SET c = {number}",
                f"UPDATE t SET a = {other} WHERE a = {key} AND NOT EXISTS (SELECT FROM t WHERE a = {other})",
                f"DELETE FROM t WHERE a BETWEEN {key} AND {key + 2}",
                f"INSERT INTO u VALUES ({number}, 'one'), ({number % 7}, 'same'), ({number % 7}, 'same')",
                f"DELETE FROM u WHERE a = {number % 7}",
                f"UPDATE u SET b = b || '.' WHERE a = {number % 7 + 1} AND length(b) < 30",
                f"INSERT INTO w VALUES ({key}, repeat(md5('{number}'), 300)) ON CONFLICT (a) DO UPDATE SET b = 'short'",
                f"UPDATE w SET a = {other} WHERE a = {key} AND NOT EXISTS (SELECT FROM w WHERE a = {other})",
            ]
        )

    def end(self) -> None:
        self._over.set()
        self.join()


class Trouble:
    """What goes wrong. The server may fail over to the `other` one, a standby that has all of it."""

    def __init__(self, served: Served, other: PublishingServer, network: Relay, random: Random) -> None:
        self._served, self._network, self._random = served, network, random
        self.other = other
        self._follower = ExitStack()
        self.kinds: dict[str, Callable[[], None]] = {
            "kill": self.kill,
            "kill at a point": lambda: self.kill(f"{random.choice(POINTS)}:{random.randint(1, 3)}"),
            "restart fast": lambda: served.publishing.restart("fast"),
            "restart immediate": served.publishing.restart,
            "cut in a message": self.cut_in_message,
            "cut": network.cut,
            "terminate": self.terminate,
            "slow": self.slow,
            "fail over": self.fail_over,
        }

    def follow(self, kill_at: str = "") -> None:
        nowhere, env = subprocess.DEVNULL, environment(PGREPL_KILL_AT=kill_at)
        told = command(self._served, "--follow", "--log-file", str(self._served.folder / "log"))
        self._process = self._follower.enter_context(started(*told, stdout=nowhere, stderr=nowhere, env=env))

    def kill(self, kill_at: str = "") -> None:
        """Kill the follower; the next one may die at a point of its work."""
        self._process.kill()
        self._follower.close()
        if kill_at:
            self.follow(kill_at)
            with suppress(subprocess.TimeoutExpired):
                assert self._process.wait(3) == -signal.SIGKILL
            return self.kill()
        return self.follow()

    def cut_in_message(self) -> None:
        """In the middle of what the server says next, or some messages later."""
        left = self._random.choice([0, 1, 5, 100])

        def hear(by_server: bool, message: bytes) -> int | None:
            nonlocal left
            left -= by_server
            if left >= 0 or not by_server:
                return None
            self._network.hear = lambda by_server, message: None
            return self._random.randrange(len(message))

        self._network.hear = hear

    def terminate(self) -> None:
        with psycopg.connect(self._served.conninfo, autocommit=True) as link:
            link.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender'")

    def slow(self) -> None:
        self._network.pause = 0.005
        time.sleep(1)
        self._network.pause = 0.0

    def fail_over(self) -> None:
        there, served = self.other, self._served
        with suppress(subprocess.CalledProcessError):  # it runs already
            there.control("start")
        there.take_over_from(served.publishing)
        self.other, served.publishing = served.publishing, there
        self._network.server_socket = there.socket
        self._network.cut()

    def end(self) -> None:
        self._follower.close()


@pytest.fixture(scope="module", params=dose([16, 18], 2))
def servers(request: pytest.FixtureRequest) -> Iterator[list[PublishingServer]]:
    """The first one is running."""
    made = [PublishingServer(request.param), PublishingServer(request.param)]
    yield made
    for each in made:
        with suppress(subprocess.CalledProcessError):
            each.server.stop()


def insisting(work: Callable[[], object]) -> None:
    """Do it, whatever goes wrong at first."""

    def is_done() -> bool:
        with suppress(Exception):
            work()
            return True
        return False

    eventually(is_done)


def hashed(rows: list[tuple[str | None, ...]]) -> tuple[int, str]:
    return len(rows), sha256(repr(sorted(rows, key=repr)).encode()).hexdigest()


def same(served: Served) -> bool:
    return all(hashed(served.pub(query)) == hashed(served.sub(f"TABLE {name}")) for name, query in WANTED.items())


@pytest.mark.parametrize("seed", dose(range(50), 50))
def test_whatever_fails_both_sides_end_equal(servers: list[PublishingServer], seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    served = Served(servers[0], tmp_path)
    served.both(TABLES)
    served.pub("ALTER TABLE u REPLICA IDENTITY FULL; ALTER TABLE w ALTER b SET STORAGE EXTERNAL")
    served.pub(
        f"INSERT INTO t SELECT g, 'row ' || g, 0 FROM generate_series(1, {ROWS}) g; INSERT INTO w SELECT a, b FROM t"
    )
    served.pub("ANALYZE; CREATE PUBLICATION p FOR TABLE t WHERE (a % 10 <> 3), u")
    for setting in ("pgrepl.copy_range_size = '64kB'", "wal_retrieve_retry_interval = '100ms'"):
        served.sub(f"ALTER SYSTEM SET {setting}")
    writer = Writer(served, random)
    with relay(served) as network:
        served.subscribe_only(conninfo=through(network, served))
        trouble = Trouble(served, servers[1], network, random)
        trouble.follow()
        writer.start()
        try:
            for kind in random.sample(sorted(trouble.kinds), 5):
                time.sleep(random.uniform(0, 1))
                trouble.kinds[kind]()
            network.hear = lambda by_server, message: None
            insisting(lambda: served.pub("ALTER PUBLICATION p SET TABLE t WHERE (a % 10 <> 3), u, w"))
            insisting(lambda: served.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION"))
            trouble.kinds[random.choice(["kill", "cut in a message", "cut", "terminate"])]()
            time.sleep(random.uniform(0, 1))
            writer.end()
            network.hear = lambda by_server, message: None
            eventually(lambda: same(served))
            states = "SELECT DISTINCT srsubstate FROM pg_subscription_rel"
            eventually(lambda: served.sub(states) == [("r",)])
            eventually(lambda: served.pub(LEFT.format(served.database)) == [(served.slot, "f")])
        finally:
            writer.end()
            trouble.end()
        served.sub("DROP SUBSCRIPTION s")
    assert served.pub(LEFT.format(served.database)) == []
    served.close()
    servers[:] = [served.publishing, trouble.other]
    with psycopg.connect(servers[0].conninfo("postgres"), autocommit=True) as link:
        link.execute(f"DROP DATABASE {served.database} WITH (FORCE)".encode())
