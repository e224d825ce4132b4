"""Values in the places of a routine's variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pgrepl.expr.tree import Expr, Query, SubLink, Variable
from pgrepl.expr.walk import map_children, map_parts


def with_values(query: Query, value: Callable[[Variable], Expr]) -> Query:
    """The query, and the queries inside it, with an expression in the place of each variable."""

    def expression(expr: Expr) -> Expr:
        if isinstance(expr, Variable):
            return value(expr)
        expr = map_children(expr, expression)
        if isinstance(expr, SubLink) and expr.query is not None:
            return replace(expr, query=nested(expr.query))
        return expr

    def nested(inner: Query) -> Query:
        return map_parts(inner, expression, nested)

    return nested(query)
