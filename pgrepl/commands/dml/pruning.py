"""Which partitions a condition can concern: the others are not touched, nor asked whether they could be
(partprune.c, as far as constants go)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation, relation
from pgrepl.expr.partition import MAXVALUE, MINVALUE, RangeDatum
from pgrepl.expr.partition_order import Compare, PartitionDesc, comparisons, partition_desc
from pgrepl.rows.routing import chooser

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound

_MOST = 1000  # combinations of values that are tried


def leaves(session: Session, top: Relation, bounds: Sequence[Bound]) -> Iterator[Relation]:
    """The leaves below a partitioned table that can have rows within the bounds, in their order."""
    desc = partition_desc(session, top.oid)
    kept = _kept(desc, bounds)
    for position, oid in enumerate(desc.oids):
        if position not in kept:
            continue
        part = relation(session, oid)
        if part.kind == "p":
            yield from leaves(session, part, _moved(bounds, top, part))
        else:
            yield part


def _moved(bounds: Sequence[Bound], top: Relation, part: Relation) -> list[Bound]:
    from dataclasses import replace

    moved = []
    for bound in bounds:
        own = part.attribute(top.attributes[bound.attnum - 1].name)
        if own is not None:
            moved.append(replace(bound, attnum=own.num))
    return moved


def _kept(desc: PartitionDesc, bounds: Sequence[Bound]) -> set[int]:
    everything = set(range(len(desc.oids)))
    lists = [_values(column.attnum, bounds) for column in desc.key.columns]
    if all(values is not None for values in lists):
        known = [values for values in lists if values is not None]
        count = 1
        for values in known:
            count *= len(values)
        if count <= _MOST:
            choose = chooser(desc)
            return {choose(values) for values in product(*known)} & everything
    first = desc.key.columns[0]
    own = [bound for bound in bounds if bound.attnum == first.attnum and first.attnum]
    if desc.key.strategy == "h" or not own:
        return everything
    compare = comparisons(desc.key)[0]
    alone = len(desc.key.columns) == 1
    return {n for n in everything if desc.bounds[n].default or _meets(desc, n, own, compare, alone)}


def _values(attnum: int, bounds: Sequence[Bound]) -> list[Any] | None:
    """The only values that the column can have, if they are known."""
    for bound in bounds:
        if attnum and bound.attnum == attnum:
            if bound.values is not None:
                return list(bound.values)
            if bound.low is not None and bound.low == bound.high and bound.low_inclusive and bound.high_inclusive:
                return [bound.low]
    return None


def _meets(desc: PartitionDesc, position: int, bounds: Sequence[Bound], compare: Compare, alone: bool) -> bool:
    partition = desc.bounds[position]
    if partition.strategy == "l":
        listed = [v.value for v in partition.values if v.value is not None]
        return any(all(_within(value, bound, compare) for bound in bounds) for value in listed)
    return all(_overlaps(partition.lower[0], partition.upper[0], bound, compare, alone) for bound in bounds)


def _within(value: Any, bound: Bound, compare: Compare) -> bool:
    if bound.values is not None:
        return any(compare(value, one) == 0 for one in bound.values)
    if bound.low is not None:
        order = compare(value, bound.low)
        if order < 0 or (order == 0 and not bound.low_inclusive):
            return False
    if bound.high is not None:
        order = compare(value, bound.high)
        if order > 0 or (order == 0 and not bound.high_inclusive):
            return False
    return True


def _overlaps(lower: RangeDatum, upper: RangeDatum, bound: Bound, compare: Compare, alone: bool) -> bool:
    """Of a range partition only the first column is looked at; of several the upper bound may be reached."""
    low, high = bound.low, bound.high
    if bound.values is not None:
        return True
    if low is not None and upper.kind != MAXVALUE:
        if upper.kind == MINVALUE or upper.value is None:
            return False
        order = compare(low, upper.value.value)
        if order > 0 or (order == 0 and alone):
            return False
    if high is not None and lower.kind != MINVALUE:
        if lower.kind == MAXVALUE or lower.value is None:
            return False
        order = compare(high, lower.value.value)
        if order < 0 or (order == 0 and not bound.high_inclusive):
            return False
    return True
