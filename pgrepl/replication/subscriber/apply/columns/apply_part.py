"""The kernels of a large batch, each of which does one part of the work. They ask no session; their answers describe
files.

    apply_part      apply the messages of some keys: writes data files, and files of the positions to delete
    check_values    check new rows with some values of a unique index for duplicates
    merge_deletes   merge the positions to delete of some data files into delete files
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np
from pgrepl.lake.read.data_file import DataFile, NewFile
from pgrepl.lake.read.extent import TableRows, are_within
from pgrepl.lake.read.part import Shared
from pgrepl.lake.storage import uuid7
from pgrepl.lake.table import LakeTable
from pgrepl.lake.write.delete_files import StagedDeletes, stage_deletes
from pgrepl.replication.subscriber.apply.columns.decide import LeafChanges, decide, leaving, rows_to_write
from pgrepl.replication.subscriber.apply.columns.described import MOST_BYTES, DescribedTable
from pgrepl.replication.subscriber.apply.columns.fold import KeptKeys, NotClean, check_kept
from pgrepl.replication.subscriber.apply.columns.partitions import by_leaf
from pgrepl.replication.subscriber.apply.columns.parts import DealtPart
from pgrepl.replication.subscriber.apply.columns.recorded import MissedMessages, missed_messages
from pgrepl.replication.wire.batch import RelationChanges
from pgrepl.replication.wire.file_changes import of_slices
from pgrepl.replication.wire.message_files import MessageFile, read_numbers, write_numbers
from pgrepl.replication.wire.messages import SentRelation

if TYPE_CHECKING:
    from pgrepl.lake.read.part import PartWatch

Task = TypeVar("Task")
Answer = TypeVar("Answer")


@frozen
class Unfinished:
    """Why a kernel could not do its part: the sequence number of a message that is not clean; the reason why it
    declined; or the error of some row, which the exact way words."""

    obstacle: int | None = None
    declined: str = ""
    wrong: tuple[str, str] = ("", "")  # SQLSTATE and message


def _answering(work: Callable[[Task, PartWatch], Answer]) -> Callable[[Task, PartWatch], Answer | Unfinished]:
    """A kernel that answers what another attempt would meet, too, and does not raise it: Spark repeats a task that
    raises, on another machine."""

    @wraps(work)
    def told(task: Task, watch: PartWatch) -> Answer | Unfinished:
        try:
            watch.check()
            return work(task, watch)
        except NotClean as obstacle:
            return Unfinished(obstacle=obstacle.message)
        except Declined as reason:
            return Unfinished(declined=str(reason))
        except PgError as error:
            if error.is_of_machine:
                raise
            return Unfinished(wrong=(error.sqlstate, error.message))

    return told


@frozen
class TableOfPart:
    """`described`: the table, or a leaf of a partitioned one (a DescribedTable, which parts share). `rows`: those that
    may have the part's keys; `folder`: of the job, in the table's. `is_told`: whether old rows can be looked for;
    `foreign`: what other origins have written (a Foreign, which parts share), if conflicts are kept; `log`: of the
    changes (a LoggedTable, which parts share), and the job's folder there."""

    described: Shared
    truncates: tuple[int, ...]
    rows: TableRows
    folder: str
    is_told: bool = True
    foreign: Shared | None = None
    log: tuple[Shared, str] | None = None

    @property
    def table(self) -> DescribedTable:
        table: DescribedTable = self.described.value
        return table


@frozen
class PartToApply:
    """`number`: of the part; `tree`: of a partitioned table, which parts share, whose leaves are the `tables`; `spill`:
    the prefix of names of temporary files. Messages before `since` do not concern the tables."""

    sent: SentRelation
    part: DealtPart
    number: int
    since: int
    spill: str
    tables: Mapping[int, TableOfPart]  # by OID
    tree: Shared | None = None


@frozen
class LeftPositions:
    """A temporary file with the positions of the rows to delete of a data file."""

    data_file_id: int
    path: str
    count: int


@frozen
class AppliedPart:
    """The result of a part for one table."""

    oid: int
    ops: frozenset[int]  # the kinds of its messages
    files: tuple[NewFile, ...]
    deletes: tuple[LeftPositions, ...]
    inlined: tuple[int, ...]  # row ids of inlined rows to delete
    kept: Mapping[tuple[int, ...], tuple[MessageFile, ...]]  # new rows' values of other unique indexes, by columns
    looked_up: Mapping[tuple[int, ...], int]  # number of keys looked up, by their columns
    missed: MissedMessages
    logged: tuple[NewFile, ...] = ()  # of the table's log


@_answering
def apply_part(task: PartToApply, watch: PartWatch) -> list[AppliedPart]:
    """Apply the part to each of its leaves. Of the obstacles in several leaves the first one in the order of messages
    counts."""
    changes = of_slices(task.sent, task.part.slices)
    applied: list[AppliedPart] = []
    obstacles: list[int] = []
    for leaf_changes in _tables_of(task, changes):
        watch.check()
        try:
            applied.append(_to_table(task, leaf_changes, watch))
        except NotClean as obstacle:
            obstacles.append(obstacle.message)
    if obstacles:
        raise NotClean(min(obstacles))
    return applied


def _tables_of(task: PartToApply, changes: RelationChanges) -> list[LeafChanges]:
    if task.tree is None:
        (oid,) = task.tables
        return [LeafChanges(oid, changes, None)]

    # only tables with partitions need expressions, whose modules take as long to load as all others
    def check(leaf: int) -> None:
        if not task.tables[leaf].is_told:
            raise Declined("rows that are found without their partition key")

    return by_leaf(task.tree.value, changes, task.since, check)


def _to_table(task: PartToApply, leaf_changes: LeafChanges, watch: PartWatch) -> AppliedPart:
    own = task.tables[leaf_changes.leaf]
    described = own.table
    spill = f"{task.spill}.{uuid7()}"
    kept = KeptKeys(described.table, spill, task.number)
    decided = decide(
        described,
        leaf_changes.changes,
        are_within(own.rows),
        since=task.since,
        truncates=own.truncates,
        kept=kept,
        left=leaf_changes.left,
        again=False,
        looks=own.foreign is not None,
    )
    missed = missed_messages(decided, None if own.foreign is None else own.foreign.value, leaf_changes.left)
    if not decided.changes.fits(described.new_places, MOST_BYTES):
        raise Declined("many large values in one part")
    files = []
    for rows in rows_to_write(described, decided):
        watch.check()
        for file in rows.write(own.folder):
            watch.add(file.record_count, file.file_size_bytes)
            files.append(file)
    logged = []
    if own.log is not None:
        logged = own.log[0].value.write(described, decided, task.since, own.log[1])
    deletes, inlined = leaving(decided)
    left = []
    for number, (file_id, positions) in enumerate(deletes if not own.truncates else ()):
        path = f"{spill}.{number}.positions"
        write_numbers(path, positions)
        left.append(LeftPositions(file_id, path, len(positions)))
    gone = () if own.truncates else tuple(inlined)
    ops = frozenset(np.unique(leaf_changes.changes.op[leaf_changes.changes.seq >= task.since]).tolist())
    looked_up = dict(decided.looked_up)
    return AppliedPart(
        leaf_changes.leaf, ops, tuple(files), tuple(left), gone, kept.files, looked_up, missed, tuple(logged)
    )


@frozen
class ValuesToCheck:
    table: LakeTable
    attnums: tuple[int, ...]
    sent: SentRelation
    part: DealtPart
    rows: TableRows


@_answering
def check_values(task: ValuesToCheck, watch: PartWatch) -> int:
    """The number of values that were looked up."""
    return check_kept(task.table, task.attnums, of_slices(task.sent, task.part.slices), are_within(task.rows))


@frozen
class FileDeletes:
    """The positions to delete of one data file. `own`: its inlined deletes, as (position, snapshot)."""

    file: DataFile
    own: tuple[tuple[int, int], ...]
    left: tuple[LeftPositions, ...]

    @property
    def count(self) -> int:
        return sum(positions.count for positions in self.left)


@frozen
class DeletesToMerge:
    """`at`: the snapshot that is read; `likely`: the snapshot at which the rows will probably be deleted."""

    table: LakeTable
    files: tuple[FileDeletes, ...]
    at: int
    likely: int
    folder: str


@_answering
def merge_deletes(task: DeletesToMerge, watch: PartWatch) -> list[StagedDeletes]:
    staged = []
    for deletes in task.files:
        watch.check()
        listed: list[Any] = [read_numbers(left.path, np.int64) for left in deletes.left]
        positions = listed[0] if len(listed) == 1 else np.sort(np.concatenate(listed))
        staged.append(
            stage_deletes(task.table, deletes.file, deletes.own, positions, task.at, task.likely, task.folder)
        )
    return staged
