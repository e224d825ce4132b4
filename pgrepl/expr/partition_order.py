"""The order of partition bounds. `PartitionDesc` lists a parent's partitions in that order, in which PostgreSQL prints
and scans them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cmp_to_key
from typing import Any

from pgrepl.catalog import store
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_class, pg_inherits
from pgrepl.expr.evaluate import operator_function
from pgrepl.expr.opclasses import EQUAL, LESS, opclass_operator
from pgrepl.expr.partition import KeyColumn, PartitionBound, PartitionKey, RangeDatum, bound_from_json, partition_key
from pgrepl.frozen import frozen

Compare = Callable[[Any, Any], int]


def comparisons(key: PartitionKey) -> tuple[Compare, ...]:
    """The comparison function of each key column."""
    return tuple(_comparison(column) for column in key.columns)


def _comparison(column: KeyColumn) -> Compare:
    """The comparison by the < and = of the column's operator class."""
    less = operator_function(opclass_operator(column.opclass, LESS), None, column.type)
    equal = operator_function(opclass_operator(column.opclass, EQUAL), None, column.type)

    def compare(one: Any, two: Any) -> int:
        if equal(one, two):
            return 0
        return -1 if less(one, two) else 1

    return compare


def compare_range(
    compare: Sequence[Compare], one: Sequence[RangeDatum], lower1: bool, two: Sequence[RangeDatum], lower2: bool
) -> int:
    """Compares range bounds as partition_rbound_cmp does: <0, 0 or >0. The absolute value is the number of the column
    that decided. An upper bound is less than an equal lower one."""
    result, number = 0, 0
    for number, (a, b) in enumerate(zip(one, two, strict=True), 1):
        if a.kind != b.kind:
            return number if a.kind > b.kind else -number
        if a.value is None or b.value is None:
            break
        result = compare[number - 1](a.value.value, b.value.value)
        if result:
            break
    if result == 0 and lower1 != lower2:
        result = 1 if lower1 else -1
    return 0 if result == 0 else number if result > 0 else -number


@frozen
class PartitionDesc:
    """The partitions of a parent in the order of their bounds; the default partition last."""

    key: PartitionKey
    oids: tuple[int, ...]
    bounds: tuple[PartitionBound, ...]

    @property
    def default(self) -> int:
        """The default partition, 0 when there is none."""
        return next((oid for oid, bound in zip(self.oids, self.bounds, strict=True) if bound.default), 0)


def partition_desc(session: Session, parent: int) -> PartitionDesc:
    """As RelationBuildPartitionDesc does."""
    key = partition_key(session, parent)
    if key is None:
        raise LookupError(f"relation {parent} is not partitioned")
    found: list[tuple[int, PartitionBound]] = []
    children = sorted(row.inhrelid for row in store.rows(session, pg_inherits, inhparent=parent))
    for oid in children:
        row = store.one(session, pg_class, oid=oid)
        if row is not None and row.relpartbound is not None:
            found.append((oid, bound_from_json(row.relpartbound, session)))
    found = _in_order(key, found)
    return PartitionDesc(key, tuple(oid for oid, _ in found), tuple(bound for _, bound in found))


def leaf_partitions(session: Session, parent: int) -> Iterator[Relation]:
    """The leaf partitions of a partitioned table, in scan order."""
    for oid in partition_desc(session, parent).oids:
        part = relation(session, oid)
        if part.kind == "p":
            yield from leaf_partitions(session, oid)
        else:
            yield part


def _in_order(key: PartitionKey, found: list[tuple[int, PartitionBound]]) -> list[tuple[int, PartitionBound]]:
    default = [item for item in found if item[1].default]
    rest = [item for item in found if not item[1].default]
    if key.strategy == "h":
        rest.sort(key=lambda item: (item[1].modulus, item[1].remainder))
    elif key.strategy == "r":
        compare = comparisons(key)

        def by_upper(left: tuple[int, PartitionBound], right: tuple[int, PartitionBound]) -> int:
            return compare_range(compare, left[1].upper, False, right[1].upper, False)

        rest.sort(key=cmp_to_key(by_upper))
    else:
        order = cmp_to_key(comparisons(key)[0])
        with_values = [item for item in rest if any(v.value is not None for v in item[1].values)]
        with_values.sort(key=lambda item: min(order(v.value) for v in item[1].values if v.value is not None))
        rest = with_values + [item for item in rest if item not in with_values]
    return rest + default
