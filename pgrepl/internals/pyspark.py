"""All that is used of pyspark beyond its documentation, for the fast start of a session.

The versions are named that it was tried with; with any other the session is made in the documented way
(engine/spark_start_plain.py).
"""

from __future__ import annotations

import logging
import os
import re
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import pa

if TYPE_CHECKING:
    from py4j.clientserver import ClientServer
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

TRIED = ("4.0", "4.1", "4.2", "4.3")

MAIN = "org.apache.spark.api.python.PythonGatewayServer"
"""Listens for Python; writes its port and its secret into a file."""

# What launch_gateway() imports; pyspark's own code names these classes without their packages.
JAVA_IMPORTS = (
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

Types = Callable[[], "Sequence[pa.DataType | None]"]  # of a function's arguments; None: what a value looks like
_SESSION = "org.apache.spark.sql.classic.SparkSession"
_DEFAULTS = {  # DEFAULT_CONFIGS of all releases
    "spark.serializer.objectStreamReset": "100",
    "spark.rdd.compress": "true",
    "spark.sql.artifact.isolation.enabled": "false",
}
_OF_JVM = ("_gateway", "_jvm", "_active_spark_context")  # attributes of SparkContext
# Without functions of Arrow arrays a moment comes to Python in the worker's time zone.
WORKERS = {"spark.executorEnv.TZ": "UTC"}
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_TRACES = ("_stackTrace", "_stack_trace", "_stacktrace")  # attributes of exceptions


def version() -> str:
    """The version of the installed pyspark, found without importing it; empty: not known."""
    try:
        match = re.search(r"""__version__\b.*["'](\d+\.\d+[\w.]*)["']""", (home() / "version.py").read_text("utf-8"))
    except OSError:
        return ""
    return "" if match is None else match[1]


def is_tried() -> bool:
    return ".".join(version().split(".")[:2]) in TRIED


def home() -> Path:
    """The folder of pip's pyspark, found without importing it."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


# --- the JVM ----------------------------------------------------------------------------------------------------------


def environment(connection: Path) -> dict[str, str]:
    """The environment variables that tell the JVM where to write its port and secret."""
    return {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection), "SPARK_CONNECT_MODE": "0"}


def direct_environment() -> dict[str, str]:
    """The environment variables that Spark's scripts would have set."""
    return {"SPARK_HOME": str(home()), "SPARK_ENV_LOADED": "1", "SPARK_SCALA_VERSION": "2.13"}


def fork_workers() -> None:
    """Do what pyspark's daemon does, in this process: fork Python workers for the JVM that has started it."""
    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]


def read_connection(file: Path) -> tuple[int, str]:
    """Port and secret."""
    said = file.read_bytes()
    port, length = struct.unpack(">ii", said[:8])
    return port, said[8 : 8 + length].decode()


def make_session(gateway: ClientServer, conf: Mapping[str, str], *, local: bool) -> SparkSession:
    """The session in a JVM that runs already."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    settings = SparkConf(loadDefaults=False)
    settings.setAll(list({**WORKERS, **conf}.items()))
    context = SparkContext(conf=settings, gateway=gateway)
    if local:
        context.pythonExec = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return SparkSession(context)


def make_base(gateway: ClientServer, conf: Mapping[str, str]) -> Any:
    """A session in a JVM that runs already, for others to be made from. Pyspark is not loaded."""
    settings = gateway.jvm.SparkConf()
    for name, value in {**_DEFAULTS, **WORKERS, **conf}.items():
        settings.set(name, value)
    context = gateway.jvm.JavaSparkContext(settings)
    return getattr(gateway.jvm, _SESSION)(context.sc(), {})


def join_session(gateway: ClientServer, *, local: bool) -> SparkSession:
    """A session of its own in a JVM that other processes use, too; the gateway begins with that of `make_base`."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    class Guest(SparkContext):
        def stop(self) -> None:
            """Leave the JVM's context as it is."""
            self._jsc = None
            super().stop()

    base = gateway.entry_point
    java = gateway.jvm.JavaSparkContext.fromSparkContext(base.sparkContext())
    context = Guest(conf=SparkConf(_jconf=java.getConf()), gateway=gateway, jsc=java)
    if local:
        context.pythonExec = os.environ.get("PYSPARK_PYTHON", sys.executable)
    _share_folder(context, gateway.jvm)
    _remove_socket(context)
    session = SparkSession(context, base.newSession())
    getattr(gateway.jvm, _SESSION).setDefaultSession(base)  # it would be kept until another process comes
    return session


def _share_folder(context: SparkContext, jvm: Any) -> None:
    """Use the JVM's temporary folder: it would keep one for each process until it ends."""
    own = context._temp_dir
    context._temp_dir = os.path.dirname(own)
    getattr(jvm, "org.apache.spark.util.Utils").deleteRecursively(jvm.java.io.File(own))


def _remove_socket(context: SparkContext) -> None:
    """Remove the socket of accumulators, which pgrepl's tasks have not: it would stay in the JVM's folder."""
    address = context._accumulatorServer.server_address
    if isinstance(address, str):
        os.unlink(address)


def make_file_of_property(session: SparkSession, name: str) -> None:
    """Make the file that a property of the JVM names, if it has the property."""
    jvm: Any = session.sparkContext._jvm
    path = jvm.java.lang.System.getProperty(name)
    if path is not None:
        jvm.java.io.File(path).createNewFile()


def is_stopped(session: SparkSession) -> bool:
    """Has Spark stopped, in a JVM that may be there?"""
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())
    except PgError:  # an interrupt
        raise
    except Exception:  # it does not answer
        return True


def active_context() -> SparkContext | None:
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def forget_jvm() -> None:
    """Let pyspark make another session after this JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    for name in _OF_JVM:
        setattr(SparkContext, name, None)
    SparkSession._instantiatedSession = None


# --- what is said -----------------------------------------------------------------------------------------------------


def be_quiet() -> None:
    """Errors are raised: pyspark and py4j need not print them as well."""

    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    if not logging.getLogger().handlers:  # py4j logs there, which would make a handler that prints
        logging.getLogger().addHandler(logging.NullHandler())


def stack_traces(problem: BaseException) -> list[str]:
    """The stack traces that pyspark keeps beside the message: Java's names causes that the message does not."""
    return [trace for name in _TRACES if isinstance(trace := getattr(problem, name, None), str)]


# --- what runs --------------------------------------------------------------------------------------------------------


def ui_address(context: Any) -> str | None:
    """Where Spark's UI is, if it has one; `context` is Java's SparkContext."""
    url = context.uiWebUrl()
    return str(url.get()) if url.isDefined() else None


def running_jobs(jvm: Any, context: Any) -> list[tuple[int, str, float, int, int, int]]:
    """Of each running job of a SparkContext its number, what it is for, the seconds that it runs, and its tasks: done,
    running and all."""
    running = jvm.java.util.ArrayList()
    running.add(jvm.org.apache.spark.JobExecutionStatus.RUNNING)
    jobs = []
    for job in _sequence(context.statusStore().jobsList(running)):
        what = str(job.description().get()) if job.description().isDefined() else ""
        began = job.submissionTime()
        seconds = max(0.0, time.time() - began.get().getTime() / 1000) if began.isDefined() else 0.0
        done, active, tasks = map(int, (job.numCompletedTasks(), job.numActiveTasks(), job.numTasks()))
        jobs.append((int(job.jobId()), what or str(job.name()), seconds, done, active, tasks))
    return sorted(jobs)


# --- what a plan has done ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SparkNode:
    """A node of a plan that Spark has carried out. `columns` are the ids of its columns; `rows` None: not counted.
    `times`: when the stage that did it began and ended, in seconds since the query began; None: not known."""

    name: str
    columns: frozenset[int]
    rows: int | None
    times: tuple[float, float] | None
    children: tuple[SparkNode, ...]


_TICK = 0.05  # seconds by which clocks may differ
_ROWS = "numOutputRows"
_ID = re.compile(r"#(\d+)")


def carry_out(frame: DataFrame) -> tuple[int, SparkNode, dict[str, frozenset[int]]]:
    """The number of a frame's rows, the counts of its plan's nodes, and the ids of all columns below each alias in its
    text. No row is fetched. Not over Spark Connect."""
    execution = frame._jdf.queryExecution()
    began = time.time()
    count = int(execution.toRdd().count())
    aliases: dict[str, frozenset[int]] = {}
    _note_aliases(execution.analyzed(), aliases)
    stages = _Stages(frame.sparkSession.sparkContext, began)
    return count, _done(execution.executedPlan(), stages, (stages.last_begin, time.time() - began)), aliases


class _Stages:
    """The stages since a query began."""

    def __init__(self, context: Any, began: float) -> None:
        self._times: dict[int, tuple[float, float]] = {}  # by the id of each stored set of rows
        self.last_begin = 0.0
        any_, no_numbers = context._jvm.java.util.ArrayList(), context._gateway.new_array(context._jvm.double, 0)
        for stage in _sequence(context._jsc.sc().statusStore().stageList(any_, False, False, no_numbers, any_)):
            if stage.submissionTime().isEmpty() or stage.completionTime().isEmpty():
                continue  # its rows were there
            begin, end = [
                submitted.get().getTime() / 1000 - began
                for submitted in (stage.submissionTime(), stage.completionTime())
            ]
            if begin >= -_TICK:
                self.last_begin = max(self.last_begin, begin)
                for rdd in _sequence(stage.rddIds()):
                    self._times.setdefault(rdd, (max(begin, 0.0), max(end, 0.0)))

    def of(self, exchange: Any) -> tuple[float, float] | None:
        """When the stage that writes for an exchange began and ended."""
        while exchange.nodeName() == "ReusedExchange":
            exchange = exchange.child()
        if exchange.nodeName() == "BroadcastExchange":
            return (0.0, int(exchange.metrics().apply("collectTime").value()) / 1000)
        if exchange.nodeName() != "Exchange":
            return None
        return self._times.get(exchange.shuffleDependency().rdd().id())


def _columns(node: Any) -> frozenset[int]:
    return frozenset(map(int, _ID.findall(node.output().mkString(" "))))


def _sequence(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _note_aliases(node: Any, aliases: dict[str, frozenset[int]]) -> frozenset[int]:
    below = [_note_aliases(child, aliases) for child in (*_sequence(node.children()), *_sequence(node.subqueries()))]
    columns = _columns(node).union(*below) if node.resolved() else frozenset[int]()
    if node.nodeName() == "SubqueryAlias":
        aliases[node.alias()] = columns
    return columns


def _done(node: Any, stages: _Stages, times: tuple[float, float] | None, *, again: bool = False) -> SparkNode:
    """`times`: of the node's stage. `again`: it is carried out once more, to find the ranges that an order is made by,
    and has counted more."""
    name = node.nodeName()
    if name == "AdaptiveSparkPlan":
        return _done(node.executedPlan(), stages, times)
    if name.endswith("Exchange"):
        again = "rangepartitioning" in node.outputPartitioning().toString()
    metrics = node.metrics()
    rows = int(metrics.apply(_ROWS).value()) if not again and metrics.contains(_ROWS) else None
    below = [node.plan()] if name.endswith("QueryStage") else _sequence(node.children())
    if name.endswith("QueryStage") and name != "ResultQueryStage":
        times = stages.of(node.plan())
    children = tuple([_done(child, stages, times, again=again) for child in below])
    return SparkNode(name, _columns(node), rows, times, children)


# --- functions in Python ----------------------------------------------------------------------------------------------


def arrow_function(function: Callable[..., Any], result: str, types: Types) -> Any:
    """A function of Arrow arrays for Spark's expressions."""
    from pyspark.sql.pandas import functions

    make: Any = getattr(functions, "arrow_udf", None)
    if make is None:  # before 4.1: a row at a time
        from pyspark.sql.functions import udf

        return udf(_for_a_row(function, types), result)

    def of_arrays(*arrays: Any) -> Any:
        return function(*arrays)

    of_arrays.__annotations__ = {"arrays": pa.Array, "return": pa.Array}  # Spark asks for these
    return make(of_arrays, result)


def map_in_arrow(frame: DataFrame, function: Callable[..., Any], schema: str) -> DataFrame:
    """`frame.mapInArrow(…)`, which asks for pandas and uses none of it."""
    from pyspark.sql.pandas import functions

    asks: Any = functions
    required = asks.require_minimum_pandas_version
    asks.require_minimum_pandas_version = lambda: None
    try:
        return frame.mapInArrow(function, schema)
    finally:
        asks.require_minimum_pandas_version = required


_DATED = re.compile("date|timestamp", re.IGNORECASE)


def check_types(result: str, types: Types) -> None:
    """Before 4.1 Python has rows of its own objects: of dates only the years 1 to 9999, and no infinity."""
    from pyspark.sql.pandas import functions

    if hasattr(functions, "arrow_udf"):
        return
    if "TIME(" in result:
        raise time_unsupported()
    if any(_DATED.search(str(kind)) for kind in (result, *types())):
        raise PgError("0A000", "a date or timestamp computed in Python is not supported on Spark before version 4.1")


def time_unsupported() -> PgError:
    return PgError("0A000", "type time is not supported on Spark before version 4.1")


def _for_a_row(function: Callable[..., Any], types: Types) -> Callable[..., Any]:
    def of_row(*values: Any) -> Any:
        arrays = [pa.array([_plain(value)], kind) for value, kind in zip(values, types(), strict=True)]
        return function(*arrays)[0].as_py()

    return of_row


def _plain(value: Any) -> Any:
    """A value that Spark gives to Python, as Arrow takes it; in a worker, whose time zone is UTC (WORKERS)."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=timezone.utc)
    if isinstance(value, tuple):  # a row
        return {name: _plain(field) for name, field in zip(value.__fields__, value, strict=True)}  # type: ignore[attr-defined]
    if isinstance(value, list):
        return [_plain(element) for element in value]
    return value
