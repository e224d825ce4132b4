"""A table as the messages of one relation are applied to it, as plain data: what is decided by it needs no session, and
may be decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.engine import Declined
from pgrepl.frozen import frozen
from pgrepl.replication.wire.batch import RelationChanges
from pgrepl.types import oids
from pgrepl.types.lake_arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from pgrepl.lake.table import LakeTable

    Numbers = npt.NDArray[Any]


MOST_BYTES = 1 << 30  # of columns that are held here; more is for Spark


@frozen
class TableKeys:
    """`attnums`: the columns of the one key that rows are found by, and the only one that can be taken; none: rows are
    not looked for. `others`: those of other unique indexes."""

    attnums: tuple[int, ...]
    others: tuple[tuple[int, ...], ...] = ()


@frozen
class DescribedTable:
    """`places`: for each column by number the place among those that are sent, -1: not sent. `same`: the numbers of the
    columns that hold what is sent as it is."""

    table: LakeTable
    keys: TableKeys
    places: tuple[int, ...]
    same: frozenset[int]
    is_plain: bool  # rows are kept as they were sent, and no rule looks at them but NOT NULL
    needed: frozenset[int]  # the numbers of the columns that are NOT NULL

    @property
    def sent_places(self) -> list[int]:
        """Of the table's columns, in their order."""
        return [self.places[column.attnum - 1] for column in self.table.columns]

    def key_values(self, changes: RelationChanges, attnums: Sequence[int], at: Numbers, *, old: bool) -> list[pa.Array]:
        """Of the new or the old rows of some messages, in the types that the columns have here."""
        return [self._values(changes, attnum, at, old=old) for attnum in attnums]

    def _values(self, changes: RelationChanges, attnum: int, at: Numbers, *, old: bool) -> pa.Array:
        place = self.places[attnum - 1]
        (values,) = changes.pick([place], at, old=old)
        unchanged = None if old else changes.unchanged.get(place)
        if unchanged is not None:
            values = _with_old(changes, values, place, at, unchanged[at])
        if attnum in self.same:
            return values
        return _read_as(values, changes.relation.columns[place].type, self.table.column(attnum).typoid)


def _with_old(changes: RelationChanges, values: pa.Array, place: int, at: Numbers, unchanged: Numbers) -> pa.Array:
    """A part of the key that was not sent with the new row came with the old one."""
    import numpy as np
    import pyarrow as pa

    which = np.flatnonzero(unchanged)
    if not changes.has_old[at[which]].all():
        raise Declined("a key that was not sent")
    (olds,) = changes.pick([place], at[which], old=True)
    numbers = np.arange(len(values))
    numbers[which] = len(values) + np.arange(len(which))
    return pa.concat_arrays([values, olds]).take(pa.array(numbers))


_WHOLE = (oids.INT2, oids.INT4, oids.INT8)


def _read_as(values: pa.Array, source: int, target: int) -> pa.Array:
    """Keys in the type that they have here, where that is plain to see."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if source in (*_WHOLE, oids.TEXT) and target in _WHOLE:
        width = {oids.INT2: pa.int16(), oids.INT4: pa.int32(), oids.INT8: pa.int64()}[target]
        try:
            return pc.cast(values, width)
        except pa.ArrowInvalid:
            raise Declined("a key that does not convert") from None
    if {source, target} <= {oids.TEXT, oids.VARCHAR} or (source in _WHOLE and target == oids.TEXT):
        return plain_array(pc.cast(values, pa.string()))
    raise Declined("the type of a key")
