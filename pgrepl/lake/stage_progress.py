"""The progress of a write by Spark: each file that a task has finished is counted when it appears in the folder of the
write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.interrupts import JoinedThread
from pgrepl.lake import storage

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_PAUSE = 0.5  # seconds between two looks


@contextmanager
def counting_writes(session: Session, count_rows: Callable[[int, int], None]) -> Iterator[None]:
    """Have `count_rows` called with the rows and bytes that Spark writes for this session meanwhile."""
    before, session.rows_written = session.rows_written, count_rows
    try:
        yield
    finally:
        session.rows_written = before


@contextmanager
def watch_folder(session: Session, files: Callable[[], Sequence[tuple[str, int]]]) -> Iterator[None]:
    """Count the rows of one write; `files` lists the files in its folder, with their sizes."""
    count_rows = session.rows_written
    if count_rows is None:
        yield
        return
    from pyarrow import ArrowException

    over = threading.Event()
    counted: set[str] = set()

    def look() -> None:
        import pyarrow.parquet as pq

        for path, size in files():
            if path in counted:
                continue
            with suppress(PgError):  # the file of a running or a killed task
                with storage.reading(path), storage.open_input(path) as source:
                    rows = pq.read_metadata(source).num_rows
                counted.add(path)
                count_rows(rows, size)

    def watch() -> None:
        while not over.wait(_PAUSE):
            with suppress(OSError, PgError, ArrowException):  # the folder may have been removed already
                look()

    thread = JoinedThread(watch, "pgrepl-written")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    look()
