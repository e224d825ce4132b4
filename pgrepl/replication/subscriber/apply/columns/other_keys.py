"""Unique indexes besides the one by which rows are found: whether new rows can come to terms with them.

A new row's values are free if no row of the table has them but the one it takes the place of, and if no other row of
the batch has them, be it only for a while. Less than that may do, when a row gives its values away before another takes
them: that is left to the exact way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.replication.subscriber.apply.columns.fold import NotClean
from pgrepl.replication.subscriber.apply.columns.keys import NOT_THERE, Keys

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from pgrepl.catalog.session import Session
    from pgrepl.lake.table import LakeTable

    Numbers = npt.NDArray[Any]


def check_other_keys(
    session: Session,
    table: LakeTable,
    snapshot: int,
    attnums: Sequence[int],
    columns: Sequence[pa.Array],
    messages: Numbers,
    key: Numbers,
    row_id: Numbers,
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
    places = keys.find(session, snapshot)
    group = np.cumsum(first) - 1
    whose = key[order]
    meets = whose != whose[np.flatnonzero(first)][group]
    holder = places.number[group]
    held = np.flatnonzero(holder != NOT_THERE)
    meets[held] |= places.row_id[holder[held]] != row_id[order[held]]
    if meets.any():
        raise NotClean(int(messages[order[meets]].min()))
