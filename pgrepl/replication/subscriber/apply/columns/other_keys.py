"""Unique indexes besides the one that rows are found by: whether a new row duplicates another row's values.

A new row is clean if no row of the table has its values but the one it replaces, and if no row with another key has
them at any time in the batch. This is stricter than need be: a row may lose its values before another gets them. Such a
batch is left to the exact way.

Where changes are applied in parts, the values of new rows are kept in files until all parts are applied, and then dealt
by the values of each index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.replication.subscriber.apply.columns.fold import NotClean
from pgrepl.replication.subscriber.apply.columns.keys import NOT_THERE, Keys
from pgrepl.replication.wire.batch import INSERT, RelationChanges
from pgrepl.replication.wire.key_values import comparable
from pgrepl.replication.wire.message_files import Decoded, MessageFile, MessageWriter
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.types import oids

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from pgrepl.lake.table import LakeColumn, LakeTable
    from pgrepl.lake.table_rows import RowsWithin

    Numbers = npt.NDArray[Any]

_KEYS = 32  # bits for the number of a key within its part


def check_other_keys(
    table: LakeTable,
    within: RowsWithin,
    attnums: Sequence[int],
    columns: Sequence[pa.Array],
    messages: Numbers,
    key: Numbers,
    row_id: Numbers,
    *,
    again: bool = True,
) -> int:
    """Check the values `columns` of the new rows of `messages`. `key`: the number of the key that finds each one's row;
    `row_id`: that row's id (NOT_THERE: the table has none). Raises NotClean for the first message whose values another
    row has; otherwise the answer is the number of values looked up."""
    import numpy as np
    import pyarrow as pa

    known = np.ones(len(messages), np.bool_)  # NULLs are not equal to each other
    for column in columns:
        if column.null_count:
            known &= column.is_valid().to_numpy(zero_copy_only=False)
    if not known.all():
        at = np.flatnonzero(known)
        messages, key, row_id = messages[at], key[at], row_id[at]
        columns = [column.take(pa.array(at)) for column in columns]
    if not len(messages):
        return 0
    keys = Keys(table, attnums, [[column] for column in columns])
    order, first = keys.in_order(keys.codes[0])
    places = keys.find(within, again=again)
    group = np.cumsum(first) - 1
    whose = key[order]
    meets = whose != whose[np.flatnonzero(first)][group]
    holder = places.number[group]
    held = np.flatnonzero(holder != NOT_THERE)
    meets[held] |= places.row_id[holder[held]] != row_id[order[held]]
    if meets.any():
        raise NotClean(int(messages[order[meets]].min()))
    return len(keys.distinct)


@frozen
class IndexValues:
    """The values of an index in the messages that are kept for it (`Keys` of parts.py)."""

    columns: tuple[LakeColumn, ...]

    def __call__(self, changes: RelationChanges, at: Numbers, old: bool) -> list[pa.Array]:
        arrays = changes.pick(range(len(self.columns)), at, old=old)
        return [comparable(column, array) for column, array in zip(self.columns, arrays, strict=True)]


def index_relation(table: LakeTable, attnums: Sequence[int]) -> SentRelation:
    """The relation of messages that keep an index's values: its columns, the number of the row's key, the row id."""
    columns = [table.column(attnum) for attnum in attnums]
    sent = [SentColumn(column.name, column.typoid, column.typmod, is_key=False) for column in columns]
    numbers = [SentColumn(name, oids.INT8, -1, is_key=False) for name in ("key", "row id")]
    return SentRelation(table.oid, "", f"{attnums}", "n", (*sent, *numbers))


class KeptKeys:
    """Files with the values that the new rows of one part have in unique indexes besides the one that parts are divided
    by."""

    def __init__(self, table: LakeTable, path: str, part: int) -> None:
        """`path`: the prefix of the files' names."""
        self._table = table
        self._path = path
        self._part = part
        self._files: dict[tuple[int, ...], tuple[MessageFile, ...]] = {}

    def keep(
        self, attnums: tuple[int, ...], columns: Sequence[pa.Array], seq: Numbers, key: Numbers, row_id: Numbers
    ) -> None:
        """Write the values of one index. Parameters as in check_other_keys; `seq`: the messages' sequence numbers."""
        import numpy as np
        import pyarrow as pa

        writer = MessageWriter(index_relation(self._table, attnums), f"{self._path}.{len(self._files)}", len(seq))
        own = pa.array(key + (self._part << _KEYS))
        nothing = np.zeros(len(seq), np.bool_)
        op = np.full(len(seq), INSERT, np.uint8)
        writer.write(seq, Decoded(op, nothing, [*columns, own, pa.array(row_id)], {}, {}))
        self._files[attnums] = writer.close()

    @property
    def files(self) -> Mapping[tuple[int, ...], tuple[MessageFile, ...]]:
        """The files, by the columns of an index."""
        return self._files


def check_kept(table: LakeTable, attnums: Sequence[int], part: RelationChanges, within: RowsWithin) -> int:
    """Check one part of the kept messages, which has all messages with some values of the index. The number of values
    looked up; raises NotClean with a sequence number."""
    import numpy as np

    every = np.arange(part.count)
    *columns, key, row_id = part.pick(range(len(attnums) + 2), every)
    numbers = key.to_numpy(), row_id.to_numpy()
    try:
        return check_other_keys(table, within, attnums, columns, every, *numbers, again=False)
    except NotClean as found:
        raise NotClean(int(part.seq[found.message])) from None
