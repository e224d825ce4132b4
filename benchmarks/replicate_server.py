"""The same copy and the same changes by PostgreSQL: two of the wheel's servers with a subscription between them, warmed
up by a small table. They are two so that no reader of the publisher's log meets there what its subscriber writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.postgres.server import Server, wheel_binaries

SETTINGS = """
max_logical_replication_workers = 8
max_wal_size = 16GB
shared_buffers = 512MB
checkpoint_timeout = 1h
autovacuum = off
"""


class PostgresPair:
    """A publisher, which is `server`, and a subscriber."""

    def __init__(self) -> None:
        self._servers = {name: Server(wheel_binaries(16), settings=SETTINGS).start() for name in ("pub", "sub")}
        self.server = self._servers["pub"]
        for name in self._servers:
            with self.connect(name, "postgres") as root:
                root.execute(f"CREATE DATABASE {name}")
        self.pub, self.sub = self.connect("pub"), self.connect("sub")

    def connect(self, name: str, database: str | None = None) -> Any:
        """A connection to the publisher or the subscriber."""
        import psycopg

        there = self._servers[name]
        return psycopg.connect(
            host=there.host, port=there.port, user="postgres", dbname=database or name, autocommit=True
        )

    def table(self, columns: str, select: str) -> None:
        for database in (self.pub, self.sub):
            database.execute("DROP TABLE IF EXISTS t")
            database.execute(f"CREATE TABLE t {columns}")
        self.pub.execute(f"INSERT INTO t {select}")
        self.pub.execute("VACUUM ANALYZE t")

    def subscribe(self, publication: str) -> float:
        """Seconds until the rows are there."""
        self.pub.execute("DROP PUBLICATION IF EXISTS p")
        self.pub.execute(f"CREATE PUBLICATION p {publication}")
        self.pub.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        connection = f"host={self.server.host} port={self.server.port} user=postgres dbname=pub"
        began = time.perf_counter()
        self.sub.execute(
            f"CREATE SUBSCRIPTION s CONNECTION '{connection}' PUBLICATION p WITH (create_slot = false, slot_name = 's')"
        )
        self.wait("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel")
        return time.perf_counter() - began

    def unsubscribe(self) -> None:
        self.sub.execute("DROP SUBSCRIPTION s")

    def catch_up(self, change: Callable[[Any], object], publisher: Any = None) -> float:
        """Seconds that the apply worker takes for what was changed while it was stopped."""
        publisher = publisher or self.pub
        self.sub.execute("ALTER SUBSCRIPTION s DISABLE")
        self.wait("SELECT NOT EXISTS (SELECT FROM pg_stat_subscription WHERE pid IS NOT NULL)")
        change(publisher)
        publisher.execute("INSERT INTO t (id) VALUES (-1)")
        began = time.perf_counter()
        self.sub.execute("ALTER SUBSCRIPTION s ENABLE")
        self.wait("SELECT EXISTS (SELECT FROM t WHERE id = -1)")
        return time.perf_counter() - began

    def wait(self, question: str) -> None:
        while self.sub.execute(question).fetchone() != (True,):
            time.sleep(0.02)

    def close(self) -> None:
        self.pub.close()
        self.sub.close()
        for each in self._servers.values():
            each.stop()
