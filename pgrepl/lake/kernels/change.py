"""The driver of INSERT … SELECT, UPDATE and DELETE by kernels: divide the rows, run the kernel, take the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.errors import Declined
from pgrepl.frozen import frozen
from pgrepl.lake import storage
from pgrepl.lake.kernels import job
from pgrepl.lake.kernels.change_rows import ChangedPart, ChangePart, change_rows
from pgrepl.lake.kernels.copy_rows import CopyPart
from pgrepl.lake.kernels.divide import divide
from pgrepl.lake.kernels.part import SeriesColumns, SeriesRows

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.data_file import NewFile
    from pgrepl.lake.kernels.copy import KernelSource
    from pgrepl.lake.kernels.part import PartRows
    from pgrepl.lake.kernels.row_maker import KernelColumn, KernelCondition
    from pgrepl.lake.table import LakeTable


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
    slots = job.slots(on_spark=on_spark)
    with ExitStack() as folders:
        parts: list[ChangePart] = []
        of_table: list[int] = []
        made = []
        for number, each in enumerate(changes):
            folder = folders.enter_context(job.job_folder(each.target))
            made.append(folder)
            source = each.source
            whole = CopyPart((), source.table, source.filter, each.target, each.columns, each.check, each.keys, folder)
            for rows in divide(source.rows(whole.read), slots):
                parts.append(ChangePart(replace(whole, rows=tuple(rows)), each.leaves, each.few))
                of_table.append(number)
        target = changes[0].target
        answers = job.play(session, parts, change_rows, target, made[0], on_spark=on_spark, check=check)
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
