"""The driver of work by kernels: it divides the rows, has the kernel run, and takes the files.

A job has a folder inside its table's, and its progress is seen by the files in it. The driver takes the files that
answers name and removes the rest with the folder: a task that runs twice leaves no file. On a local disk files are
moved up and named as DuckLake names them; in an object store they stay where they are.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session.statistics import count_scan
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.files import sync
from pgrepl.engine import on_spark as cluster
from pgrepl.engine.copy_rows import CopiedPart, CopyPart, KernelColumn, copy_rows
from pgrepl.engine.modify_rows import ChangedPart, ChangePart, modify_rows
from pgrepl.ground import threads
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.ground.lazy import fs, pa, pq
from pgrepl.lake import storage
from pgrepl.lake.read.extent import divide, rows_of
from pgrepl.lake.read.local import pin
from pgrepl.lake.read.part import PartRows, SeriesColumns, SeriesRows
from pgrepl.lake.storage import crash_point, make_table_folder
from pgrepl.lake.write.delete_files import DELETES, VECTORS

if TYPE_CHECKING:
    from typing import TypeVar

    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.copy_rows import KernelCondition, KeySpan
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.read.data_file import NewDeletes, NewFile
    from pgrepl.lake.read.part import Kernel
    from pgrepl.lake.table import LakeTable

    One = TypeVar("One", bound=NewFile | NewDeletes)


@frozen
class KernelSource:
    """The rows of a table at a snapshot that pass the filter; `columns` are the attribute numbers to copy. No row
    outside the bounds passes the filter."""

    session: Session
    table: LakeTable
    snapshot: int
    columns: tuple[int, ...]
    filter: KernelCondition | None
    bounds: tuple[Bound, ...] = ()

    def rows(self, attnums: Sequence[int]) -> list[tuple[PartRows, int, int]]:
        with reading(self.session):
            pin(self.session, self.snapshot)
            rows = rows_of(self.session, self.table, self.snapshot, attnums, self.bounds)
        count_scan(self.session, self.table.oid, sum(count for _, count, _ in rows))
        return rows


@frozen
class ForeignSource:
    """The rows of Parquet files that are read as rows of `table`; `columns` are the table's columns that they have."""

    table: LakeTable
    columns: tuple[int, ...]
    found: tuple[tuple[PartRows, int, int], ...]

    filter = None

    def rows(self, attnums: Sequence[int]) -> list[tuple[PartRows, int, int]]:
        return list(self.found)


@frozen
class KernelTarget:
    """A table, how each of its columns is made of a source's (`source` is the place in the source's `columns`), and its
    check constraints. `keys`: columns of whole numbers; the answer says whether their values ascend."""

    table: LakeTable
    columns: tuple[KernelColumn, ...]
    check: KernelCondition | None
    keys: tuple[int, ...]

    def columns_from(self, source: KernelSource | ForeignSource) -> tuple[KernelColumn, ...]:
        return tuple([c if c.source == 0 else replace(c, source=source.columns[c.source - 1]) for c in self.columns])


class WrongRow(Exception):
    """A row cannot be copied. Copying row by row finds out which, and words the error."""


@frozen
class CopiedFiles:
    """`spans`: by key, the first and last value of each part, in the order of the rows; None: they do not ascend."""

    files: list[NewFile]
    spans: dict[int, list[KeySpan | None]]


def copy(
    session: Session,
    sources: Sequence[KernelSource | ForeignSource],
    target: KernelTarget,
    *,
    on_spark: bool,
    check: Callable[[], None],
) -> CopiedFiles:
    """Write the rows to files, which the catalog does not refer to yet. Declined and WrongRow leave no file."""
    answers: list[CopiedPart]
    read_sources = []
    for source in sources:
        columns = target.columns_from(source)
        read = CopyPart((), source.table, source.filter, target.table, columns, None, (), "").read
        read_sources.append((source, columns, source.rows(read)))
    cores = parallelism(on_spark=on_spark)
    with job_folder(target.table) as folder:
        parts = [
            CopyPart(tuple(rows), source.table, source.filter, target.table, columns, target.check, target.keys, folder)
            for source, columns, of_source in read_sources
            for rows in divide(of_source, cores)
        ]
        answers = run_parts(session, parts, copy_rows, target.table, folder, on_spark=on_spark, check=check)
        for answer in answers:
            if answer.wrong:
                raise WrongRow(answer.wrong)
            if answer.declined:
                raise Declined(answer.declined)
        files = take(target.table, folder, [file for answer in answers for file in answer.files])
    spans = {key: [answer.spans[n] for answer in answers] for n, key in enumerate(target.keys)}
    return CopiedFiles(files, spans)


@frozen
class SeriesSource:
    """The whole numbers of a series that pass the filter, as column 1."""

    series: SeriesRows
    filter: KernelCondition | None

    @property
    def table(self) -> SeriesColumns:
        return SeriesColumns(self.series.type)

    def rows(self, attnums: Sequence[int]) -> list[tuple[PartRows, int, int]]:
        return self.series.divided()


@frozen
class TableChange:
    """The rows of a source that are written to `target`, with the values of `columns`; without columns no row is
    written (DELETE). `leaves`: the source's rows are the target's own and are deleted (UPDATE, DELETE). `keys`: columns
    of whole numbers; the answer says whether their values ascend."""

    source: KernelSource | SeriesSource
    target: LakeTable
    columns: tuple[KernelColumn, ...]
    check: KernelCondition | None
    leaves: bool
    few: int  # up to so many new rows are handed back instead of written to a file
    keys: tuple[int, ...] = ()


@frozen
class ChangedTable:
    """The answers of a table's parts, in the order of its rows, and all their files, moved out of the job's folder."""

    parts: tuple[ChangedPart, ...]
    files: tuple[NewFile, ...]


def change(
    session: Session,
    changes: Sequence[TableChange],
    *,
    on_spark: bool,
    check: Callable[[], None],
    judge: Callable[[int, ChangedPart], None],
) -> list[ChangedTable]:
    """Run the changes. `judge` raises the error that a part of the change with this number has met. The catalog does
    not refer to the files yet."""
    cores = parallelism(on_spark=on_spark)
    with ExitStack() as folders:
        parts: list[ChangePart] = []
        of_table: list[int] = []
        folder_names = []
        for number, edit in enumerate(changes):
            folder = folders.enter_context(job_folder(edit.target))
            folder_names.append(folder)
            source = edit.source
            whole = CopyPart((), source.table, source.filter, edit.target, edit.columns, edit.check, edit.keys, folder)
            for rows in divide(source.rows(whole.read), cores):
                parts.append(ChangePart(replace(whole, rows=tuple(rows)), edit.leaves, edit.few))
                of_table.append(number)
        target = changes[0].target
        answers = run_parts(session, parts, modify_rows, target, folder_names[0], on_spark=on_spark, check=check)
        for number, answer in zip(of_table, answers, strict=True):
            if answer.declined:
                raise Declined(answer.declined)
            judge(number, answer)
        of_each: list[list[ChangedPart]] = [[] for _ in changes]
        for number, answer in zip(of_table, answers, strict=True):
            of_each[number].append(answer)
        return changed_tables([edit.target for edit in changes], folder_names, of_each)


def changed_tables(
    tables: Sequence[LakeTable], folders: Sequence[str], answers: Sequence[Sequence[ChangedPart]]
) -> list[ChangedTable]:
    """Take the files that the answers of each table name. If one cannot be taken no file is left."""
    changed: list[ChangedTable] = []
    try:
        for table, folder, own in zip(tables, folders, answers, strict=True):
            files = take(table, folder, [file for answer in own for file in answer.files])
            changed.append(ChangedTable(tuple(own), tuple(files)))
    except BaseException:
        for table, taken in zip(tables, changed, strict=False):
            for file in taken.files:
                storage.remove(table.location + file.name)
        raise
    return changed


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
        named = {file.name for file in files}
        for path, _ in written(table, folder):
            if path.removeprefix(table.location) not in named:
                storage.remove(path)
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
        for file in taken:
            storage.remove(table.location + file.name)
        raise
    return taken


def written(table: LakeTable, folder: str) -> list[tuple[str, int]]:
    """The files that the job has written so far, with their sizes."""
    path = table.location + folder
    system, inside = storage.file_system(path)
    listed = system.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    return sorted(
        (f"{path}/{info.base_name}", info.size) for info in listed if info.base_name.endswith((".parquet", VECTORS))
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
    return threads.run_parts(parts, kernel, check, session.rows_written)


def parallelism(*, on_spark: bool) -> int:
    """The number of parts that can run at a time."""
    return cluster.parallelism() if on_spark else threads.parallelism()
