"""A copy of tables into another by kernels, as its driver sees it: divide, play, take the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.statistics import count_scan
from pgrepl.catalog.transaction import reading
from pgrepl.frozen import frozen
from pgrepl.lake.kernels import job
from pgrepl.lake.kernels.copy_rows import CopiedPart, CopyPart, KernelColumn, copy_rows
from pgrepl.lake.kernels.divide import divide, rows_of
from pgrepl.lake.kernels.part import PartRows, Unfit
from pgrepl.lake.snapshot_pins import pin

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.data_file import NewFile
    from pgrepl.lake.kernels.copy_rows import KernelCondition, KeySpan
    from pgrepl.lake.table import LakeTable


@frozen
class KernelSource:
    """The rows of a table at a snapshot that pass the filter; `columns` are numbers of those that are copied. No row
    outside the bounds passes it."""

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
    """The rows of Parquet files that become those of a table; `columns` are those of the table that the files have."""

    table: LakeTable
    columns: tuple[int, ...]
    found: tuple[tuple[PartRows, int, int], ...]

    filter = None

    def rows(self, attnums: Sequence[int]) -> list[tuple[PartRows, int, int]]:
        return list(self.found)


@frozen
class KernelTarget:
    """A table, what each of its columns gets from the columns of a source (by their place), and what it asks of rows.
    `keys` are columns of whole numbers of which it is told whether they ascend."""

    table: LakeTable
    columns: tuple[KernelColumn, ...]
    check: KernelCondition | None
    keys: tuple[int, ...]

    def columns_from(self, source: KernelSource | ForeignSource) -> tuple[KernelColumn, ...]:
        from dataclasses import replace

        return tuple([c if c.source == 0 else replace(c, source=source.columns[c.source - 1]) for c in self.columns])


class WrongRow(Exception):
    """A row cannot be copied; which, and why, the exact way finds out."""


@frozen
class CopiedFiles:
    """`spans`: of each key, and of each part in the order of the rows, where it ascends."""

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
    """The rows as files that nothing refers to yet. Raises Unfit or WrongRow, and then there are none."""
    found = []
    for source in sources:
        columns = target.columns_from(source)
        read = CopyPart((), source.table, source.filter, target.table, columns, None, (), "").read
        found.append((source, columns, source.rows(read)))
    slots = job.slots(on_spark=on_spark)
    with job.job_folder(target.table) as folder:
        parts = [
            CopyPart(tuple(rows), source.table, source.filter, target.table, columns, target.check, target.keys, folder)
            for source, columns, of_source in found
            for rows in divide(of_source, slots)
        ]
        answers = job.play(session, parts, copy_rows, target.table, folder, on_spark=on_spark, check=check)
        _judge(answers)
        files = job.take(target.table, folder, [file for answer in answers for file in answer.files])
    spans = {key: [answer.spans[n] for answer in answers] for n, key in enumerate(target.keys)}
    return CopiedFiles(files, spans)


def _judge(answers: Sequence[CopiedPart]) -> None:
    for answer in answers:
        if answer.wrong:
            raise WrongRow(answer.wrong)
        if answer.unfit:
            raise Unfit(answer.unfit)
