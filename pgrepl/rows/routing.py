"""Tuple routing: the partition of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation, relation
from pgrepl.errors import PgError
from pgrepl.expr.context import Context
from pgrepl.expr.evaluate import Compiled, compile, operator_function
from pgrepl.expr.opclasses import EQUAL, opclass_operator
from pgrepl.expr.partition import MINVALUE, PartitionBound, PartitionKey, RangeDatum
from pgrepl.expr.partition_hash import hash_function, row_hash
from pgrepl.expr.partition_order import PartitionDesc, comparisons, partition_desc
from pgrepl.rows.checks_text import failing_partition_key

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Row = tuple[Any, ...]
Choose = Callable[[Sequence[Any]], int]  # values of the key → position in PartitionDesc, -1: none


class Router:
    """Routes rows of a partitioned table to its leaves (ExecFindPartition)."""

    def __init__(self, session: Session, root: Relation) -> None:
        self._session = session
        self._root = root
        self._levels: dict[int, _Level] = {}

    def route(self, row: Row) -> tuple[Relation, Row]:
        """The leaf of a row of the root, and the row in the leaf's layout."""
        rel = self._root
        while rel.kind == "p":
            level = self._levels.get(rel.oid)
            if level is None:
                level = self._levels[rel.oid] = _Level(self._session, rel)
            rel, row = level.step(row)
        return rel, row


class _Level:
    """One partitioned table on the way to the leaf."""

    def __init__(self, session: Session, rel: Relation) -> None:
        self._session = session
        self._rel = rel
        self._desc = partition_desc(session, rel.oid)
        self._values = key_values(session, self._desc.key)
        self._choose = chooser(self._desc)
        self._parts: dict[int, tuple[Relation, Callable[[Row], Row]]] = {}

    def step(self, row: Row) -> tuple[Relation, Row]:
        values = [value(row) for value in self._values]
        position = self._choose(values)
        if position < 0:
            raise PgError(
                "23514",
                f'no partition of relation "{self._rel.name}" found for row',
                detail=failing_partition_key(self._session, self._rel, self._desc.key, values),
                schema=self._rel.schema,
                table=self._rel.name,
            )
        found = self._parts.get(position)
        if found is None:
            part = relation(self._session, self._desc.oids[position])
            found = self._parts[position] = (part, converter(self._rel, part))
        part, convert = found
        return part, convert(row)


def key_values(session: Session, key: PartitionKey) -> list[Compiled]:
    """The functions that give the values of a partition key's columns for a row."""
    context = Context(session)

    def of_column(number: int) -> Compiled:
        return lambda row: row[number - 1]

    return [of_column(c.attnum) if c.expr is None else compile(c.expr, context) for c in key.columns]


def converter(source: Relation, target: Relation) -> Callable[[Row], Row]:
    """A function that puts rows of one relation into the layout of another with the same columns, by name."""
    if [(a.name, a.dropped) for a in source.attributes] == [(a.name, a.dropped) for a in target.attributes]:
        return lambda row: row
    take = column_places(source, target)
    return lambda row: tuple([None if place < 0 else row[place] for place in take])


def column_places(source: Relation, target: Relation) -> tuple[int, ...]:
    """The place, for each column of the target by number, in the rows of a source with the same columns; -1 for a
    dropped column."""
    places = {a.name: a.num - 1 for a in source.columns}
    return tuple([-1 if a.dropped else places.get(a.name, -1) for a in target.attributes])


# --- choosing (get_partition_for_tuple) -------------------------------------------------------------------------------


def chooser(desc: PartitionDesc) -> Choose:
    """A function that gives the partition for the values of the key."""
    default = next((n for n, bound in enumerate(desc.bounds) if bound.default), -1)
    kinds = {"h": _by_hash, "l": _by_list, "r": _by_range}
    return kinds[desc.key.strategy](desc, default)


def _by_hash(desc: PartitionDesc, default: int) -> Choose:
    functions = [hash_function(column) for column in desc.key.columns]
    bounds = [(bound.modulus, bound.remainder) for bound in desc.bounds]

    def choose(values: Sequence[Any]) -> int:
        number = row_hash(functions, values)
        return next((n for n, (modulus, remainder) in enumerate(bounds) if number % modulus == remainder), -1)

    return choose


def _by_list(desc: PartitionDesc, default: int) -> Choose:
    (column,) = desc.key.columns
    equal = operator_function(opclass_operator(column.opclass, EQUAL))
    listed = [(value.value, n) for n, bound in enumerate(desc.bounds) for value in bound.values]
    for_null = next((n for value, n in listed if value is None), default)
    present = [(value, n) for value, n in listed if value is not None]
    known: dict[Any, int] = {}

    def choose(values: Sequence[Any]) -> int:
        (value,) = values
        if value is None:
            return for_null
        found = known.get(value)
        if found is None:
            found = known[value] = next((n for other, n in present if equal(value, other)), default)
        return found

    return choose


def _by_range(desc: PartitionDesc, default: int) -> Choose:
    compare = comparisons(desc.key)
    bounds = [bound for bound in desc.bounds if not bound.default]
    upper_before = partial(_below, compare)

    def choose(values: Sequence[Any]) -> int:
        if None in values:
            return default
        low, high = 0, len(bounds)
        while low < high:  # the first whose upper bound is above the values
            middle = (low + high) // 2
            if upper_before(values, bounds[middle].upper):
                high = middle
            else:
                low = middle + 1
        if low < len(bounds) and not upper_before(values, bounds[low].lower):
            return low
        return default

    return choose


def _below(compare: Sequence[Callable[[Any, Any], int]], values: Sequence[Any], datums: Sequence[RangeDatum]) -> bool:
    """Whether values are below a bound; values equal to it are not."""
    for order, value, datum in zip(compare, values, datums, strict=True):
        if datum.value is None:
            return datum.kind != MINVALUE
        result = order(value, datum.value.value)
        if result:
            return result < 0
    return False


__all__ = ["PartitionBound", "Router", "chooser", "column_places", "converter", "key_values"]
