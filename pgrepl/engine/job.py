"""A job's folder inside its table's, and the job's progress by the files in it.

The driver takes the files that answers name and removes the rest with the folder: a task that runs twice leaves no
file. On a local disk files are moved up and named as DuckLake names them; in an object store they stay where they
are.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.store.files import sync
from pgrepl.engine import on_spark as cluster
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.ground.lazy import fs, pa, pq
from pgrepl.lake import storage, threads
from pgrepl.lake.storage import crash_point, make_table_folder
from pgrepl.lake.write.delete_files import DELETES, VECTORS

if TYPE_CHECKING:
    from typing import TypeVar

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import NewDeletes, NewFile
    from pgrepl.lake.read.part import Kernel
    from pgrepl.lake.table import LakeTable

    One = TypeVar("One", bound=NewFile | NewDeletes)

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
    over = threading.Event()
    counted: set[str] = set()

    def look() -> None:
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
            with suppress(OSError, PgError, pa.ArrowException):  # the folder may have been removed already
                look()

    thread = JoinedThread(watch, "pgrepl-written")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    look()


# --- job --------------------------------------------------------------------------------------------------------------


@contextmanager
def job_folder(table: LakeTable) -> Iterator[str]:
    """Make a folder in the table's, and yield its name. If the block fails no file is left."""
    make_table_folder(table)
    name = f"ducklake-{storage.uuid7()}"
    path = storage.local_path(table.location + name)
    if path is not None:
        with storage.writing(table.location + name):
            os.mkdir(path, 0o700)
    kept = False
    try:
        yield name
        kept = True
    finally:
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        elif not kept:
            system, inside = storage.file_system(table.location + name)
            with suppress(OSError):  # nothing has been written
                system.delete_dir(inside)


def take(table: LakeTable, folder: str, files: Sequence[One]) -> list[One]:
    """Move the files that the answers name to their final places; remove all others."""
    here = storage.local_path(table.location)
    if here is None:
        _remove_others(table, folder, {file.name for file in files})
        return list(files)
    taken: list[One] = []
    try:
        for file in files:
            crash_point("stage.move")
            ending = next((end for end in (DELETES, VECTORS) if file.name.endswith(end)), ".parquet")
            moved = replace(file, name=storage.new_name(ending))
            with storage.writing(table.location + moved.name):
                os.rename(here + file.name, here + moved.name)
            taken.append(moved)
        sync(here)
    except BaseException:
        for each in taken:
            storage.remove(table.location + each.name)
        raise
    return taken


def _remove_others(table: LakeTable, folder: str, named: set[str]) -> None:
    for path, _ in written(table, folder):
        if path.removeprefix(table.location) not in named:
            storage.remove(path)


def written(table: LakeTable, folder: str) -> list[tuple[str, int]]:
    """The files that the job has written so far, with their sizes."""
    path = table.location + folder
    system, inside = storage.file_system(path)
    listed = system.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    return sorted(
        (f"{path}/{each.base_name}", each.size) for each in listed if each.base_name.endswith((".parquet", VECTORS))
    )


def run_parts(
    session: Session,
    parts: Sequence[Any],
    kernel: Kernel,
    table: LakeTable,
    folder: str,
    *,
    on_spark: bool,
    check: Callable[[], None],
) -> list[Any]:
    """Run the kernel on each part: the answers, in the order of the parts. Rows written into the folder are counted
    while the job runs."""

    if not parts:
        return []
    if not on_spark:
        return run_parts_apart(session, parts, kernel, on_spark=False, check=check)
    with watch_folder(session, lambda: written(table, folder)):
        return run_parts_apart(session, parts, kernel, on_spark=True, check=check)


def run_parts_apart(
    session: Session, parts: Sequence[Any], kernel: Kernel, *, on_spark: bool, check: Callable[[], None]
) -> list[Any]:
    """Run the kernel on each part, without watching the folder: the answers, in the order of the parts."""
    if on_spark:
        return cluster.run_parts(parts, kernel)
    return threads.run_parts(session, parts, kernel, check)


def parallelism(*, on_spark: bool) -> int:
    """The number of parts that can run at a time."""
    if on_spark:
        return cluster.parallelism()
    return threads.parallelism()
