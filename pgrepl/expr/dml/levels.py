"""Replacing the columns of one query level wherever they are used, in subqueries too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pgrepl.expr.tree import Expr, Query, SubLink, Var
from pgrepl.expr.walk import map_children, map_parts

# gives the replacement of a Var, which is used in a subquery that many levels down
Substitute = Callable[[Var, int], Expr | None]


def map_level(expr: Expr, substitute: Substitute, depth: int = 0) -> Expr:
    """The expression with the columns of its own query level replaced; a column for which the function returns None is
    kept."""

    def visit(node: Expr) -> Expr:
        if isinstance(node, Var):
            if node.levelsup == depth:
                other = substitute(node, depth)
                return node if other is None else other
            return node
        node = map_children(node, visit)
        if isinstance(node, SubLink) and node.query is not None:
            return replace(node, query=map_query(node.query, substitute, depth + 1))
        return node

    return visit(expr)


def map_query(query: Query, substitute: Substitute, depth: int) -> Query:
    """The query, nested `depth` levels below the columns' own query level, with these columns replaced."""

    return map_parts(
        query,
        lambda expr: map_level(expr, substitute, depth),
        lambda nested: map_query(nested, substitute, depth + 1),
    )
