"""A target table of one sent relation, as plain data: kernels decide by it without a session, in tasks of Spark too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.engine.copy_rows import RowMaker
from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.replication.wire.batch import RelationChanges
from pgrepl.types import oids
from pgrepl.types.lake.arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.engine.copy_rows import KernelColumn, KernelCondition
    from pgrepl.lake.table import LakeColumn, LakeTable
    from pgrepl.replication.wire.messages import SentColumn

    Numbers = npt.NDArray[Any]


MOST_BYTES = 1 << 30  # of columns that are held in memory; larger ones are left to the exact way


@frozen
class TableKeys:
    """`attnums`: the columns of the key that rows are found by; without columns rows are not looked for. `others`: the
    columns of each other unique index."""

    attnums: tuple[int, ...]
    others: tuple[tuple[int, ...], ...] = ()


@frozen
class DescribedTable:
    """`places`: for each column by number the place among those that are sent; columns that are not sent have places
    behind these, generated ones -1. `same`: the numbers of the columns that hold what is sent as it is. `defaults`:
    what INSERTs put into columns that are not sent, by place, an array of one each."""

    table: LakeTable
    keys: TableKeys
    places: tuple[int, ...]
    same: frozenset[int]
    sent: tuple[SentColumn, ...]  # the places that are sent
    columns: tuple[KernelColumn, ...]  # made of what is at a place, whose attribute number is the place + 1
    check: KernelCondition | None
    defaults: Mapping[int, pa.Array]

    @property
    def new_places(self) -> list[int]:
        """The places that new rows are made of."""
        return [attnum - 1 for attnum in sorted({attnum for column in self.columns for attnum in column.read})]

    @property
    def has_rules(self) -> bool:
        """Whether there may be something wrong about a new row."""
        plain = all(c.source and c.attnum in self.same and not c.not_null for c in self.columns)
        return not plain or self.check is not None

    @property
    def converted(self) -> list[KernelColumn]:
        """The columns that are not kept as they were sent."""
        return [column for column in self.columns if column.attnum not in self.same and not column.generated]

    def column(self, attnum: int) -> SentColumn | LakeColumn:
        """The column at a place, as a source of a RowMaker."""
        if attnum <= len(self.sent):
            return self.sent[attnum - 1]
        return self.table.column(self.places.index(attnum - 1) + 1)

    def maker(self) -> RowMaker:
        return RowMaker(self, self.table, self.columns, self.check)

    def new_rows(self, maker: RowMaker, changes: RelationChanges, messages: Numbers) -> list[pa.Array]:
        """The table's columns in their order. PgError: something is wrong about a row."""
        made = maker.made(_picked(changes, self.new_places, messages), len(messages))
        return [made[column.attnum] for column in self.table.columns]

    def check_searched(self, changes: RelationChanges, messages: Numbers, *, old: bool) -> None:
        """Convert the values that these messages look for a row by. PgError: one is not a value of its column."""
        columns = [replace(column, not_null=False) for column in self.converted]
        if old:
            columns = [c for c in columns if all(changes.relation.columns[n - 1].is_key for n in c.read)]
        if columns and len(messages):
            places = sorted({attnum - 1 for column in columns for attnum in column.read})
            maker = RowMaker(self, self.table, columns, None)
            maker.made(_picked(changes, places, messages, old=old), len(messages))

    def key_values(self, changes: RelationChanges, attnums: Sequence[int], at: Numbers, *, old: bool) -> list[pa.Array]:
        """Columns of the new or the old rows of some messages, in the table's types."""
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


def _picked(
    changes: RelationChanges, places: Sequence[int], messages: Numbers, *, old: bool = False
) -> dict[int, pa.Array]:
    """The arrays at the places, as sources of a RowMaker."""
    return {place + 1: array for place, array in zip(places, changes.pick(places, messages, old=old), strict=True)}


def _with_old(changes: RelationChanges, values: pa.Array, place: int, at: Numbers, unchanged: Numbers) -> pa.Array:
    """A key column with unsent values taken from the old row, which has them."""
    which = np.flatnonzero(unchanged)
    if not changes.has_old[at[which]].all():
        raise Declined("a key that was not sent")
    (olds,) = changes.pick([place], at[which], old=True)
    numbers = np.arange(len(values))
    numbers[which] = len(values) + np.arange(len(which))
    return pa.concat_arrays([values, olds]).take(pa.array(numbers))


def _read_as(values: pa.Array, source: int, target: int) -> pa.Array:
    """Key values converted to the table's type. Declined for types whose conversion is not simple."""
    if source in (*oids.INTEGERS, oids.TEXT) and target in oids.INTEGERS:
        width = {oids.INT2: pa.int16(), oids.INT4: pa.int32(), oids.INT8: pa.int64()}[target]
        try:
            return pc.cast(values, width)
        except pa.ArrowInvalid:
            raise Declined("a key that does not convert") from None
    if {source, target} <= {oids.TEXT, oids.VARCHAR} or (source in oids.INTEGERS and target == oids.TEXT):
        return plain_array(pc.cast(values, pa.string()))
    raise Declined("the type of a key")
