"""A server on a catalog in a folder, for the tests of `pgrepl serve`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.harness.programs import eventually, started
from tests.postgres.server import free_port, wheel_binaries

EVERYBODY = "local all all trust\nhost all all 127.0.0.1/32 trust\n"


@dataclass
class Serving:
    """`host` is the folder of the socket; over TCP it is 127.0.0.1."""

    folder: Path
    port: int
    process: Any

    @property
    def log(self) -> str:
        return (self.folder / f"{self.port}.log").read_text()

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        given = {"host": str(self.folder), "port": self.port, "user": "postgres", "dbname": "postgres", **options}
        return psycopg.connect(autocommit=True, **given)  # type: ignore[arg-type]

    def ask(self, query: str, *parameters: object) -> list[Any]:
        with self.connect() as connection:
            cursor = connection.execute(query, parameters or None)
            return [] if cursor.description is None else cursor.fetchall()

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return int(self.process.wait(60))


@contextmanager
def serving(folder: Path, *options: str, rules: str = EVERYBODY) -> Iterator[Serving]:
    """Serve a catalog until the end of the block."""
    folder.mkdir(exist_ok=True)
    if rules:
        (folder / "pg_hba.conf").write_text(rules)
    port = free_port()
    log = folder / f"{port}.log"
    arguments = ("--listen", "127.0.0.1", "-p", str(port), "--log-file", str(log), *options)
    with started("serve", *arguments, cwd=folder) as process:
        found = Serving(folder, port, process)
        eventually(lambda: process.poll() is not None or (log.exists() and "ready to accept" in found.log))
        assert process.poll() is None, process.communicate()
        yield found
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def program(name: str, version: int = 16) -> str:
    """One of PostgreSQL's own programs."""
    return str(wheel_binaries(version) / name)
