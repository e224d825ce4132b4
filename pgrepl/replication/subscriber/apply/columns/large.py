"""Apply of more messages for one table than memory is to hold: they are divided into parts, which threads of this
process or tasks of Spark apply.

The driver holds only descriptions of files, no rows, keys or positions. Of the obstacles in all parts the first one in
the order of messages counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pgrepl.catalog.session.statistics import count_index_scans
from pgrepl.engine import run_kernels, spark
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.read.bounds import Bound
from pgrepl.lake.read.extent import TableRows, table_rows
from pgrepl.lake.read.part import Shared
from pgrepl.lake.storage import crash_point
from pgrepl.lake.write.delete_files import StagedDeletes
from pgrepl.replication.subscriber.apply.columns.apply_part import (
    AppliedPart,
    DeletesToMerge,
    FileDeletes,
    LeftPositions,
    PartToApply,
    TableOfPart,
    Unfinished,
    ValuesToCheck,
    apply_part,
    check_values,
    merge_deletes,
)
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable
from pgrepl.replication.subscriber.apply.columns.fold import IndexValues, NotClean, index_relation
from pgrepl.replication.subscriber.apply.columns.keys import lots
from pgrepl.replication.subscriber.apply.columns.partitions import PartitionTree
from pgrepl.replication.subscriber.apply.columns.parts import DealtPart, Play, as_they_are, by_key, values_of
from pgrepl.replication.subscriber.apply.columns.recorded import LoggedTable, MissedMessages, joined
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.replication.wire.message_files import MessageFile
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import NewFile
    from pgrepl.lake.read.part import Kernel
    from pgrepl.lake.table import LakeTable
    from pgrepl.lake.write.statement import Write
    from pgrepl.replication.subscriber.conflicts import Foreign


Answer = TypeVar("Answer")

_POSITIONS = 1 << 20  # that one task merges, about


@frozen
class LargeTarget:
    """A table that takes changes, or a leaf of a partitioned one. `truncates`: sequence numbers. `is_told`: whether old
    rows can be looked for. `log`: of the changes."""

    write: Write
    described: DescribedTable
    truncates: tuple[int, ...]
    is_told: bool = True
    foreign: Foreign | None = None
    log: tuple[Write, LoggedTable] | None = None


class LargeApply:
    """`targets`: the table, or the leaves of the `tree`, by OID. `play` has to do with rows, `number` only with their
    keys and positions. `most`: messages that are held in memory together."""

    def __init__(
        self,
        session: Session,
        targets: Mapping[int, LargeTarget],
        tree: PartitionTree | None,
        play: Play,
        number: Play,
        most: int,
    ) -> None:
        self._session = session
        self._targets = targets
        self._tree = tree
        self._play = play
        self._number = number
        self._most = most
        self._first = next(iter(targets.values()))  # all have the same key
        self.missed: dict[int, MissedMessages] = {}

    def stage(self, messages: MessageFiles, since: int, spill: str) -> dict[int, frozenset[int]]:
        """Apply the messages, and enter the files into the writes: the kinds of the messages that each table has got.
        `spill`: the prefix of names of temporary files."""
        with ExitStack() as stack:
            folders = {
                oid: stack.enter_context(run_kernels.job_folder(target.write.table))
                for oid, target in self._targets.items()
            }
            logs = {t.log[0].table.oid: t.log[0].table for t in self._targets.values() if t.log is not None}
            log_folders = {oid: stack.enter_context(run_kernels.job_folder(table)) for oid, table in logs.items()}
            tasks = list(self._tasks(messages, since, spill, folders, log_folders))
            answers, obstacles = done(self._play("apply", tasks, apply_part))
            crash_point("columns.part")
            applied: dict[int, list[AppliedPart]] = {}
            for answer in answers:
                for part in answer:
                    applied.setdefault(part.oid, []).append(part)
            obstacles += self._other_obstacles(applied)
            if obstacles:
                raise NotClean(min(obstacles))
            merged = self._merged(applied, folders)
            for oid, own in applied.items():
                self._arrive(self._targets[oid], folders[oid], own, merged.get(oid, []))
            self._log(applied, log_folders)
        for target in self._targets.values():
            if target.truncates:
                target.write.truncate()
        self.missed = {oid: joined(part.missed for part in own) for oid, own in applied.items()}
        return {oid: frozenset().union(*(part.ops for part in own)) for oid, own in applied.items()}

    def _arrive(
        self, target: LargeTarget, folder: str, applied: Sequence[AppliedPart], merged: Sequence[StagedDeletes]
    ) -> None:
        files = [file for part in applied for file in part.files]
        delete_files = [staged.file for staged in merged if staged.file is not None]
        taken: list[Any] = run_kernels.take(target.write.table, folder, [*files, *delete_files])
        target.write.insert_files(taken[: len(files)])
        deletes = iter(taken[len(files) :])
        target.write.insert_deletes(replace(staged, file=staged.file and next(deletes)) for staged in merged)
        target.write.delete_inlined(row_id for part in applied for row_id in part.inlined)

    def _log(self, applied: Mapping[int, Sequence[AppliedPart]], folders: Mapping[int, str]) -> None:
        """Enter the files of logs into their writes. Leaves of one table share a log, whose folder is emptied once."""
        logged: dict[int, tuple[Write, list[NewFile]]] = {}
        for oid, own in applied.items():
            log = self._targets[oid].log
            if log is not None:
                files = logged.setdefault(log[0].table.oid, (log[0], []))[1]
                files += [file for part in own for file in part.logged]
        for oid, (write, files) in logged.items():
            write.insert_files(run_kernels.take(write.table, folders[oid], files))

    def _other_obstacles(self, applied: Mapping[int, Sequence[AppliedPart]]) -> list[int]:
        obstacles: list[int] = []
        for oid, own in applied.items():
            write = self._targets[oid].write
            others = OtherValues(self._session, write.table, _snapshot(write), self._most, self._play)
            for part in own:
                others.take(part.kept)
                for attnums, count in part.looked_up.items():
                    count_index_scans(self._session, oid, attnums, count)
            obstacles += others.check()
        return obstacles

    # --- parts --------------------------------------------------------------------------------------------------------

    def _tasks(
        self, messages: MessageFiles, since: int, spill: str, folders: Mapping[int, str], log_folders: Mapping[int, str]
    ) -> Iterator[PartToApply]:
        tree = None if self._tree is None else Shared(self._tree)
        described = {oid: Shared(target.described) for oid, target in self._targets.items()}
        foreign = {oid: None if t.foreign is None else Shared(t.foreign) for oid, t in self._targets.items()}
        logs = {
            oid: None if t.log is None else (Shared(t.log[1]), log_folders[t.log[0].table.oid])
            for oid, t in self._targets.items()
        }
        for number, (part, rows) in enumerate(self._parts(messages)):
            tables = {
                oid: TableOfPart(
                    described[oid], target.truncates, rows[oid], folders[oid], target.is_told, foreign[oid], logs[oid]
                )
                for oid, target in self._targets.items()
            }
            yield PartToApply(messages.relation, part, number, since, spill, tables, tree)

    def _parts(self, messages: MessageFiles) -> Iterator[tuple[DealtPart, dict[int, TableRows]]]:
        described = self._first.described
        if not described.keys.attnums:
            nothing = {oid: TableRows(_snapshot(target.write), (), {}, (), ()) for oid, target in self._targets.items()}
            yield from ((part, nothing) for part in as_they_are(messages))
            return
        rows_of_parts = {
            oid: _RowsOfParts(self._session, target.write.table, _snapshot(target.write), target.described.keys.attnums)
            for oid, target in self._targets.items()
        }
        for part in by_key(messages, values_of(described), self._most, self._number):
            yield part, {oid: rows.of(part) for oid, rows in rows_of_parts.items()}

    def _merged(
        self, applied: Mapping[int, Sequence[AppliedPart]], folders: Mapping[int, str]
    ) -> dict[int, list[StagedDeletes]]:
        """The delete files of all data files that lose rows, by table."""
        tasks: list[DeletesToMerge] = []
        whose: list[int] = []
        for oid, own in applied.items():
            for task in self._to_merge(self._targets[oid].write, own, folders[oid]):
                tasks.append(task)
                whose.append(oid)
        answers, _ = done(self._number("deletes", tasks, merge_deletes)) if tasks else ([], [])
        merged: dict[int, list[StagedDeletes]] = {}
        for oid, answer in zip(whose, answers, strict=True):
            merged.setdefault(oid, []).extend(answer)
        return merged

    def _to_merge(self, write: Write, applied: Sequence[AppliedPart], folder: str) -> Iterator[DeletesToMerge]:
        left: dict[int, list[LeftPositions]] = {}
        for answer in applied:
            for positions in answer.deletes:
                left.setdefault(positions.data_file_id, []).append(positions)
        if not left:
            return
        table, snapshot = write.table, _snapshot(write)
        rows = table_rows(self._session, table, snapshot, ())
        files = [
            FileDeletes(file, tuple(rows.deletes.get(file.data_file_id, ())), tuple(left[file.data_file_id]))
            for file in rows.files
            if file.data_file_id in left
        ]
        likely = write.likely_snapshot()
        for lot in lots(files, lambda file: file.count, _POSITIONS):
            yield DeletesToMerge(table, tuple(lot), snapshot, likely, folder)


def _snapshot(write: Write) -> int:
    assert write.snapshot is not None, "rows are looked for before the write lock is held"
    return write.snapshot


class OtherValues:
    """New rows' values of unique indexes besides the one that parts are divided by. They are kept until all parts are
    applied, and then checked for duplicates."""

    def __init__(self, session: Session, table: LakeTable, snapshot: int, most: int, play: Play) -> None:
        self._session = session
        self._table = table
        self._snapshot = snapshot
        self._most = most
        self._play = play
        self._kept: dict[tuple[int, ...], list[MessageFile]] = {}

    def take(self, kept: Mapping[tuple[int, ...], Sequence[MessageFile]]) -> None:
        for attnums, files in kept.items():
            self._kept.setdefault(attnums, []).extend(files)

    def check(self) -> list[int]:
        """The sequence numbers of messages whose values another row has."""
        tasks: list[ValuesToCheck] = []
        for attnums, files in self._kept.items():
            sent = index_relation(self._table, attnums)
            values = IndexValues(tuple([self._table.column(attnum) for attnum in attnums]))
            rows = _RowsOfParts(self._session, self._table, self._snapshot, attnums)
            for part in by_key(MessageFiles(sent, tuple(files)), values, self._most, self._play):
                tasks.append(ValuesToCheck(self._table, attnums, sent, part, rows.of(part)))
        counts, obstacles = done(self._play("unique indexes", tasks, check_values)) if tasks else ([], [])
        for task, count in zip(tasks, counts, strict=False):
            count_index_scans(self._session, self._table.oid, task.attnums, count)
        return obstacles


class _RowsOfParts:
    """The table's rows that may have the keys of parts. Only of one whole number do the files' bounds tell."""

    def __init__(self, session: Session, table: LakeTable, snapshot: int, attnums: Sequence[int]) -> None:
        self._read = partial(table_rows, session, table, snapshot, table.columns)
        self._key = attnums[0] if len(attnums) == 1 and table.column(attnums[0]).typoid in oids.INTEGERS else 0
        self._all: TableRows | None = None

    def of(self, part: DealtPart) -> TableRows:
        if self._key:
            return self._read([Bound(self._key, part.low, part.high)])
        if self._all is None:
            self._all = self._read()
        return self._all


def done(answers: Sequence[Answer | Unfinished]) -> tuple[list[Answer], list[int]]:
    """The answers of parts that were done, and the sequence numbers of messages that are not clean."""
    finished, obstacles = [], []
    for answer in answers:
        if not isinstance(answer, Unfinished):
            finished.append(answer)
        elif answer.obstacle is not None:
            obstacles.append(answer.obstacle)
        elif answer.declined:
            raise Declined(answer.declined)
        else:
            raise PgError(*answer.wrong)
    return finished, obstacles


def player(session: Session, what: str, *, on_spark: bool, check: Callable[[], None]) -> Play:
    """A function that runs kernels on pieces of work. `what` describes the work in Spark's UI."""

    def play(step: str, pieces: Sequence[Any], kernel: Kernel) -> list[Any]:
        with spark.described(f"{what}: {step}"):
            return run_kernels.run_parts_apart(session, pieces, kernel, on_spark=on_spark, check=check)

    return play
