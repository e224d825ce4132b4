"""The transactions of files of changes as columns, for many changes: whole blocks of records are decided at once, and
kept in files. This process reads them; batch_spark.py has Spark's tasks read them.

A batch has whole transactions. A block that cannot be decided by columns ends the work by columns for a while: its
transactions are sent message by message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pgrepl.replication.publisher.files.columns import TableColumns
from pgrepl.replication.publisher.files.cursor import Cursor, EndOfFile
from pgrepl.replication.publisher.files.decided import DecidedMessages
from pgrepl.replication.publisher.files.declared import Declarations
from pgrepl.replication.publisher.files.memory import ReadFile
from pgrepl.replication.publisher.files.numbered_block import NumberedBlock, gathered
from pgrepl.replication.publisher.files.rejects import Rejects
from pgrepl.replication.publisher.files.stream import end_of_stream
from pgrepl.replication.publisher.files.transactions import Boundaries, Ended
from pgrepl.replication.wire.batch import BatchTransaction, Transactions, WireBatch
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.replication.wire.message_files import MessageFolder
from pgrepl.replication.wire.messages import TruncateMessage

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Numbers = npt.NDArray[Any]
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
        made = DecidedMessages(
            lambda *name: TableColumns(declared, declared.table(*name), session), self._rejects, folder.path
        )
        try:
            found = self._read(made, end, least)
            batch = None if found is None else _batch_of(found, made, declared, folder)
            if batch is None:
                made.abandon()
                folder.close()
            return batch
        except BaseException:
            made.abandon()
            folder.close()
            raise

    def _read(self, made: DecidedMessages, end: int, least: int) -> list[BatchTransaction] | None:
        ended: list[Ended] = []
        begun = 0  # records of the batch
        left, self._left = self._left, []
        last: NumberedBlock | None = None
        for block in left:
            made.take(block)
            begun += block.count
            last = block
        for item in self._items:
            if isinstance(item, EndOfFile):
                found = self._boundaries.end_of_file(is_cut=item.is_cut)
                ended += [] if found is None else [found]
                if item.is_last:
                    reached = ended[-1].transaction.end_lsn if ended else self.position
                    self.end = end_of_stream(item, self._boundaries, found, reached, self._cursor.is_closed)
                continue
            block = last = NumberedBlock(item, self._seq + 1)
            self._seq += block.count
            self._boundaries.file_time = item.file.file.modified // 1000
            ended += [found for step in block.steps() if (found := self._boundaries.follow(step)) is not None]
            made.take(block)
            begun += block.count
            if ended and (begun >= MOST or ended[-1].transaction.finish_lsn >= end):
                open_from = self._boundaries.begun
                if open_from is None or open_from[1] >= block.first_seq:
                    break
        return None if begun < least else self._whole(ended, end, last)

    def _whole(self, ended: list[Ended], end: int, last: NumberedBlock | None) -> list[BatchTransaction] | None:
        found = [each.transaction for each in ended if each.transaction.finish_lsn < end]
        if len(found) < len(ended):
            self.end = None  # this reading is over: what follows is read again
            self.is_over = True
        elif last is not None:
            open_from = self._boundaries.begun
            if open_from is not None and open_from[1] >= last.first_seq:
                self._left = [last.behind(open_from[1])]
            elif open_from is not None:
                self.is_over = True  # it begins in an earlier block: only at the end of all files
        if not found:
            return None
        self.position = found[-1].end_lsn if self.end is None else max(self.end, found[-1].end_lsn)
        return found


def _batch_of(
    found: list[BatchTransaction], made: DecidedMessages, declared: Declarations, folder: MessageFolder
) -> WireBatch:
    """The messages of these transactions; those behind them are left out."""
    truncates = truncates_of(made, declared)
    lasts = np.array([each.last_seq for each in found], np.int64)
    sends = np.zeros(len(found) + 1, np.bool_)
    for seq in [*made.sends, *[np.array([seq]) for seq, _ in truncates]]:
        sends[np.searchsorted(lasts, seq)] = True
    kept = [each for each, has in zip(found, sends, strict=False) if has]
    files = [MessageFiles(relation, own) for relation, own in made.close()]
    columns = [[each.xid, each.finish_lsn, each.end_lsn, each.committed_at, each.first_seq, each.last_seq]
               for each in kept]  # fmt: skip
    transactions = Transactions.of(*(np.array(columns, np.int64).reshape(-1, 6).T))
    batch = WireBatch(transactions, tuple(files), tuple(truncates), folder.close)
    return batch.until(found[-1].last_seq + 1) if kept else WireBatch((), (), (), folder.close)


def truncates_of(made: DecidedMessages, declared: Declarations) -> list[tuple[int, TruncateMessage]]:
    found = []
    for seq, event in made.truncations:
        for message in declared.messages(event):
            assert isinstance(message, TruncateMessage)
            found.append((seq, message))
    return found
