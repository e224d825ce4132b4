"""The process of a server that has the JVM which all others use (spark_shared.py).

The JVM starts when the first process asks, and again when one asks after it has ended. Each process that asks gets an
entrance of its own into the JVM: when it has ended, what it has had in the JVM is forgotten together with its entrance,
and its jobs are cancelled, those that were about to begin, too. A JVM that nobody has used for a while is ended.

The JVM reads a pipe whose other end is open here only. So it ends with this process, and this one with the server.
"""

from __future__ import annotations

import itertools
import secrets
import select
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pgrepl.engine import on_spark
from pgrepl.engine.spark_errors import SparkFacts, look, not_started
from pgrepl.engine.spark_options import DEFAULT_MASTER, is_elsewhere, shared_settings
from pgrepl.engine.spark_shared import OUT_OF_MEMORY, HostAnswer, HostChannel, refusal
from pgrepl.engine.spark_start import launch
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.internals import pyspark as internals

if TYPE_CHECKING:
    from pgrepl.engine.spark_start_plain import OwnDriver
    from pgrepl.internals.py4j import Gateway

_IDLE = 600.0  # seconds until a JVM that nobody uses is ended
_SECRET_BYTES = 32


@frozen
class _Guest:
    """A process that uses the JVM."""

    connection: socket.socket
    entrance: Any
    group: str


class _Jvm:
    """The JVM, and who uses it."""

    def __init__(self, driver: OwnDriver, gateway: Gateway, base: Any) -> None:
        """`base` is the session that others are made from."""
        self.driver = driver
        self._gateway = gateway
        self._base = base
        self.guests: dict[int, _Guest] = {}  # by the descriptor of the connection
        self.unused_since = time.monotonic()

    def is_of_use(self) -> bool:
        """Spark may have stopped by itself, as when its cluster is gone."""
        return not self.driver.ended and not self._base.sparkContext().isStopped()

    def look(self) -> SparkFacts:
        return look(self._gateway.server.jvm, self._base.sparkContext())

    def admit(self, connection: socket.socket, group: str, archive: str) -> None:
        secret = secrets.token_hex(_SECRET_BYTES)
        entrance, port = self._gateway.open_entrance(self._base, secret)
        guest = _Guest(connection, entrance, group)
        self.guests[connection.fileno()] = guest
        try:
            connection.sendall(HostAnswer(port, secret, group, archive).said())
        except OSError:  # it has ended
            self.dismiss(guest)

    def dismiss(self, guest: _Guest) -> None:
        """Free what a process had, which has ended."""
        del self.guests[guest.connection.fileno()]
        guest.connection.close()
        self.unused_since = time.monotonic()
        with suppress(Exception):  # the JVM has ended
            self._base.sparkContext().cancelJobGroupAndFutureJobs(guest.group)
            guest.entrance.shutdown()

    def end(self) -> None:
        """Have the JVM end by itself. Returns at once."""
        self.driver.hang_up()
        threading.Thread(target=self.driver.process.wait, name="spark-end", daemon=True).start()

    def tell_end(self) -> None:
        """Tell all guests that the JVM has ended."""
        said = OUT_OF_MEMORY if self.driver.out_of_memory() else b""
        for guest in self.guests.values():
            with suppress(OSError), guest.connection:
                guest.connection.sendall(said)


class Host:
    def __init__(self, way: HostChannel, say: Callable[[str], None]) -> None:
        """`say` writes into the server's log."""
        self._way = way
        self._say = say
        self._jvm: _Jvm | None = None
        self._archive = ""  # the package for executors on other machines
        self._groups = (f"pgrepl-{number}" for number in itertools.count(1))

    def run(self) -> None:
        """Be the host until SIGTERM comes."""
        wake, waker = socket.socketpair()
        for end in (wake, waker):
            end.setblocking(False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _leave)
        signal.signal(signal.SIGCHLD, _note)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        self._way.runs = False
        try:
            while True:
                self._attend(wake)
        finally:
            if self._jvm is not None:
                self._jvm.driver.remove_folder()
            if self._archive:
                shutil.rmtree(Path(self._archive).parent, ignore_errors=True)

    def _attend(self, wake: socket.socket) -> None:
        guests = {} if self._jvm is None else self._jvm.guests
        poll = select.poll()
        for descriptor in (wake.fileno(), self._way.host.fileno(), *guests):
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(self._patience())}
        with suppress(BlockingIOError):
            wake.recv(4096)
        if self._jvm is not None and self._jvm.driver.ended:
            self._lose(self._jvm)
        elif self._jvm is not None:
            for guest in [guest for descriptor, guest in guests.items() if descriptor in ready]:
                self._jvm.dismiss(guest)
        if self._way.host.fileno() in ready:
            asked = self._way.asked()
            if asked is not None:
                connection, looks = asked
                (self._tell if looks else self._answer)(connection)
        if self._jvm is not None and self._patience() == 0:
            jvm, self._jvm, self._way.runs = self._jvm, None, False
            self._say(f"ending Spark (PID {jvm.driver.process.pid}), which nobody uses")
            jvm.end()

    def _patience(self) -> float | None:
        """Milliseconds until the JVM is ended if nobody asks."""
        if self._jvm is None or self._jvm.guests:
            return None
        return max(0.0, self._jvm.unused_since + _IDLE - time.monotonic()) * 1000

    def _tell(self, connection: socket.socket) -> None:
        """Tell what Spark does to a process that looks on."""
        with suppress(Exception), connection:  # the JVM has ended, or the process
            facts = SparkFacts() if self._jvm is None else self._jvm.look()
            connection.sendall(facts.text().encode() + b"\n")

    def _answer(self, connection: socket.socket) -> None:
        try:
            self._admit(connection)
        except Exception as problem:
            error = not_started(self._way.wanted, problem) or PgError("58000", f"could not start Spark: {problem}")
            with suppress(OSError), connection:
                connection.sendall(refusal(error))

    def _admit(self, connection: socket.socket) -> None:
        group = next(self._groups)
        if self._jvm is not None:
            try:
                if self._jvm.is_of_use():
                    self._jvm.admit(connection, group, self._archive)
                    return
            except Exception:
                if not self._jvm.driver.ends_soon(1):
                    raise
            self._lose(self._jvm)
        self._jvm = self._started()
        self._jvm.admit(connection, group, self._archive)

    def _started(self) -> _Jvm:
        if is_elsewhere(self._way.wanted.master or DEFAULT_MASTER):
            self._archive = on_spark.archive()
        driver, gateway, conf = launch(self._way.wanted, shared_settings(), lambda: None)
        try:
            base = internals.make_base(gateway.server, conf)
        except BaseException:
            driver.hang_up()
            raise
        self._way.runs = True
        self._say(f"started Spark (PID {driver.process.pid})")
        return _Jvm(driver, gateway, base)

    def _lose(self, jvm: _Jvm) -> None:
        """The JVM has ended, or Spark in it."""
        self._jvm, self._way.runs = None, False
        code = jvm.driver.process.poll()
        how = "stopped" if code is None else f"exited with exit code {code}"
        if code is not None and code < 0:
            how = f"was terminated by signal {-code}: {signal.strsignal(-code)}"
        self._say(f"Spark (PID {jvm.driver.process.pid}) {how}")
        jvm.tell_end()
        jvm.end()


def _note(_signal: int, _frame: FrameType | None) -> None:
    """The signal ends the wait."""


def _leave(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(0)
