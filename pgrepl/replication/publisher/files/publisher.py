"""Files of changes as a publisher, and their stream: the transactions, and how far they are read. A database of this
instance declares what is published.

There is no slot: the origin says how far the files have been applied, and the catalog remembers which they were, in the
transaction that moves the origin. Nothing is copied either.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog.facts.subscription import origin_name
from pgrepl.catalog.session.transaction import reading
from pgrepl.engine.choice import Choice, Engine, choose_files, declined, done
from pgrepl.ground.errors import Declined, PgError
from pgrepl.replication.formats import registry
from pgrepl.replication.origins import origin_or_none
from pgrepl.replication.publisher.files import memory
from pgrepl.replication.publisher.files.batch_spark import DividedFiles, SparkReading
from pgrepl.replication.publisher.files.cursor import Cursor, Rejects
from pgrepl.replication.publisher.files.declared import Declarations, NotSendable
from pgrepl.replication.publisher.files.file_part import HowToRead, NotByTasks
from pgrepl.replication.publisher.files.listing import STANDARD_INPUT, FilesOptions, listed, order_of
from pgrepl.replication.publisher.files.memory import GivenBatch, NumberedFile, ReadFile, file_of, first_lsn, numbered
from pgrepl.replication.publisher.files.source import check
from pgrepl.replication.publisher.files.stream import BatchReading, FileStream
from pgrepl.replication.publisher.lake.catalog import LakeCatalog
from pgrepl.replication.publisher.lake.publisher import LakePublisher
from pgrepl.replication.publisher.lake.schema import attributes
from pgrepl.replication.publisher.protocol import (
    ChangeFiles,
    ChangeStream,
    FilesError,
    Publisher,
    SlotLag,
    StreamRequest,
    server_text,
)
from pgrepl.replication.publisher.tables import RemoteAttribute

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.formats.event import Reader
    from pgrepl.replication.wire.batch import WireBatch
    from pgrepl.replication.wire.messages import WireTransaction

_Reading = TypeVar("_Reading", "FileStream", "BatchReading", "SparkReading")
_WORK, _TASKS = "files", "files by tasks"  # the names in pgrepl_stat_engine
_BYTES_OF_RECORD = 200  # about
BYTES_OF_CHANGE = 50  # that a change takes at least, so that few bytes are not tried by columns
_COMPRESSED = 20  # times as many
_SUFFIXES = (".gz", ".zst", ".bz2", ".xz", ".lz4", ".parquet")
_HEADED = frozenset(("csv", "dms"))  # formats whose first line says what is in the others
_WITHOUT_NULLS = frozenset(("test_decoding",))  # formats that leave NULLs of old rows out
_PLAYED = 20_000  # changes that are applied one by one, after columns could not be applied


class DeclaringCatalog(LakeCatalog):
    """The publications of the database that declares. Files know no past of its tables."""

    def attributes(self, relid: int, lsn: int) -> tuple[RemoteAttribute, ...]:
        with reading_files(self._connection.session) as session:
            return attributes(session, relid)

    def older_value(self, relid: int, attnum: int, lsn: int) -> None:
        return None

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        return []  # nothing is copied

    @property
    def has_sequences(self) -> bool:
        return False

    def published_sequences(self, names: Sequence[str]) -> list[tuple[str, str]]:
        return []  # files do not tell their values


class FilesPublisher(Publisher):
    """An open connection to the database that declares, and to its files."""

    slots: None = None
    stream: FilesChangeStream
    copies: None = None

    def __init__(
        self, declaring: LakePublisher, options: FilesOptions, subid: int, given: GivenBatch | None = None
    ) -> None:
        """`given`: the batch of `pgrepl apply --from`."""
        self._declaring = declaring
        self.catalog = DeclaringCatalog(declaring.connection)
        self.stream = FilesChangeStream(declaring.connection.session, options, subid, given)

    @property
    def is_open(self) -> bool:
        return self._declaring.is_open

    @property
    def used_password(self) -> bool:
        return self._declaring.used_password

    @property
    def system_identifier(self) -> str:
        """An identifier of the files, not the instance's: the LSNs are others."""
        return f"files {self._declaring.system_identifier}"

    @property
    def shares_catalog(self) -> bool:
        """True: the files that were read are noted in the commit that moves the origin."""
        return True

    def inherit_engine(self, worker: Session) -> None:
        self._declaring.inherit_engine(worker)

    def interrupt(self) -> None:
        self.stream.interrupt()
        self._declaring.interrupt()

    def close(self) -> None:
        self.stream.close()
        self._declaring.close()


# --- the stream -------------------------------------------------------------------------------------------------------


class FilesChangeStream(ChangeStream, ChangeFiles):
    """The changes of the files, as the database of the session declares them."""

    def __init__(self, session: Session, options: FilesOptions, subid: int, given: GivenBatch | None) -> None:
        """`given`: the batch of `pgrepl apply --from`."""
        self.files = self
        self._session = session
        self._options = options
        self._subid = subid
        self._given = given
        self._files: list[NumberedFile] = []  # as they were listed last
        self._sound: set[NumberedFile] = set()  # files whose checksums were compared
        self._rejects = Rejects(options.on_error)
        self._reading: FileStream | BatchReading | SparkReading | None = None
        self._read: list[NumberedFile] = []  # the files of the reading
        self._ahead: dict[int, ReadFile] = {}  # files that were read, but are not applied
        self._declared: Declarations | None = None
        self._is_interrupted = False
        self._is_read_here = False  # tasks cannot read the files
        self._offered: int | None = None  # columns from this LSN on
        self._wait, self._left = _PLAYED, 0

    def interrupt(self) -> None:
        self._is_interrupted = True

    def _check_interrupted(self) -> None:
        if self._is_interrupted:
            raise PgError("57014", "canceling statement due to user request")

    def close(self) -> None:
        self._stop_reading()
        self._rejects.close()

    def _asked(self) -> AbstractContextManager[Session]:
        return reading_files(self._session)

    # --- positions ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise unless the location and the format can be read."""
        with self._asked() as session:
            self._reader(session)
            self._look(session)

    def start(self, slot: str, lsn: int, *, two_phase: bool = False) -> int:
        return max(lsn, first_lsn())

    def lag(self, slot: str, *, tell: bool = False) -> SlotLag | None:
        with self._asked() as session:
            position = self._position(session)
            end = self._end(session, position)
            unread = self._unread(position) if position < end else []
            since = unread[0].file.modified / 1e9 if unread else None
            return SlotLag(position, position, end, files=len(unread), since=since)

    def current_lsn(self) -> int:
        with self._asked() as session:
            return self._end(session, self._position(session))

    def confirm(self, slot: str, lsn: int, within: Session | None = None) -> None:
        """Remember what was read up to this LSN."""
        assert within is not None, "the catalog is shared"
        bound = file_of(lsn - 1)
        if self._reading is not None:
            self._ahead |= self._reading.what_was_read()
        done = [self._confirmed(file, lsn) for n, file in sorted(self._ahead.items()) if n <= bound]
        memory.remember(within, self._subid, done)
        self._ahead = {n: file for n, file in self._ahead.items() if n > bound}
        rejected, size = self._rejects.write(lsn, memory.reject_size(within, self._subid))
        if rejected:
            memory.count(within, self._subid, rejected, reject_size=size)
        self._rejects.written(lsn)

    def _confirmed(self, file: ReadFile, lsn: int) -> ReadFile:
        reading = self._reading
        is_last = bool(self._read) and file.number == self._read[-1].number
        at_end = not is_last or (reading is not None and reading.end is not None and lsn >= reading.end)
        return replace(file, at_end=at_end)

    def _position(self, session: Session) -> int:
        origin = origin_or_none(session, origin_name(self._subid))
        return 0 if origin is None else int(origin.remote_lsn or 0)

    def _look(self, session: Session) -> list[NumberedFile]:
        """The files that are there now, from the one that was read last on. Raises if those that were read are not what
        they were."""
        known = memory.remembered(session, self._subid)
        if self._options.files == STANDARD_INPUT:
            files = [] if self._given is None else [self._given.numbered(known, self._position(session))]
        else:
            order = order_of(self._options.format)
            there = listed(self._options.files, order)
            files = numbered(known, there, order, may_be_removed=self._options.may_be_removed)
        for file in files:
            if file.known is not None and file not in self._sound:
                check(file)
                self._sound.add(file)
        self._files = files
        return files

    def _end(self, session: Session, position: int) -> int:
        """The LSN behind all that is there, as far as that is known without reading it."""
        files = self._look(session)
        if not files or position >= files[-1].end:
            return position
        reading, last = self._reading, files[-1]
        if reading is not None and reading.end is not None and _same(self._read, files):
            return max(position, reading.end)
        if _is_done(last) and file_of(position) == last.number:
            return position  # it was read to its end, and nothing was written behind it
        return last.end

    def delivered(self, end: int) -> int:
        """The LSN up to which all is sent, once all that is there before `end` has been read."""
        reading = self._reading
        return end if reading is None or reading.end is None else min(end, reading.end)

    def sources(self, start: int) -> Sequence[str]:
        """The names of the files that have transactions from an LSN on."""
        return [unread.file.name for unread in self._unread(start)]

    def _unread(self, start: int) -> list[NumberedFile]:
        return [file for file in self._files if file.end > start and not _is_done(file)]

    # --- changes ------------------------------------------------------------------------------------------------------

    def transactions(self, wanted: StreamRequest, limit: int | None = None) -> Generator[WireTransaction, None, None]:
        start, end = wanted.start, wanted.end
        if start == self._offered:
            self._decline()
        with self._asked() as session:
            if start >= end:
                return
            self._declare(session, wanted.publications)
            stream = self._reading
            if not isinstance(stream, FileStream) or not self._covers(stream.start, start):
                cursor = self._cursor(session, start, by_columns=False)
                stream = self._begin(FileStream(cursor, self._rejects, self._declarations, start))
            for transaction in stream.transactions(start, end):
                self._left -= transaction.size
                yield transaction

    def batch(self, wanted: StreamRequest, least: int) -> tuple[WireBatch, int] | None:
        start, end = wanted.start, wanted.end
        if start == self._offered:
            self._decline()
        if start >= end or self._left > 0 or self._bytes(start) < least * BYTES_OF_CHANGE:
            return None
        with self._asked() as session:
            declared = self._declare(session, wanted.publications)
            try:
                current = self._by_columns(session, start)
                try:
                    batch = current.batch(session, declared, end, least)
                except NotByTasks as reason:
                    declined(session, _TASKS, reason, "files of changes are not read by tasks of Spark")
                    self._is_read_here = True
                    current = self._by_columns(session, start)
                    batch = current.batch(session, declared, end, least)
            except (Declined, NotSendable, PgError) as reason:
                told = reason if isinstance(reason, Declined) else "an error in some record"
                declined(session, _WORK, told, "changes of files are not read by columns")
                batch = None
            if batch is None:
                self._stop_reading()
                self._decline()
                return None
            if isinstance(current, SparkReading):
                done(session, _TASKS, Engine.SPARK)
            self._offered = start
            return batch, current.position

    def _by_columns(self, session: Session, start: int) -> BatchReading | SparkReading:
        """The reading that goes on at an LSN, or a new one."""
        current = self._reading
        if isinstance(current, BatchReading) or (isinstance(current, SparkReading) and not self._is_read_here):
            if not current.is_over and current.position == start and self._is_current():
                return current
        if not self._is_read_here and self._choose(session, start).on_spark:
            return self._begin(self._spark_reading(session, start))
        cursor = self._cursor(session, start, by_columns=True)
        return self._begin(BatchReading(cursor, self._rejects, start, session.catalog.data_path))

    def _choose(self, session: Session, start: int) -> Choice:
        """The engine that reads the files from an LSN on by columns."""
        size = self._bytes(start)
        return choose_files(session, size, size // _BYTES_OF_RECORD)

    def reader_of_sources(self, start: int) -> Choice:
        with self._asked() as session:
            return self._choose(session, start)

    def _spark_reading(self, session: Session, start: int) -> SparkReading:
        self._stop_reading()
        options, is_closed = self._options, self._is_closed
        divided = DividedFiles(self._files, self._reader(session), is_closed=is_closed, is_sorted=options.is_sorted)
        how = HowToRead(options.format, options.reader, options.is_sorted, self._may_skip, self._rejects.are_written)
        types = self._read_as(session).types
        return SparkReading(divided, how, types, self._rejects, start, self._check_interrupted, is_closed=is_closed)

    def _decline(self) -> None:
        self._offered = None
        self._left, self._wait = self._wait, 2 * self._wait

    def _bytes(self, start: int) -> int:
        """About how many bytes there are to read."""
        size = 0
        for file in self._files:
            if file.end > start:
                here = file.file.size
                if file.known is not None and file.known.checked <= here:
                    here -= file.known.checked
                size += here * (_COMPRESSED if file.file.name.endswith(_SUFFIXES) else 1)
        return size

    def _declare(self, session: Session, publications: Sequence[str]) -> Declarations:
        """The declarations as they are now."""
        declarations = Declarations(
            session,
            publications,
            ignores_undeclared=self._options.ignores_undeclared,
            omits_nulls=self._options.format in _WITHOUT_NULLS,
            usual=self._options.table,
        )
        self._declared = declarations
        return declarations

    def _declarations(self) -> Declarations:
        assert self._declared is not None, "transactions are asked for"
        return self._declared

    def _covers(self, begin: int, start: int) -> bool:
        return begin <= start and self._is_current()

    def _is_current(self) -> bool:
        """Whether the reading goes on, or has read the files as they are now."""
        reading = self._reading
        return reading is not None and (reading.end is None or _same(self._read, self._files))

    def _cursor(self, session: Session, start: int, *, by_columns: bool) -> Cursor:
        self._stop_reading()
        self._rejects.forget_from(start)
        options = self._options
        return Cursor(
            self._files,
            self._reader(session),
            self._rejects,
            start,
            self._check_interrupted,
            is_closed=self._is_closed,
            by_columns=by_columns,
            is_sorted=options.is_sorted,
            may_skip=self._may_skip,
        )

    @property
    def _is_closed(self) -> bool:
        """Whether nothing is written behind what is there."""
        return self._options.files == STANDARD_INPUT

    @property
    def _may_skip(self) -> bool:
        """Whether lines may be left out without looking into them."""
        return self._options.has_lines and self._options.format not in _HEADED

    def _reader(self, session: Session) -> Reader:
        return registry.reader(self._options.format, self._options.reader, self._read_as(session).types)

    def _read_as(self, session: Session) -> Declarations:
        """The tables by whose types the format's reader reads values."""
        return Declarations(session, (), ignores_undeclared=True, usual=self._options.table)

    def _begin(self, reading: _Reading) -> _Reading:
        self._reading, self._read = reading, self._files
        return reading

    def _stop_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()


@contextmanager
def reading_files(session: Session) -> Iterator[Session]:
    """The session in a transaction, whose errors are those of the files."""
    try:
        with reading(session):
            yield session
    except NotSendable as problem:
        raise FilesError(problem.error.sqlstate, server_text(problem.error)) from problem
    except PgError as error:
        raise FilesError(error.sqlstate, server_text(error)) from error


def _is_done(file: NumberedFile) -> bool:
    """Whether nothing of the file is left to apply."""
    return file.known is not None and file.known.at_end and file.known.is_same(file.file)


def _same(some: Sequence[NumberedFile], others: Sequence[NumberedFile]) -> bool:
    return [(file.number, file.file) for file in some] == [(file.number, file.file) for file in others]
