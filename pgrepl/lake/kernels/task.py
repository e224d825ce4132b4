"""A task of a Spark job: unpickle the kernel and its part, run the kernel, pickle the answer."""

from __future__ import annotations

import pickle
import sys
from zipimport import zipimporter

from pgrepl.errors import PgError, marked


class NoWatch:
    """The watch of a Spark task does nothing: the driver asks Spark for progress, and has Spark cancel tasks."""

    def check(self) -> None:
        return

    def add(self, rows: int, size: int) -> None:
        return


def done(task: bytes) -> bytes:
    number, kernel, part = pickle.loads(task)  # from our own driver
    try:
        return pickle.dumps((number, kernel(part, NoWatch())))
    except PgError as error:
        raise RuntimeError(marked(error)) from error
    finally:
        _forget_importers()


def _forget_importers() -> None:
    """Forget the importers of zip archives. Spark invalidates all importers before each task, and each zipimporter, one
    for each package, then reads its archive's directory again: with pyspark's that takes a third of a second."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
