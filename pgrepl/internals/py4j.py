"""All that is used of py4j: the connection to the JVM, made so that a signal never breaks a call off in the middle.

A handler of SIGINT that raises while a call waits for its answer would leave the answer in the pipe for the next call
to read. So it asks `Client.cancel`, which raises nothing: a thread cancels the running jobs until the calls under way
have come back, and the interrupted call of the main thread then fails by itself.
"""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from types import FrameType
from typing import Any

from py4j.clientserver import ClientServer, JavaClient, JavaParameters, PythonParameters
from py4j.java_gateway import java_import

from pgrepl.ground import interrupts
from pgrepl.internals.pyspark import JAVA_IMPORTS, active_context

PAUSE = 0.1  # between two attempts to cancel: a call may have been about to start a job
_LOOK = 0.005  # between two looks whether a cancellation has ended


class Client(JavaClient):  # type: ignore[misc]
    """Sends commands to the JVM and knows which threads wait for an answer."""

    group: str | None = None  # the group of our jobs, where others have jobs, too

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._numbers = itertools.count()
        self._under_way: dict[int, int] = {}  # thread: number of its call
        self._main = threading.main_thread().ident or 0
        self._interrupted = False
        self._requested = self._done = 0  # cancellations
        self._requests: SimpleQueue[int | None] = SimpleQueue()  # put() is safe in a signal handler
        self._canceller = threading.Thread(target=self._cancel_jobs, name="spark-cancel", daemon=True)
        self._canceller.start()

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        me = threading.get_ident()
        if me in self._under_way or me == self._canceller.ident:
            return super().send_command(command, retry, binary)
        while me == self._main and self._done < self._requested:
            time.sleep(_LOOK)  # what begins here is not to be cancelled
        self._under_way[me] = next(self._numbers)
        try:
            return super().send_command(command, retry, binary)
        finally:
            del self._under_way[me]
            if self._interrupted and me == self._main:
                self._interrupted = False
                raise interrupts.interrupted() or interrupts.user_request()

    def cancel(self) -> bool:
        """Have all jobs cancelled; called by a signal handler, in the main thread. Whether it is in a call."""
        call = self._under_way.get(self._main)
        self._interrupted = call is not None
        if call is not None or self._requests.empty():  # one that waits will do: none is to be left for later jobs
            self._requested += 1
            self._requests.put(call)
        return self._interrupted

    def _cancel_jobs(self) -> None:
        while True:
            call = self._requests.get()
            begun = set(self._under_way)  # threads that begin later have work that nobody has interrupted
            while True:
                context = active_context()
                with suppress(Exception):  # the JVM has died: then no job runs
                    if context is not None and self.group is not None:
                        context.cancelJobGroup(self.group)
                    elif context is not None:
                        context.cancelAllJobs()
                time.sleep(PAUSE)
                waiting = dict(self._under_way)
                mine = waiting.pop(self._main, None)
                if begun.isdisjoint(waiting) and (mine is None or mine != call):
                    break
            self._done += 1


class _Server(ClientServer):  # type: ignore[misc]
    def _create_gateway_client(self) -> Client:
        worker = self._create_finalizer_worker()
        return Client(self.java_parameters, self.python_parameters, finalizer_deque=worker)


class Gateway:
    """The way to a JVM that runs already, as pyspark's launch_gateway makes it."""

    def __init__(self, port: int, secret: str, group: str | None = None) -> None:
        self.server = _Server(
            java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
            python_parameters=PythonParameters(port=0, eager_load=False),
        )
        self.server.proc = None
        self._client.group = group
        for name in JAVA_IMPORTS:
            java_import(self.server.jvm, name)

    @property
    def _client(self) -> Client:
        client: Client = self.server._gateway_client
        return client

    def cancel(self) -> bool:
        return self._client.cancel()

    def open_entrance(self, entry: Any, secret: str) -> tuple[Any, int]:
        """Another way into the JVM, for another process, and its port. It begins with `entry`; `shutdown` closes it and
        frees all objects that were reached through it."""
        jvm = self.server.jvm
        here = jvm.java.net.InetAddress.getLoopbackAddress()
        entrance = (
            jvm.py4j.ClientServer.ClientServerBuilder(entry).authToken(secret).javaPort(0).javaAddress(here).build()
        )
        entrance.startServer()
        return entrance, int(entrance.getJavaServer().getListeningPort())

    def disconnect(self) -> None:
        """Keep py4j from telling the JVM of objects that are gone, from now on."""
        self._client.is_connected = False


def call_under_way(frame: FrameType | None) -> FrameType | None:
    """The frame in which the running code has called the JVM, if it is in the middle of a call."""
    caller = None
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("py4j."):
            caller = frame
        frame = frame.f_back
    return caller
