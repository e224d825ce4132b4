"""Sorting by several keys, each with a type's own order (`types.values`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pgrepl.expr.opclasses import ordering_operator
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, operator_by_oid
from pgrepl.types.values import comparer, order_key

Item = TypeVar("Item")


@dataclass(frozen=True)
class SortKey:
    """One sort key: its value, the < or > operator that sorts it, and the place of NULLs."""

    value: Callable[[Any], Any]
    sortop: int
    nulls_first: bool
    typoid: int  # of the value

    @property
    def type(self) -> int:
        """The type whose order the operator has; an enum's is its own."""
        operator = operator_by_oid(self.sortop)
        declared = operator.left if operator is not None else 0
        return base_type(self.typoid) if declared == oids.ANYENUM else declared

    @property
    def downwards(self) -> bool:
        found = ordering_operator(self.sortop)
        return found is not None and found.descending


def sort(items: Iterable[Item], keys: Sequence[SortKey]) -> list[Item]:
    """A stable sort, the last key first."""
    found = list(items)
    for key in reversed(keys):
        value, order = key.value, order_key(key.type)
        nulls = [item for item in found if value(item) is None]
        others = [item for item in found if value(item) is not None]
        if order is None:
            others.sort(key=value, reverse=key.downwards)
        else:
            others.sort(key=lambda item, value=value, order=order: order(value(item)), reverse=key.downwards)  # type: ignore[misc]
        found = nulls + others if key.nulls_first else others + nulls
    return found


def same_keys(keys: Sequence[SortKey], one: Any, two: Any) -> bool:
    """Whether neither sorts before the other."""
    for key in keys:
        a, b = key.value(one), key.value(two)
        if a is None or b is None:
            if a is not b:
                return False
        elif comparer(key.type)(a, b):
            return False
    return True
