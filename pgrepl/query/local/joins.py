"""FROM and WHERE: the joins of the range table.

A plan returns combinations: lists with one row (a tuple) for each entry of the range table, None where an outer join
found nothing. Inner joins and the FROM list are one set of relations and one set of conditions: each condition is
tested as soon as the relations it refers to are joined, and an equality between two sides is a hash join. Outer joins
keep their shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from pgrepl.expr.tree import Expr, Join, Query, RangeRef, Rte, RteKind
from pgrepl.expr.walk import is_volatile, varnos
from pgrepl.ground.errors import PgError
from pgrepl.query.local.env import Combination, Env, Row, Scan, nearest_level
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.query.local.hash_joins import inner_join, merged, outer_join
from pgrepl.query.local.join_plan import (
    Condition,
    Equality,
    JoinPlan,
    Keyed,
    counted_plan,
    equality,
    equality_of,
    is_changeable,
    next_operand,
    passing,
    relations_of,
    smallest_operand,
    usual_rows,
    varies,
)
from pgrepl.query.local.scans import READS, KeyedRows
from pgrepl.query.reads import conjuncts
from pgrepl.sql.nodes import JoinType
from pgrepl.types.values import hash_form


def plan_from(query: Query, where: Expr | None, evaluator: Evaluator, scan: Scan) -> JoinPlan:
    """The whole FROM clause with WHERE."""
    parts: list[JoinPlan] = []
    conditions: list[Expr] = []
    above = list(conjuncts(where))
    for item in query.from_:
        _flatten(query, item, evaluator, scan, parts, conditions, above)
    conditions += above
    return counted_plan(_combine(len(query.rtable), parts, conditions, evaluator), evaluator)


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
        _flatten(query, item, evaluator, scan, parts, conditions, above if evaluator.of_catalogs else [])
        if evaluator.of_catalogs:
            conditions += take_early(above, frozenset(varnos(item)))
        return _combine(len(query.rtable), parts, conditions, evaluator)
    outer, inner = (item.right, item.left) if item.kind is JoinType.RIGHT else (item.left, item.right)
    above = above if item.kind is not JoinType.FULL else []
    left = _plan(query, outer, evaluator, scan, above)
    left = _filtered(left, take_early(above, left.relations), evaluator)
    tests = conjuncts(evaluator.flat(item.quals))
    pushed = evaluator.of_catalogs and item.kind is not JoinType.FULL
    early = take_early(tests, frozenset(varnos(inner))) if pushed else []
    right = _filtered(_plan(query, inner, evaluator, scan, early), early, evaluator)
    if item.kind is JoinType.FULL and any(map(relations_of, tests)):
        if not any(equality(test, left.relations, right.relations) for test in tests):
            raise PgError("0A000", "FULL JOIN is only supported with merge-joinable or hash-joinable join conditions")
    return outer_join(left, right, tests, evaluator, full=item.kind is JoinType.FULL)


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

    stable = (entry.kind is RteKind.RELATION and entry.sample is None) or _is_stable(varno, evaluator)
    keyed = None
    if isinstance(rows_of, KeyedRows) and rows_of.is_whole:
        relation, of = rows_of.relation, rows_of.of
        keyed = Keyed(varno, relation.key, relation.rank, lambda env, oids: combinations(lambda: of(oids)))
    outer = required_outer_of(entry)
    run = lambda env: combinations(lambda: rows_of(env))  # noqa: E731
    return JoinPlan(frozenset({varno}), run, outer, stable, usual_rows(entry) if evaluator.of_catalogs else 0, keyed)


def _is_stable(varno: int, evaluator: Evaluator) -> bool:
    """Whether a subquery, or functions, in FROM have the same rows whenever they run."""
    entry = evaluator.query.rtable[varno - 1]
    if not evaluator.of_catalogs or entry.lateral:
        return False
    if entry.kind is RteKind.FUNCTION:
        return not any(relations_of(call) or is_changeable(call) for call in entry.functions)
    inner = entry.subquery
    return inner is not None and varno not in evaluator.lazy and nearest_level(inner, evaluator.ctes) is None


def required_outer_of(entry: Rte) -> frozenset[int]:
    """The relations of the same FROM that an entry refers to (LATERAL)."""
    if entry.kind is RteKind.FUNCTION:
        return frozenset().union(*[relations_of(f) for f in entry.functions])
    if entry.kind is RteKind.VALUES:
        return frozenset().union(*[relations_of(v) for row in entry.values for v in row])
    return relations_of(entry.subquery, 1) if entry.lateral else frozenset()


def _combine(size: int, parts: list[JoinPlan], conditions: list[Expr], evaluator: Evaluator) -> JoinPlan:
    if not parts:
        empty = evaluator.test(conditions)

        def run_empty(env: Env) -> Iterator[Combination]:
            combination: Combination = [None] * (size + 1)
            if empty(Env(combination, env.outer)):
                yield combination

        return JoinPlan(frozenset(), run_empty)
    waiting = [Condition(c) for c in conditions]
    everything = frozenset().union(*[p.relations for p in parts])
    outside = frozenset().union(*[p.required_outer for p in parts]) - everything

    def take(known: frozenset[int]) -> list[Expr]:
        ready = [c.expr for c in waiting if c.relations <= known]
        waiting[:] = [c for c in waiting if not c.relations <= known]
        return ready

    remaining = list(parts)
    if evaluator.of_catalogs:
        remaining = [p if p.required_outer else _filtered(p, take(p.relations), evaluator) for p in parts]
        remaining.sort(key=lambda part: (bool(part.required_outer - outside), part.rows))
    current = remaining.pop(0)
    current = _filtered(current, take(current.relations | outside), evaluator)
    while remaining:
        if evaluator.of_catalogs:
            chosen = smallest_operand(current, outside, remaining, waiting, evaluator.query.rtable)
        else:
            chosen = next_operand(current.relations | outside, remaining, [c.expr for c in waiting])
        remaining.remove(chosen)
        if not chosen.required_outer & current.relations:
            chosen = _filtered(chosen, take(chosen.relations), evaluator)
        tests = take(current.relations | chosen.relations | outside)
        current = inner_join(current, chosen, tests, evaluator)
    current = replace(current, required_outer=outside, keyed=None, stable=current.stable and not outside)
    return _filtered(current, [c.expr for c in waiting], evaluator)


def _filtered(plan: JoinPlan, tests: list[Expr], evaluator: Evaluator) -> JoinPlan:
    if not tests:
        return plan
    for test in tests if plan.stable else ():
        sides = _lookup(test, plan.relations)
        if sides is not None and varies(sides.two):
            looked_up = _looked_up(plan, sides, evaluator)
            return _filtered(looked_up, [t for t in tests if t is not test], evaluator)
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
    stable = plan.stable and evaluator.of_catalogs and not any(map(is_changeable, tests))
    rows = passing(plan.rows, tests, evaluator.query.rtable) if evaluator.of_catalogs else 0
    return JoinPlan(plan.relations, lambda env: filtered(env, run(env)), plan.required_outer, stable, rows, keyed)


def _lookup(test: Expr, relations: frozenset[int]) -> Equality | None:
    """The equality of an expression of these relations and one of outer queries or a constant, if the test is one."""
    both = equality_of(test)
    if both is None or is_volatile(test):
        return None
    for own, other in ((both.one, both.two), (both.two, both.one)):
        if relations_of(own) == relations and not relations_of(other) and not varies(own):
            return Equality(own, other, both.nulls)
    return None


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
        if keyed is not None and (place in parts or len(parts) < READS):
            if place not in parts:
                parts[place] = table_of(env, keyed.run(env, frozenset({key}))).get(place, [])
            return parts[place]
        if not tables:
            tables.append(table_of(env, plan.run(env)))
        return tables[0].get(place, ())

    return JoinPlan(plan.relations, run, plan.required_outer, rows=1)
