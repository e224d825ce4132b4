"""The transactions of files of changes as columns, read by tasks of Spark (stream.py: by this process).

A file whose records are lines is divided into ranges of bytes. A task decides the records of its files or range and
writes messages beside the data. The driver follows the answers in the files' order, with line numbers and transactions
that are in more than one part. Which numbers the lines of a range have is known when all ranges before it have been
read.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from pgrepl.engine import run_kernels, spark
from pgrepl.engine.task import NoWatch
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np
from pgrepl.lake import storage
from pgrepl.lake.read.part import Shared
from pgrepl.replication.formats.event import BEGIN, ChangeEvent, RecordPlace
from pgrepl.replication.publisher.files.columns import check_owner
from pgrepl.replication.publisher.files.cursor import EndOfFile, Rejects
from pgrepl.replication.publisher.files.declared import Declarations
from pgrepl.replication.publisher.files.file_part import (
    DescribedName,
    FilePart,
    HowToRead,
    Name,
    NotByTasks,
    PartsToRead,
    ReadPart,
    described,
    read_parts,
)
from pgrepl.replication.publisher.files.memory import NumberedFile, ReadFile, file_of
from pgrepl.replication.publisher.files.source import combined
from pgrepl.replication.publisher.files.stream import end_of_stream
from pgrepl.replication.publisher.files.transactions import Boundaries, Ended, Step
from pgrepl.replication.wire.batch import Transactions, WireBatch, columns_of
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.replication.wire.message_files import MessageFile, MessageFolder
from pgrepl.replication.wire.messages import SentRelation, TruncateMessage

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.formats.event import ColumnTypes, Reader


Numbers = npt.NDArray[Any]
MOST = 8_000_000  # records of a batch, about
TRIED = 1 << 18  # bytes that are read here, to know the tables and how large a record is
_MARKED = frozenset(("maxwell",))  # formats whose readers make the marks of transactions
SIZE = 32 << 20  # bytes of a part
_LOOK = 4096
_PIECE = 1 << 20
SEQ_BITS = 32  # of a sequence number: the record in its part


class SparkReading:
    """Reads batch after batch from an LSN on."""

    is_over = False

    def __init__(
        self,
        divided: DividedFiles,
        how: HowToRead,
        types: ColumnTypes,
        rejects: Rejects,
        start: int,
        check: Callable[[], None],
        *,
        is_closed: bool,
    ) -> None:
        self.position = start  # the next batch begins here
        self.end: int | None = None  # see FileStream.end
        self._divided = divided
        self._how = how
        self._types = types
        self._rejects = rejects
        self._check = check
        self._is_closed = is_closed

    def what_was_read(self) -> dict[int, ReadFile]:
        return self._divided.what_was_read()

    def close(self) -> None:
        return

    def batch(self, session: Session, declared: Declarations, end: int, least: int) -> WireBatch | None:
        """Whole transactions that finish before `end`; None: there are fewer than about `least` changes. Declined,
        PgError or NotSendable: they must be sent message by message. NotByTasks: this process has to read them."""
        self._rejects.forget_from(self.position)
        folder = MessageFolder(session.catalog.data_path)
        try:
            describe = partial(described, session, declared, self._types)
            tasks = _Tasks(session, self._how, describe, folder.shared())
            following = _Following(self._divided, self._rejects, self.position, self._how, is_closed=self._is_closed)
            self._read(following, tasks, end)
            batch = None if following.count < least else self._batch(following, declared, folder, end)
            if batch is None:
                folder.close()
            return batch
        except BaseException:
            folder.close()
            raise

    def _read(self, following: _Following, tasks: _Tasks, end: int) -> None:
        parts = self._divided.parts(self.position, self._check)
        first = next(parts, None)
        if first is None:
            return
        waiting = chain([first], parts)
        size = MOST * tasks.tried(first)
        room = run_kernels.parallelism(on_spark=True) * SIZE
        while taken := list(_up_to(waiting, max(size, room))):
            for part, answer in zip(taken, tasks.read(taken), strict=True):
                following.follow(part, answer)
                if following.stopped is not None:
                    return
            if following.has_ended and (following.count >= MOST or following.last_finish >= end):
                return
            size = (MOST - following.count) * following.size / max(following.count, 1)

    def _batch(
        self, following: _Following, declared: Declarations, folder: MessageFolder, end: int
    ) -> WireBatch | None:
        truncates = list(following.truncates(declared))
        columns = following.columns()
        transactions = Transactions.of(*columns.T)
        count, stopped = transactions.since(end), following.stopped
        if stopped is not None:
            count = min(count, transactions.holding(stopped[0]))
        self.end = following.end if count == len(transactions) and stopped is None else None
        if not count:
            if stopped is not None:
                raise Declined(stopped[1])
            return None
        last = transactions[count - 1]
        self.position = last.end_lsn if self.end is None else max(self.end, last.end_lsn)
        files = [MessageFiles(relation, tuple(own)) for relation, own in following.files.values()]
        kept = Transactions.of(*columns[:count][following.sends(columns[:count])].T)
        batch = WireBatch(kept, tuple(files), tuple(truncates), folder.close)
        return batch.until(last.last_seq + 1) if len(kept) else WireBatch((), (), (), folder.close)


class _Tasks:
    """Reads parts by tasks of Spark, of about equal sizes."""

    def __init__(self, session: Session, how: HowToRead, describe: Callable[[Name], DescribedName], path: str) -> None:
        """`describe`: what a table's name means."""
        self._session = session
        self._how = how
        self._describe = describe
        self._names: dict[Name, DescribedName] = {}
        self._path = path

    def tried(self, part: FilePart) -> float:
        """About how large a record is, by the first ones, which are read here: so their tables are known, too. 0: the
        file is read as a whole."""
        if part.end is None:
            return 0
        end = min(part.start + TRIED, part.end)
        (answer,) = self._played([replace(part, end=end)], lambda tasks: [read_parts(lot, NoWatch()) for lot in tasks])
        return (end - part.start) / max(answer.lines, 1)

    def read(self, parts: Sequence[FilePart]) -> list[ReadPart]:
        return self._played(
            parts,
            partial(run_kernels.run_parts_apart, self._session, kernel=read_parts, on_spark=True, check=lambda: None),
        )

    def _played(
        self, parts: Sequence[FilePart], play: Callable[[list[PartsToRead]], list[list[ReadPart]]]
    ) -> list[ReadPart]:
        """The answers in the order of the parts. Parts with tables that they were not told about are read once more."""
        answers_by_part: dict[FilePart, ReadPart] = {}
        left = list(parts)
        while left:
            tables = Shared(dict(self._names))
            tasks = [PartsToRead(lot, tables, self._how, self._path) for lot in _lots(left)]
            with spark.described("files of changes: read"):
                answers = [read_part for answer in play(tasks) for read_part in answer]
            answers_by_part.update(zip(left, answers, strict=True))
            if any(answer.is_unseen for answer in answers):
                raise NotByTasks("executors do not see the files")
            for name in set().union(*(answer.unknown for answer in answers)):
                self._names[name] = self._describe(name)
            left = [part for part, answer in zip(left, answers, strict=True) if answer.unknown]
        return [answers_by_part[part] for part in parts]


def _size(part: FilePart) -> int:
    return (part.file.size if part.end is None else part.end) - part.start


def _up_to(parts: Iterator[FilePart], size: float) -> Iterator[FilePart]:
    """The next parts, until they have so many bytes."""
    taken = 0
    while taken < size and (part := next(parts, None)) is not None:
        taken += _size(part)
        yield part


def _lots(parts: Sequence[FilePart]) -> Iterator[tuple[FilePart, ...]]:
    """Parts that follow each other, together of the size of one part: small files are one task."""
    lot: list[FilePart] = []
    taken = 0
    for part in parts:
        if lot and taken + _size(part) > SIZE:
            yield tuple(lot)
            lot, taken = [], 0
        lot.append(part)
        taken += _size(part)
    if lot:
        yield tuple(lot)


class _Following:
    """Goes through the answers in the order of the files, from an LSN on: finds transactions, collects messages."""

    def __init__(self, divided: DividedFiles, rejects: Rejects, start: int, how: HowToRead, *, is_closed: bool) -> None:
        self.count = self.size = 0  # of records and bytes
        self.end: int | None = None
        self.stopped: tuple[int, str] | None = None
        self.files: dict[int, tuple[SentRelation, list[MessageFile]]] = {}  # by relid
        self.last_finish = 0
        self._divided = divided
        self._rejects = rejects
        self._reached = start
        self._makes_marks = how.format in _MARKED
        self._is_closed = is_closed
        self._is_cut = False  # the last file ends within a line
        self._boundaries = Boundaries()
        self._columns: list[Numbers] = []
        self._sends: list[Numbers] = []
        self._owners: dict[int, int] = {}
        self._truncations: list[tuple[int, ChangeEvent]] = []

    @property
    def has_ended(self) -> bool:
        return bool(self._columns)

    def follow(self, part: FilePart, answer: ReadPart) -> None:
        file = NumberedFile(part.number, part.file, None)
        before = self._divided.lines_before(part)
        self._divided.note(part, answer)
        self.count += answer.count
        self.size += _size(part)
        self._boundaries.file_time = part.file.modified // 1000
        lsn = file.lsn(before)
        for n, step in enumerate(answer.head):
            self._step(step.moved(lsn), joins=not n and part.start > 0)
        if len(answer.whole):
            self._take_whole(answer.whole, lsn)
        for step in answer.tail:
            self._step(step.moved(lsn))
        self._collect(file, before, answer)
        self._is_cut |= answer.is_cut
        self.stopped = answer.stopped
        if self.stopped is None and self._divided.ends_file(part):
            ended = self._boundaries.end_of_file(is_cut=self._is_cut)
            self._take(ended)
            if self._divided.is_last(part):
                item = EndOfFile(file, True, self._is_cut)
                self.end = end_of_stream(item, self._boundaries, ended, self._reached, self._is_closed)

    def _step(self, step: Step, *, joins: bool = False) -> None:
        """`joins`: the step is the first of a part that goes on in a file. A reader that makes marks of its own begins
        a transaction there, be it the same or another one."""
        boundaries = self._boundaries
        if joins and self._makes_marks and step.kind == BEGIN and boundaries.is_within_marks:
            if boundaries.xid == step.xid:
                return
            self._take(boundaries.commit(boundaries.xid, step.lsn, step.seq, step.at))
        self._take(step.followed_by(boundaries))

    def _take(self, ended: Ended | None) -> None:
        if ended is not None:
            self._arrive(columns_of([ended.transaction]))

    def _take_whole(self, whole: Numbers, lsn: int) -> None:
        if self._boundaries.is_within_marks:
            raise Declined("records of several transactions between two marks")
        self._take(self._boundaries.end())
        self._arrive(whole + np.array([0, lsn, lsn, 0, 0, 0]))

    def _arrive(self, columns: Numbers) -> None:
        self._columns.append(columns)
        self.last_finish, self._reached = int(columns[-1, 1]), int(columns[-1, 2])

    def _collect(self, file: NumberedFile, before: int, answer: ReadPart) -> None:
        for relation, own in answer.files:
            self.files.setdefault(relation.relid, (relation, []))[1].extend(own)
        for relid, table in answer.owners:
            check_owner(self._owners, relid, table)
        self._sends.append(answer.sends)
        self._truncations += answer.truncations
        for reject in answer.rejects:
            number = before + reject.number
            place = RecordPlace(file.file.shown, number)
            self._rejects.take(reject.error(place), file.lsn(number), reject.event)

    # --- what was found -----------------------------------------------------------------------------------------------

    def columns(self) -> Numbers:
        return np.concatenate(self._columns) if self._columns else columns_of([])

    def sends(self, columns: Numbers) -> Numbers:
        """A mask of the transactions that have messages."""
        sends = np.zeros(len(columns) + 1, np.bool_)
        for seq in self._sends:
            sends[np.searchsorted(columns[:, 5], seq)] = True
        return sends[:-1]

    def truncates(self, declared: Declarations) -> Iterator[tuple[int, TruncateMessage]]:
        for seq, event in self._truncations:
            try:
                for message in declared.messages(event):
                    assert isinstance(message, TruncateMessage)
                    yield seq, message
            except PgError as error:
                self.stopped = min(self.stopped or (seq, error.message), (seq, error.message))
                return


# --- parts of files ---------------------------------------------------------------------------------------------------


@frozen
class _Reached:
    """The place of a file behind `lines` lines; `checksum`: of the bytes before it."""

    offset: int
    lines: int
    checksum: int


class DividedFiles:
    def __init__(self, files: Sequence[NumberedFile], reader: Reader, *, is_closed: bool, is_sorted: bool) -> None:
        self.files = files
        self._reader = reader
        self._is_closed = is_closed  # nothing is written behind the last one
        self._is_sorted = is_sorted
        self._reached: dict[int, list[_Reached]] = {}  # by the file's number, ascending
        self._divisible: dict[int, bool] = {}
        self._read: dict[int, ReadFile] = {}

    def parts(self, start: int, check: Callable[[], None]) -> Iterator[FilePart]:
        """The parts of the files from the record at an LSN on."""
        count = 0
        for file in self.files:
            if file.number < file_of(start):
                continue
            first = start - file.lsn(0) if file.number == file_of(start) else 0
            for part in self._of_file(file, max(first, 0), count, check):
                yield part
                count += 1

    def is_last(self, part: FilePart) -> bool:
        return part.number == self.files[-1].number and self.ends_file(part)

    @staticmethod
    def ends_file(part: FilePart) -> bool:
        return part.end is None or part.end >= part.file.size

    def _of_file(self, file: NumberedFile, first: int, count: int, check: Callable[[], None]) -> Iterator[FilePart]:
        is_open = file.number == self.files[-1].number and not self._is_closed
        size = file.file.size
        if not self._is_divided(file):
            yield FilePart(file.file, file.number, 0, None, first, is_open, _first_seq(count))
            return
        begin = self._before(file, first, check)
        start, first = begin.offset, max(first - begin.lines, 0)
        while start < size:
            end = min(start + SIZE, size)
            yield FilePart(file.file, file.number, start, end, first, is_open, _first_seq(count))
            start, first, count = end, 0, count + 1

    def _is_divided(self, file: NumberedFile) -> bool:
        if self._is_sorted or file.file.size <= SIZE:
            return False
        if file.number not in self._divisible:
            with storage.reading(file.file.path), storage.open_input(file.file.path) as raw:
                self._divisible[file.number] = self._reader.is_divisible(bytes(raw.read(_LOOK)))
        return self._divisible[file.number]

    def _before(self, file: NumberedFile, record: int, check: Callable[[], None]) -> _Reached:
        """The last known place in front of a record."""
        reached = self._reached.setdefault(file.number, [_Reached(0, 0, 0)])
        if record > 1 and len(reached) == 1:
            reached.append(_searched(file, record - 1, check))
        return reached[max(bisect_left(reached, record, key=lambda place: place.lines) - 1, 0)]

    # --- what was read ------------------------------------------------------------------------------------------------

    def lines_before(self, part: FilePart) -> int:
        """The number of lines before a part that follows those that were read."""
        return 0 if part.end is None else self._at(part).lines

    def _at(self, part: FilePart) -> _Reached:
        return next(reached for reached in self._reached[part.number] if reached.offset == part.start)

    def note(self, part: FilePart, answer: ReadPart) -> None:
        """The part has been read, as all before it."""
        size, checksum = answer.checked, answer.checksum
        if part.end is not None:
            before, reached = self._at(part), self._reached[part.number]
            size += before.offset
            checksum = combined(before.checksum, checksum, answer.checked)
            if part.end > reached[-1].offset:
                reached.append(_Reached(part.end, before.lines + answer.lines, checksum))
        file = part.file
        known = self._read.get(part.number)
        if known is None or known.checked < size:
            self._read[part.number] = ReadFile(part.number, file.name, file.size, file.modified, size, checksum)

    def what_was_read(self) -> dict[int, ReadFile]:
        files, self._read = self._read, {}
        return files


def _first_seq(part: int) -> int:
    return (part << SEQ_BITS) + 1


def _searched(file: NumberedFile, lines: int, check: Callable[[], None]) -> _Reached:
    """The place behind so many lines, or the end of the file."""
    offset = passed = checksum = 0
    with storage.reading(file.file.path), storage.open_input(file.file.path) as raw:
        while passed < lines and offset < file.file.size:
            check()
            data = bytes(raw.read(min(_PIECE, file.file.size - offset)))
            ends = data.count(b"\n")
            if passed + ends >= lines:
                at = -1
                for _ in range(lines - passed):
                    at = data.index(b"\n", at + 1)
                data, ends = data[: at + 1], lines - passed
            elif not data:
                break
            passed += ends
            offset += len(data)
            checksum = zlib.crc32(data, checksum)
    return _Reached(offset, passed, checksum)
