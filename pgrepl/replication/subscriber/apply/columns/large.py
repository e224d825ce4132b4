"""Apply of more messages for one table than memory is to hold: they are divided into parts, which threads of this
process or tasks of Spark apply.

The driver holds only descriptions of files, no rows, keys or positions. Of the obstacles in all parts the first one in
the order of messages counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pgrepl.catalog.statistics import count_index_scans
from pgrepl.engine import Declined
from pgrepl.errors import PgError
from pgrepl.lake.bounds import Bound
from pgrepl.lake.crash_points import crash_point
from pgrepl.lake.kernels import job
from pgrepl.lake.staged_deletes import StagedDeletes
from pgrepl.lake.table_rows import TableRows, table_rows
from pgrepl.replication.subscriber.apply.columns.apply_part import (
    AppliedPart,
    DeletesToMerge,
    FileDeletes,
    LeftPositions,
    PartToApply,
    Unfinished,
    ValuesToCheck,
    apply_part,
    check_values,
    merge_deletes,
)
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable
from pgrepl.replication.subscriber.apply.columns.fold import NotClean
from pgrepl.replication.subscriber.apply.columns.other_keys import IndexValues, index_relation
from pgrepl.replication.subscriber.apply.columns.parts import DealtPart, Play, as_they_are, by_key, values_of
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.replication.wire.message_files import MessageFile
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.data_file import NewDeletes, NewFile
    from pgrepl.lake.kernels.part import Kernel
    from pgrepl.lake.table import LakeTable
    from pgrepl.lake.write import Write

Answer = TypeVar("Answer")

_POSITIONS = 1 << 20  # that one task merges, about


class LargeApply:
    """`most`: messages that are held in memory together. `moves`: the most keys that may change (None: any number)."""

    def __init__(
        self, session: Session, write: Write, described: DescribedTable, play: Play, most: int, moves: int | None
    ) -> None:
        assert write.snapshot is not None, "rows are looked for before the write lock is held"
        self._session = session
        self._write = write
        self._table = write.table
        self._snapshot: int = write.snapshot
        self._described = described
        self._play = play
        self._most = most
        self._moves = moves

    def stage(self, messages: MessageFiles, since: int, truncates: Sequence[int], spill: str) -> None:
        """Apply the messages, and enter the files into the write. `spill`: the prefix of names of temporary files."""
        table, write, described = self._table, self._write, self._described
        with job.job_folder(table) as folder:
            tasks = [
                PartToApply(
                    described, messages.relation, part, number, since, tuple(sorted(truncates)), rows, folder, spill
                )
                for number, (part, rows) in enumerate(self._parts(messages))
            ]
            applied, obstacles = done(self._play("apply", tasks, apply_part))
            crash_point("columns.part")
            others = OtherValues(self._session, table, self._snapshot, self._most, self._play)
            for answer in applied:
                others.take(answer.kept)
                for attnums, count in answer.looked_up.items():
                    count_index_scans(self._session, table.oid, attnums, count)
            obstacles += others.check()
            if obstacles:
                raise NotClean(min(obstacles))
            merged = self._merged(applied, folder)
            files = [file for answer in applied for file in answer.files]
            made = [each.file for each in merged if each.file is not None]
            taken: list[NewFile | NewDeletes] = job.take(table, folder, [*files, *made])
        self._arrive(taken[: len(files)], taken[len(files) :], merged)
        if truncates:
            write.truncate()
        else:
            write.delete_inlined(row_id for answer in applied for row_id in answer.inlined)

    def _arrive(self, files: Sequence[Any], deletes: Sequence[Any], merged: Sequence[StagedDeletes]) -> None:
        from dataclasses import replace

        self._write.insert_files(files)
        made = iter(deletes)
        self._write.insert_deletes(replace(each, file=each.file and next(made)) for each in merged)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _parts(self, messages: MessageFiles) -> Iterator[tuple[DealtPart, TableRows]]:
        attnums = self._described.keys.attnums
        if not attnums:
            nothing = TableRows(self._snapshot, (), {}, (), ())
            yield from ((part, nothing) for part in as_they_are(messages))
            return
        rows = _RowsOfParts(self._session, self._table, self._snapshot, attnums)
        for part in by_key(messages, values_of(self._described), self._most, self._play, self._moves):
            yield part, rows.of(part)

    def _merged(self, applied: Sequence[AppliedPart], folder: str) -> list[StagedDeletes]:
        """The delete files of all data files that lose rows."""
        left: dict[int, list[LeftPositions]] = {}
        for answer in applied:
            for each in answer.deletes:
                left.setdefault(each.data_file_id, []).append(each)
        if not left:
            return []
        rows = table_rows(self._session, self._table, self._snapshot, ())
        found = [
            FileDeletes(file, tuple(rows.deletes.get(file.data_file_id, ())), tuple(left[file.data_file_id]))
            for file in rows.files
            if file.data_file_id in left
        ]
        likely = self._write.likely_snapshot()
        tasks = [DeletesToMerge(self._table, tuple(lot), self._snapshot, likely, folder) for lot in _lots(found)]
        merged, _ = done(self._play("deletes", tasks, merge_deletes))
        return [staged for answer in merged for staged in answer]


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
    found, obstacles = [], []
    for answer in answers:
        if not isinstance(answer, Unfinished):
            found.append(answer)
        elif answer.obstacle is not None:
            obstacles.append(answer.obstacle)
        elif answer.declined:
            raise Declined(answer.declined)
        else:
            raise PgError(*answer.wrong)
    return found, obstacles


def _lots(found: Sequence[FileDeletes]) -> Iterator[list[FileDeletes]]:
    lot: list[FileDeletes] = []
    count = 0
    for each in found:
        lot.append(each)
        count += each.count
        if count >= _POSITIONS:
            yield lot
            lot, count = [], 0
    if lot:
        yield lot


def player(session: Session, what: str, *, on_spark: bool, check: Callable[[], None]) -> Play:
    """A function that runs kernels on pieces of work. `what` describes the work in Spark's UI."""
    from pgrepl.lake import spark

    def play(step: str, pieces: Sequence[Any], kernel: Kernel) -> list[Any]:
        with spark.described(f"{what}: {step}"):
            return job.play_apart(session, pieces, kernel, on_spark=on_spark, check=check)

    return play
