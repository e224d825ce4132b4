"""Order and equality of values as PostgreSQL's default btree and hash operators have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, TypeVar

from pgrepl.expr import evaluate
from pgrepl.types import oids
from pgrepl.types.builtin import operator_by_oid

# Python's own order of these values is PostgreSQL's
_NATURAL = frozenset(
    {
        oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.NAME, oids.TEXT, oids.VARCHAR, oids.BYTEA, oids.DATE,
        oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.UUID, oids.PG_LSN, oids.XID, oids.REGCLASS, oids.REGTYPE,
        oids.CHAR,
    }
)  # fmt: skip

Item = TypeVar("Item")


@dataclass(frozen=True)
class Key:
    """One sort key: how its value is got, and its place before or after others."""

    value: Callable[[Any], Any]
    sortop: int
    descending: bool
    nulls_first: bool


def comparator(sortop: int) -> Callable[[Any, Any], int]:
    """-1, 0 or 1 by a < or > operator, of two values that are not NULL."""
    before = evaluate.operator_function(sortop)

    def compare(a: Any, b: Any) -> int:
        if before(a, b):
            return -1
        return 1 if before(b, a) else 0

    return compare


def sort(items: Iterable[Item], keys: Sequence[Key]) -> list[Item]:
    """A stable sort by several keys, the last one first."""
    found = list(items)
    for key in reversed(keys):
        nulls = [item for item in found if key.value(item) is None]
        others = [item for item in found if key.value(item) is not None]
        operator = operator_by_oid(key.sortop)
        if operator is not None and operator.left in _NATURAL and operator.name in ("<", ">"):
            others.sort(key=key.value, reverse=operator.name == ">")
        else:
            ordered = cmp_to_key(comparator(key.sortop))
            value = key.value
            others.sort(key=lambda item, value=value, ordered=ordered: ordered(value(item)))  # type: ignore[misc]
        found = nulls + others if key.nulls_first else others + nulls
    return found


def same_keys(keys: Sequence[Key], one: Any, two: Any) -> bool:
    """Neither comes before the other."""
    for key in keys:
        a, b = key.value(one), key.value(two)
        if a is None or b is None:
            if a is not b:
                return False
        elif comparator(key.sortop)(a, b):
            return False
    return True
