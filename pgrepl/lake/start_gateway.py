"""The connection to the JVM (py4j), made so that a signal never breaks a call off in the middle.

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
from typing import Any

from py4j.clientserver import ClientServer, JavaClient, JavaParameters, PythonParameters
from py4j.java_gateway import java_import

from pgrepl import interrupts

_PAUSE = 0.1  # between two attempts to cancel: a call may have been about to start a job

# What pyspark's launch_gateway imports; its Python code names these classes without their packages.
_IMPORTED = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.ml.python.*",
    "org.apache.spark.mllib.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "org.apache.spark.sql.hive.*",
    "scala.Tuple2",
)


class Client(JavaClient):  # type: ignore[misc]
    """Sends commands to the JVM and knows which threads wait for an answer."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._numbers = itertools.count()
        self._under_way: dict[int, int] = {}  # thread: number of its call
        self._main = threading.main_thread().ident or 0
        self._interrupted = False
        self._requests: SimpleQueue[int | None] = SimpleQueue()  # put() is safe in a signal handler
        self._canceller = threading.Thread(target=self._cancel_jobs, name="spark-cancel", daemon=True)
        self._canceller.start()

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        me = threading.get_ident()
        if me in self._under_way or me == self._canceller.ident:
            return super().send_command(command, retry, binary)
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
            self._requests.put(call)
        return self._interrupted

    def _cancel_jobs(self) -> None:
        from pyspark import SparkContext

        while True:
            call = self._requests.get()
            begun = set(self._under_way)  # threads that begin later have work that nobody has interrupted
            while True:
                context = SparkContext._active_spark_context
                with suppress(Exception):  # the JVM has died: then no job runs
                    if context is not None:
                        context.cancelAllJobs()
                time.sleep(_PAUSE)
                waiting = dict(self._under_way)
                mine = waiting.pop(self._main, None)
                if begun.isdisjoint(waiting) and (mine is None or mine != call):
                    break


class _Gateway(ClientServer):  # type: ignore[misc]
    def _create_gateway_client(self) -> Client:
        worker = self._create_finalizer_worker()
        return Client(self.java_parameters, self.python_parameters, finalizer_deque=worker)


def open_gateway(port: int, secret: str) -> ClientServer:
    """As pyspark's launch_gateway does for a JVM that runs already."""
    gateway = _Gateway(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )
    gateway.proc = None
    for name in _IMPORTED:
        java_import(gateway.jvm, name)
    return gateway
