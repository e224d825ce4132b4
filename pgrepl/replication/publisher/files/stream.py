"""The transactions of files of changes, message by message.

Records are read once, in the order of the files; transactions that were read but not applied yet are kept for the next
call. The messages of a large one are kept in a temporary file.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import IO, Any

from pgrepl.errors import PgError
from pgrepl.replication.formats.event import BEGIN, COMMIT, BadRecord, ChangeEvent, EventBlock
from pgrepl.replication.publisher.files.cursor import Cursor, EndOfFile, Located
from pgrepl.replication.publisher.files.declared import Declarations, bad_record
from pgrepl.replication.publisher.files.memory import ReadFile
from pgrepl.replication.publisher.files.rejects import Rejects
from pgrepl.replication.publisher.files.transactions import Boundaries, Ended
from pgrepl.replication.wire import messages
from pgrepl.replication.wire.messages import Message, SentRelation, TruncateMessage, WireTransaction

_CHUNK = 5000  # messages that are written together
_Any = Message | TruncateMessage


class FileStream:
    """The transactions from an LSN on."""

    def __init__(self, cursor: Cursor, rejects: Rejects, declared: Callable[[], Declarations], start: int) -> None:
        self._cursor = cursor
        self._rejects = rejects
        self._declared = declared
        self._read = self._transactions()
        self._held: deque[WireTransaction] = deque()
        self.start = start  # no transaction from here on is missing
        self.reached = start  # the end of the last transaction that was read
        self.end: int | None = None  # the LSN up to which all is read that is there; None: there may be more

    def transactions(self, start: int, end: int) -> Iterator[WireTransaction]:
        """The transactions that finish at `start` or later and before `end`."""
        while self._held and self._held[0].finish_lsn < start:
            _forget(self._held.popleft())
        self.start = start
        for transaction in list(self._held):
            if transaction.finish_lsn >= end:
                return
            yield transaction
        for transaction in self._read:
            self._held.append(transaction)
            if transaction.finish_lsn >= end:
                return
            yield transaction

    def what_was_read(self) -> dict[int, ReadFile]:
        return self._cursor.what_was_read()

    def close(self) -> None:
        self._read.close()
        self._cursor.close()
        while self._held:
            _forget(self._held.popleft())

    def _transactions(self) -> Generator[WireTransaction, None, None]:
        boundaries = Boundaries()
        collected = _Collected()
        seq = 0
        for located in self._cursor.items():
            ended = None
            if isinstance(located, EndOfFile):
                ended = boundaries.end_of_file(is_cut=located.is_cut)
                if ended is not None:
                    yield from self._whole(ended, collected)
                    collected = _Collected()
                if located.is_last:
                    self.end = end_of_stream(located, boundaries, ended, self.reached, self._is_closed)
                continue
            seq += 1
            ended = note(boundaries, located, seq)
            if ended is not None:
                yield from self._whole(ended, collected)
                collected = _Collected()
            assert not isinstance(located.item, EventBlock)
            if located.item.kind not in (BEGIN, COMMIT):
                self._add(collected, located, located.item)

    @property
    def _is_closed(self) -> bool:
        return self._cursor.is_closed

    def _whole(self, ended: Ended, collected: _Collected) -> Iterator[WireTransaction]:
        made = ended.transaction
        self.reached = made.end_lsn
        if collected.count:
            yield WireTransaction(made.xid, made.finish_lsn, made.end_lsn, made.committed_at, collected.messages())

    def _add(self, collected: _Collected, located: Located, event: ChangeEvent) -> None:
        try:
            for message in self._declared().messages(event):
                collected.add(message)
        except BadRecord as bad:
            self._rejects.take(bad, located.lsn, event)


def note(boundaries: Boundaries, located: Located, seq: int) -> Ended | None:
    """Tell the boundaries of a single record; see Boundaries."""
    event = located.item
    assert not isinstance(event, EventBlock)
    boundaries.file_time = located.file.file.modified // 1000
    try:
        if event.kind == BEGIN:
            return boundaries.begin(event.xid, located.lsn, seq)
        if event.kind == COMMIT:
            return boundaries.commit(event.xid, located.lsn, seq, event.at)
        return boundaries.change(event.xid, located.lsn, seq, event.at)
    except PgError as error:
        raise bad_record(error, event.place) from None


def end_of_stream(at: EndOfFile, boundaries: Boundaries, ended: Ended | None, reached: int, is_closed: bool) -> int:
    """The LSN up to which all is read that is there. More may be written to the last file, behind a transaction that
    has an id or an end of its own."""
    if boundaries.begun is not None:
        if is_closed:
            raise PgError("08P01", f"{at.file.file.shown} ends within a transaction")
        return boundaries.begun[0]
    if is_closed or (ended is not None and ended.is_file):
        return at.file.end
    return max(reached, at.file.lsn(0))


class _Collected:
    """The messages of one transaction."""

    def __init__(self) -> None:
        self.count = 0
        self._list: list[_Any] = []
        self._spilled: _Spilled | None = None

    def add(self, message: _Any) -> None:
        self.count += 1
        self._list.append(message)
        if self._spilled is None and self.count > messages.PORTION:
            self._spilled = _Spilled()
        if self._spilled is not None and len(self._list) >= _CHUNK:
            self._spill()

    def _spill(self) -> None:
        assert self._spilled is not None
        taken, self._list = self._list, []
        self._spilled.add(taken)

    def messages(self) -> tuple[_Any, ...] | _Spilled:
        if self._spilled is None:
            return tuple(self._list)
        self._spill()
        return self._spilled


class _Spilled:
    """The messages of a large transaction, in a temporary file. Each iteration reads them anew."""

    def __init__(self) -> None:
        self.size = 0
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._relations: dict[SentRelation, int] = {}

    def add(self, found: list[_Any]) -> None:
        self.size += len(found)
        self._file.seek(0, 2)
        pickle.dump([self._packed(message) for message in found], self._file, pickle.HIGHEST_PROTOCOL)

    def _packed(self, message: _Any) -> Any:
        if isinstance(message, TruncateMessage):
            return message
        number = self._relations.setdefault(message.relation, len(self._relations))
        return message.operation, number, message.old, _packed(message.new), message.whole_old

    def __iter__(self) -> Iterator[_Any]:
        relations = list(self._relations)
        at = 0
        while True:
            self._file.seek(at)
            try:
                portion = pickle.load(self._file)
            except EOFError:
                return
            at = self._file.tell()
            for packed in portion:
                if isinstance(packed, TruncateMessage):
                    yield packed
                else:
                    operation, number, old, new, whole_old = packed
                    yield Message(operation, relations[number], old, _unpacked(new), whole_old)

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()


class _Mark:
    """Stands for UNCHANGED in a file."""

    def __reduce__(self) -> str:
        return "UNSENT"


UNSENT = _Mark()


def _packed(row: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    if row is None:
        return None
    return tuple([UNSENT if value is messages.UNCHANGED else value for value in row])


def _unpacked(row: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    if row is None:
        return None
    return tuple([messages.UNCHANGED if value is UNSENT else value for value in row])


def _forget(transaction: WireTransaction) -> None:
    if isinstance(transaction.messages, _Spilled):
        transaction.messages.close()
