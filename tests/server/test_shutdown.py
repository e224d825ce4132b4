"""What a shutdown leaves time for: walsenders send all that was committed, as those of a real server do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import MagicMock

import psycopg
import pytest

from pgrepl.server.backend_loop import SenderDone
from pgrepl.server.replication.grammar import Command
from pgrepl.server.replication.sender import Sender
from tests.harness.dose import dose
from tests.harness.programs import PATIENCE, eventually
from tests.harness.serving import program, serving
from tests.harness.wire import Wire
from tests.postgres.server import new_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")


@dataclass(frozen=True)
class Postmaster:
    host: str
    port: int
    pid: int
    has_ended: Callable[[], object]

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=self.host, port=self.port, user="postgres", dbname="postgres", autocommit=True
        )  # fmt: skip

    def refuses(self) -> str:
        try:
            self.connect().close()
        except psycopg.OperationalError as error:
            return str(error)
        return ""


@contextmanager
def real(_: Path) -> Iterator[Postmaster]:
    server = new_server(16, "")
    file = server.folder / "data" / "postmaster.pid"
    try:
        yield Postmaster(server.host, server.port, int(file.read_text().split()[0]), lambda: not file.exists())
    finally:
        server.stop()


@contextmanager
def ours(folder: Path) -> Iterator[Postmaster]:
    with serving(folder / "served") as served:
        yield Postmaster(str(served.folder), served.port, served.process.pid, lambda: served.process.poll() is not None)


def seen_of_a_shutdown(server: Postmaster, out: Path, number: signal.Signals) -> list[object]:
    """A subscriber and an idle replication connection, while the last client writes and leaves, or is sent away."""
    client = server.connect()
    client.execute("CREATE TABLE t (a text); CREATE PUBLICATION p FOR TABLE t")
    client.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    where = ["-h", server.host, "-p", str(server.port), "-U", "postgres", "-d", "postgres"]
    options = ["-o", "proto_version=1", "-o", "publication_names=p", "-f", str(out), "--no-loop"]
    command = [program("pg_recvlogical"), *where, "--start", "--slot", "s", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as subscriber:
        try:
            with Wire(server.host, server.port, database="postgres", replication="database") as idle:
                sends = "SELECT FROM pg_stat_replication WHERE state <> 'startup' AND sent_lsn IS NOT NULL"
                eventually(lambda: client.execute(sends).rowcount)
                if number is signal.SIGTERM:
                    os.kill(server.pid, number)
                    eventually(lambda: "the database system is shutting down" in server.refuses())
                client.execute("INSERT INTO t VALUES ('the last row')")
                there = subscriber.poll() is None
                if number is signal.SIGTERM:
                    client.close()
                else:
                    os.kill(server.pid, number)
                found = [there, *idle.rest()]
            _, said = subscriber.communicate(timeout=PATIENCE)
        finally:
            subscriber.kill()
    eventually(server.has_ended)
    return [*found, subscriber.returncode, said, b"the last row" in out.read_bytes()]


@pytest.mark.parametrize("number", dose([signal.SIGTERM, signal.SIGINT], 2))
def test_walsenders_end_last_and_have_sent_all(tmp_path: Path, number: signal.Signals) -> None:
    found = []
    for kind in (ours, real):
        with kind(tmp_path) as server:
            found.append(seen_of_a_shutdown(server, tmp_path / kind.__name__, number))
    assert found[0] == found[1]
    assert found[0][-1]


class Told:
    """A backend that is told to stop again while its walsender leaves."""

    def __init__(self) -> None:
        self.session, self.channel, self.log = MagicMock(), MagicMock(), MagicMock()
        self.replicates, self.is_stopping = False, True

    def complete(self, tag: str) -> None:
        assert self.replicates, "it would be told that an administrator ends the connection"


def test_a_walsender_that_has_sent_all_is_told_once_more_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The postmaster repeats the signal."""
    backend = Told()
    sender = Sender(backend)  # type: ignore[arg-type]
    for name in ("_begin", "_stream", "_leave"):
        monkeypatch.setattr(sender, name, lambda *_: None)
    with pytest.raises(SenderDone):
        sender.start(Command("START_REPLICATION", slot="s", kind="LOGICAL"))
    assert backend.replicates
