"""Changes of the rows of tables by kernels, as their driver sees them: divide, play, take the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pgrepl.frozen import frozen
from pgrepl.lake.kernels import job
from pgrepl.lake.kernels.change_rows import ChangedPart, ChangePart, change_rows
from pgrepl.lake.kernels.copy_rows import CopyPart
from pgrepl.lake.kernels.divide import divide
from pgrepl.lake.kernels.part import Unfit

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.data_file import NewFile
    from pgrepl.lake.kernels.copy import KernelSource
    from pgrepl.lake.kernels.copy_rows import KernelColumn, KernelCondition


@frozen
class TableChange:
    """The rows of a table that go, and the columns of their new versions; None: they have none."""

    source: KernelSource
    columns: tuple[KernelColumn, ...] | None
    check: KernelCondition | None
    few: int  # rows that need no file


@frozen
class ChangedTable:
    """What became of a table's parts, in the order of its rows; and all their files, in their places."""

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
    """`judge` raises what is wrong with a part of the table of this number. Nothing refers to the files yet."""
    slots = job.slots(on_spark=on_spark)
    with ExitStack() as folders:
        parts: list[ChangePart] = []
        of_table: list[int] = []
        made = []
        for number, each in enumerate(changes):
            table = each.source.table
            folder = folders.enter_context(job.job_folder(table))
            made.append(folder)
            columns = each.columns or ()
            read = CopyPart((), table, each.source.filter, table, columns, None, (), "").read
            for rows in divide(each.source.rows(read), slots):
                part = CopyPart(tuple(rows), table, each.source.filter, table, columns, each.check, (), folder)
                parts.append(ChangePart(part, each.columns is None, each.few))
                of_table.append(number)
        table = changes[0].source.table
        answers = job.play(session, parts, change_rows, table, made[0], on_spark=on_spark, check=check)
        for number, answer in zip(of_table, answers, strict=True):
            if answer.unfit:
                raise Unfit(answer.unfit)
            judge(number, answer)
        found = []
        for number, each in enumerate(changes):
            own = tuple(answer for at, answer in zip(of_table, answers, strict=True) if at == number)
            files = [file for answer in own for file in answer.files]
            found.append(ChangedTable(own, tuple(job.take(each.source.table, made[number], files))))
    return found
