"""The driver of a copy of tables into another by kernels: divide the rows, run the kernel, take the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.statistics import count_scan
from pgrepl.catalog.transaction import reading
from pgrepl.errors import Declined
from pgrepl.frozen import frozen
from pgrepl.lake.kernels import job
from pgrepl.lake.kernels.copy_rows import CopiedPart, CopyPart, copy_rows
from pgrepl.lake.kernels.divide import divide, rows_of
from pgrepl.lake.kernels.part import PartRows
from pgrepl.lake.kernels.row_maker import KernelColumn
from pgrepl.lake.snapshot_pins import pin

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.data_file import NewFile
    from pgrepl.lake.kernels.copy_rows import KeySpan
    from pgrepl.lake.kernels.row_maker import KernelCondition
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
        from dataclasses import replace

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
        if answer.declined:
            raise Declined(answer.declined)
