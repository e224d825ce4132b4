"""GROUP BY and aggregates: combinations become groups, aggregates become slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.tree import Expr, Query
from pgrepl.expr.walk import lookup, rewrite, with_levels
from pgrepl.query.local.env import Compiled, Env, Slot, SortKey, sort
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.query.shape import aggregates, at_home, grouping_functions
from pgrepl.types.values import row_hash_form


class Grouping:
    """The groups of a query, and its expressions over them."""

    def __init__(self, query: Query, evaluator: Evaluator, computed: Callable[[Expr], Expr]) -> None:
        """`computed`: a key after its set-returning functions are expanded."""
        self.query = query
        self.evaluator = evaluator
        self.aggregates = [evaluator.flat(aggregate) for aggregate in aggregates(query)]
        by_resno = {t.resno: evaluator.flat(t.expr) for t in query.targets}
        self.keys: list[tuple[int, Expr]] = [(g.resno, by_resno[g.resno]) for g in query.group]
        sets = query.grouping_sets
        self.sets: list[tuple[int, ...]] = (
            [tuple(resno for resno, _ in self.keys)] if sets is None else [tuple(s) for s in sets.sets]
        )
        self.plain = sets is None
        self._refs = list(dict.fromkeys(map(self._references, grouping_functions(query))))
        self._key_values = [evaluator.compile(computed(expr)) for _, expr in self.keys]
        self._key_form = row_hash_form(expr.type for _, expr in self.keys)
        self._accumulators = [_Aggregate(a, evaluator, self.after) for a in self.aggregates]
        self._presort = self._common_order()

    def number_of(self, node: tree.Aggref, level: int) -> int:
        """The slot of an aggregate, as a query `level` below refers to it."""
        return self.aggregates.index(self.evaluator.flat(at_home(node, level)))

    def number_of_function(self, node: tree.GroupingFunc) -> int:
        """The slot of GROUPING(…)."""
        return len(self.aggregates) + len(self.keys) + self._refs.index(self._references(node))

    def _references(self, node: tree.GroupingFunc) -> tuple[int, ...]:
        """The keys that GROUPING names; in a subquery they are not resolved yet."""
        if node.refs or not node.args:
            return node.refs
        args = [self.evaluator.flat(with_levels(arg, -node.levelsup)) for arg in node.args]
        return tuple(next(resno for resno, key in self.keys if key == arg) for arg in args)

    def _common_order(self) -> list[SortKey]:
        """The first ORDER BY among the aggregates: all of them get the rows in it (make_pathkeys_for_groupagg)."""
        for aggregate in self.aggregates:
            if aggregate.order and aggregate.kind == "n":
                compile = self.evaluator.compile
                return [SortKey(compile(o.expr), o.sortop, o.nulls_first, o.expr.type) for o in aggregate.order]
        return []

    @property
    def slots(self) -> int:
        return len(self.aggregates) + len(self.keys) + len(self._refs)

    def key(self, resno: int) -> Expr | None:
        """A target that is a key."""
        for number, (own, key) in enumerate(self.keys):
            if own == resno and self._is_slot(key):
                return _slot(key, len(self.aggregates) + number)
        return None

    def _is_slot(self, key: Expr) -> bool:
        """A column that all groups are made by is read from any row of the group."""
        return not (self.plain and isinstance(key, tree.Var))

    def after(self, expr: Expr) -> Expr:
        """The expression over groups: aggregates and grouped expressions become slots."""
        number_of_key = lookup(
            {
                key: len(self.aggregates) + number
                for number, (_, key) in reversed(list(enumerate(self.keys)))
                if self._is_slot(key) and not isinstance(key, tree.Const)
            }
        )

        def slot(node: Expr) -> Expr | None:
            if isinstance(node, tree.Aggref) and node.levelsup == 0:
                return _slot(node, self.number_of(node, 0))
            if isinstance(node, tree.GroupingFunc) and node.levelsup == 0:
                return _slot(node, self.number_of_function(node))
            number = number_of_key(node)
            return None if number is None else _slot(node, number)

        return rewrite(expr, slot)

    def groups(self, envs: Iterable[Env], outer: Env) -> list[Env]:
        several = len(self.sets) > 1
        rows: Iterable[Env] = sort(envs, self._presort) if self._presort else list(envs) if several else envs
        result: list[Env] = []
        for members in self.sets:
            result += self._grouped(rows, set(members), outer)
        return result

    def _grouped(self, rows: Iterable[Env], members: set[int], outer: Env) -> list[Env]:
        used = [resno in members for resno, _ in self.keys]
        groups: dict[tuple[Any, ...], tuple[Env, list[Any], list[Any]]] = {}
        for env in rows:
            values = [value(env) if use else None for use, value in zip(used, self._key_values, strict=True)]
            key = self._key_form(values)
            known = groups.get(key)
            if known is None:
                known = groups[key] = (env, values, [a.start() for a in self._accumulators])
            for aggregate, state in zip(self._accumulators, known[2], strict=True):
                aggregate.add(state, env)
        if not groups and not any(used) and not (self.plain and self.keys):
            nothing = Env([None] * (len(self.query.rtable) + 1), outer.outer)
            groups[()] = (nothing, [None] * len(self.keys), [a.start() for a in self._accumulators])
        group_envs = []
        bits = [_grouping_bits(refs, members) for refs in self._refs]
        for env, values, states in groups.values():
            computed: list[Any] = [None] * len(states) + values + bits
            group = Env(env.rows if self.plain else self._without(env.rows, used), env.outer, computed)
            for number, (aggregate, state) in enumerate(zip(self._accumulators, states, strict=True)):
                computed[number] = aggregate.finish(state, group)
            group_envs.append(group)
        return group_envs

    def _without(self, rows: list[Any], used: list[bool]) -> list[Any]:
        """Columns that this grouping set does not group by are NULL, for subqueries too."""
        rows = list(rows)
        for use, (_, key) in zip(used, self.keys, strict=True):
            if not use and isinstance(key, tree.Var) and key.attnum > 0 and rows[key.varno] is not None:
                row = list(rows[key.varno])
                row[self.evaluator.index(key.varno, key.attnum)] = None
                rows[key.varno] = tuple(row)
        return rows


def _grouping_bits(refs: tuple[int, ...], members: set[int]) -> int:
    bits = 0
    for resno in refs:
        bits = bits << 1 | (resno not in members)
    return bits


def _slot(node: Expr, number: int) -> Slot:
    return Slot(node.type, typmod=node.typmod, collation=node.collation, number=number)


class _Aggregate:
    """One aggregate of the query: its arguments, FILTER, DISTINCT and ORDER BY, around an accumulator."""

    def __init__(self, aggref: tree.Aggref, evaluator: Evaluator, after: Callable[[Expr], Expr]) -> None:
        self.aggref = aggref
        self.args: list[Compiled] = [evaluator.compile(a) for a in aggref.args]
        self.direct: list[Compiled] = [evaluator.compile(after(evaluator.flat(a))) for a in aggref.direct_args]
        self.passes = evaluator.test([aggref.filter] if aggref.filter is not None else [])
        self.order = [(evaluator.compile(o.expr), o) for o in aggref.order]
        self.gathers = bool(aggref.distinct or aggref.order or aggref.kind != "n")
        self._context = evaluator.context

    def start(self) -> Any:
        return [] if self.gathers else evaluate.accumulator(self.aggref, self._context)

    def add(self, state: Any, env: Env) -> None:
        if not self.passes(env):
            return
        values = tuple([arg(env) for arg in self.args])
        if self.gathers:
            state.append((values, tuple([key(env) for key, _ in self.order])))
        else:
            state.add(*values)

    def finish(self, state: Any, env: Env) -> Any:
        if not self.gathers:
            return state.result()
        members = state
        if self.order:
            keys = [
                SortKey(lambda m, i=i: m[1][i], o.sortop, o.nulls_first, o.expr.type)  # type: ignore[misc]
                for i, (_, o) in enumerate(self.order)
            ]
            members = sort(members, keys)
        direct = [value(env) for value in self.direct]
        return evaluate.of_gathered(self.aggref, direct, [values for values, _ in members], self._context)
