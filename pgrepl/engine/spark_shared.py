"""One Spark for all processes of a server: how a process asks for it, and what it has of it.

One of the processes is the host (spark_host.py), which has the JVM. Each of the others, when it first needs Spark,
sends the host one end of a connection. The host answers with the way into the JVM; then the connection only stands. If
the process closes it, however it ends, the host cancels its jobs and forgets its objects; if the host does, the JVM has
ended.

A process has a SparkSession of its own, with its own settings and functions, and its jobs are a job group of their own.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import socket
import threading
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pgrepl.engine.spark_errors import SparkFacts, ended
from pgrepl.engine.spark_options import DEFAULT_MASTER, SparkOptions
from pgrepl.engine.spark_start import load, shows_log
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.internals import pyspark as internals
from pgrepl.internals.py4j import Gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OUT_OF_MEMORY = b"M"  # what the host says before it closes the connections to a JVM whose heap was full
_JOIN, _LOOK = b"+", b"?"  # what a process asks for: a way into the JVM, or what Spark does there
_PATIENCE = 5.0  # seconds until a JVM that does not answer is left alone
_GLANCE = 1.5  # seconds in which the host says what Spark does, unless it starts Spark just then
_GROUP = "spark.jobGroup.id"  # SparkContext.SPARK_JOB_GROUP_ID


class HostChannel:
    """The channel from all processes to the host; made before they are forked."""

    def __init__(self, wanted: SparkOptions) -> None:
        self.wanted = wanted
        self.host, self._asking = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._runs = mmap.mmap(-1, 1)

    @property
    def runs(self) -> bool:
        """Is the JVM there?"""
        return bool(self._runs[0])

    @runs.setter
    def runs(self, runs: bool) -> None:
        self._runs[0] = runs

    def ask(self, what: bytes = _JOIN) -> socket.socket:
        """Ask the host for Spark; it answers on this connection."""
        mine, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._asking, [what], [theirs.fileno()])
        return mine

    def asked(self) -> tuple[socket.socket, bool] | None:
        """In the host: the connection of a process that has asked, and whether it only looks on."""
        what, descriptors, _, _ = socket.recv_fds(self.host, len(_JOIN), 1)
        if not descriptors:
            return None
        os.set_inheritable(descriptors[0], False)
        return socket.socket(fileno=descriptors[0]), what == _LOOK

    def look(self) -> SparkFacts | None:
        """What Spark does; None: the host has no time to tell. Spark is not started for it."""
        if not self.runs:
            return SparkFacts()
        connection = self.ask(_LOOK)
        connection.settimeout(_GLANCE)
        try:
            with connection, connection.makefile("rb") as lines:
                return SparkFacts.read(lines.readline())
        except (OSError, ValueError, TypeError, KeyError):
            return None


@frozen
class HostAnswer:
    """The answer that tells a process how to reach the JVM. `archive` is the package for Spark's executors; empty: they
    have it."""

    port: int
    secret: str
    group: str
    archive: str

    def said(self) -> bytes:
        return _line(asdict(self))


def refusal(error: PgError) -> bytes:
    """The message instead of an answer when the JVM cannot be started."""
    said = error.report
    return _line({"error": [said.sqlstate, said.message], "detail": said.detail, "hint": said.hint})


def _line(said: dict[str, Any]) -> bytes:
    return json.dumps(said).encode() + b"\n"


class _Connection:
    """The connection to the host, while the JVM lives."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket: socket.socket | None = connection
        self._lock = threading.Lock()
        self.out_of_memory = False

    def answer(self) -> HostAnswer:
        """Wait for it."""
        assert self._socket is not None
        line = b""
        while not line.endswith(b"\n"):
            byte = self._socket.recv(1)
            if not byte:
                raise ended(out_of_memory=False)
            line += byte
        said = json.loads(line)
        if "error" in said:
            raise PgError(*said["error"], detail=said["detail"], hint=said["hint"])
        return HostAnswer(**said)

    def ends(self, seconds: float) -> bool:
        """Has the JVM ended, or does it within these seconds?"""
        with self._lock:
            if self._socket is None:
                return True
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            if not poll.poll(seconds * 1000):
                return False
            self.out_of_memory = self._said() == OUT_OF_MEMORY
            self._close()
            return True

    def _said(self) -> bytes:
        assert self._socket is not None
        with suppress(OSError):
            return self._socket.recv(1)
        return b""

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class SharedDriver:
    """A JVM that is another process's to end."""

    def __init__(self, connection: _Connection, gateway: Gateway, group: str) -> None:
        self._connection = connection
        self._gateway = gateway
        self._group = group

    @property
    def ended(self) -> bool:
        return self._connection.ends(0)

    def ends_soon(self, seconds: float) -> bool:
        return self._connection.ends(seconds)

    def kill(self) -> None:
        """Leave it: others may have answers."""
        if not self.ends_soon(_PATIENCE):
            self._connection.close()

    def out_of_memory(self) -> bool:
        return self._connection.out_of_memory

    def end(self) -> None:
        self._gateway.disconnect()
        self._connection.close()
        self.forget()

    def forget(self) -> None:
        internals.forget_jvm()

    def cancel(self) -> bool:
        return self._gateway.cancel()

    def mark(self, session: SparkSession) -> None:
        session.sparkContext.setLocalProperty(_GROUP, self._group)


def join(way: HostChannel) -> tuple[SharedDriver, SparkSession, str]:
    """A session in the JVM of the host, which starts it if there is none; and the package for executors. PgError if
    that cannot be."""
    connection = _Connection(way.ask())
    try:
        return _joined(connection, way)
    except BaseException:
        connection.close()
        raise


def _joined(connection: _Connection, way: HostChannel) -> tuple[SharedDriver, SparkSession, str]:
    load()
    answer = connection.answer()
    gateway = Gateway(answer.port, answer.secret, answer.group)
    if not shows_log(way.wanted):
        internals.be_quiet()
    local = (way.wanted.master or DEFAULT_MASTER).startswith("local")
    session = internals.join_session(gateway.server, local=local)
    return SharedDriver(connection, gateway, answer.group), session, answer.archive
