"""GROUP BY and aggregates: combinations become groups, aggregates become slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pgrepl.commands.query.env import Compiled, Env, Evaluator, Slot
from pgrepl.commands.query.sorting import Key, sort
from pgrepl.expr import evaluate, tree
from pgrepl.expr.tree import Expr, Query
from pgrepl.expr.walk import query_exprs, rewrite, walk_deep
from pgrepl.types.values import hash_form, hashable, order_key


class Grouping:
    """How the groups of a query are made, and what its expressions look like afterwards."""

    def __init__(self, query: Query, evaluator: Evaluator) -> None:
        self.query = query
        self.evaluator = evaluator
        found: list[tree.Aggref] = []
        for expr in query_exprs(self.query):
            for node, level in walk_deep(expr):
                if isinstance(node, tree.Aggref) and node.levelsup == level:
                    own = at_home(node, level)
                    if own not in found:
                        found.append(own)
        self.aggregates = found
        self._grouping_functions: list[tuple[int, ...]] = []
        by_resno = {t.resno: t.expr for t in self.query.targets}
        self.keys: list[tuple[int, Expr]] = [(g.resno, by_resno[g.resno]) for g in self.query.group]
        sets = self.query.grouping_sets
        self.sets: list[tuple[int, ...]] = (
            [tuple(resno for resno, _ in self.keys)] if sets is None else [tuple(s) for s in sets.sets]
        )
        self.plain = sets is None
        self._key_values = [self.evaluator.compile(expr) for _, expr in self.keys]
        self._key_forms = [hash_form(expr.type) for _, expr in self.keys]
        self._accumulators = [_Aggregate(a, self.evaluator) for a in found]
        self._presort = self._common_order()

    def number_of(self, node: tree.Aggref, level: int) -> int:
        """The slot of an aggregate as a query `level` below names it."""
        return self.aggregates.index(at_home(node, level))

    def _common_order(self) -> list[Key]:
        """The first ORDER BY among the aggregates: all of them see the rows in it (make_pathkeys_for_groupagg)."""
        for aggregate in self.aggregates:
            if aggregate.order and aggregate.kind == "n":
                return [Key(self.evaluator.compile(o.expr), o.sortop, o.nulls_first) for o in aggregate.order]
        return []

    @property
    def slots(self) -> int:
        return len(self.aggregates) + len(self.keys) + len(self._grouping_functions)

    def after(self, expr: Expr) -> Expr:
        """The expression as it is seen over groups: aggregates, and grouped expressions of grouping sets, are slots."""
        count = len(self.aggregates)

        def slot(node: Expr) -> Expr | None:
            if isinstance(node, tree.Aggref) and node.levelsup == 0:
                return _slot(node, self.number_of(node, 0))
            if isinstance(node, tree.GroupingFunc):
                return _slot(node, count + len(self.keys) + self._grouping_number(node))
            if not self.plain:
                for number, (_, key) in enumerate(self.keys):
                    if node == key:
                        return _slot(node, count + number)
            return None

        return rewrite(expr, slot)

    def _grouping_number(self, node: tree.GroupingFunc) -> int:
        for number, known in enumerate(self._grouping_functions):
            if known == node.refs:
                return number
        self._grouping_functions.append(node.refs)
        return len(self._grouping_functions) - 1

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
            key = tuple([form(v) for form, v in zip(self._key_forms, values, strict=True)])
            group = groups.get(key)
            if group is None:
                group = groups[key] = (env, values, [a.start() for a in self._accumulators])
            for aggregate, state in zip(self._accumulators, group[2], strict=True):
                aggregate.add(state, env)
        if not groups and not any(used) and not (self.plain and self.keys):
            nothing = Env([None] * (len(self.query.rtable) + 1), outer.outer)
            groups[()] = (nothing, [None] * len(self.keys), [a.start() for a in self._accumulators])
        made = []
        for env, values, states in groups.values():
            computed = [a.finish(state, env) for a, state in zip(self._accumulators, states, strict=True)]
            computed += values
            computed += [_grouping_bits(refs, members) for refs in self._grouping_functions]
            made.append(Env(env.rows if self.plain else self._without(env.rows, used), env.outer, computed))
        return made

    def _without(self, rows: list[Any], used: list[bool]) -> list[Any]:
        """Columns that this grouping set does not group by are NULL, for subqueries too."""
        rows = list(rows)
        for use, (_, key) in zip(used, self.keys, strict=True):
            if not use and isinstance(key, tree.Var) and key.attnum > 0 and rows[key.varno] is not None:
                row = list(rows[key.varno])
                row[self.evaluator.index(key.varno, key.attnum)] = None
                rows[key.varno] = tuple(row)
        return rows


def at_home(node: tree.Aggref, level: int) -> tree.Aggref:
    """The aggregate of a query as seen from that query itself, `level` queries above the place where it stands."""
    if not level:
        return node

    def up(expr: Expr) -> Expr | None:
        if isinstance(expr, (tree.Var, tree.Aggref)) and expr is not node:
            return replace(expr, levelsup=expr.levelsup - level)
        return None

    raised = rewrite(node, up)
    assert isinstance(raised, tree.Aggref)
    return replace(raised, levelsup=0)


def _grouping_bits(refs: tuple[int, ...], members: set[int]) -> int:
    bits = 0
    for resno in refs:
        bits = bits << 1 | (resno not in members)
    return bits


def _slot(node: Expr, number: int) -> Slot:
    return Slot(node.type, typmod=node.typmod, collation=node.collation, number=number)


class _Aggregate:
    """One aggregate of the query: its arguments, FILTER, DISTINCT and ORDER BY, around an accumulator."""

    def __init__(self, aggref: tree.Aggref, evaluator: Evaluator) -> None:
        self.aggref = aggref
        self.args: list[Compiled] = [evaluator.compile(a) for a in aggref.args]
        self.direct: list[Compiled] = [evaluator.compile(a) for a in aggref.direct_args]
        self.passes = evaluator.test([aggref.filter] if aggref.filter is not None else [])
        self.order = [(evaluator.compile(o.expr), o) for o in aggref.order]
        self.gathers = bool(aggref.distinct or aggref.order or aggref.kind != "n")
        self.new: Callable[[], Any] = lambda: evaluate.accumulator(aggref, evaluator.context)

    def start(self) -> Any:
        return [] if self.gathers else self.new()

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
                Key(lambda m, i=i: m[1][i], o.sortop, o.nulls_first)  # type: ignore[misc]
                for i, (_, o) in enumerate(self.order)
            ]
            members = sort(members, keys)
        if self.aggref.distinct:
            seen: dict[Any, Any] = {}
            for member in members:
                seen.setdefault(tuple([hashable(v) for v in member[0]]), member)
            members = list(seen.values())
            if not self.order:
                members = _in_value_order(members, [a.type for a in self.aggref.args])
        if self.aggref.kind != "n":
            direct = [value(env) for value in self.direct]
            return evaluate.ordered_set(self.aggref, direct, [m[0] for m in members])
        accumulator = self.new()
        for values, _ in members:
            accumulator.add(*values)
        return accumulator.result()


def _in_value_order(members: list[Any], types: list[int]) -> list[Any]:
    """DISTINCT sorts its values."""
    for position in reversed(range(len(types))):
        order = order_key(types[position])

        def key(member: Any, position: int = position, order: Any = order) -> Any:
            value = member[0][position]
            return (True, 0) if value is None else (False, value if order is None else order(value))

        members = sorted(members, key=key)
    return members


def uses_groups(query: Query) -> bool:
    return bool(
        query.group
        or query.grouping_sets is not None
        or query.having is not None
        or any(isinstance(n, tree.Aggref) and n.levelsup == up for t in query.targets for n, up in walk_deep(t.expr))
    )
