"""The kernel that reads files of changes, or a range of bytes of one, as a task of Spark's, without a session.

It answers what the driver needs to know of transactions: those within the part as columns, the steps of its first and
last ones, which may go on in other parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np
from pgrepl.lake import storage
from pgrepl.replication.formats import registry
from pgrepl.replication.formats.event import BadRecord, Blocks, ChangeEvent, Events, RecordPlace
from pgrepl.replication.publisher.files.columns import DecidedMessages, TableColumns
from pgrepl.replication.publisher.files.cursor import Cursor, EndOfFile, Located
from pgrepl.replication.publisher.files.declared import Declarations, NotSendable
from pgrepl.replication.publisher.files.listing import ListedFile
from pgrepl.replication.publisher.files.memory import NumberedFile
from pgrepl.replication.publisher.files.source import LineRange, OpenedFile, OpenSource
from pgrepl.replication.publisher.files.transactions import Boundaries, NumberedBlock, Step, gathered
from pgrepl.replication.wire.batch import BatchTransaction, columns_of
from pgrepl.replication.wire.message_files import MessageFile
from pgrepl.replication.wire.messages import SentRelation

if TYPE_CHECKING:
    from typing import BinaryIO

    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.part import PartWatch, Shared
    from pgrepl.replication.formats.event import ColumnTypes, Reader

    Numbers = npt.NDArray[np.int64]

Name = tuple["str | None", "str | None"]  # schema and table, as records have them
Types = Mapping[str, tuple[int, int]]


class NotByTasks(Exception):
    """Tasks of Spark cannot read the files; the message says why. This process reads them."""


@frozen
class DescribedName:
    """`types`: for the format's reader; None: there is no such table. `columns`: of the table; without it its records
    are wrong (`error`) or declined."""

    types: Types | None
    columns: TableColumns | None = None
    error: PgError | None = None
    declined: str = ""


def described(session: Session, declared: Declarations, types: ColumnTypes, name: Name) -> DescribedName:
    try:
        columns = TableColumns(declared, declared.table(*name), session)
    except Declined as reason:
        return DescribedName(types(*name), declined=str(reason))
    except NotSendable as problem:
        return DescribedName(types(*name), declined=problem.error.message)
    except PgError as error:
        return DescribedName(types(*name), error=error)
    if not columns.is_portable:
        raise NotByTasks("values whose types ask the catalog")
    return DescribedName(types(*name), columns)


class NamedTables:
    """The tables of a task's records. `unknown`: names that records have and the task was not told about."""

    def __init__(self, known: Mapping[Name, DescribedName]) -> None:
        self._known = known
        self.unknown: set[Name] = set()

    def types(self, schema: str | None, table: str | None) -> Types | None:
        """See formats.event.ColumnTypes."""
        known_name = self._found(schema, table)
        return None if known_name is None else known_name.types

    def columns(self, schema: str | None, table: str | None) -> TableColumns | None:
        """The columns of a table; None: the name is not known."""
        known_name = self._found(schema, table)
        if known_name is None:
            return None
        if known_name.columns is not None:
            return known_name.columns
        raise known_name.error or Declined(known_name.declined)

    def _found(self, schema: str | None, table: str | None) -> DescribedName | None:
        known_name = self._known.get((schema, table))
        if known_name is None:
            self.unknown.add((schema, table))
        return known_name


# --- file part --------------------------------------------------------------------------------------------------------


_UNSEEN = ("58P01", "42501")  # no such file, permission denied


@frozen
class HowToRead:
    """`may_skip`: lines may be left out without looking into them. `leaves_out`: records that cannot be read are."""

    format: str
    options: Mapping[str, str]
    is_sorted: bool
    may_skip: bool
    leaves_out: bool


@frozen
class FilePart:
    """The lines that begin from byte `start` on and before byte `end`; a whole file: `end` is None. Records from the
    `first` one on count. `is_open`: more may be written behind the file. The part's records have sequence numbers from
    `first_seq` on."""

    file: ListedFile
    number: int
    start: int
    end: int | None
    first: int
    is_open: bool
    first_seq: int


@frozen
class PartsToRead:
    """A task. `tables`: what the names of tables mean. `path`: the prefix of the names of message files."""

    parts: tuple[FilePart, ...]
    tables: Shared
    how: HowToRead
    path: str


@frozen
class Reject:
    """A record that is left out; see BadRecord."""

    sqlstate: str
    reason: str
    number: int
    record: bytes | None
    event: ChangeEvent | None

    def error(self, place: RecordPlace) -> BadRecord:
        return BadRecord(self.sqlstate, self.reason, place, record=self.record)


@frozen
class ReadPart:
    """The answer for a part. Numbers of records are positions from the part's beginning. `head`: the steps of the first
    transaction; `whole`: those that follow and end within the part, by columns; `tail`: the steps of the last one.
    `sends`: for each transaction with messages one of their sequence numbers, or one that is between these and its
    last. `stopped`: the sequence number from which on nothing was decided, and why."""

    lines: int = 0
    count: int = 0
    head: tuple[Step, ...] = ()
    whole: Any = ()
    tail: tuple[Step, ...] = ()
    sends: Any = ()
    files: tuple[tuple[SentRelation, tuple[MessageFile, ...]], ...] = ()
    owners: tuple[tuple[int, int], ...] = ()  # the declared table that is sent as a relation, by relid
    truncations: tuple[tuple[int, ChangeEvent], ...] = ()
    rejects: tuple[Reject, ...] = ()
    stopped: tuple[int, str] | None = None
    is_cut: bool = False  # its last line is the file's, and has no end
    checked: int = 0
    checksum: int = 0
    unknown: frozenset[Name] = frozenset()
    is_unseen: bool = False  # there is no such file where the task ran


def read_parts(task: PartsToRead, watch: PartWatch) -> list[ReadPart]:
    return [_read(task, part, watch) for part in task.parts]


def _read(task: PartsToRead, part: FilePart, watch: PartWatch) -> ReadPart:
    try:
        source = _opened(part)
    except PgError as problem:
        if problem.sqlstate in _UNSEEN:
            return ReadPart(is_unseen=True)
        raise
    if source is None:
        return ReadPart(is_unseen=True)
    reading = _PartReading(task, part, source, watch)
    try:
        reading.read()
        return reading.answer()
    finally:
        reading.close()


def _opened(part: FilePart) -> OpenedFile | None:
    """The part of the file, opened; None: the file is shorter than the driver has seen it, so it is another one."""
    with storage.reading(part.file.path), storage.open_input(part.file.path) as raw:
        if raw.size() < part.file.size:
            return None
    if part.end is None:
        return OpenSource(NumberedFile(0, part.file, None))
    return LineRange(part.file, part.start, part.end)


class _PartReading:
    def __init__(self, task: PartsToRead, part: FilePart, source: OpenedFile, watch: PartWatch) -> None:
        self._part = part
        self._source = source
        self._watch = watch
        self._rejects = _Rejects(task.how.leaves_out)
        self._tables = NamedTables(cast("Mapping[Name, DescribedName]", task.tables.value))
        reader: Reader = registry.reader(task.how.format, task.how.options, self._tables.types)
        self._cursor = Cursor(
            [NumberedFile(0, part.file, None)],
            reader if part.end is None else _LinesReader(reader),
            self._rejects,
            part.first,
            watch.check,
            is_closed=not part.is_open,
            by_columns=True,
            is_sorted=task.how.is_sorted,
            may_skip=task.how.may_skip,
            opened=lambda _: source,
        )
        self._made = DecidedMessages(
            self._tables.columns, self._rejects, lambda sent: f"{task.path}{sent.relid}.{storage.uuid7()}"
        )
        self._boundaries = Boundaries()
        self._boundaries.file_time = part.file.modified // 1000
        self._seq = part.first_seq  # of the next record
        self._head: list[Step] | None = None
        self._steps: list[Step] = []  # of the transaction that has begun last
        self._whole: list[BatchTransaction] = []
        self._stopped: tuple[int, str] | None = None
        self._is_cut = False

    def close(self) -> None:
        self._made.abandon()
        self._cursor.close()
        self._source.close()

    def read(self) -> None:
        try:
            for item in gathered(self._cursor.items()):
                self._watch.check()
                if isinstance(item, EndOfFile):
                    self._is_cut = item.is_cut
                else:
                    self._take(item)
        except (Declined, NotSendable) as reason:
            self._stopped = (self._seq, str(reason))
        except PgError as error:
            if error.is_of_machine:
                raise
            self._stopped = (self._seq, error.message)

    def _take(self, item: Located) -> None:
        block = NumberedBlock(item, self._seq)
        self._made.take(block)
        for step in block.steps():
            ended = step.followed_by(self._boundaries)
            if ended is not None:
                self._end(ended.transaction)
            self._steps.append(step)
        self._seq += block.count

    def _end(self, transaction: BatchTransaction) -> None:
        if self._head is None:
            self._head = self._steps
        else:
            self._whole.append(transaction)
        self._steps = []

    def answer(self) -> ReadPart:
        if self._tables.unknown:
            return ReadPart(unknown=frozenset(self._tables.unknown))
        head, tail = (self._steps, []) if self._head is None else (self._head, self._steps)
        files = tuple(self._made.close())
        read = self._source.what_was_read()
        return ReadPart(
            self._source.count if isinstance(self._source, LineRange) else 0,
            self._seq - self._part.first_seq,
            tuple(head),
            columns_of(self._whole),
            tuple(tail),
            self._sends(head, tail),
            files,
            tuple(self._made.owners.items()),
            tuple(self._made.truncations),
            tuple(self._rejects.taken),
            self._stopped,
            self._is_cut,
            read.checked,
            read.checksum,
        )

    def _sends(self, head: Sequence[Step], tail: Sequence[Step]) -> Numbers:
        steps = [head[-1].last_seq] if head else []
        lasts = np.array([*steps, *[whole.last_seq for whole in self._whole], *[step.last_seq for step in tail[-1:]]])
        finished: Numbers = lasts[self._made.mask(lasts, [seq for seq, _ in self._made.truncations])].astype(np.int64)
        return finished


class _LinesReader:
    """Reads some lines of a divisible file as if they were the file."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, file: BinaryIO, name: str) -> Events:
        return self._reader.read(file, name)

    def blocks(self, file: BinaryIO, name: str) -> Blocks:
        return self._reader.some_lines(file, name)

    def is_divisible(self, start: bytes) -> bool:
        return False

    def some_lines(self, file: BinaryIO, name: str) -> Blocks:
        return self._reader.some_lines(file, name)


class _Rejects:
    """Records that are left out; or raised, if none is to be."""

    def __init__(self, leaves_out: bool) -> None:
        self.are_written = leaves_out
        self.taken: list[Reject] = []

    def take(self, error: BadRecord, lsn: int, event: ChangeEvent | None = None) -> None:
        if not self.are_written:
            raise error
        self.taken.append(Reject(error.sqlstate, error.reason, error.place.number, error.record, event))
