"""FROM and WHERE: the joins of the range table.

A plan returns combinations: lists with one row (a tuple) for each entry of the range table, None where an outer join
found nothing. Inner joins and the FROM list are one set of relations and one set of conditions: each condition is
tested as soon as the relations it refers to are joined, and an equality between two sides is a hash join. Outer joins
keep their shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Join, Query, RangeRef, Rte, RteKind
from pgrepl.expr.walk import is_volatile, walk_deep
from pgrepl.instrument import counted
from pgrepl.query.bounds import conjuncts
from pgrepl.query.local.env import Combination, Env, Scan
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.query.local.lazy_rows import LazyRows
from pgrepl.sql.nodes import JoinType
from pgrepl.types.builtin import operator_by_oid
from pgrepl.types.values import hash_form


@dataclass
class JoinPlan:
    """A plan for the combinations of some relations; `needs`: the relations to the left that it refers to (LATERAL)."""

    relations: frozenset[int]
    run: Callable[[Env], Iterable[Combination]]
    needs: frozenset[int] = frozenset()
    stable: bool = False  # every run returns the same rows


def relations_of(part: Expr | Query | None, depth: int = 0) -> frozenset[int]:
    """The relations of this query that an expression, or a subquery in FROM (depth 1), refers to."""
    if part is None:
        return frozenset()
    nodes = walk_deep(part, depth)
    return frozenset(n.varno for n, level in nodes if isinstance(n, tree.Var) and n.levelsup == level)


def plan_from(query: Query, where: Expr | None, evaluator: Evaluator, scan: Scan) -> JoinPlan:
    """The whole FROM clause with WHERE."""
    parts: list[JoinPlan] = []
    conditions: list[Expr] = []
    above = list(conjuncts(where))
    for item in query.from_:
        _flatten(query, item, evaluator, scan, parts, conditions, above)
    conditions += above
    return _counted(_combine(len(query.rtable), parts, conditions, evaluator), evaluator)


def _counted(plan: JoinPlan, evaluator: Evaluator) -> JoinPlan:
    """The plan with its rows counted for EXPLAIN ANALYZE."""
    node, run = evaluator.node(plan.relations), plan.run
    return plan if node is None else replace(plan, run=lambda env: counted(node, lambda: run(env)))


def _flatten(
    query: Query,
    item: RangeRef | Join,
    evaluator: Evaluator,
    scan: Scan,
    parts: list[JoinPlan],
    conditions: list[Expr],
    above: list[Expr],
) -> None:
    if isinstance(item, Join) and item.kind in (JoinType.INNER, JoinType.CROSS):
        _flatten(query, item.left, evaluator, scan, parts, conditions, above)
        _flatten(query, item.right, evaluator, scan, parts, conditions, above)
        conditions.extend(conjuncts(evaluator.flat(item.quals)))
    else:
        parts.append(_plan(query, item, evaluator, scan, above))


def _plan(query: Query, item: RangeRef | Join, evaluator: Evaluator, scan: Scan, above: list[Expr]) -> JoinPlan:
    """`above`: conditions of WHERE. An outer join takes those that can be tested before it joins."""
    if isinstance(item, RangeRef):
        return _plan_scan(query, item.varno, evaluator, scan)
    if item.kind in (JoinType.INNER, JoinType.CROSS):
        parts: list[JoinPlan] = []
        conditions: list[Expr] = []
        _flatten(query, item, evaluator, scan, parts, conditions, [])
        return _combine(len(query.rtable), parts, conditions, evaluator)
    outer, inner = (item.right, item.left) if item.kind is JoinType.RIGHT else (item.left, item.right)
    above = above if item.kind is not JoinType.FULL else []
    left = _plan(query, outer, evaluator, scan, above)
    left = _filtered(left, take_early(above, left.relations), evaluator)
    right = _plan(query, inner, evaluator, scan, [])
    tests = conjuncts(evaluator.flat(item.quals))
    if item.kind is JoinType.FULL and any(map(relations_of, tests)):
        if not any(equality(test, left.relations, right.relations) for test in tests):
            raise PgError("0A000", "FULL JOIN is only supported with merge-joinable or hash-joinable join conditions")
    return _outer_join(left, right, tests, evaluator, full=item.kind is JoinType.FULL)


def take_early(conditions: list[Expr], relations: frozenset[int]) -> list[Expr]:
    """Remove and return the conditions that refer only to `relations`, the side whose rows an outer join keeps."""
    early = [c for c in conditions if relations_of(c) and relations_of(c) <= relations and not is_volatile(c)]
    conditions[:] = [c for c in conditions if c not in early]
    return early


def _plan_scan(query: Query, varno: int, evaluator: Evaluator, scan: Scan) -> JoinPlan:
    entry = query.rtable[varno - 1]
    rows_of = scan(varno)
    size = len(query.rtable)
    watch = evaluator.context.meter.watch

    def run(env: Env) -> Iterator[Combination]:
        for row in watch(rows_of(env)):
            combination: Combination = [None] * (size + 1)
            combination[varno] = row
            yield combination

    stable = entry.kind is RteKind.RELATION and entry.sample is None
    return JoinPlan(frozenset({varno}), run, needs_of(entry), stable)


def needs_of(entry: Rte) -> frozenset[int]:
    """The relations of the same FROM that an entry refers to."""
    if entry.kind is RteKind.FUNCTION:
        return frozenset().union(*[relations_of(f) for f in entry.functions])
    if entry.kind is RteKind.VALUES:
        return frozenset().union(*[relations_of(v) for row in entry.values for v in row])
    return relations_of(entry.subquery, 1) if entry.lateral else frozenset()


def equality(condition: Expr, left: frozenset[int], right: frozenset[int]) -> tuple[Expr, Expr] | None:
    """(expression of the left, expression of the right) if the condition is an equality between them."""
    if not isinstance(condition, tree.OpExpr) or len(condition.args) != 2:
        return None
    operator = operator_by_oid(condition.op)
    if operator is None or operator.name != "=" or not operator.canhash:
        return None
    one, two = condition.args
    first, second = relations_of(one), relations_of(two)
    if not first or not second:
        return None
    if first <= left and second <= right:
        return one, two
    if first <= right and second <= left:
        return two, one
    return None


def _combine(size: int, parts: list[JoinPlan], conditions: list[Expr], evaluator: Evaluator) -> JoinPlan:
    if not parts:
        empty = evaluator.test(conditions)

        def run_empty(env: Env) -> Iterator[Combination]:
            combination: Combination = [None] * (size + 1)
            if empty(Env(combination, env.outer)):
                yield combination

        return JoinPlan(frozenset(), run_empty)
    waiting = list(conditions)
    everything = frozenset().union(*[p.relations for p in parts])
    outside = frozenset().union(*[p.needs for p in parts]) - everything

    def take(known: frozenset[int]) -> list[Expr]:
        ready = [c for c in waiting if relations_of(c) <= known]
        waiting[:] = [c for c in waiting if c not in ready]
        return ready

    remaining = list(parts)
    current = remaining.pop(0)
    current = _filtered(current, take(current.relations | outside), evaluator)
    while remaining:
        chosen = next_part(current.relations | outside, remaining, waiting)
        remaining.remove(chosen)
        if not chosen.needs & current.relations:
            chosen = _filtered(chosen, take(chosen.relations), evaluator)
        known = current.relations | chosen.relations
        tests = [c for c in waiting if relations_of(c) <= known | outside]
        waiting[:] = [c for c in waiting if c not in tests]
        current = _inner_join(current, chosen, tests, evaluator)
    return _filtered(JoinPlan(current.relations, current.run, outside), waiting, evaluator)


class Part(Protocol):
    """An operand of a join."""

    relations: frozenset[int]
    needs: frozenset[int]


AnyPart = TypeVar("AnyPart", bound=Part)


def next_part(known: frozenset[int], remaining: list[AnyPart], waiting: list[Expr]) -> AnyPart:
    """The part to join next: one that an equality joins to the known ones, else the first whose needs are met."""
    possible = [p for p in remaining if p.needs <= known] or remaining
    for part in possible:
        if any(equality(c, known, part.relations) for c in waiting):
            return part
    return possible[0]


def _filtered(plan: JoinPlan, tests: list[Expr], evaluator: Evaluator) -> JoinPlan:
    if not tests:
        return plan
    for test in tests if plan.stable else ():
        sides = _lookup(test, plan.relations)
        if sides is not None and _varies(sides[1]):
            found = _looked_up(plan, *sides, evaluator)
            return _filtered(found, [t for t in tests if t is not test], evaluator)
    passes = evaluator.test(tests)
    run, node = plan.run, evaluator.node(plan.relations)
    if node is not None:
        passes = node.filter(passes)

    def filtered(env: Env) -> Iterator[Combination]:
        left = env.rows
        for combination in run(env):
            if passes(Env(merged(left, combination, plan.relations) if plan.needs else combination, env.outer)):
                yield combination

    return JoinPlan(plan.relations, filtered, plan.needs)


def _lookup(test: Expr, relations: frozenset[int]) -> tuple[Expr, Expr] | None:
    """(expression of these relations, expression of outer queries or a constant) if the test is an equality between
    them."""
    if not isinstance(test, tree.OpExpr) or len(test.args) != 2 or is_volatile(test):
        return None
    operator = operator_by_oid(test.op)
    if operator is None or operator.name != "=" or not operator.canhash:
        return None
    for own, other in (test.args, test.args[::-1]):
        if relations_of(own) == relations and not relations_of(other) and not _varies(own):
            return own, other
    return None


def _varies(expr: Expr) -> bool:
    """Whether the expression depends on a row of an outer query. Any other has a single value, for which a hash table
    is not worth it."""
    return any(isinstance(node, (tree.Var, tree.Aggref)) and node.levelsup > up for node, up in walk_deep(expr))


def _looked_up(plan: JoinPlan, own: Expr, other: Expr, evaluator: Evaluator) -> JoinPlan:
    """A hash table of rows by key, read once: a subquery that asks for one row at a time does not read the catalog each
    time."""
    key_of, wanted = evaluator.compile(own), evaluator.compile(other)
    own_form, form = hash_form(own.type), hash_form(other.type)
    tables: list[dict[Any, list[Combination]]] = []

    def run(env: Env) -> Iterable[Combination]:
        if not tables:
            table: dict[Any, list[Combination]] = {}
            for combination in plan.run(env):
                table.setdefault(own_form(key_of(Env(combination, env.outer))), []).append(combination)
            tables.append(table)
        key = wanted(env)
        return () if key is None else tables[0].get(form(key), ())

    return JoinPlan(plan.relations, run, plan.needs)


def merged(left: Combination, right: Combination, relations: Iterable[int]) -> Combination:
    both = list(left) if left else [None] * len(right)
    for varno in relations:
        both[varno] = right[varno]
    return both


class _Matcher:
    """Finds the rows of the right side of a join that match a combination of the left."""

    def __init__(self, left: JoinPlan, right: JoinPlan, tests: list[Expr], evaluator: Evaluator) -> None:
        self.right = right
        self.lateral = bool(right.needs & left.relations)
        pairs = [] if self.lateral else [(c, equality(c, left.relations, right.relations)) for c in tests]
        keys = [pair for _, pair in pairs if pair is not None]
        self.left_key = [(evaluator.compile(one), hash_form(one.type)) for one, _ in keys]
        self.right_key = [(evaluator.compile(two), hash_form(two.type)) for _, two in keys]
        hashed = {id(c) for c, pair in pairs if pair is not None}
        self.passes = evaluator.test([c for c in tests if id(c) not in hashed])
        node = evaluator.node(left.relations | right.relations)
        if node is not None:
            self.passes = node.join_filter(self.passes)

    def load(self, env: Env) -> _Loaded:
        """Read the right side once, unless it depends on the left."""
        if self.lateral:
            return _Loaded([], {})
        rows = LazyRows(self.right.run(env))
        table: dict[Any, list[Combination]] = {}
        if self.right_key:
            for combination in rows:
                key = _key(self.right_key, Env(combination, env.outer))
                if key is not None:
                    table.setdefault(key, []).append(combination)
        return _Loaded(rows, table)

    def matches(self, combination: Combination, loaded: _Loaded, env: Env) -> Iterator[tuple[Combination, Combination]]:
        """(right combination, both together)"""
        candidates: Iterable[Combination] = loaded.rows
        if self.lateral:
            candidates = self.right.run(Env(combination, env.outer))
        elif self.left_key:
            key = _key(self.left_key, Env(combination, env.outer))
            candidates = () if key is None else loaded.table.get(key, ())
        for candidate in candidates:
            both = merged(combination, candidate, self.right.relations)
            if self.passes(Env(both, env.outer)):
                yield candidate, both


@dataclass(frozen=True)
class _Loaded:
    rows: Iterable[Combination]  # without a hash key they are computed only as far as they are read
    table: dict[Any, list[Combination]]


def _key(parts: list[tuple[Callable[[Env], Any], Callable[[Any], Any]]], env: Env) -> tuple[Any, ...] | None:
    values = []
    for part, form in parts:
        value = part(env)
        if value is None:
            return None
        values.append(form(value))
    return tuple(values)


def _inner_join(left: JoinPlan, right: JoinPlan, tests: list[Expr], evaluator: Evaluator) -> JoinPlan:
    left, right = _counted(left, evaluator), _counted(right, evaluator)
    matcher = _Matcher(left, right, tests, evaluator)
    needs = (left.needs | right.needs) - left.relations

    def run(env: Env) -> Iterator[Combination]:
        loaded = matcher.load(env)
        if matcher.left_key and not matcher.lateral and not loaded.table:
            return  # the left side need not be read (ExecHashJoin)
        for combination in _beside(env, left, needs):
            for _, both in matcher.matches(combination, loaded, env):
                yield both

    return JoinPlan(left.relations | right.relations, run, needs)


def _beside(env: Env, left: JoinPlan, needs: frozenset[int]) -> Iterable[Combination]:
    """The left side of a join, with the rows further to the left if either side refers to them."""
    if not needs:
        return left.run(env)
    return (merged(env.rows, combination, left.relations) for combination in left.run(env))


def _outer_join(left: JoinPlan, right: JoinPlan, tests: list[Expr], evaluator: Evaluator, *, full: bool) -> JoinPlan:
    left, right = _counted(left, evaluator), _counted(right, evaluator)
    matcher = _Matcher(left, right, tests, evaluator)
    needs = (left.needs | right.needs) - left.relations

    def run(env: Env) -> Iterator[Combination]:
        loaded = matcher.load(env)
        matched: set[int] = set()
        for combination in _beside(env, left, needs):
            found = False
            for candidate, both in matcher.matches(combination, loaded, env):
                found = True
                matched.add(id(candidate))
                yield both
            if not found:
                yield combination
        if full:
            yield from (c for c in loaded.rows if id(c) not in matched)

    return JoinPlan(left.relations | right.relations, run, needs)
