"""A server is killed in every phase while clients write to it, PostgreSQL subscribes to it and it to itself: what a
client was told is there, each transaction is whole, and all subscribers come to have the same rows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.harness.programs import PATIENCE, environment, eventually
from tests.harness.serving import EVERYBODY
from tests.postgres.replicas import SETTINGS
from tests.postgres.server import Server, free_port, new_server

pytestmark = pytest.mark.slow

STEPS = (
    "commit.begin", "commit.file", "commit.rows", "commit.end", "stage.write", "stage.closed", "stage.move",
    "apply.received", "apply.origin", "apply.settled", "apply.committed", "columns.staged", "copy.slot", "copy.begun",
    "copy.received", "copy.written", "copy.committed", "compact.begin", "compact.end", "fold.begin", "fold.end",
)  # fmt: skip
TABLES = (
    "CREATE TABLE done (n int PRIMARY KEY)",
    "CREATE TABLE t (a int PRIMARY KEY, n int, b text)",
    "CREATE TABLE u (b text)",
    "ALTER TABLE u REPLICA IDENTITY FULL",
)
_STATES = "SELECT DISTINCT srsubstate FROM pg_subscription_rel"
ROWS = 400  # of the table t in a transaction that goes by whole columns


class Lake:
    """A server on a catalog that is started again and again, on one port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        (folder / "pg_hba.conf").write_text(EVERYBODY)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, kill_at: str = "") -> bool:
        """Start the server; False: it has reached a crash point by then."""
        log = self.folder / "log"
        begun = log.stat().st_size if log.exists() else 0
        options = ("--listen", "127.0.0.1", "-p", str(self.port), "--log-file", str(log))
        process = self._process = subprocess.Popen(
            [sys.executable, "-m", "pgrepl", "serve", *options],
            cwd=self.folder,
            env=environment(PGREPL_KILL_AT=kill_at),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def is_ready() -> bool:
            return log.exists() and "ready to accept" in log.read_bytes()[begun:].decode()

        eventually(lambda: process.poll() is not None or is_ready())
        assert process.poll() in (None, -signal.SIGKILL), log.read_text()[-2000:]
        return process.poll() is None

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def kill_one(self, chance: random.Random) -> None:
        """Kill one of the server's processes."""
        assert self._process is not None
        with suppress(ProcessLookupError, FileNotFoundError, IndexError):
            children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            os.kill(int(chance.choice(children)), signal.SIGKILL)

    def connect(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", dbname=database, autocommit=True, connect_timeout=30
        )

    def ask(self, database: str, *texts: str) -> list[Any]:
        with self.connect(database) as connection:
            return _ask(connection, *texts)


def _ask(connection: psycopg.Connection[Any], *texts: str) -> list[Any]:
    found: list[Any] = []
    for text in texts:
        cursor = connection.execute(text.encode())
        found = [] if cursor.description is None else cursor.fetchall()
    return found


class Writer(threading.Thread):
    """A client that writes transactions, and connects again when it has lost the server."""

    def __init__(self, lake: Lake, seed: int) -> None:
        super().__init__()
        self.told: set[int] = set()  # transactions that were committed, as the server said
        self._lake, self._chance = lake, random.Random(seed)
        self._number = 0
        self._ends = threading.Event()

    def run(self) -> None:
        while not self._ends.is_set():
            try:
                with self._lake.connect("pub") as connection:
                    while not self._ends.is_set():
                        self._number += 1
                        connection.execute(self._transaction(self._number).encode())
                        self.told.add(self._number)
            except psycopg.Error:
                time.sleep(0.02)

    def _transaction(self, n: int) -> str:
        count = self._chance.choice((1, 3, ROWS))
        statements = [
            f"INSERT INTO t SELECT {n * 1000} + g, {n}, 'new' FROM generate_series(1, {count}) g",
            f"INSERT INTO u VALUES ('x'), ('n{n}')",
            f"UPDATE t SET b = b || '{n}' WHERE a % 97 = {n % 97}",
            "DELETE FROM u WHERE b = 'x'",
            f"UPDATE t SET a = -a WHERE n = {n - 5}",
        ]
        chosen = self._chance.sample(statements[1:], 2)
        if self._chance.random() < 0.2:
            chosen.append("TRUNCATE u")
        return "; ".join(["BEGIN", f"INSERT INTO done VALUES ({n * 1000 + count})", statements[0], *chosen, "COMMIT"])

    def end(self) -> None:
        self._ends.set()
        self.join(PATIENCE)
        assert not self.is_alive()


class Replication:
    """The database `pub` of a lake, `sub` of a server, and `own` of the same lake."""

    def __init__(self, lake: Lake, server: Server) -> None:
        self.lake = lake
        where = f"host={server.host} port={server.port} user=postgres"
        with psycopg.connect(f"{where} dbname=postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE sub")
        self.sub: psycopg.Connection[Any] = psycopg.connect(f"{where} dbname=sub", autocommit=True)
        self.tables = ["done", "t", "u"]
        lake.ask("postgres", "CREATE DATABASE pub", "CREATE DATABASE own")
        settings = ("pgrepl.local_rows = 100", "log_replication_commands = on")
        lake.ask("postgres", *(f"ALTER SYSTEM SET {each}" for each in settings), "SELECT pg_reload_conf()")
        lake.ask("pub", *TABLES, "CREATE PUBLICATION p FOR TABLE done, t, u", "INSERT INTO u VALUES ('x'), ('x')")
        lake.ask("own", *TABLES, "CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=pub' PUBLICATION p")
        there = f"host=127.0.0.1 port={lake.port} user=postgres dbname=pub"
        _ask(self.sub, *TABLES, f"CREATE SUBSCRIPTION s2 CONNECTION '{there}' PUBLICATION p")

    def add_table(self) -> None:
        name = f"c{len(self.tables)}"
        table = f"CREATE TABLE {name} (a int PRIMARY KEY, b text)"
        fill = f"INSERT INTO {name} SELECT g, 'c' FROM generate_series(1, 3000) g"
        self.lake.ask("pub", table, fill, f"ALTER PUBLICATION p ADD TABLE {name}")
        self.lake.ask("own", table, "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
        _ask(self.sub, table, "ALTER SUBSCRIPTION s2 REFRESH PUBLICATION")
        self.tables.append(name)

    def rows(self, connection: psycopg.Connection[Any]) -> list[Any]:
        return [sorted(_ask(connection, f"SELECT * FROM {name}")) for name in self.tables]

    def mend(self) -> list[str]:
        """Copy tables anew, as docs/server.md says, whose slot was dropped by the last command before a kill: it
        fell between the drop and its answer, so that PostgreSQL's subscriber forgets that the copy was done."""
        log = (self.lake.folder / "log").read_text()
        waiting = _ask(
            self.sub, "SELECT srsubid, srrelid, srrelid::regclass::text FROM pg_subscription_rel WHERE srsubstate = 'f'"
        )
        mended = []
        for subscription, table, name in waiting:
            (system,) = _ask(self.sub, "SELECT system_identifier FROM pg_control_system()")[0]
            slot = f"pg_{subscription}_sync_{table}_{system}"
            told = [line for line in log.splitlines() if slot in line and "STATEMENT" not in line]
            commands = [line.partition("command: ")[2].split()[0] for line in told if "received replication" in line]
            last = [command for command in commands if command != "START_REPLICATION"][-1:]
            if last != ["DROP_REPLICATION_SLOT"] or f'"{slot}" does not exist' not in told[-1]:
                continue
            self.lake.ask("pub", f"ALTER PUBLICATION p DROP TABLE {name}")
            _ask(self.sub, "ALTER SUBSCRIPTION s2 REFRESH PUBLICATION", f"TRUNCATE {name}")
            self.lake.ask("pub", f"ALTER PUBLICATION p ADD TABLE {name}")
            _ask(self.sub, "ALTER SUBSCRIPTION s2 REFRESH PUBLICATION")
            mended.append(name)
        return mended

    def check(self, told: set[int]) -> None:
        """What a client was told is there, and whole."""
        with self.lake.connect("pub") as pub:
            done = {n // 1000: n % 1000 for (n,) in _ask(pub, "SELECT n FROM done")}
            assert told <= done.keys()
            assert dict(_ask(pub, "SELECT n, count(*) FROM t GROUP BY n")) == done

    def check_equal(self) -> None:
        with self.lake.connect("pub") as pub, self.lake.connect("own") as own:
            wanted = self.rows(pub)
            for each in (own, self.sub):
                try:
                    eventually(lambda there=each: self.rows(there) == wanted and _ask(there, _STATES) == [("r",)])
                except AssertionError:
                    pytest.fail(self._missing(each, wanted))

    def _missing(self, there: psycopg.Connection[Any], wanted: list[Any]) -> str:
        """What a subscriber lacks that does not come to rest."""
        found = [
            f"{name}: {len(set(whole) - set(have))} rows are missing, {len(set(have) - set(whole))} too many"
            for name, whole, have in zip(self.tables, wanted, self.rows(there), strict=True)
            if whole != have
        ]
        for asked in ("SELECT srrelid::regclass, srsubstate FROM pg_subscription_rel", "TABLE pg_stat_subscription"):
            found += [str(row) for row in _ask(there, asked)]
        with self.lake.connect("pub") as pub:
            found += [str(row) for row in _ask(pub, "TABLE pg_replication_slots")]
        return "\n".join([there.info.dbname, *found, (self.lake.folder / "log").read_text()[-3000:]])


@pytest.fixture(params=[16, 18])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    made = new_server(request.param, SETTINGS)
    yield made
    made.stop()


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_many_times(tmp_path: Path, server: Server, seed: int) -> None:
    """Four kills in each of three ways: the whole server at any time, a process of it, a process at one step.

    Seldom one hits the moment between the drop of a table's slot and the answer: PostgreSQL's subscriber then asks for
    the slot for ever, whoever publishes (process_syncing_tables_for_sync drops it before it commits). That is mended as
    a person mends it, where the log proves it.
    """
    chance = random.Random(seed)
    lake = Lake(tmp_path)
    lake.start()
    replication = Replication(lake, server)
    writer = Writer(lake, seed)
    writer.start()
    try:
        for number in range(13):
            if number % 3 == 0:
                replication.add_table()
            if number % 3 == 1:
                time.sleep(chance.uniform(0, 0.5))
                lake.kill_one(chance)
            time.sleep(chance.uniform(0, 1))
            lake.kill()
            kill_at = f"{chance.choice(STEPS)}:{chance.randrange(1, 20)}" if number % 3 == 1 else ""
            if not lake.start(kill_at):
                lake.start()
        writer.end()
        lake.kill()
        lake.start()
        replication.check(writer.told)
        time.sleep(3)  # a subscriber whose slot is gone asks every 20 ms
        mended = replication.mend()
        assert len(mended) <= 2, mended
        replication.check_equal()
    finally:
        writer.end()
        replication.sub.close()
        lake.kill()
