"""Values in the places of a routine's variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pgrepl.expr.dml.mapping import map_modify
from pgrepl.expr.tree import Expr, Query, SubLink, Variable
from pgrepl.expr.walk import map_children, map_parts

Value = Callable[[Variable], Expr]


def with_values(query: Query, value: Value) -> Query:
    """The query, and the queries inside it, with an expression in the place of each variable."""
    return map_parts(query, lambda expr: expr_with_values(expr, value), lambda inner: with_values(inner, value))


def modify_with_values(modify: Any, value: Value) -> Any:
    """Put an expression in the place of each variable of a data-modifying statement, an expr.dml.plan.Modify."""
    return map_modify(modify, lambda expr: expr_with_values(expr, value), lambda inner: with_values(inner, value))


def expr_with_values(expr: Expr, value: Value) -> Expr:
    if isinstance(expr, Variable):
        return value(expr)
    expr = map_children(expr, lambda child: expr_with_values(child, value))
    if isinstance(expr, SubLink) and expr.query is not None:
        return replace(expr, query=with_values(expr.query, value))
    return expr
