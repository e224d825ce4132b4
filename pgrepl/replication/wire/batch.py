"""Large parts of the wire stream: the transactions between two LSNs with their messages as columns; and keys that are
equal exactly if the type's operator says so.

Definitions do not change within a batch. Sequence numbers of messages rise over the whole batch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, overload

from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.replication.wire import messages
from pgrepl.replication.wire.messages import SentRelation, TruncateMessage
from pgrepl.replication.wire.pgoutput import DELETE_TYPE, INSERT_TYPE, UPDATE_TYPE
from pgrepl.types import oids
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from pgrepl.lake.table import LakeColumn

_EQUAL_AS_KEPT = (oids.INT2, oids.INT4, oids.INT8, oids.TEXT, oids.VARCHAR, oids.UUID, oids.DATE, oids.TIMESTAMP,
                  oids.TIMESTAMPTZ, oids.BOOL, oids.BYTEA)  # fmt: skip
_FLOATS = (oids.FLOAT4, oids.FLOAT8)
KEY_TYPES = (*_EQUAL_AS_KEPT, oids.BPCHAR, oids.NUMERIC, *_FLOATS)
_PLAIN_NUMERIC = r"^(-?(0|[1-9][0-9]*)(\.[0-9]+)?|NaN|-?Infinity)$"


def is_equal_as_kept(typoid: int, typmod: int) -> bool:
    """Are stored values of this type equal exactly if the type's equality operator says so?"""
    return typoid in _EQUAL_AS_KEPT or (typoid == oids.NUMERIC and form(typoid, typmod).lake.startswith("decimal"))


def comparable(column: LakeColumn, array: pa.Array) -> pa.Array:
    """The values of a column of one of the KEY_TYPES, in a form whose equality is the type's."""
    if column.typoid == oids.BPCHAR:
        return pc.utf8_rtrim(array, " ")
    if column.typoid in _FLOATS:
        return _float_bits(array)
    if column.typoid != oids.NUMERIC or pa.types.is_decimal(array.type):
        return array
    if not pa.types.is_string(array.type) or pc.all(pc.match_substring_regex(array, _PLAIN_NUMERIC)).as_py() is False:
        raise Declined("a key that is no plain number")
    short = pc.replace_substring_regex(array, r"(\.[0-9]*?)0+$", r"\1")
    short = pc.replace_substring_regex(short, r"\.$", "")
    return pc.if_else(pc.equal(short, "-0"), "0", short)


def _float_bits(array: pa.Array) -> pa.Array:
    known = array.is_valid().to_numpy(zero_copy_only=False)
    values = array.fill_null(0).to_numpy(zero_copy_only=False) + array.type.to_pandas_dtype()(0)  # -0 becomes 0
    values[np.isnan(values)] = np.nan
    return pa.array(values.view(np.int32 if values.itemsize == 4 else np.int64), mask=~known)


# --- batch ------------------------------------------------------------------------------------------------------------


INSERT, UPDATE, DELETE = INSERT_TYPE, UPDATE_TYPE, DELETE_TYPE  # operations in columns
CODES = {messages.INSERT: INSERT, messages.UPDATE: UPDATE, messages.DELETE: DELETE}
AT = "at"  # the column of a frame of rows that holds the number of the message


@frozen
class BatchTransaction:
    """A WireTransaction of a batch. Its messages have the sequence numbers from `first_seq` to `last_seq`."""

    xid: int
    finish_lsn: int
    end_lsn: int
    committed_at: int
    origin: str | None
    first_seq: int
    last_seq: int
    origin_lsn: int = 0  # its end at that origin


def columns_of(transactions: Sequence[BatchTransaction]) -> npt.NDArray[np.int64]:
    """The columns of Transactions, a row for each."""
    rows = [(t.xid, t.finish_lsn, t.end_lsn, t.committed_at, t.first_seq, t.last_seq) for t in transactions]
    return np.array(rows, np.int64).reshape(-1, 6)


class Transactions(Sequence[BatchTransaction]):
    """Transactions in commit order, kept as columns: there may be hundreds of thousands of them."""

    def __init__(self, columns: tuple[npt.NDArray[np.int64], ...], origins: Mapping[int, str], first: int) -> None:
        self._columns = columns  # xid, finish LSN, end LSN, time, first and last sequence number
        self._origins = origins
        self._first = first  # the first one's number among the keys of `origins`

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
        """The number of transactions that finish before this LSN."""
        return int(self._columns[1].searchsorted(lsn))

    def xids(self) -> list[int]:
        return list(self._columns[0].tolist())

    def holding(self, seq: int) -> int:
        """The place of the transaction that has this sequence number."""
        return int(self._columns[5].searchsorted(seq))


FIRST_STORED = -2


@frozen
class Kept:
    """The values of one column, unsent ones included."""

    source: npt.NDArray[np.int64]  # by message, the message that has its value; FIRST_STORED - n: the n-th of `stored`
    stored: pa.Array  # values of the table's rows
    size: int  # bytes of the values that were not sent


class RelationMessages(Protocol):
    """All messages of one relation in a batch, however many there are."""

    @property
    def relation(self) -> SentRelation: ...

    @property
    def count(self) -> int: ...

    def until(self, seq: int) -> RelationMessages:
        """The messages before a sequence number."""

    def whole(self) -> RelationChanges: ...


class RelationChanges(Protocol):
    """Messages of one relation, in order: all of a batch, or a part of them."""

    @property
    def relation(self) -> SentRelation: ...

    @property
    def count(self) -> int: ...

    @property
    def seq(self) -> npt.NDArray[np.int64]:
        """The sequence numbers, ascending."""

    @property
    def op(self) -> npt.NDArray[np.uint8]:
        """INSERT, UPDATE or DELETE."""

    @property
    def has_old(self) -> npt.NDArray[np.bool_]:
        """Whether an old key or row was sent: always with a DELETE; with an UPDATE if it changes the key, or if whole
        old rows are sent."""

    @property
    def unchanged(self) -> Mapping[int, npt.NDArray[np.bool_]]:
        """Masks, by place, of the messages that were sent without the value because it did not change
        (messages.UNCHANGED); a place where there are none is left out. The messages are UPDATEs, and have NULL
        there."""

    def with_kept(self, kept: Mapping[int, Kept]) -> RelationChanges:
        """These changes with the given values at those places."""

    def pick(self, places: Sequence[int], messages: npt.NDArray[np.int64], *, old: bool = False) -> list[pa.Array]:
        """Columns of the new or of the old rows of some messages, each of which has such a row."""

    def prepare(self, places: Sequence[int], most: int) -> None:
        """Announce that these columns of new rows will be picked. They may be read ahead, up to `most` bytes."""

    def fits(self, places: Sequence[int], most: int) -> bool:
        """Whether the columns that were prepared take at most so many bytes of memory."""


@frozen
class WireBatch:
    """Transactions in commit order, with their changes by relation and their truncations."""

    transactions: Sequence[BatchTransaction]
    changes: tuple[RelationMessages, ...]
    truncates: tuple[tuple[int, TruncateMessage], ...] = ()  # with their sequence numbers
    forget: Callable[[], None] | None = None

    @property
    def count(self) -> int:
        return sum(part.count for part in self.changes) + len(self.truncates)

    def until(self, seq: int) -> WireBatch:
        """The transactions before the one that has this sequence number."""
        kept = self.transactions[: bisect_left(self.transactions, seq, key=lambda transaction: transaction.last_seq)]
        end = kept[-1].last_seq + 1 if kept else 0
        changes = tuple([part for whole in self.changes if (part := whole.until(end)).count])
        truncates = tuple([truncate for truncate in self.truncates if truncate[0] < end])
        return replace(self, transactions=kept, changes=changes, truncates=truncates)

    def last_xids(self, most: int) -> list[int]:
        """The XIDs of so many transactions at its end, in order."""
        last = self.transactions[-most:]
        return last.xids() if isinstance(last, Transactions) else [transaction.xid for transaction in last]

    def discard(self) -> None:
        """Remove the files that were kept for the batch."""
        if self.forget is not None:
            self.forget()


class SparkCopyRows(Protocol):
    """The rows of a table's initial copy, as a DataFrame."""

    @property
    def estimate(self) -> int:
        """About how many rows have to be read."""

    def frame(self) -> DataFrame:
        """s0 … sn by the columns of the relation, in the Spark form of their types."""
