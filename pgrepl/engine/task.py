"""The tasks of a Spark job as bytes: pickled by the driver; unpickled, run and answered by an executor.

Many parts may look at the same data files. These, and what else is `Shared`, are pickled once for all tasks, as a
part's size must not grow with the table.
"""

from __future__ import annotations

import ctypes
import io
import pickle
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from zipimport import zipimporter

from pgrepl.ground.errors import PgError, marked
from pgrepl.ground.lazy import pa
from pgrepl.internals import pyarrow
from pgrepl.lake.read.data_file import DataFile
from pgrepl.lake.read.part import Shared

if TYPE_CHECKING:
    from pgrepl.lake.read.part import Kernel

_KEPT = 1 << 27  # bytes
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h


class NoWatch:
    """The watch of a Spark task does nothing: the driver asks Spark for progress, and has Spark cancel tasks."""

    def check(self) -> None:
        return

    def add(self, rows: int, size: int) -> None:
        return


def packed(kernel: Kernel, parts: Sequence[Any]) -> tuple[list[bytes], bytes]:
    """The tasks, and what they share."""
    shared: dict[Any, tuple[int, Any]] = {}
    tasks = []
    for number, part in enumerate(parts):
        task = io.BytesIO()
        _Pickler(task, shared).dump((number, kernel, part))
        tasks.append(task.getvalue())
    return tasks, pickle.dumps([value for _, value in shared.values()])


class _Pickler(pickle.Pickler):
    def __init__(self, task: io.BytesIO, shared: dict[Any, tuple[int, Any]]) -> None:
        super().__init__(task)
        self._shared = shared

    def persistent_id(self, value: Any) -> int | None:
        known: Any
        if type(value) is DataFile:
            known = (value.data_file_id, value.delete_files)
        elif type(value) is Shared:
            known = id(value)
        else:
            return None
        return self._shared.setdefault(known, (len(self._shared), value))[0]


class _Unpickler(pickle.Unpickler):
    def __init__(self, task: bytes, shared: bytes) -> None:
        super().__init__(io.BytesIO(task))
        self._shared = shared
        self._values: list[Any] | None = None

    def persistent_load(self, number: int) -> Any:
        if self._values is None:
            self._values = pickle.loads(self._shared)
        return self._values[number]


def done(task: bytes, shared: bytes) -> bytes:
    _prepare()
    number, kernel, part = _Unpickler(task, shared).load()  # from our own driver
    try:
        return pickle.dumps((number, kernel(part, NoWatch())))
    except PgError as error:
        raise RuntimeError(marked(error)) from error
    finally:
        _forget_importers()


@cache
def _prepare() -> None:
    """Spare this process pandas, which a function of the user's still finds."""
    pyarrow.hide("pgrepl", "pyarrow")
    keep_memory()


@cache
def keep_memory() -> None:
    """Have this process keep memory that parts free. Otherwise it is given back and taken again, page by page, for each
    large array: that was a third of the time."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # of glibc
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_MMAP_THRESHOLD, _KEPT)
        pa.set_memory_pool(pa.system_memory_pool())


def _forget_importers() -> None:
    """Forget the importers of zip archives. Spark invalidates all importers before each task, and each zipimporter, one
    for each package, then reads its archive's directory again: with pyspark's that takes a third of a second."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
