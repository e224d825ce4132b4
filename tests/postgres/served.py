"""A real server that publishes, and a database of pgrepl that subscribes to it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.harness.database import Database, Errors, HeardLog, Rows
from tests.postgres.server import Server, new_server

SETTINGS = """
synchronous_commit = on
autovacuum = off
max_replication_slots = 20
max_prepared_transactions = 10
"""


class PublishingServer:
    """A server; every test has a new database in it."""

    def __init__(self, version: int, server: Server | None = None) -> None:
        """The wheel's 16 or 18, unless another release is to be tried (see new_server); or a `server` that may not run
        yet."""
        self.server = server or new_server(version, SETTINGS)
        self._number = 0

    @cached_property
    def version(self) -> int:
        with psycopg.connect(self.conninfo("postgres")) as link:
            return link.info.server_version // 10000

    def conninfo(self, database: str) -> str:
        return f"host={self.server.host} port={self.server.port} dbname={database} user=postgres"

    @property
    def socket(self) -> str:
        return f"{self.server.host}/.s.PGSQL.{self.server.port}"

    def needs(self, version: int) -> None:
        """What earlier releases do not have."""
        if self.version < version:
            pytest.skip(f"PostgreSQL {self.version} is older than {version}")

    def new_database(self) -> str:
        self._number += 1
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as link:
            link.execute(f"CREATE DATABASE pub{self._number}".encode())
        return f"pub{self._number}"

    def restart(self, mode: str = "immediate") -> None:
        self.control("-m", mode, "restart")

    def control(self, *command: str) -> None:
        data, log = str(self.server.folder / "data"), str(self.server.folder / "log")
        programme = str(self.server.binaries / "pg_ctl")
        self.server.run(programme, "-D", data, "-l", log, "-w", "-t", "60", *command)

    def system_identifier(self) -> str:
        with psycopg.connect(self.conninfo("postgres")) as link:
            return str(link.execute("SELECT system_identifier FROM pg_control_system()").fetchall()[0][0])

    def take_over_from(self, primary: PublishingServer) -> None:
        """A copy of it with all its slots, which is promoted. The primary has stopped before and stays so: what it
        committed now would be lost."""
        data, conf = self.server.folder / "data", (self.server.folder / "data" / "postgresql.conf").read_text()
        for server in (self, primary):
            server.control("-m", "fast", "stop")
        self.server.run("rm", "-r", str(data))
        self.server.run("cp", "-a", str(primary.server.folder / "data"), str(data))
        (data / "postgresql.conf").write_text(conf)
        (data / "standby.signal").touch()
        self.control("start")
        self.control("promote")


class Served:
    """The publishing database and the subscribing one."""

    def __init__(self, publishing: PublishingServer, folder: Path) -> None:
        self.publishing = publishing
        self.database = publishing.new_database()
        self.link = psycopg.connect(self.conninfo, autocommit=True)
        self.folder = folder
        self.sub = Database(folder, "sub", new=True)

    @property
    def log(self) -> HeardLog:
        """Of the subscriber's workers."""
        return self.sub.log

    @property
    def conninfo(self) -> str:
        return self.publishing.conninfo(self.database)

    @property
    def slot(self) -> str:
        """Slots belong to the whole server."""
        return f"s_{self.database}"

    def pub(self, text: str) -> Rows:
        """Run statements at the server, all in one transaction; the rows of the last, as text."""
        if self.link.closed or self.link.broken:
            self.link = psycopg.connect(self.conninfo, autocommit=True)
        with self.link.cursor() as cursor:
            cursor.execute(text.encode())
            while cursor.nextset():
                pass
            found: Any = cursor.pgresult
            rows = [[found.get_value(r, c) for c in range(found.nfields)] for r in range(found.ntuples)]
            return [tuple([None if value is None else bytes(value).decode() for value in row]) for row in rows]

    def both(self, text: str) -> None:
        self.pub(text)
        self.sub(text)

    def subscribe(self, publications: str = "p", options: str = "") -> None:
        """Subscribe, and copy what there is."""
        self.subscribe_only(publications, options)
        assert self.catch_up() == []

    def subscribe_only(self, publications: str = "p", options: str = "", conninfo: str = "") -> None:
        """CREATE SUBSCRIPTION with a slot of this database's; its workers come later."""
        rest = f", {options}" if options else ""
        self.sub.subscribe(publications, conninfo or self.conninfo, f"WITH (slot_name = {self.slot}{rest})")

    def catch_up(self) -> Errors:
        return self.sub.catch_up()

    def same(self, query: str) -> Rows:
        """What both sides answer, which has to be the same."""
        there, here = self.pub(query), self.sub(query)
        assert here == there, f"here {here}, at the publisher {there}"
        return here

    def close(self) -> None:
        self.sub("SELECT 1")
        self.sub.close()
        if not (self.link.closed or self.link.broken):
            self.pub(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                f"WHERE database = '{self.database}' AND NOT active"
            )
        self.link.close()
