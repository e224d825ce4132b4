"""The key by which a table's rows are found, and the values that messages have of it, in the types it has here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation
from pgrepl.engine import Declined
from pgrepl.frozen import frozen
from pgrepl.replication.subscriber.apply.columns.convert import Conversion
from pgrepl.replication.subscriber.apply.target import identity_of
from pgrepl.replication.wire.batch import RelationChanges
from pgrepl.rows.unique import unique_indexes
from pgrepl.types import oids
from pgrepl.types.lake_arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from pgrepl.catalog.session import Session

    Numbers = npt.NDArray[Any]


@frozen
class TableKeys:
    """`attnums`: the columns of the one key that rows are found by, and the only one that can be taken; none: rows are
    not looked for. `others`: those of other unique indexes."""

    attnums: tuple[int, ...]
    others: tuple[tuple[int, ...], ...] = ()


def table_keys(
    session: Session, table: Relation, conversion: Conversion, unsent: Collection[int], *, needed: bool
) -> TableKeys:
    """`needed`: there are rows to be found. `unsent`: places whose values are missing in some messages."""
    infos = [info for info in unique_indexes(session, table) if info.immediate]
    if not infos and not needed:
        return TableKeys(())
    places = conversion.places
    if not needed and len(infos) == 1:
        info = infos[0]
        attnums = tuple(info.columns[: info.key_count])
        if any(places[n - 1] < 0 for n in attnums if n):
            raise Declined("a key that is not sent")
    else:
        identity = identity_of(session, table, places, conversion.sent)
        if not identity.by_index:
            raise Declined("a table without a key")
        attnums = identity.attnums
    others = []
    for info in infos:
        own = tuple(info.columns[: info.key_count])
        if info.predicate is not None or 0 in own or info.nulls_not_distinct:
            raise Declined("a unique index of another kind")
        if sorted(own) != sorted(attnums):
            if any(places[n - 1] < 0 for n in own):
                raise Declined("a key that is not sent")
            if any(places[n - 1] in unsent for n in own):
                raise Declined("a key that was not sent")
            others.append(own)
    if not infos:
        raise Declined("a key that is checked later")
    return TableKeys(attnums, tuple(others))


def key_values(
    conversion: Conversion, changes: RelationChanges, attnums: Sequence[int], at: Numbers, *, old: bool
) -> list[pa.Array]:
    """Of the new or the old rows of some messages."""
    return [_values(conversion, changes, attnum, at, old=old) for attnum in attnums]


def _values(conversion: Conversion, changes: RelationChanges, attnum: int, at: Numbers, *, old: bool) -> pa.Array:
    place = conversion.places[attnum - 1]
    (values,) = changes.pick([place], at, old=old)
    unchanged = None if old else changes.unchanged.get(place)
    if unchanged is not None:
        values = _with_old(changes, values, place, at, unchanged[at])
    if conversion.same_type(attnum):
        return values
    return _read_as(values, changes.relation.columns[place].type, conversion.target.attributes[attnum - 1].type)


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
