"""A query, compiled once and played as often as its surroundings ask: FROM and WHERE, groups, windows, targets,
DISTINCT, ORDER BY, LIMIT, set operations, WITH.

    run = compile_query(query, context, ctes)
    rows = run(Env([], None))      # tuples of Python values, one for each column
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from pgrepl.commands.query.dependence import kept, nearest
from pgrepl.commands.query.env import Env, Evaluator, Slot
from pgrepl.commands.query.grouping import Grouping, uses_groups
from pgrepl.commands.query.joins import plan_from
from pgrepl.commands.query.scans import scan
from pgrepl.commands.query.sorting import Key, same_keys, sort
from pgrepl.errors import PgError, unsupported
from pgrepl.expr.casts import Context as CastContext
from pgrepl.expr.coerce import coerce_to_target
from pgrepl.expr.context import Context
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Expr, Query, RangeRef, SetOperation, SortGroup
from pgrepl.expr.walk import returns_set
from pgrepl.sql.nodes import CoercionForm, SetOp
from pgrepl.types.values import hash_form

if TYPE_CHECKING:
    from pgrepl.commands.query.windows import Windows

Row = tuple[Any, ...]
Run = Callable[[Env], Iterable[Row]]  # rows are computed as they are asked for, where that is possible


@dataclass
class Ctes:
    """The WITH queries a query can see, by name, and the level that each depends on; those of outer queries behind
    it."""

    outer: Ctes | None = None
    runs: dict[str, Callable[[Env], Iterable[Row]]] = field(default_factory=dict)
    needs: dict[str, int | None] = field(default_factory=dict)

    def above(self, levelsup: int) -> Ctes:
        scope = self
        for _ in range(levelsup):
            assert scope.outer is not None
            scope = scope.outer
        return scope

    def find(self, name: str, levelsup: int) -> Callable[[Env], Iterable[Row]]:
        return self.above(levelsup).runs[name]


def compile_query(query: Query, context: Context, outer: Ctes | None = None, around: Evaluator | None = None) -> Run:
    """`around` is the evaluator of the query that has this one inside."""
    ctes = Ctes(outer)
    evaluator = evaluator_of(query, context, ctes, around)
    compile_ctes(query, ctes, evaluator)
    if query.set_operation is not None:
        return _set_operation(query, evaluator, ctes)
    return _select(query, evaluator, ctes)


def evaluator_of(query: Query, context: Context, ctes: Ctes, around: Evaluator | None) -> Evaluator:
    def subquery(nested: Query) -> Run:
        return compile_query(nested, context, ctes, evaluator)

    evaluator = Evaluator(context, query, subquery, lambda nested: nearest(nested, ctes), around)
    return evaluator


def compile_ctes(query: Query, ctes: Ctes, evaluator: Evaluator) -> None:
    """The WITH list: each of its queries is played once for the row around the query that has the list."""
    for cte in query.ctes:
        if cte.modify is not None:
            raise unsupported("a data-modifying statement in WITH here")
        if cte.recursive and query.recursive:
            from pgrepl.commands.query.recursion import compile_recursive

            run = compile_recursive(cte, ctes, evaluator)
        else:
            run = compile_query(cte.query, evaluator.context, ctes, evaluator)
            ctes.needs[cte.name] = nearest(cte.query, ctes)
        ctes.runs[cte.name] = kept(run, ctes.needs[cte.name])


def _select(query: Query, evaluator: Evaluator, ctes: Ctes) -> Run:
    plan = plan_from(query, evaluator.flat(query.where), evaluator, lambda varno: scan(varno, evaluator, ctes))
    grouping = Grouping(query, evaluator) if uses_groups(query) else None
    evaluator.grouping = grouping
    after: Callable[[Expr], Expr] = grouping.after if grouping else lambda expr: expr
    having = evaluator.test([after(query.having)] if query.having is not None else [])
    for target in query.targets:  # number GROUPING() calls before their slots are counted
        after(target.expr)
    windows: Windows | None = None
    shown = after
    if query.windows:
        from pgrepl.commands.query.windows import Windows

        windows = Windows(query, evaluator, after, grouping.slots if grouping else 0)
        if windows.functions:
            shown = windows.after
    sets = {t.resno for t in query.targets if returns_set(t.expr)}
    columns = []
    for target in query.targets:
        many, expr = target.resno in sets, shown(target.expr)
        columns.append((evaluator.compile_set(expr) if many else evaluator.compile(expr), many))
    finish = _finish(query, evaluator)

    def run(env: Env) -> Iterable[Row]:
        surroundings = Env([None] * (len(query.rtable) + 1), env)
        envs: Iterable[Env] = (Env(rows, env) for rows in plan.run(surroundings))
        if grouping is not None:
            envs = [e for e in grouping.groups(envs, surroundings) if having(e)]
        if windows is not None and windows.functions:
            envs = windows.add(list(envs))
        rows: Iterable[Row]
        if not sets:
            rows = (tuple([value(e) for value, _ in columns]) for e in envs)
        else:
            rows = (row for e in envs for row in _expanded(columns, e))
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


def _finish(query: Query, evaluator: Evaluator) -> Callable[[Iterable[Row], Env], Iterable[Row]]:
    """DISTINCT, ORDER BY, LIMIT, and away with the junk columns."""
    place = {t.resno: i for i, t in enumerate(query.targets)}
    keep = [place[t.resno] for t in query.targets if not t.junk]
    everything = len(keep) == len(query.targets)
    order = _keys(query.sort, place)
    limit, offset = evaluator.compile_optional(query.limit), evaluator.compile_optional(query.offset)

    def finish(found: Iterable[Row], env: Env) -> Iterable[Row]:
        if query.distinct is not None:
            found = _distinct(query, found, place)
        if order:
            found = sort(found, order)
        rows = _limited(found, offset(env), limit(env), order if query.with_ties else None)
        return rows if everything else (tuple([row[i] for i in keep]) for row in rows)

    return finish


def _keys(groups: Iterable[SortGroup], place: dict[int, int]) -> list[Key]:
    return [
        Key(lambda row, i=place[g.resno]: row[i], g.sortop, g.nulls_first)  # type: ignore[misc]
        for g in groups
    ]


def _distinct(query: Query, rows: Iterable[Row], place: dict[int, int]) -> list[Row]:
    assert query.distinct is not None
    keys = _keys(query.distinct, place)
    if query.distinct_on:
        rows = sort(rows, _keys(query.sort, place) or keys)
    else:
        rows = sort(rows, keys)  # as a sorted Unique does; ORDER BY may sort once more
    forms = [hash_form(key.type) for key in keys]
    seen: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        seen.setdefault(tuple([form(key.value(row)) for key, form in zip(keys, forms, strict=True)]), row)
    return list(seen.values())


def _limited(found: Iterable[Row], offset: Any, limit: Any, ties: list[Key] | None) -> Iterable[Row]:
    """Rows behind the limit are not even computed, unless ties have to be looked for."""
    if offset is not None and offset < 0:
        raise PgError("2201X", "OFFSET must not be negative")
    if limit is not None and limit < 0:
        raise PgError("2201W", "LIMIT must not be negative")
    if limit is None and not offset:
        return found
    if limit is None or ties is None:
        first = offset or 0
        return islice(found, first, None if limit is None else first + limit)
    rows = list(found)[offset or 0 :]
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

    def run(env: Env) -> Iterable[Row]:
        return finish(combine(env), Env([], env))

    return run


def compile_set_operation(query: Query, part: SetOperation | RangeRef, evaluator: Evaluator, ctes: Ctes) -> Run:
    if isinstance(part, RangeRef):
        nested = query.rtable[part.varno - 1].subquery
        assert nested is not None
        run = compile_query(nested, evaluator.context, ctes, evaluator)
        return lambda env: run(Env([], env))
    left, right = (
        _as_types(compile_set_operation(query, side, evaluator, ctes), _types(query, side), part, evaluator)
        for side in (part.left, part.right)
    )
    return lambda env: _combined(part, left(env), right(env))


def _types(query: Query, part: SetOperation | RangeRef) -> list[int]:
    if isinstance(part, SetOperation):
        return [c.type for c in part.columns]
    nested = query.rtable[part.varno - 1].subquery
    assert nested is not None
    return [c.type for c in nested.columns]


def _as_types(run: Run, types: list[int], operation: SetOperation, evaluator: Evaluator) -> Run:
    """The rows of one side with the types of the operation's columns: an integer beside a numeric becomes one."""
    scope = Scope(evaluator.context.session)
    casts: dict[int, Callable[[Env], Any]] = {}
    for number, (given, column) in enumerate(zip(types, operation.columns, strict=False)):
        if given != column.type:
            slot = Slot(given, number=number)
            form = CoercionForm.IMPLICIT_CAST
            cast = coerce_to_target(scope, slot, given, column.type, column.typmod, CastContext.IMPLICIT, form, -1)
            if cast is not None and cast is not slot:
                casts[number] = evaluator.compile(cast)
    if not casts:
        return run

    def converted(env: Env) -> Iterator[Row]:
        for row in run(env):
            here = Env([], env.outer, row)
            yield tuple([casts[i](here) if i in casts else value for i, value in enumerate(row)])

    return converted


def _combined(operation: SetOperation, left: Iterable[Row], right: Iterable[Row]) -> Iterable[Row]:
    if operation.op is SetOp.UNION:
        return chain(left, right) if operation.all else _unique(chain(left, right), operation)
    forms = [hash_form(column.type) for column in operation.columns]
    counts: dict[Any, int] = {}
    for row in right:
        key = _row_key(row, forms)
        counts[key] = counts.get(key, 0) + 1
    kept = []
    wanted = operation.op is SetOp.INTERSECT
    if not operation.all:
        return _unique([row for row in left if (_row_key(row, forms) in counts) is wanted], operation)
    for row in left:
        key = _row_key(row, forms)
        present = counts.get(key, 0) > 0
        if present:
            counts[key] -= 1
        if present is wanted:
            kept.append(row)
    return kept


def _row_key(row: Row, forms: list[Callable[[Any], Any]]) -> tuple[Any, ...]:
    return tuple([form(value) for form, value in zip(forms, row, strict=False)])


def _unique(rows: Iterable[Row], operation: SetOperation) -> list[Row]:
    forms = [hash_form(column.type) for column in operation.columns]
    seen: dict[Any, Row] = {}
    for row in rows:
        seen.setdefault(_row_key(row, forms), row)
    keys = [
        Key(lambda row, i=i: row[i], op, False)  # type: ignore[misc]
        for i, op in enumerate(operation.sortops)
        if op
    ]
    return sort(seen.values(), keys) if len(keys) == len(operation.columns) else list(seen.values())
