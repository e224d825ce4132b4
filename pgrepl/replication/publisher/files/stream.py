"""The transactions of files of changes: message by message, or as columns where whole blocks can be decided at once.

Records are read once; transactions that were read but not applied yet are kept for the next call. A block that cannot
be decided by columns ends the work by columns for a while.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import np
from pgrepl.replication.formats.event import BEGIN, COMMIT, BadRecord, ChangeEvent, EventBlock
from pgrepl.replication.publisher.files.columns import DecidedMessages, TableColumns
from pgrepl.replication.publisher.files.cursor import Cursor, EndOfFile, Located, Rejects
from pgrepl.replication.publisher.files.declared import Declarations, bad_record
from pgrepl.replication.publisher.files.memory import ReadFile
from pgrepl.replication.publisher.files.transactions import Boundaries, Ended, NumberedBlock, gathered
from pgrepl.replication.wire import messages
from pgrepl.replication.wire.batch import BatchTransaction, Transactions, WireBatch, columns_of
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.replication.wire.message_files import MessageFolder
from pgrepl.replication.wire.messages import Message, SentRelation, TruncateMessage, WireTransaction

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

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
        whole = ended.transaction
        self.reached = whole.end_lsn
        if collected.count:
            yield WireTransaction(whole.xid, whole.finish_lsn, whole.end_lsn, whole.committed_at, collected.messages())

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
        return boundaries.follow(event.kind, event.xid, located.lsn, seq, event.at)
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

    def add(self, packed: list[_Any]) -> None:
        self.size += len(packed)
        self._file.seek(0, 2)
        pickle.dump([self._packed(message) for message in packed], self._file, pickle.HIGHEST_PROTOCOL)

    def _packed(self, message: _Any) -> Any:
        if isinstance(message, TruncateMessage):
            return message
        number = self._relations.setdefault(message.relation, len(self._relations))
        return message.operation, number, message.old, message.new, message.whole_old

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
                    operation, number, *rows = packed
                    yield Message(operation, relations[number], *rows)

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()


def _forget(transaction: WireTransaction) -> None:
    if isinstance(transaction.messages, _Spilled):
        transaction.messages.close()


# --- batch ------------------------------------------------------------------------------------------------------------


MOST = 2_000_000  # records of a batch, about


class BatchReading:
    """Reads batch after batch from an LSN on."""

    def __init__(self, cursor: Cursor, rejects: Rejects, start: int, data_path: str) -> None:
        self.position = start  # the next batch begins here
        self.end: int | None = None  # see FileStream.end
        self._cursor = cursor
        self._rejects = rejects
        self._data_path = data_path
        self._items = gathered(cursor.items())
        self._boundaries = Boundaries()
        self._seq = 0
        self._left: list[NumberedBlock] = []  # the records behind the last batch
        self.is_over = False  # what follows has to be read anew

    def what_was_read(self) -> dict[int, ReadFile]:
        return self._cursor.what_was_read()

    def close(self) -> None:
        self._cursor.close()

    def batch(self, session: Session, declared: Declarations, end: int, least: int) -> WireBatch | None:
        """Whole transactions that finish before `end`; None: there are fewer than about `least` changes. Declined,
        PgError or NotSendable: they must be sent message by message."""
        folder = MessageFolder(self._data_path)
        decided = DecidedMessages(
            lambda *name: TableColumns(declared, declared.table(*name), session), self._rejects, folder.path
        )
        try:
            transactions = self._read(decided, end, least)
            batch = None if transactions is None else _batch_of(transactions, decided, declared, folder)
            if batch is None:
                decided.abandon()
                folder.close()
            return batch
        except BaseException:
            decided.abandon()
            folder.close()
            raise

    def _read(self, decided: DecidedMessages, end: int, least: int) -> list[BatchTransaction] | None:
        ended: list[Ended] = []
        begun = 0  # records of the batch
        left, self._left = self._left, []
        last: NumberedBlock | None = None
        for block in left:
            decided.take(block)
            begun += block.count
            last = block
        for item in self._items:
            if isinstance(item, EndOfFile):
                ending = self._boundaries.end_of_file(is_cut=item.is_cut)
                ended += [] if ending is None else [ending]
                if item.is_last:
                    reached = ended[-1].transaction.end_lsn if ended else self.position
                    self.end = end_of_stream(item, self._boundaries, ending, reached, self._cursor.is_closed)
                continue
            block = last = NumberedBlock(item, self._seq + 1)
            self._seq += block.count
            self._boundaries.file_time = item.file.file.modified // 1000
            ended += [ending for step in block.steps() if (ending := step.followed_by(self._boundaries)) is not None]
            decided.take(block)
            begun += block.count
            if ended and (begun >= MOST or ended[-1].transaction.finish_lsn >= end):
                open_from = self._boundaries.begun
                if open_from is None or open_from[1] >= block.first_seq:
                    break
        return None if begun < least else self._whole(ended, end, last)

    def _whole(self, ended: list[Ended], end: int, last: NumberedBlock | None) -> list[BatchTransaction] | None:
        transactions = [transaction.transaction for transaction in ended if transaction.transaction.finish_lsn < end]
        if len(transactions) < len(ended):
            self.end = None  # this reading is over: what follows is read again
            self.is_over = True
        elif last is not None:
            open_from = self._boundaries.begun
            if open_from is not None and open_from[1] >= last.first_seq:
                self._left = [last.behind(open_from[1])]
            elif open_from is not None:
                self.is_over = True  # it begins in an earlier block: only at the end of all files
        if not transactions:
            return None
        self.position = transactions[-1].end_lsn if self.end is None else max(self.end, transactions[-1].end_lsn)
        return transactions


def _batch_of(
    transactions: list[BatchTransaction], decided: DecidedMessages, declared: Declarations, folder: MessageFolder
) -> WireBatch:
    """The messages of these transactions; those behind them are left out."""
    truncates = truncates_of(decided, declared)
    sends = decided.mask(np.array([t.last_seq for t in transactions], np.int64), [seq for seq, _ in truncates])
    kept = [transaction for transaction, has in zip(transactions, sends, strict=True) if has]
    files = [MessageFiles(relation, own) for relation, own in decided.close()]
    batch = WireBatch(Transactions.of(*columns_of(kept).T), tuple(files), tuple(truncates), folder.close)
    return batch.until(transactions[-1].last_seq + 1) if kept else WireBatch((), (), (), folder.close)


def truncates_of(decided: DecidedMessages, declared: Declarations) -> list[tuple[int, TruncateMessage]]:
    truncates = []
    for seq, event in decided.truncations:
        for message in declared.messages(event):
            assert isinstance(message, TruncateMessage)
            truncates.append((seq, message))
    return truncates
