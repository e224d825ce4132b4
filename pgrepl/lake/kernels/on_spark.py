"""Kernels run as tasks of a Spark job: `mapPartitions` in a classic session, `mapInArrow` over Spark Connect.

The executors get the parts as bytes, and a function that imports pgrepl only when it runs, so that an executor without
pgrepl fails with a clear message. A task's answer is bytes, too: the driver never sees a row.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.lake import spark
from pgrepl.lake.kernels import shipping
from pgrepl.lake.kernels.task import packed
from pgrepl.lake.spark_options import is_elsewhere

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

    from pgrepl.lake.kernels.part import Kernel

_OF_A_SERVER = 8  # tasks at a time; a Spark Connect server does not tell how many it can run


def slots() -> int:
    made = spark.session()
    with spark.pg_errors():
        return _OF_A_SERVER if spark.is_remote() else max(int(made.sparkContext.defaultParallelism), 1)


def play(parts: Sequence[Any], kernel: Kernel) -> list[Any]:
    """The answers, in the order of the parts."""
    import pgrepl

    made = spark.session()
    tasks, shared = packed(kernel, parts)
    with spark.pg_errors():
        shipping.ship(made)
        function = _function(pgrepl.__version__, shared)
        if spark.is_remote():
            frame = made.range(0, len(tasks), 1, len(tasks)).mapInArrow(_over_batches(function, tasks), "answer binary")
            found = frame.toArrow().column(0).to_pylist()
        else:
            found = _spread(made, tasks).mapPartitions(function).collect()
    return [answer for _, answer in sorted(map(pickle.loads, found), key=lambda pair: pair[0])]  # of our own tasks


def _spread(made: SparkSession, tasks: list[bytes]) -> RDD[bytes]:
    """On a cluster each part is a task, which another machine can repeat. On this one nobody can, and to begin a task
    takes as long as a small part: each core has one, of parts from everywhere, as neighbours are alike."""
    context = made.sparkContext
    if is_elsewhere(context.master or ""):
        return context.parallelize(tasks, len(tasks))
    cores = min(len(tasks), context.defaultParallelism)
    return context.parallelize([task for core in range(cores) for task in tasks[core::cores]], cores)


def _function(version: str, shared: bytes) -> Callable[[Iterable[bytes]], Iterator[bytes]]:
    """The function that a task runs. It is pickled by value, so it imports all that it uses."""

    def function(parts: Iterable[bytes]) -> Iterator[bytes]:
        try:
            import numpy  # noqa: F401
            import pyarrow  # noqa: F401

            import pgrepl

            found = pgrepl.__version__
            from pgrepl.lake.kernels.task import done
        except Exception as problem:
            raise RuntimeError(f"PGREPL_IMPORT {type(problem).__name__}: {problem}") from problem
        if found != version:
            raise RuntimeError(f"PGREPL_IMPORT it has pgrepl {found}, the driver {version}")
        for part in parts:
            yield done(bytes(part), shared)

    return function


def _over_batches(function: Callable[[Iterable[bytes]], Iterator[bytes]], tasks: Sequence[bytes]) -> Any:
    """The function for mapInArrow: each row is the number of a task."""

    def batches(rows: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in rows:
            for number in batch.column(0).to_pylist():
                for answer in function([tasks[number]]):
                    yield pa.RecordBatch.from_pydict({"answer": pa.array([answer], pa.binary())})

    return batches
