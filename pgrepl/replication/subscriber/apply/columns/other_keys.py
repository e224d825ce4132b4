"""Unique indexes besides the one by which rows are found: whether new rows can come to terms with them.

A new row's values are free if no row of the table has them but the one it takes the place of, and if no other row of
the batch has them, be it only for a while. Less than that may do, when a row gives its values away before another takes
them: that is left to the exact way.

Of changes that are applied in parts the new rows are kept in files until all parts are known, and then dealt by the
values of each index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.replication.subscriber.apply.columns.fold import NotClean
from pgrepl.replication.subscriber.apply.columns.keys import NOT_THERE, Keys
from pgrepl.replication.subscriber.apply.columns.parts import by_key
from pgrepl.replication.wire.batch import INSERT, RelationChanges
from pgrepl.replication.wire.file_changes import FileChanges, MessageFiles
from pgrepl.replication.wire.key_values import comparable
from pgrepl.replication.wire.message_files import Decoded, MessageFolder, MessageWriter
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.types import oids

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from pgrepl.catalog.session import Session
    from pgrepl.lake.table import LakeColumn, LakeTable

    Numbers = npt.NDArray[Any]

_KEYS = 32  # bits that tell the keys of one part apart


def check_other_keys(
    session: Session,
    table: LakeTable,
    snapshot: int,
    attnums: Sequence[int],
    columns: Sequence[pa.Array],
    messages: Numbers,
    key: Numbers,
    row_id: Numbers,
    *,
    again: bool = True,
) -> None:
    """`columns` of the new rows of `messages`; of each the number of the `key` that it finds its row by, and that
    row's id (NOT_THERE: the table has none). NotClean: a message that meets another row."""
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
        return
    keys = Keys(table, attnums, [[column] for column in columns])
    order, first = keys.in_order(keys.codes[0])
    places = keys.find(session, snapshot, again=again)
    group = np.cumsum(first) - 1
    whose = key[order]
    meets = whose != whose[np.flatnonzero(first)][group]
    holder = places.number[group]
    held = np.flatnonzero(holder != NOT_THERE)
    meets[held] |= places.row_id[holder[held]] != row_id[order[held]]
    if meets.any():
        raise NotClean(int(messages[order[meets]].min()))


@frozen
class _Index:
    columns: Sequence[LakeColumn]
    writer: MessageWriter

    def values(self, changes: RelationChanges, at: Numbers, old: bool) -> list[pa.Array]:
        arrays = changes.pick(range(len(self.columns)), at, old=old)
        return [comparable(column, array) for column, array in zip(self.columns, arrays, strict=True)]


class KeptKeys:
    """What the new rows of one table have in other unique indexes than the one that parts are made by."""

    def __init__(self, session: Session, table: LakeTable, snapshot: int, most: int, folder: MessageFolder) -> None:
        """`most`: rows that are held in memory together."""
        self._session = session
        self._table = table
        self._snapshot = snapshot
        self._most = most
        self._folder = folder
        self._indexes: dict[tuple[int, ...], _Index] = {}
        self._parts = 0

    def keep(
        self, attnums: tuple[int, ...], columns: Sequence[pa.Array], seq: Numbers, key: Numbers, row_id: Numbers
    ) -> None:
        """As check_other_keys; of the messages the sequence numbers."""
        import numpy as np
        import pyarrow as pa

        index = self._indexes.get(attnums)
        if index is None:
            index = self._indexes[attnums] = self._index(attnums)
        self._parts += 1
        own = pa.array(key + (self._parts << _KEYS))  # of one part
        nothing = np.zeros(len(seq), np.bool_)
        op = np.full(len(seq), INSERT, np.uint8)
        index.writer.write(seq, Decoded(op, nothing, [*columns, own, pa.array(row_id)], {}, {}))

    def _index(self, attnums: tuple[int, ...]) -> _Index:
        columns = [self._table.column(attnum) for attnum in attnums]
        sent = [SentColumn(column.name, column.typoid, column.typmod, is_key=False) for column in columns]
        numbers = [SentColumn(name, oids.INT8, -1, is_key=False) for name in ("key", "row id")]
        relation = SentRelation(self._table.oid, "", f"{attnums}", "n", (*sent, *numbers))
        path = f"{self._folder.path(relation)}.{len(self._indexes)}"
        return _Index(columns, MessageWriter(relation, path, 1))

    def check(self) -> None:
        """NotClean with the sequence number of a message that meets another row."""
        for attnums, index in self._indexes.items():
            messages = MessageFiles(index.writer.relation, index.writer.close(), self._folder.new_path)
            for part in by_key(messages, index.values, self._most):
                self._check(attnums, part)

    def _check(self, attnums: tuple[int, ...], part: FileChanges) -> None:
        import numpy as np

        every = np.arange(part.count)
        *columns, key, row_id = part.pick(range(len(attnums) + 2), every)
        numbers = key.to_numpy(), row_id.to_numpy()
        try:
            check_other_keys(self._session, self._table, self._snapshot, attnums, columns, every, *numbers, again=False)
        except NotClean as found:
            raise NotClean(int(part.seq[found.message])) from None
