"""UNION, INTERSECT, EXCEPT: the rows of both sides with the types of the result, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from pgrepl.expr.casts import Context as CastContext
from pgrepl.expr.coerce import coerce_to_target
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Query, RangeRef, SetOperation
from pgrepl.instrument import Instrumentation, counted
from pgrepl.query.local.env import Env, Row, Run, Slot
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.query.local.finish import Finish
from pgrepl.query.local.sorting import SortKey, sort
from pgrepl.sql.nodes import CoercionForm, SetOp
from pgrepl.types.values import first_of_each, row_hash_form


def compile_set_operation(query: Query, evaluator: Evaluator) -> Run:
    assert query.set_operation is not None
    combine = compile_part(query, query.set_operation, evaluator)
    finish = Finish(query, evaluator)

    def run(env: Env) -> Iterable[Row]:
        return finish.limited(finish.ordered(combine(env)), Env([], env))

    return run


def compile_part(query: Query, part: SetOperation | RangeRef, evaluator: Evaluator) -> Run:
    if isinstance(part, RangeRef):
        nested = query.rtable[part.varno - 1].subquery
        assert nested is not None
        run = evaluator.subquery(nested, is_repeated=False)
        return lambda env: run(Env([], env))
    left, right = (
        _as_types(compile_part(query, side, evaluator), _types(query, side), part, evaluator)
        for side in (part.left, part.right)
    )
    node, append = evaluator.node(part), evaluator.node((part,)) if part.op is SetOp.UNION else None
    return lambda env: counted(node, lambda: _combined(part, left(env), right(env), append))


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


def _combined(
    operation: SetOperation, left: Iterable[Row], right: Iterable[Row], append: Instrumentation | None
) -> Iterable[Row]:
    if operation.op is SetOp.UNION:
        both = chain(left, right)
        return both if operation.all else _unique(counted(append, lambda: both), operation)
    form = row_hash_form(column.type for column in operation.columns)
    counts: dict[Any, int] = {}
    for row in right:
        key = form(row)
        counts[key] = counts.get(key, 0) + 1
    kept = []
    wanted = operation.op is SetOp.INTERSECT
    if not operation.all:
        return _unique([row for row in left if (form(row) in counts) is wanted], operation)
    for row in left:
        key = form(row)
        present = counts.get(key, 0) > 0
        if present:
            counts[key] -= 1
        if present is wanted:
            kept.append(row)
    return kept


def _unique(rows: Iterable[Row], operation: SetOperation) -> list[Row]:
    found = first_of_each(rows, row_hash_form(column.type for column in operation.columns))
    keys = [
        SortKey(lambda row, i=i: row[i], op, False, operation.columns[i].type)  # type: ignore[misc]
        for i, op in enumerate(operation.sortops)
        if op
    ]
    return sort(found, keys) if len(keys) == len(operation.columns) else found
