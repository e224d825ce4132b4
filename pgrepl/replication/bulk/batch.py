"""What a publisher gives in bulk: the transactions between two LSNs with their messages as columns, and the rows of a
table as a DataFrame.

A batch stands within one stretch of definitions: of each relation it knows one description. Messages have sequence
numbers that rise over the whole batch, whichever relation they are of; those of one relation are numbered 0, 1, …, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from pgrepl.frozen import frozen
from pgrepl.replication.sending.wire import SentRelation, TruncateMessage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame

INSERT, UPDATE, DELETE = ord("I"), ord("U"), ord("D")
AT = "at"  # the column of a frame of rows that holds the number of the message


@frozen
class BulkTransaction:
    """As a WireTransaction. Its messages have the sequence numbers from `first_seq` to `last_seq`."""

    xid: int
    finish_lsn: int
    end_lsn: int
    committed_at: int
    origin: str | None
    first_seq: int
    last_seq: int


class RelationChanges(Protocol):
    """All messages of one relation in a batch, in order."""

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
    def unchanged(self) -> bool:
        """Whether anywhere a value was not sent because it did not change (see wire.UNCHANGED)."""
        ...

    def values(self, place: int, *, old: bool = False) -> pa.Array:
        """A column of the relation, of new or of old rows, an entry for every message; NULL where there is no such
        row."""
        ...

    def rows(
        self, places: Sequence[int], *, chosen: npt.NDArray[np.bool_] | None = None, ordered: bool = False
    ) -> DataFrame:
        """New rows of all messages that have one, or of those `chosen`: `at`, the number of the message, and s{place}
        in the Spark form of the column's type; `ordered`: in the order of the messages."""
        ...

    def until(self, seq: int) -> RelationChanges:
        """Only the messages before a sequence number."""
        ...


@frozen
class WireBatch:
    """Transactions in commit order, and what is sent of them."""

    transactions: tuple[BulkTransaction, ...]
    changes: tuple[RelationChanges, ...]
    truncates: tuple[tuple[int, TruncateMessage], ...] = ()  # with their sequence numbers
    forget: Callable[[], None] | None = None

    @property
    def count(self) -> int:
        return sum(each.count for each in self.changes) + len(self.truncates)

    def until(self, seq: int) -> WireBatch:
        """The transactions before the one that has this sequence number."""
        kept = tuple([t for t in self.transactions if t.last_seq < seq])
        end = kept[-1].last_seq + 1 if kept else 0
        changes = tuple([part for each in self.changes if (part := each.until(end)).count])
        truncates = tuple([each for each in self.truncates if each[0] < end])
        return replace(self, transactions=kept, changes=changes, truncates=truncates)

    def discard(self) -> None:
        """What was kept for the batch is needed no more."""
        if self.forget is not None:
            self.forget()


class BulkRows(Protocol):
    """The rows of a copy."""

    @property
    def estimate(self) -> int:
        """About how many rows have to be looked at."""
        ...

    def frame(self) -> DataFrame:
        """s0 … sn by the columns of the relation, in the Spark form of their types."""
        ...
