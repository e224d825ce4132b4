"""Large parts of the wire stream: the transactions between two LSNs with their messages as columns, and the rows of a
table as a DataFrame.

A batch stands within one stretch of definitions: of each relation it knows one description. Messages have sequence
numbers that rise over the whole batch, whichever relation they are of; those of one relation are numbered 0, 1, …, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, overload

from pgrepl.frozen import frozen
from pgrepl.replication.wire import messages
from pgrepl.replication.wire.messages import SentRelation, TruncateMessage
from pgrepl.replication.wire.pgoutput import DELETE_TYPE, INSERT_TYPE, UPDATE_TYPE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame

INSERT, UPDATE, DELETE = INSERT_TYPE, UPDATE_TYPE, DELETE_TYPE  # operations in columns
CODES = {messages.INSERT: INSERT, messages.UPDATE: UPDATE, messages.DELETE: DELETE}
AT = "at"  # the column of a frame of rows that holds the number of the message


@frozen
class BatchTransaction:
    """As a WireTransaction. Its messages have the sequence numbers from `first_seq` to `last_seq`."""

    xid: int
    finish_lsn: int
    end_lsn: int
    committed_at: int
    origin: str | None
    first_seq: int
    last_seq: int


class Transactions(Sequence[BatchTransaction]):
    """Transactions in commit order, kept as columns: there may be hundreds of thousands of them."""

    def __init__(self, columns: tuple[npt.NDArray[np.int64], ...], origins: Mapping[int, str], first: int) -> None:
        self._columns = columns  # xid, finish LSN, end LSN, time, first and last sequence number
        self._origins = origins
        self._first = first  # the number of the first, by which `origins` knows it

    @classmethod
    def of(
        cls,
        xid: npt.ArrayLike,
        finish_lsn: npt.ArrayLike,
        end_lsn: npt.ArrayLike,
        committed_at: npt.ArrayLike,
        first_seq: npt.ArrayLike,
        last_seq: npt.ArrayLike,
        origins: Mapping[int, str] | None = None,
    ) -> Transactions:
        import numpy as np

        columns = (xid, finish_lsn, end_lsn, committed_at, first_seq, last_seq)
        return cls(tuple([np.asarray(column, np.int64) for column in columns]), origins or {}, 0)

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, place: int) -> BatchTransaction: ...

    @overload
    def __getitem__(self, place: slice) -> Transactions: ...

    def __getitem__(self, place: int | slice) -> BatchTransaction | Transactions:
        if isinstance(place, slice):
            start, _, step = place.indices(len(self))
            assert step == 1, "transactions follow one another"
            return Transactions(tuple([column[place] for column in self._columns]), self._origins, self._first + start)
        xid, finish, end, when, first, last = [int(column[place]) for column in self._columns]
        origin = self._origins.get(self._first + (place if place >= 0 else len(self) + place))
        return BatchTransaction(xid, finish, end, when, origin, first, last)

    def since(self, lsn: int) -> int:
        """How many finish before this LSN."""
        return int(self._columns[1].searchsorted(lsn))

    def holding(self, seq: int) -> int:
        """The place of the transaction that has this sequence number."""
        return int(self._columns[5].searchsorted(seq))


FIRST_STORED = -2


@frozen
class Kept:
    """Where the values of one place come from."""

    source: npt.NDArray[np.int64]  # for each message the message that has it; FIRST_STORED - n: the n-th stored one
    stored: pa.Array  # values that rows of the table have
    size: int  # bytes that the values which were not sent take


class RelationMessages(Protocol):
    """All messages of one relation in a batch, however many there are."""

    @property
    def relation(self) -> SentRelation: ...

    @property
    def count(self) -> int: ...

    def until(self, seq: int) -> RelationMessages:
        """Only the messages before a sequence number."""
        ...

    def whole(self) -> RelationChanges: ...


class RelationChanges(Protocol):
    """Messages of one relation, in order: all of a batch, or a part of them."""

    @property
    def relation(self) -> SentRelation: ...

    @property
    def count(self) -> int: ...

    @property
    def seq(self) -> npt.NDArray[np.int64]:
        """Ascending."""
        ...

    @property
    def op(self) -> npt.NDArray[np.uint8]:
        """INSERT, UPDATE or DELETE."""
        ...

    @property
    def has_old(self) -> npt.NDArray[np.bool_]:
        """Whether an old key or row was sent: always of a DELETE, of an UPDATE where its key has changed or the whole
        old row is sent."""
        ...

    @property
    def unchanged(self) -> Mapping[int, npt.NDArray[np.bool_]]:
        """By place of which messages the value was not sent because it did not change (see wire.UNCHANGED), if there
        are any: they are UPDATEs, and have NULL there."""
        ...

    def with_kept(self, kept: Mapping[int, Kept]) -> RelationChanges:
        """The same with values at those places."""
        ...

    def pick(self, places: Sequence[int], messages: npt.NDArray[np.int64], *, old: bool = False) -> list[pa.Array]:
        """Columns of the relation, of the new or of the old rows of some messages, all of which have one."""
        ...

    def prepare(self, places: Sequence[int], most: int) -> None:
        """These columns of new rows will be picked: they may be read ahead, if they take no more than so many
        bytes."""
        ...

    def fits(self, places: Sequence[int], most: int) -> bool:
        """Whether the columns that were prepared take no more than so many bytes of memory."""
        ...

    def rows(
        self, places: Sequence[int], *, chosen: npt.NDArray[np.bool_] | None = None, ordered: bool = False
    ) -> DataFrame:
        """New rows of all messages that have one, or of those `chosen`: `at`, the number of the message, and s{place}
        in the Spark form of the column's type; `ordered`: in the order of the messages."""
        ...


@frozen
class WireBatch:
    """Transactions in commit order, and what is sent of them."""

    transactions: Sequence[BatchTransaction]
    changes: tuple[RelationMessages, ...]
    truncates: tuple[tuple[int, TruncateMessage], ...] = ()  # with their sequence numbers
    forget: Callable[[], None] | None = None

    @property
    def count(self) -> int:
        return sum(each.count for each in self.changes) + len(self.truncates)

    def until(self, seq: int) -> WireBatch:
        """The transactions before the one that has this sequence number."""
        kept = self.transactions[: bisect_left(self.transactions, seq, key=lambda each: each.last_seq)]
        end = kept[-1].last_seq + 1 if kept else 0
        changes = tuple([part for each in self.changes if (part := each.until(end)).count])
        truncates = tuple([each for each in self.truncates if each[0] < end])
        return replace(self, transactions=kept, changes=changes, truncates=truncates)

    def discard(self) -> None:
        """What was kept for the batch is needed no more."""
        if self.forget is not None:
            self.forget()


class SparkCopyRows(Protocol):
    """The rows of a copy."""

    @property
    def estimate(self) -> int:
        """About how many rows have to be looked at."""
        ...

    def frame(self) -> DataFrame:
        """s0 … sn by the columns of the relation, in the Spark form of their types."""
        ...
