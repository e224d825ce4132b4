"""Replacing columns of one query level wherever they are used, also in the subqueries inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pgrepl.expr.tree import Cte, Expr, Join, Query, RangeRef, Rte, SubLink, Target, Var
from pgrepl.expr.walk import map_children

# what stands for a column: given the Var, and how many levels further in it is used
Substitute = Callable[[Var, int], Expr | None]


def map_level(expr: Expr, substitute: Substitute, depth: int = 0) -> Expr:
    """The expression with the columns of its own query level replaced; None keeps one as it is."""

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
    """A query that stands `depth` levels inside the one whose columns are replaced."""

    def expression(expr: Expr) -> Expr:
        return map_level(expr, substitute, depth)

    def optional(expr: Expr | None) -> Expr | None:
        return expression(expr) if expr is not None else None

    def join(item: RangeRef | Join) -> RangeRef | Join:
        if isinstance(item, RangeRef):
            return item
        return replace(item, left=join(item.left), right=join(item.right), quals=optional(item.quals))

    def entry(rte: Rte) -> Rte:
        return replace(
            rte,
            subquery=map_query(rte.subquery, substitute, depth + 1) if rte.subquery is not None else None,
            functions=tuple(expression(f) for f in rte.functions),
            values=tuple(tuple(expression(v) for v in row) for row in rte.values),
            join_vars=tuple(optional(v) for v in rte.join_vars),
        )

    def target(each: Target) -> Target:
        return replace(each, expr=expression(each.expr))

    def common(cte: Cte) -> Cte:
        return replace(cte, query=map_query(cte.query, substitute, depth + 1))

    return replace(
        query,
        targets=tuple(target(t) for t in query.targets),
        rtable=tuple(entry(rte) for rte in query.rtable),
        from_=tuple(join(item) for item in query.from_),
        where=optional(query.where),
        having=optional(query.having),
        limit=optional(query.limit),
        offset=optional(query.offset),
        windows=tuple(
            replace(w, start_offset=optional(w.start_offset), end_offset=optional(w.end_offset)) for w in query.windows
        ),
        ctes=tuple(common(cte) for cte in query.ctes),
    )
