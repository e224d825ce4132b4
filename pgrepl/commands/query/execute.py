"""A query, compiled once and played as often as its surroundings ask: FROM and WHERE, groups, windows, targets,
DISTINCT, ORDER BY, LIMIT, set operations, WITH.

    run = compile_query(query, context, ctes)
    rows = run(Env([], None))      # tuples of Python values, one for each column
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pgrepl.commands.query import recursion
from pgrepl.commands.query.env import Env, Evaluator, sees_outside
from pgrepl.commands.query.grouping import Grouping, uses_groups
from pgrepl.commands.query.joins import plan_from
from pgrepl.commands.query.scans import scan
from pgrepl.commands.query.sorting import Key, same_keys, sort
from pgrepl.commands.query.windows import Windows
from pgrepl.errors import PgError
from pgrepl.expr.context import Context
from pgrepl.expr.tree import Expr, Query, RangeRef, SetOperation, SortGroup
from pgrepl.expr.values import hashable
from pgrepl.expr.walk import returns_set
from pgrepl.sql.nodes import SetOp

Row = tuple[Any, ...]
Run = Callable[[Env], list[Row]]


@dataclass
class Ctes:
    """The WITH queries a query can see: by name, each played once; those of outer queries behind it."""

    outer: Ctes | None = None
    runs: dict[str, Run] = field(default_factory=dict)

    def find(self, name: str, levelsup: int) -> Run:
        scope: Ctes | None = self
        for _ in range(levelsup):
            assert scope is not None
            scope = scope.outer
        assert scope is not None
        return scope.runs[name]


def compile_query(query: Query, context: Context, outer: Ctes | None = None) -> Run:
    ctes = Ctes(outer)
    for cte in query.ctes:
        if cte.recursive and query.recursive:
            ctes.runs[cte.name] = recursion.compile_recursive(cte, context, ctes)
        else:
            run = compile_query(cte.query, context, ctes)
            ctes.runs[cte.name] = run if sees_outside(cte.query) else _once(run)

    def subquery(nested: Query) -> Run:
        return compile_query(nested, context, ctes)

    evaluator = Evaluator(context, query, subquery)
    if query.set_operation is not None:
        body = _set_operation(query, evaluator, ctes)
    else:
        body = _select(query, evaluator, ctes)
    return body


def _once(run: Run) -> Run:
    """A WITH query is played once for one run of its statement; it sees nothing outside that changes."""
    known: list[list[Row]] = []

    def remembered(env: Env) -> list[Row]:
        if not known:
            known.append(run(env))
        return known[0]

    return remembered


def _select(query: Query, evaluator: Evaluator, ctes: Ctes) -> Run:
    plan = plan_from(query, evaluator.flat(query.where), evaluator, lambda entry: scan(entry, evaluator, ctes))
    grouping = Grouping(query, evaluator) if uses_groups(query) else None
    after: Callable[[Expr], Expr] = grouping.after if grouping else lambda expr: expr
    having = evaluator.test([after(query.having)] if query.having is not None else [])
    for target in query.targets:  # number GROUPING() calls before their slots are counted
        after(target.expr)
    windows = Windows(query, evaluator, after, grouping.slots if grouping else 0)
    shown = windows.after if windows.functions else after
    sets = {t.resno for t in query.targets if returns_set(t.expr)}
    columns = []
    for target in query.targets:
        many, expr = target.resno in sets, shown(target.expr)
        columns.append((evaluator.compile_set(expr) if many else evaluator.compile(expr), many))
    finish = _finish(query, evaluator)

    def run(env: Env) -> list[Row]:
        surroundings = Env([None] * (len(query.rtable) + 1), env)
        envs: Iterable[Env] = (Env(rows, env) for rows in plan.run(surroundings))
        if grouping is not None:
            envs = [e for e in grouping.groups(envs, surroundings) if having(e)]
        if windows.functions:
            envs = windows.add(list(envs))
        if not sets:
            rows = [tuple([value(e) for value, _ in columns]) for e in envs]
        else:
            rows = [row for e in envs for row in _expanded(columns, e)]
        return finish(rows, surroundings)

    return run


def _expanded(columns: list[tuple[Callable[[Env], Any], bool]], env: Env) -> Iterator[Row]:
    """Set-returning functions in the target list run side by side until the longest has ended (ProjectSet)."""
    found = [list(value(env)) if many else value(env) for value, many in columns]
    length = max(len(f) for f, (_, many) in zip(found, columns, strict=True) if many)
    for number in range(length):
        yield tuple(
            [
                (f[number] if number < len(f) else None) if many else f
                for f, (_, many) in zip(found, columns, strict=True)
            ]
        )


def _finish(query: Query, evaluator: Evaluator) -> Callable[[list[Row], Env], list[Row]]:
    """DISTINCT, ORDER BY, LIMIT, and away with the junk columns."""
    place = {t.resno: i for i, t in enumerate(query.targets)}
    keep = [place[t.resno] for t in query.targets if not t.junk]
    everything = len(keep) == len(query.targets)
    order = _keys(query.sort, place)
    limit, offset = evaluator.compile_optional(query.limit), evaluator.compile_optional(query.offset)

    def finish(rows: list[Row], env: Env) -> list[Row]:
        if query.distinct is not None:
            rows = _distinct(query, rows, place)
        if order:
            rows = sort(rows, order)
        rows = _limited(rows, offset(env), limit(env), order if query.with_ties else None)
        return rows if everything else [tuple([row[i] for i in keep]) for row in rows]

    return finish


def _keys(groups: Iterable[SortGroup], place: dict[int, int]) -> list[Key]:
    return [
        Key(lambda row, i=place[g.resno]: row[i], g.sortop, g.nulls_first)  # type: ignore[misc]
        for g in groups
    ]


def _distinct(query: Query, rows: list[Row], place: dict[int, int]) -> list[Row]:
    assert query.distinct is not None
    keys = _keys(query.distinct, place)
    if query.distinct_on:
        rows = sort(rows, _keys(query.sort, place) or keys)
    else:
        rows = sort(rows, keys)  # as a sorted Unique does; ORDER BY may sort once more
    seen: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        seen.setdefault(tuple([hashable(key.value(row)) for key in keys]), row)
    return list(seen.values())


def _limited(rows: list[Row], offset: Any, limit: Any, ties: list[Key] | None) -> list[Row]:
    if offset is not None:
        if offset < 0:
            raise PgError("2201X", "OFFSET must not be negative")
        rows = rows[offset:]
    if limit is None:
        return rows
    if limit < 0:
        raise PgError("2201W", "LIMIT must not be negative")
    end = limit
    if ties and 0 < limit < len(rows):
        while end < len(rows) and same_keys(ties, rows[limit - 1], rows[end]):
            end += 1
    return rows[:end]


# --- UNION, INTERSECT, EXCEPT ---------------------------------------------------------------------------------------


def _set_operation(query: Query, evaluator: Evaluator, ctes: Ctes) -> Run:
    assert query.set_operation is not None
    combine = compile_set_operation(query, query.set_operation, evaluator, ctes)
    finish = _finish(query, evaluator)

    def run(env: Env) -> list[Row]:
        return finish(combine(env), Env([], env))

    return run


def compile_set_operation(query: Query, part: SetOperation | RangeRef, evaluator: Evaluator, ctes: Ctes) -> Run:
    if isinstance(part, RangeRef):
        nested = query.rtable[part.varno - 1].subquery
        assert nested is not None
        run = compile_query(nested, evaluator.context, ctes)
        return lambda env: run(Env([], env))
    left = compile_set_operation(query, part.left, evaluator, ctes)
    right = compile_set_operation(query, part.right, evaluator, ctes)
    return lambda env: _combined(part, left(env), right(env))


def _combined(operation: SetOperation, left: list[Row], right: list[Row]) -> list[Row]:
    if operation.op is SetOp.UNION:
        return left + right if operation.all else _unique(left + right, operation)
    counts: dict[Any, int] = {}
    for row in right:
        key = _row_key(row)
        counts[key] = counts.get(key, 0) + 1
    kept = []
    wanted = operation.op is SetOp.INTERSECT
    if not operation.all:
        return _unique([row for row in left if (_row_key(row) in counts) is wanted], operation)
    for row in left:
        key = _row_key(row)
        present = counts.get(key, 0) > 0
        if present:
            counts[key] -= 1
        if present is wanted:
            kept.append(row)
    return kept


def _row_key(row: Row) -> tuple[Any, ...]:
    return tuple([hashable(value) for value in row])


def _unique(rows: list[Row], operation: SetOperation) -> list[Row]:
    seen: dict[Any, Row] = {}
    for row in rows:
        seen.setdefault(_row_key(row), row)
    keys = [
        Key(lambda row, i=i: row[i], op, False)  # type: ignore[misc]
        for i, op in enumerate(operation.sortops)
        if op
    ]
    return sort(seen.values(), keys) if len(keys) == len(operation.columns) else list(seen.values())
