"""The outer queries on whose rows a query depends. Its own rows stay the same as long as the row of the nearest of
those does, and are kept with that row's `Env`: computed on first use, and dropped with it.

    SELECT id, (WITH c AS (SELECT o.id) SELECT (SELECT id FROM c)) FROM orders o
                                                ^^^^^^^^^^^^^^^^ names nothing of `orders`, but c does

A level counts environments outwards from the one in which a query runs: 0 is the row for which it runs; None: it
depends on no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.tree import Query, RteKind
from pgrepl.expr.walk import query_exprs, subqueries, walk
from pgrepl.query.local.env import Env, Row, Run
from pgrepl.query.local.lazy_rows import LazyRows


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
        found: LazyRows[Any] | None = memory.get(place)
        if found is None:
            found = memory[place] = LazyRows(run(env))
        return found

    return rows
