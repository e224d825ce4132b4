"""Stores that Spark has no file system for: it reads copies on this machine."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

from pgrepl.engine import spark, spark_options
from pgrepl.engine.spark_options import DEFAULT_MASTER
from pgrepl.ground.threads import ThreadPool
from pgrepl.lake import storage

_BY_JARS = frozenset(("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss"))
_OWN_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_AT_A_TIME = 8

_copies: dict[tuple[str, Any, Any], str] = {}
_lock = threading.Lock()
_folder: str | None = None


def readable(paths: Sequence[str]) -> list[str]:
    """The paths by which Spark finds the files; the last part of each is unchanged."""
    if not any(_is_out_of_reach(path) for path in paths):
        return list(paths)
    with ThreadPool(_AT_A_TIME) as threads:
        return list(threads.map(lambda path: _copy(path) if _is_out_of_reach(path) else path, paths))


def _is_out_of_reach(path: str) -> bool:
    return storage.scheme_of(path) in _BY_JARS and _has_no_jars()


def _has_no_jars() -> bool:
    options = spark.options()
    here = options.remote is None and (options.master or DEFAULT_MASTER).startswith("local")
    return here and "SPARK_HOME" not in os.environ and not any(name in _OWN_JARS for name, _ in options.conf)


def _copy(path: str) -> str:
    """The copy of a file. It is made once for a path, size and time: a user's file may change."""
    with storage.reading(path):
        system, inside = storage.file_system(path)
        info = system.get_file_info(inside)
        key = (path, info.size, info.mtime)
        if key not in _copies:
            copy = os.path.join(tempfile.mkdtemp(dir=_copies_folder()), path.rpartition("/")[2])
            with system.open_input_stream(inside) as source, storage.writing(copy), open(copy, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            _copies[key] = copy
    return _copies[key]


def _copies_folder() -> str:
    """The folder of the copies, which is removed at the end of the process."""
    global _folder
    with _lock:
        if _folder is None:
            _folder = spark_options.make(spark_options.FILES)
            atexit.register(shutil.rmtree, _folder, ignore_errors=True)
        return _folder
