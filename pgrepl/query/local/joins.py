"""FROM and WHERE: the joins of the range table.

A plan returns combinations: lists with one row (a tuple) for each entry of the range table, None where an outer join
found nothing. Inner joins and the FROM list are one set of relations and one set of conditions: each condition is
tested as soon as the relations it refers to are joined, and an equality between two sides is a hash join. Outer joins
keep their shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol, TypeVar

from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Join, Query, RangeRef, Rte, RteKind
from pgrepl.expr.walk import is_volatile, walk_deep
from pgrepl.instrument import counted
from pgrepl.query.bounds import conjuncts
from pgrepl.query.local.env import Combination, Env, Row, Scan
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.query.local.lazy_rows import LazyRows
from pgrepl.query.local.scans import FEW, KeyedRows
from pgrepl.sql.nodes import BoolOp, JoinType
from pgrepl.types.builtin import operator_by_oid
from pgrepl.types.values import hash_form


@dataclass(frozen=True)
class Keyed:
    """The scan of a system catalog that can also read only the rows with some OIDs in a column, and perhaps others."""

    varno: int
    attnum: int
    rank: int  # among such catalogs; the higher, the more rows
    run: Callable[[Env, frozenset[int]], Iterable[Combination]]

    def is_key(self, expr: Expr) -> bool:
        while isinstance(expr, tree.RelabelType) and expr.arg is not None:
            expr = expr.arg
        return isinstance(expr, tree.Var) and (expr.varno, expr.attnum, expr.levelsup) == (self.varno, self.attnum, 0)


@dataclass
class JoinPlan:
    """A plan for the combinations of some relations; `required_outer`: the relations to the left that it refers to
    (LATERAL; PATH_REQ_OUTER)."""

    relations: frozenset[int]
    run: Callable[[Env], Iterable[Combination]]
    required_outer: frozenset[int] = frozenset()
    stable: bool = False  # every run returns the same rows
    keyed: Keyed | None = None


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
    return plan if node is None else replace(plan, run=lambda env: counted(node, lambda: run(env)), keyed=None)


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

    def combinations(read: Callable[[], Iterable[Row]]) -> Iterator[Combination]:
        for row in watch(read()):
            combination: Combination = [None] * (size + 1)
            combination[varno] = row
            yield combination

    stable = entry.kind is RteKind.RELATION and entry.sample is None
    keyed = None
    if isinstance(rows_of, KeyedRows) and rows_of.is_whole:
        relation, of = rows_of.relation, rows_of.of
        keyed = Keyed(varno, relation.key, relation.rank, lambda env, oids: combinations(lambda: of(oids)))
    outer = required_outer_of(entry)
    return JoinPlan(frozenset({varno}), lambda env: combinations(lambda: rows_of(env)), outer, stable, keyed)


def required_outer_of(entry: Rte) -> frozenset[int]:
    """The relations of the same FROM that an entry refers to (LATERAL)."""
    if entry.kind is RteKind.FUNCTION:
        return frozenset().union(*[relations_of(f) for f in entry.functions])
    if entry.kind is RteKind.VALUES:
        return frozenset().union(*[relations_of(v) for row in entry.values for v in row])
    return relations_of(entry.subquery, 1) if entry.lateral else frozenset()


class Equality(NamedTuple):
    """The sides of `one = two`, or of `one IS NOT DISTINCT FROM two` (`nulls`), which can be hashed."""

    one: Expr
    two: Expr
    nulls: bool


def _equality(condition: Expr) -> Equality | None:
    test: Expr = condition
    if isinstance(condition, tree.BoolExpr) and condition.op is BoolOp.NOT:
        (test,) = condition.args
    nulls = test is not condition
    if not isinstance(test, (tree.OpExpr, tree.DistinctExpr)) or len(test.args) != 2:
        return None
    operator = operator_by_oid(test.op)
    if nulls is isinstance(test, tree.OpExpr) or operator is None or operator.name != "=" or not operator.canhash:
        return None
    return Equality(*test.args, nulls)


def equality(condition: Expr, left: frozenset[int], right: frozenset[int]) -> Equality | None:
    """The equality of an expression of the left and one of the right, if the condition is one."""
    found = _equality(condition)
    if found is None:
        return None
    first, second = relations_of(found.one), relations_of(found.two)
    if not first or not second:
        return None
    if first <= left and second <= right:
        return found
    if first <= right and second <= left:
        return Equality(found.two, found.one, found.nulls)
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
    outside = frozenset().union(*[p.required_outer for p in parts]) - everything

    def take(known: frozenset[int]) -> list[Expr]:
        ready = [c for c in waiting if relations_of(c) <= known]
        waiting[:] = [c for c in waiting if c not in ready]
        return ready

    remaining = list(parts)
    current = remaining.pop(0)
    current = _filtered(current, take(current.relations | outside), evaluator)
    while remaining:
        chosen = next_operand(current.relations | outside, remaining, waiting)
        remaining.remove(chosen)
        if not chosen.required_outer & current.relations:
            chosen = _filtered(chosen, take(chosen.relations), evaluator)
        known = current.relations | chosen.relations
        tests = [c for c in waiting if relations_of(c) <= known | outside]
        waiting[:] = [c for c in waiting if c not in tests]
        current = _inner_join(current, chosen, tests, evaluator)
    return _filtered(JoinPlan(current.relations, current.run, outside), waiting, evaluator)


class JoinOperand(Protocol):
    """An operand of a join."""

    relations: frozenset[int]
    required_outer: frozenset[int]


AnyOperand = TypeVar("AnyOperand", bound=JoinOperand)


def next_operand(known: frozenset[int], remaining: list[AnyOperand], waiting: list[Expr]) -> AnyOperand:
    """The part to join next: one that an equality joins to the known ones, else the first whose required_outer is
    known."""
    possible = [p for p in remaining if p.required_outer <= known] or remaining
    for part in possible:
        if any(equality(c, known, part.relations) for c in waiting):
            return part
    return possible[0]


def _filtered(plan: JoinPlan, tests: list[Expr], evaluator: Evaluator) -> JoinPlan:
    if not tests:
        return plan
    for test in tests if plan.stable else ():
        sides = _lookup(test, plan.relations)
        if sides is not None and _varies(sides.two):
            found = _looked_up(plan, sides, evaluator)
            return _filtered(found, [t for t in tests if t is not test], evaluator)
    passes = evaluator.test(tests)
    run, node = plan.run, evaluator.node(plan.relations)
    if node is not None:
        passes = node.filter(passes)

    def filtered(env: Env, combinations: Iterable[Combination]) -> Iterator[Combination]:
        left = env.rows
        for combination in combinations:
            rows = merged(left, combination, plan.relations) if plan.required_outer else combination
            if passes(Env(rows, env.outer)):
                yield combination

    keyed = plan.keyed if node is None else None
    if keyed is not None:
        of = keyed.run
        keyed = replace(keyed, run=lambda env, oids: filtered(env, of(env, oids)))
    return JoinPlan(plan.relations, lambda env: filtered(env, run(env)), plan.required_outer, keyed=keyed)


def _lookup(test: Expr, relations: frozenset[int]) -> Equality | None:
    """The equality of an expression of these relations and one of outer queries or a constant, if the test is one."""
    found = _equality(test)
    if found is None or is_volatile(test):
        return None
    for own, other in ((found.one, found.two), (found.two, found.one)):
        if relations_of(own) == relations and not relations_of(other) and not _varies(own):
            return Equality(own, other, found.nulls)
    return None


def _varies(expr: Expr) -> bool:
    """Whether the expression depends on a row of an outer query. Any other has a single value, for which a hash table
    is not worth it."""
    return any(isinstance(node, (tree.Var, tree.Aggref)) and node.levelsup > up for node, up in walk_deep(expr))


def _looked_up(plan: JoinPlan, sides: Equality, evaluator: Evaluator) -> JoinPlan:
    """A hash table of rows by key, read once: a subquery that asks for one row at a time does not read the catalog each
    time. Of a system catalog only the rows with some OIDs are read, as long as they are few."""
    own, other, nulls = sides
    key_of, wanted = evaluator.compile(own), evaluator.compile(other)
    own_form, form = hash_form(own.type), hash_form(other.type)
    keyed = plan.keyed if plan.keyed is not None and plan.keyed.is_key(own) and not nulls else None
    tables: list[dict[Any, list[Combination]]] = []
    parts: dict[Any, list[Combination]] = {}  # the rows with some OIDs

    def table_of(env: Env, combinations: Iterable[Combination]) -> dict[Any, list[Combination]]:
        table: dict[Any, list[Combination]] = {}
        for combination in combinations:
            table.setdefault(own_form(key_of(Env(combination, env.outer))), []).append(combination)
        return table

    def run(env: Env) -> Iterable[Combination]:
        key = wanted(env)
        if key is None and not nulls:
            return ()
        place = form(key)
        if keyed is not None and (place in parts or len(parts) < FEW):
            if place not in parts:
                parts[place] = table_of(env, keyed.run(env, frozenset({key}))).get(place, [])
            return parts[place]
        if not tables:
            tables.append(table_of(env, plan.run(env)))
        return tables[0].get(place, ())

    return JoinPlan(plan.relations, run, plan.required_outer)


def merged(left: Combination, right: Combination, relations: Iterable[int]) -> Combination:
    both = list(left) if left else [None] * len(right)
    for varno in relations:
        both[varno] = right[varno]
    return both


class _Matcher:
    """Finds the rows of the right side of a join that match a combination of the left."""

    def __init__(self, left: JoinPlan, right: JoinPlan, tests: list[Expr], evaluator: Evaluator) -> None:
        self.left, self.right = left, right
        self.lateral = bool(right.required_outer & left.relations)
        pairs = [] if self.lateral else [(c, equality(c, left.relations, right.relations)) for c in tests]
        keys = [pair for _, pair in pairs if pair is not None]
        self.left_place, self.right_place = _narrowed(left, right, keys, evaluator)
        self.left_key = [(evaluator.compile(one), hash_form(one.type), nulls) for one, _, nulls in keys]
        self.right_key = [(evaluator.compile(two), hash_form(two.type), nulls) for _, two, nulls in keys]
        hashed = {id(c) for c, pair in pairs if pair is not None}
        self.passes = evaluator.test([c for c in tests if id(c) not in hashed])
        node = evaluator.node(left.relations | right.relations)
        if node is not None:
            self.passes = node.join_filter(self.passes)

    def begin(self, env: Env, required_outer: frozenset[int]) -> tuple[_Loaded, Callable[[], Iterable[Combination]]]:
        """The right side, loaded, and what gives the left. Of a system catalog only the rows are read whose OIDs the
        other side has, if those are few."""
        left, right = self.left, self.right
        if self.right_place is not None and right.keyed is not None:
            rows = iter(_beside(env, left, required_outer))
            first = list(islice(rows, FEW + 1))
            if len(first) > FEW:
                return self._load(env, right.run), lambda: chain(first, rows)
            key, of = self.left_key[self.right_place][0], right.keyed.run
            oids = frozenset([key(Env(combination, env.outer)) for combination in first]) - {None}
            return self._load(env, lambda env: of(env, oids)), lambda: first
        loaded = self._load(env, right.run)
        if self.left_place is not None and left.keyed is not None and len(loaded.table) <= FEW:
            oids, of = frozenset([key[self.left_place] for key in loaded.table]), left.keyed.run
            left = replace(left, run=lambda env: of(env, oids))
        return loaded, lambda: _beside(env, left, required_outer)

    def _load(self, env: Env, run: Callable[[Env], Iterable[Combination]]) -> _Loaded:
        """Read the right side once, unless it depends on the left."""
        if self.lateral:
            return _Loaded([], {})
        rows = LazyRows(run(env))
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


def _narrowed(
    left: JoinPlan, right: JoinPlan, keys: list[Equality], evaluator: Evaluator
) -> tuple[int | None, int | None]:
    """The places among the keys of a join by which the left side, or the right one, is read in part: the larger one if
    both could be. Rows of subqueries are not taken ahead."""
    rtable = evaluator.query.rtable
    places = [(n, (key.one, key.two)) for n, key in enumerate(keys) if not key.nulls]
    one, two = left.keyed, right.keyed
    of_left = None if one is None else next((n for n, (own, _) in places if one.is_key(own)), None)
    of_right = None if two is None else next((n for n, (_, own) in places if two.is_key(own)), None)
    if one is not None and of_left is not None and (two is None or of_right is None or one.rank > two.rank):
        return of_left, None
    return None, None if any(_is_lazy(rtable[n - 1]) for n in left.relations) else of_right


def _is_lazy(entry: Rte) -> bool:
    """Must rows be computed only as far as they are asked for?"""
    return entry.kind is RteKind.CTE or (entry.subquery is not None and is_volatile(entry.subquery))


@dataclass(frozen=True)
class _Loaded:
    rows: Iterable[Combination]  # without a hash key they are computed only as far as they are read
    table: dict[Any, list[Combination]]


def _key(parts: list[tuple[Callable[[Env], Any], Callable[[Any], Any], bool]], env: Env) -> tuple[Any, ...] | None:
    values = []
    for part, form, nulls in parts:
        value = part(env)
        if value is None and not nulls:
            return None
        values.append(form(value))
    return tuple(values)


def _inner_join(left: JoinPlan, right: JoinPlan, tests: list[Expr], evaluator: Evaluator) -> JoinPlan:
    left, right = _counted(left, evaluator), _counted(right, evaluator)
    matcher = _Matcher(left, right, tests, evaluator)
    required_outer = (left.required_outer | right.required_outer) - left.relations

    def run(env: Env) -> Iterator[Combination]:
        loaded, combinations = matcher.begin(env, required_outer)
        if matcher.left_key and not matcher.lateral and not loaded.table:
            return  # the left side need not be read (ExecHashJoin)
        for combination in combinations():
            for _, both in matcher.matches(combination, loaded, env):
                yield both

    return JoinPlan(left.relations | right.relations, run, required_outer)


def _beside(env: Env, left: JoinPlan, required_outer: frozenset[int]) -> Iterable[Combination]:
    """The left side of a join, with the rows further to the left if either side refers to them."""
    if not required_outer:
        return left.run(env)
    return (merged(env.rows, combination, left.relations) for combination in left.run(env))


def _outer_join(left: JoinPlan, right: JoinPlan, tests: list[Expr], evaluator: Evaluator, *, full: bool) -> JoinPlan:
    left, right = replace(_counted(left, evaluator), keyed=None), _counted(right, evaluator)
    if full:
        right = replace(right, keyed=None)
    matcher = _Matcher(left, right, tests, evaluator)
    required_outer = (left.required_outer | right.required_outer) - left.relations

    def run(env: Env) -> Iterator[Combination]:
        loaded, combinations = matcher.begin(env, required_outer)
        matched: set[int] = set()
        for combination in combinations():
            found = False
            for candidate, both in matcher.matches(combination, loaded, env):
                found = True
                matched.add(id(candidate))
                yield both
            if not found:
                yield combination
        if full:
            yield from (c for c in loaded.rows if id(c) not in matched)

    return JoinPlan(left.relations | right.relations, run, required_outer)
