"""The driver of work by kernels: it divides the rows, has the kernel run, and takes the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.session.statistics import count_scan
from pgrepl.catalog.session.transaction import reading
from pgrepl.engine import job
from pgrepl.engine.copy_rows import CopiedPart, CopyPart, KernelColumn, copy_rows
from pgrepl.engine.modify_rows import ChangedPart, ChangePart, modify_rows
from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.lake import storage
from pgrepl.lake.read.extent import divide, rows_of
from pgrepl.lake.read.local import pin
from pgrepl.lake.read.part import PartRows, SeriesColumns, SeriesRows

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.copy_rows import KernelCondition, KeySpan
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.read.data_file import NewFile
    from pgrepl.lake.table import LakeTable


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
            found = rows_of(self.session, self.table, self.snapshot, attnums, self.bounds)
        count_scan(self.session, self.table.oid, sum(count for _, count, _ in found))
        return found


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
    found = []
    for source in sources:
        columns = target.columns_from(source)
        read = CopyPart((), source.table, source.filter, target.table, columns, None, (), "").read
        found.append((source, columns, source.rows(read)))
    parallelism = job.parallelism(on_spark=on_spark)
    with job.job_folder(target.table) as folder:
        parts = [
            CopyPart(tuple(rows), source.table, source.filter, target.table, columns, target.check, target.keys, folder)
            for source, columns, of_source in found
            for rows in divide(of_source, parallelism)
        ]
        answers = job.run_parts(session, parts, copy_rows, target.table, folder, on_spark=on_spark, check=check)
        _judge(answers)
        files = job.take(target.table, folder, [file for answer in answers for file in answer.files])
    spans = {key: [answer.spans[n] for answer in answers] for n, key in enumerate(target.keys)}
    return CopiedFiles(files, spans)


def _judge(answers: Sequence[CopiedPart]) -> None:
    for answer in answers:
        if answer.wrong:
            raise WrongRow(answer.wrong)
        if answer.declined:
            raise Declined(answer.declined)


# --- change -----------------------------------------------------------------------------------------------------------


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
    parallelism = job.parallelism(on_spark=on_spark)
    with ExitStack() as folders:
        parts: list[ChangePart] = []
        of_table: list[int] = []
        made = []
        for number, each in enumerate(changes):
            folder = folders.enter_context(job.job_folder(each.target))
            made.append(folder)
            source = each.source
            whole = CopyPart((), source.table, source.filter, each.target, each.columns, each.check, each.keys, folder)
            for rows in divide(source.rows(whole.read), parallelism):
                parts.append(ChangePart(replace(whole, rows=tuple(rows)), each.leaves, each.few))
                of_table.append(number)
        target = changes[0].target
        answers = job.run_parts(session, parts, modify_rows, target, made[0], on_spark=on_spark, check=check)
        for number, answer in zip(of_table, answers, strict=True):
            if answer.declined:
                raise Declined(answer.declined)
            judge(number, answer)
        found: list[ChangedTable] = []
        try:
            for number, each in enumerate(changes):
                own = tuple(answer for at, answer in zip(of_table, answers, strict=True) if at == number)
                files = [file for answer in own for file in answer.files]
                found.append(ChangedTable(own, tuple(job.take(each.target, made[number], files))))
        except BaseException:
            for each, taken in zip(changes, found, strict=False):
                for file in taken.files:
                    storage.remove(each.target.location + file.name)
            raise
    return found
