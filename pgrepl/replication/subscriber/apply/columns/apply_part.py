"""The kernels of a large batch, each of which does one part of the work. They ask no session; their answers describe
files.

    apply_part      apply the messages of some keys: writes data files, and files of the positions to delete
    check_values    check new rows with some values of a unique index for duplicates
    merge_deletes   merge the positions to delete of some data files into delete files
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pgrepl.engine import Declined
from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake.data_file import DataFile, NewFile
from pgrepl.lake.staged_deletes import StagedDeletes, stage_deletes
from pgrepl.lake.storage import uuid7
from pgrepl.lake.table import LakeTable
from pgrepl.lake.table_rows import TableRows, are_within
from pgrepl.replication.subscriber.apply.columns.decide import decide, leaving
from pgrepl.replication.subscriber.apply.columns.described import MOST_BYTES, DescribedTable
from pgrepl.replication.subscriber.apply.columns.fold import NotClean
from pgrepl.replication.subscriber.apply.columns.other_keys import KeptKeys, check_kept
from pgrepl.replication.subscriber.apply.columns.parts import DealtPart
from pgrepl.replication.subscriber.apply.columns.rows_to_write import rows_to_write
from pgrepl.replication.wire.file_changes import of_slices
from pgrepl.replication.wire.message_files import MessageFile, read_numbers, write_numbers
from pgrepl.replication.wire.messages import SentRelation

if TYPE_CHECKING:
    from pgrepl.lake.kernels.part import PartWatch

Task = TypeVar("Task")
Answer = TypeVar("Answer")


@frozen
class Unfinished:
    """Why a kernel could not do its part: the sequence number of a message that is not clean; the reason why it
    declined; or the error of some row, which the exact way words."""

    obstacle: int | None = None
    declined: str = ""
    wrong: tuple[str, str] = ("", "")  # SQLSTATE and message


def _told(work: Callable[[Task, PartWatch], Answer], task: Task, watch: PartWatch) -> Answer | Unfinished:
    """Run a kernel. An obstacle that another attempt would meet, too, is answered, not raised: Spark repeats a task
    that raises."""
    try:
        watch.check()
        return work(task, watch)
    except NotClean as found:
        return Unfinished(obstacle=found.message)
    except Declined as reason:
        return Unfinished(declined=str(reason))
    except PgError as error:
        if not error.is_of_data:
            raise
        return Unfinished(wrong=(error.sqlstate, error.message))


@frozen
class PartToApply:
    """`number`: of the part; `rows`: the table's rows that may have its keys; `folder`: of the job, in the table's;
    `spill`: the prefix of names of temporary files. Messages before `since` do not concern the table."""

    described: DescribedTable
    sent: SentRelation
    part: DealtPart
    number: int
    since: int
    truncates: tuple[int, ...]
    rows: TableRows
    folder: str
    spill: str


@frozen
class LeftPositions:
    """A temporary file with the positions of the rows to delete of a data file."""

    data_file_id: int
    path: str
    count: int


@frozen
class AppliedPart:
    files: tuple[NewFile, ...]
    deletes: tuple[LeftPositions, ...]
    inlined: tuple[int, ...]  # row ids of inlined rows to delete
    kept: Mapping[tuple[int, ...], tuple[MessageFile, ...]]  # new rows' values of other unique indexes, by columns
    looked_up: Mapping[tuple[int, ...], int]  # number of keys looked up, by their columns


def apply_part(task: PartToApply, watch: PartWatch) -> AppliedPart | Unfinished:
    return _told(_apply, task, watch)


def _apply(task: PartToApply, watch: PartWatch) -> AppliedPart:
    described = task.described
    changes = of_slices(task.sent, task.part.slices)
    spill = f"{task.spill}.{uuid7()}"
    kept = KeptKeys(described.table, spill, task.number)
    decided = decide(
        described,
        changes,
        are_within(task.rows),
        since=task.since,
        truncates=task.truncates,
        kept=kept,
        again=False,
    )
    if not decided.changes.fits(described.new_places, MOST_BYTES):
        raise Declined("many large values in one part")
    files = []
    for rows in rows_to_write(described, decided):
        watch.check()
        for file in rows.write(task.folder):
            watch.add(file.record_count, file.file_size_bytes)
            files.append(file)
    deletes, inlined = leaving(decided)
    left = []
    for number, (file_id, positions) in enumerate(deletes if not task.truncates else ()):
        path = f"{spill}.{number}.positions"
        write_numbers(path, positions)
        left.append(LeftPositions(file_id, path, len(positions)))
    gone = () if task.truncates else tuple(inlined)
    return AppliedPart(tuple(files), tuple(left), gone, kept.files, dict(decided.looked_up))


@frozen
class ValuesToCheck:
    table: LakeTable
    attnums: tuple[int, ...]
    sent: SentRelation
    part: DealtPart
    rows: TableRows


def check_values(task: ValuesToCheck, watch: PartWatch) -> int | Unfinished:
    """The number of values that were looked up."""
    return _told(_check, task, watch)


def _check(task: ValuesToCheck, watch: PartWatch) -> int:
    return check_kept(task.table, task.attnums, of_slices(task.sent, task.part.slices), are_within(task.rows))


@frozen
class FileDeletes:
    """The positions to delete of one data file. `own`: its inlined deletes, as (position, snapshot)."""

    file: DataFile
    own: tuple[tuple[int, int], ...]
    left: tuple[LeftPositions, ...]

    @property
    def count(self) -> int:
        return sum(each.count for each in self.left)


@frozen
class DeletesToMerge:
    """`at`: the snapshot that is read; `likely`: the snapshot at which the rows will probably be deleted."""

    table: LakeTable
    files: tuple[FileDeletes, ...]
    at: int
    likely: int
    folder: str


def merge_deletes(task: DeletesToMerge, watch: PartWatch) -> list[StagedDeletes] | Unfinished:
    return _told(_merge, task, watch)


def _merge(task: DeletesToMerge, watch: PartWatch) -> list[StagedDeletes]:
    import numpy as np

    found = []
    for each in task.files:
        watch.check()
        listed: list[Any] = [read_numbers(left.path, np.int64) for left in each.left]
        positions = listed[0] if len(listed) == 1 else np.sort(np.concatenate(listed))
        found.append(stage_deletes(task.table, each.file, each.own, positions, task.at, task.likely, task.folder))
    return found
