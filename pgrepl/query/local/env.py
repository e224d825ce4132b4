"""The environment of a running expression: rows joined so far, computed values, the outer query's environment; and what
a subquery depends on.

    SELECT id, (WITH c AS (SELECT o.id) SELECT (SELECT id FROM c)) FROM orders o
                                                ^^^^^^^^^^^^^^^^ names nothing of `orders`, but c does

A subquery's rows are kept with the `Env` of the nearest row on which it depends. Levels count environments outwards
from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pgrepl.expr import tree
from pgrepl.expr.analyse.sorting import ordering_operator
from pgrepl.expr.tree import Query, RteKind
from pgrepl.expr.walk import query_exprs, subqueries, walk
from pgrepl.ground.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, operator_by_oid
from pgrepl.types.values import comparer, order_key

Row = tuple[Any, ...]
Combination = list[Any]  # the row of each range table entry by its number; None: nothing joined
Compiled = Callable[["Env"], Any]
Run = Callable[["Env"], Iterable[Row]]  # rows are computed as they are read, if possible
Scan = Callable[[int], Run]  # by number in the range table


class Env:
    """One combination of joined rows, with its environment."""

    __slots__ = ("_kept", "computed", "outer", "rows")

    def __init__(self, rows: Combination, outer: Env | None, computed: Sequence[Any] = ()) -> None:
        self.rows = rows
        self.outer = outer
        self.computed = computed
        self._kept: dict[object, Any] | None = None

    def above(self, level: int) -> Env:
        env = self
        for _ in range(level):
            assert env.outer is not None
            env = env.outer
        return env

    def memory(self, level: int | None) -> dict[object, Any]:
        """The store for values that depend only on the environment `level` above, or (None) on no environment."""
        env = self
        if level is None:
            while env.outer is not None:
                env = env.outer
        else:
            env = self.above(level)
        if env._kept is None:
            env._kept = {}
        return env._kept


@frozen
class Slot(tree.Typed):
    """A value computed beforehand: env.computed[number]."""

    number: int = field(default=0)


Item = TypeVar("Item")


class LazyRows(Generic[Item]):
    """Rows that are computed on first use and kept for all readers."""

    def __init__(self, source: Iterable[Item]) -> None:
        self._source = iter(source)
        self._known: list[Item] = []
        self._ended = False

    def __iter__(self) -> Iterator[Item]:
        position = 0
        while True:
            if position == len(self._known):
                if self._ended:
                    return
                try:
                    item = next(self._source)
                except StopIteration:
                    self._ended = True
                    return
                self._known.append(item)
            yield self._known[position]
            position += 1


# --- dependence -------------------------------------------------------------------------------------------------------


@dataclass
class Ctes:
    """The WITH queries of a query, by name, and the level that each depends on; `outer` has those of the outer
    query."""

    outer: Ctes | None = None
    runs: dict[str, Run] = field(default_factory=dict)
    levels: dict[str, int | None] = field(default_factory=dict)

    def above(self, levelsup: int) -> Ctes:
        scope = self
        for _ in range(levelsup):
            assert scope.outer is not None
            scope = scope.outer
        return scope

    def find(self, name: str, levelsup: int) -> Run:
        return self.above(levelsup).runs[name]


def nearest_level(query: Query, ctes: Ctes) -> int | None:
    """The nearest level that a query depends on; `ctes` are the WITH queries of the query around it."""
    return min(_levels(query, ctes, 0), default=None)


def _levels(query: Query, ctes: Ctes, depth: int) -> Iterator[int]:
    for entry in query.rtable:
        if entry.kind is RteKind.CTE and entry.cte is not None and entry.cte_levelsup > depth:
            up = entry.cte_levelsup - depth - 1
            needed = ctes.above(up).levels[entry.cte]
            if needed is not None:
                yield up + needed
    for expr in query_exprs(query):
        for node in walk(expr):
            if isinstance(node, (tree.Var, tree.Aggref, tree.GroupingFunc)) and node.levelsup > depth:
                yield node.levelsup - depth - 1
            elif isinstance(node, tree.SubLink) and node.query is not None:
                yield from _levels(node.query, ctes, depth + 1)
    for nested in subqueries(query):
        yield from _levels(nested, ctes, depth + 1)


def times_read(query: Query, name: str, depth: int = 0) -> int:
    """The number of times that one run of this query reads a WITH query of the query `depth` levels above; 2: perhaps
    more than once."""
    times = 0
    for entry in query.rtable:
        if entry.kind is RteKind.CTE and entry.cte == name and entry.cte_levelsup == depth:
            times += 1
        elif entry.subquery is not None:
            times += times_read(entry.subquery, name, depth + 1) * (2 if entry.lateral else 1)
    for cte in query.ctes:
        times += times_read(cte.query, name, depth + 1) * (2 if cte.recursive else 1)
    for expr in query_exprs(query):
        for node in walk(expr):
            if isinstance(node, tree.SubLink) and node.query is not None:
                times += times_read(node.query, name, depth + 1) * 2
    return min(times, 2)


def kept(run: Run, level: int | None) -> Run:
    """The rows of a query that depends on a level, computed once for each environment of that level."""
    place = object()

    def rows(env: Env) -> Iterable[Row]:
        memory = env.memory(level)
        rows_once: LazyRows[Any] | None = memory.get(place)
        if rows_once is None:
            rows_once = memory[place] = LazyRows(run(env))
        return rows_once

    return rows


# --- sorting ----------------------------------------------------------------------------------------------------------


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
        operator = ordering_operator(self.sortop)
        return operator is not None and operator.descending


def sort(items: Iterable[Item], keys: Sequence[SortKey]) -> list[Item]:
    """A stable sort, the last key first."""
    ordered = list(items)
    for key in reversed(keys):
        value, order = key.value, order_key(key.type)
        nulls = [item for item in ordered if value(item) is None]
        others = [item for item in ordered if value(item) is not None]
        if order is None:
            others.sort(key=value, reverse=key.downwards)
        else:
            others.sort(key=lambda item, value=value, order=order: order(value(item)), reverse=key.downwards)  # type: ignore[misc]
        ordered = nulls + others if key.nulls_first else others + nulls
    return ordered


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
