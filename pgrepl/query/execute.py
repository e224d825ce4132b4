"""A query, compiled once and played as often as its surroundings ask: WITH, set operations; a plain SELECT is
`select`'s.

    run = compile_query(query, context, ctes)
    rows = run(Env([], None))      # tuples of Python values, one for each column
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from pgrepl.errors import unsupported
from pgrepl.expr.casts import Context as CastContext
from pgrepl.expr.coerce import coerce_to_target
from pgrepl.expr.context import Context
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Query, RangeRef, SetOperation
from pgrepl.expr.walk import is_volatile, walk_deep
from pgrepl.query.dependence import kept, nearest, times_read
from pgrepl.query.env import Env, Evaluator, Slot
from pgrepl.query.finish import Finish
from pgrepl.query.sorting import Key, sort
from pgrepl.sql.nodes import CoercionForm, SetOp
from pgrepl.types.values import hash_form

if TYPE_CHECKING:
    from pgrepl.query.row_locks import RowLocker

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
    lock = None
    if query.row_marks:
        query, lock = _locking(query, context, outer, around)
    evaluator = evaluator_of(query, context, ctes, around)
    compile_ctes(query, ctes, evaluator)
    if query.set_operation is not None:
        return _set_operation(query, evaluator, ctes)
    from pgrepl.query.select import compile_select

    return compile_select(query, evaluator, ctes, lock)


def _locking(query: Query, context: Context, outer: Ctes | None, around: Evaluator | None) -> tuple[Query, RowLocker]:
    from pgrepl.query.row_locks import RowLocker, with_places

    query, marks = with_places(query)
    shown = tuple(replace(target, junk=False) for target in query.targets)

    def again(other: Query, env: Env) -> Iterable[Row]:
        return compile_query(replace(other, targets=shown), context, outer, around)(env)

    return query, RowLocker(context.session, query, marks, again)


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
        if cte.recursive:
            from pgrepl.query.recursion import compile_recursive

            run = compile_recursive(cte, ctes, evaluator)
        else:
            run = compile_query(cte.query, evaluator.context, ctes, evaluator)
            ctes.needs[cte.name] = nearest(cte.query, ctes)
        volatile = any(is_volatile(expr) for expr, _ in walk_deep(cte.query))
        again = volatile or times_read(query, cte.name) > 1
        ctes.runs[cte.name] = kept(run, ctes.needs[cte.name]) if again else run


# --- UNION, INTERSECT, EXCEPT ---------------------------------------------------------------------------------------


def _set_operation(query: Query, evaluator: Evaluator, ctes: Ctes) -> Run:
    assert query.set_operation is not None
    combine = compile_set_operation(query, query.set_operation, evaluator, ctes)
    finish = Finish(query, evaluator)

    def run(env: Env) -> Iterable[Row]:
        return finish.limited(finish.ordered(combine(env)), Env([], env))

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
