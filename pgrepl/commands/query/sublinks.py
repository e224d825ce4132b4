"""Subqueries inside expressions: EXISTS, IN and op ANY / ALL, a scalar, an array."""

from __future__ import annotations

from typing import Any

from pgrepl.commands.query.env import Compiled, Env, Evaluator, Slot, sees_outside
from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import rewrite
from pgrepl.sql.nodes import SubLinkType
from pgrepl.types.arrays import array_of
from pgrepl.types.builtin import type_by_oid


def compile_sublink(link: tree.SubLink, evaluator: Evaluator) -> Compiled:
    assert link.query is not None
    run = evaluator.subquery(link.query)
    rows = _remembered(run) if not sees_outside(link.query) else run
    if link.kind is SubLinkType.EXISTS:
        return lambda env: bool(rows(env))
    if link.kind is SubLinkType.EXPR:
        return lambda env: _single(rows(env))
    if link.kind is SubLinkType.ARRAY:
        kind = type_by_oid(link.type)
        element = kind.elem if kind is not None else 0
        return lambda env: array_of(element, [row[0] for row in rows(env)])
    assert link.test is not None
    is_comparison = link.kind is SubLinkType.ROWCOMPARE
    test = evaluator.compile(_with_slots(link.test))
    any_row = link.kind is SubLinkType.ANY

    def compare(env: Env) -> Any:
        if is_comparison:
            found = _single(rows(env), whole=True)
            return None if found is None else test(Env(env.rows, env.outer, (*env.computed, *reversed(found))))
        unknown = False
        for row in rows(env):
            answer: bool | None = test(Env(env.rows, env.outer, (*env.computed, *reversed(row))))
            if answer is None:
                unknown = True
            elif answer is any_row:
                return any_row
        return None if unknown else not any_row

    return compare


def _with_slots(test: Expr) -> Expr:
    """The n-th column of the subquery is put at computed[-n]."""

    def slot(node: Expr) -> Expr | None:
        if isinstance(node, tree.Param):
            return Slot(node.type, typmod=node.typmod, collation=node.collation, number=-node.number)
        return None

    return rewrite(test, slot)


def _single(rows: list[tuple[Any, ...]], *, whole: bool = False) -> Any:
    if len(rows) > 1:
        raise PgError("21000", "more than one row returned by a subquery used as an expression")
    if not rows:
        return None
    return rows[0] if whole else rows[0][0]


def _remembered(run: Any) -> Any:
    """A subquery that sees nothing outside is played once."""
    known: list[Any] = []

    def once(env: Env) -> Any:
        if not known:
            known.append(run(env))
        return known[0]

    return once
