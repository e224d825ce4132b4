"""Subqueries inside expressions: EXISTS, IN and op ANY / ALL, a scalar, an array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.functions.arrays import accumulated
from pgrepl.expr.tree import Expr, Query, has_modifying_cte
from pgrepl.expr.walk import is_volatile, returns_set, rewrite, walk
from pgrepl.ground.errors import PgError
from pgrepl.query.local.env import Compiled, Env, Run, Slot, kept, nearest_level
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.query.shape import hashable_equalities
from pgrepl.sql.nodes import SubLinkType
from pgrepl.types.arrays import array_of
from pgrepl.types.builtin import element_type
from pgrepl.types.values import hash_form

_TABLE_ROWS = 100_000
_PORTION = 1000


def compile_sublink(link: tree.SubLink, evaluator: Evaluator) -> Compiled:
    assert link.query is not None
    query = bare(link.query) if link.kind is SubLinkType.EXISTS else link.query
    level = nearest_level(query, evaluator.ctes)
    rows = evaluator.subquery(query)
    if level != 0:
        rows = kept(rows, level)
    if link.kind is SubLinkType.EXISTS:
        return lambda env: any(True for _ in rows(env))
    if link.kind is SubLinkType.EXPR:
        return lambda env: _single(rows(env))
    if link.kind is SubLinkType.ARRAY:
        return lambda env: array_of_rows(link, rows(env))
    assert link.test is not None
    is_comparison = link.kind is SubLinkType.ROWCOMPARE
    test = evaluator.compile(_with_slots(link.test))
    any_row = link.kind is SubLinkType.ANY
    if any_row and level != 0:
        pairs = hashable_equalities(link.test)
        if pairs is not None and all(_is_of_columns(column) for _, column in pairs):
            return _hashed(rows, level, pairs, test, evaluator)

    def compare(env: Env) -> Any:
        if is_comparison:
            only = _single(rows(env), whole=True)
            return None if only is None else test(Env(env.rows, env.outer, (*env.computed, *reversed(only))))
        unknown = False
        for row in rows(env):
            answer: bool | None = test(Env(env.rows, env.outer, (*env.computed, *reversed(row))))
            if answer is None:
                unknown = True
            elif answer is any_row:
                return any_row
        return None if unknown else not any_row

    return compare


def bare(query: Query) -> Query:
    """EXISTS needs only rows: their targets are not computed (simplify_EXISTS_query)."""
    limit = query.limit
    if (
        query.set_operation is not None
        or query.grouping_sets is not None
        or query.having is not None
        or query.offset is not None
        or query.windows
        or query.row_marks
        or has_modifying_cte(query.ctes)
        or any(returns_set(target.expr) for target in query.targets)
        or (limit is not None and not (isinstance(limit, tree.Const) and (limit.value is None or limit.value > 0)))
        or query.has_aggregates
    ):
        return query
    return replace(query, targets=(), group=(), windows=(), distinct=None, distinct_on=False, sort=(), limit=None)


def array_of_rows(link: tree.SubLink, rows: Iterable[tuple[Any, ...]]) -> Any:
    """ARRAY(SELECT …)"""
    assert link.query is not None
    values, element = [row[0] for row in rows], element_type(link.type)
    if link.query.columns[0].type == link.type:
        return accumulated(element, values)
    return array_of(element, values)


def _is_of_columns(expr: Expr) -> bool:
    """Is it computed from the subquery's columns alone, once for each of its rows?"""
    nodes = list(walk(expr))
    return (
        any(isinstance(node, tree.Param) for node in nodes)
        and not any(isinstance(node, (tree.Var, tree.SubLink)) for node in nodes)
        and not is_volatile(expr)
    )


class _Table:
    """A hash table of keys. The first keys are all computed, with the errors they may raise, as many as PostgreSQL
    would scan without a hash table; further ones until the key is found."""

    def __init__(self, rows: Iterator[tuple[Any, ...]], key_of: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> None:
        self.with_null: list[tuple[Any, ...]] = []
        self._keys: set[Any] = set()
        self._rows = rows
        self._key_of = key_of
        self._add(_TABLE_ROWS)

    def has(self, key: tuple[Any, ...]) -> bool:
        while key not in self._keys:
            if not self._add(_PORTION):
                return False
        return True

    def _add(self, count: int) -> bool:
        taken = 0
        for row in islice(self._rows, count):
            taken += 1
            key = self._key_of(row)
            if None in key:
                self.with_null.append(row)
            else:
                self._keys.add(key)
        return taken > 0


def _hashed(
    rows: Run, level: int | None, pairs: list[tuple[Expr, Expr]], test: Compiled, evaluator: Evaluator
) -> Compiled:
    """IN over a subquery whose rows are the same for many rows of this query: a hash table. NULLs are compared one by
    one."""
    own = [(evaluator.compile(expr), hash_form(expr.type)) for expr, _ in pairs]
    forms = [hash_form(column.type) for _, column in pairs]
    places = [param.number - 1 for _, column in pairs if (param := _param(column)) is not None]
    computed = [evaluator.compile(_with_slots(column)) for _, column in pairs] if len(places) < len(pairs) else []
    place_of_table = object()

    def key_of(env: Env) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        if not computed:
            plain = list(zip(places, forms, strict=True))
            return lambda row: tuple([form(row[place]) for place, form in plain])

        def of_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
            here = Env(env.rows, env.outer, (*env.computed, *reversed(row)))
            return tuple([form(value(here)) for value, form in zip(computed, forms, strict=True)])

        return of_row

    def table(env: Env) -> _Table:
        memory = env.memory(level)
        if place_of_table not in memory:
            memory[place_of_table] = _Table(iter(rows(env)), key_of(env))
        known: _Table = memory[place_of_table]
        return known

    def contained(env: Env) -> bool | None:
        known = table(env)
        wanted = tuple([form(value(env)) for value, form in own])
        if None not in wanted and known.has(wanted):
            return True
        compared = rows(env) if None in wanted else known.with_null
        answers = {test(Env(env.rows, env.outer, (*env.computed, *reversed(row)))) for row in compared}
        return True if True in answers else None if None in answers else False

    return contained


def _param(expr: Expr | None) -> tree.Param | None:
    """The column whose values it has, under another type or not."""
    while isinstance(expr, tree.RelabelType):
        expr = expr.arg
    return expr if isinstance(expr, tree.Param) else None


def _with_slots(test: Expr) -> Expr:
    """The test with the n-th column of the subquery as computed[-n]."""

    def slot(node: Expr) -> Expr | None:
        if isinstance(node, tree.Param):
            return Slot(node.type, typmod=node.typmod, collation=node.collation, number=-node.number)
        return None

    return rewrite(test, slot)


def _single(rows_found: Iterable[tuple[Any, ...]], *, whole: bool = False) -> Any:
    rows = list(islice(rows_found, 2))
    if len(rows) > 1:
        raise PgError("21000", "more than one row returned by a subquery used as an expression")
    if not rows:
        return None
    return rows[0] if whole else rows[0][0]
