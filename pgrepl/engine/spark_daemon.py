"""The daemon that forks Python workers for a JVM on this machine, instead of pyspark's (spark.python.daemon.module).

It keeps Spark's archives off the workers' path, which Python would read before each task, and loads what tasks need
once.
"""

from __future__ import annotations

import copy  # noqa: F401  it and pickle ask for org.python, Jython's, and find the jar's org
import os
import pickle  # noqa: F401
import sys
from contextlib import suppress
from importlib.util import find_spec

from pgrepl.ground import lazy
from pgrepl.internals import pyspark as internals
from pgrepl.internals.pyarrow import leave_documentation_out

MODULE = __name__


def leave_out_archives() -> None:
    """Take Spark's jar from the path, and the archives of pyspark and py4j, if this Python has both of its own."""
    before = list(sys.path)
    without_jar = [path for path in before if not os.path.basename(path).startswith("spark-core_")]
    plain = [path for path in without_jar if not path.endswith(".zip")]
    sys.path[:] = plain
    if find_spec("pyspark") is None or find_spec("py4j") is None:
        sys.path[:] = without_jar
    left_out = tuple(set(before).difference(sys.path))
    for path in [path for path in sys.path_importer_cache if path.startswith(left_out)]:
        del sys.path_importer_cache[path]


def load() -> None:
    """Import what tasks of kernels need."""
    leave_documentation_out()
    with suppress(ImportError):  # a task that needs it says so
        lazy.load()
        from pgrepl.engine import copy_rows  # noqa: F401
        from pgrepl.lake.read import file_scan  # noqa: F401


if __name__ == "__main__":
    leave_out_archives()
    if sys.platform == "linux":  # macOS may end a process that is forked behind some libraries
        load()
    internals.fork_workers()
