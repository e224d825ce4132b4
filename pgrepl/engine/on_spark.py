"""Kernels as tasks of a Spark job: `mapPartitions` in a classic session, `mapInArrow` over Spark Connect.

pgrepl's own package travels to executors as an archive; they need pyarrow and numpy. Parts and answers are bytes: the
driver never sees a row.
"""

from __future__ import annotations

import os
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pgrepl
from pgrepl.engine import spark, spark_options
from pgrepl.engine.spark_options import is_elsewhere
from pgrepl.engine.task import done, packed
from pgrepl.ground.lazy import pa

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

    from pgrepl.lake.read.part import Kernel

_UNCHECKED = (1).to_bytes(4, "little")  # flags of a .pyc: hash-based, the source is not checked (PEP 552)
_KINDS = (".py", ".tsv", ".json", ".bin", ".sql", ".txt")
_shipped: WeakSet[SparkSession] = WeakSet()


def ship(session: SparkSession) -> None:
    """Give the package to the session's executors, once for each session."""
    if session in _shipped:
        return
    if spark.is_remote():
        session.addArtifacts(archive(), pyfile=True)
    elif is_elsewhere(session.sparkContext.master or ""):
        session.sparkContext.addPyFile(spark.archive() or archive())
    _shipped.add(session)


@cache
def archive() -> str:
    """The path of a zip of this installation's package."""
    folder = spark_options.make_for_process(spark_options.PACKAGE)
    package = Path(__file__).resolve().parents[1]
    path = os.path.join(folder, "pgrepl.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped:
        for file in sorted(package.rglob("*")):
            if file.suffix in _KINDS and "__pycache__" not in file.parts:
                name = f"pgrepl/{file.relative_to(package)}"
                zipped.write(file, name)
                compiled = _compiled(file) if file.suffix == ".py" else None
                if compiled is not None:
                    zipped.writestr(name + "c", compiled)
    return path


def _compiled(file: Path) -> bytes | None:
    """The compiled module from __pycache__, marked to be used without a check of its source. Another version of Python
    ignores it. None: there is none, or it is older than the source."""
    try:
        code = (file.parent / "__pycache__" / f"{file.stem}.{sys.implementation.cache_tag}.pyc").read_bytes()
        status = file.stat()
    except OSError:
        return None
    of = (int(status.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little") + (status.st_size & 0xFFFFFFFF).to_bytes(4, "little")
    if code[4:8] != bytes(4) or code[8:16] != of:
        return None
    return code[:4] + _UNCHECKED + bytes(8) + code[16:]


_OF_A_SERVER = 8  # tasks at a time; a Spark Connect server does not tell how many it can run


def parallelism() -> int:
    session = spark.session()
    with spark.pg_errors():
        return _OF_A_SERVER if spark.is_remote() else max(int(session.sparkContext.defaultParallelism), 1)


def run_parts(parts: Sequence[Any], kernel: Kernel) -> list[Any]:
    """The answers, in the order of the parts."""
    session = spark.session()
    tasks, shared = packed(kernel, parts)
    with spark.pg_errors():
        ship(session)
        function = _function(shared)
        if spark.is_remote():
            frame = session.range(0, len(tasks), 1, len(tasks)).mapInArrow(
                _over_batches(function, tasks), "answer binary"
            )
            pickled = frame.toArrow().column(0).to_pylist()
        else:
            pickled = _spread(session, tasks).mapPartitions(function).collect()
    return [answer for _, answer in sorted(map(pickle.loads, pickled), key=lambda pair: pair[0])]  # of our own tasks


def _spread(session: SparkSession, tasks: list[bytes]) -> RDD[bytes]:
    """On a cluster each part is a task, which another machine can repeat. On this one nobody can, and to begin a task
    takes as long as a small part: each core has one, of parts from everywhere, as neighbours are alike."""
    context = session.sparkContext
    if is_elsewhere(context.master or ""):
        return context.parallelize(tasks, len(tasks))
    cores = min(len(tasks), context.defaultParallelism)
    return context.parallelize([task for core in range(cores) for task in tasks[core::cores]], cores)


def package_check() -> Callable[[], None]:
    """A function for tasks, pickled by value: it imports this package, which must be of this version, and what kernels
    need."""
    version = pgrepl.__version__

    def check() -> None:
        try:
            import numpy  # noqa: F401
            import pyarrow  # noqa: F401

            import pgrepl

            version_there = pgrepl.__version__
            import pgrepl.engine.task
        except Exception as problem:
            raise RuntimeError(f"PGREPL_IMPORT {type(problem).__name__}: {problem}") from problem
        if version_there != version:
            raise RuntimeError(f"PGREPL_IMPORT it has pgrepl {version_there}, the driver {version}")

    return check


def _function(shared: bytes) -> Callable[[Iterable[bytes]], Iterator[bytes]]:
    """The function that a task runs. It is pickled by value, so it imports all that it uses."""
    check = package_check()

    def function(parts: Iterable[bytes]) -> Iterator[bytes]:
        check()
        for part in parts:
            yield done(bytes(part), shared)

    return function


def _over_batches(function: Callable[[Iterable[bytes]], Iterator[bytes]], tasks: Sequence[bytes]) -> Any:
    """The function for mapInArrow: each row is the number of a task."""

    def batches(rows: Iterable[Any]) -> Iterator[Any]:
        for batch in rows:
            for number in batch.column(0).to_pylist():
                for answer in function([tasks[number]]):
                    yield pa.RecordBatch.from_pydict({"answer": pa.array([answer], pa.binary())})

    return batches
