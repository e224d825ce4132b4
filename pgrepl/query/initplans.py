"""Subqueries whose one value is the same for all rows are carried out first, as PostgreSQL's InitPlans: their values
then let scans skip files, and Spark needs no subquery in places where it knows none."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Query, RteKind
from pgrepl.expr.walk import map_children, map_parts, query_exprs, subqueries, walk
from pgrepl.query.engine import has_user_tables
from pgrepl.query.env import sees_outside
from pgrepl.sql.nodes import SubLinkType
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_SINGLE = (SubLinkType.EXPR, SubLinkType.EXISTS)


def with_values(session: Session, query: Query) -> Query:
    """The query, its views expanded, with such subqueries replaced by their values. One that fails stays where it is:
    it fails again when its value is asked for, and perhaps nobody asks."""

    def expression(expr: Expr) -> Expr:
        expr = map_children(expr, expression)
        if not isinstance(expr, tree.SubLink) or expr.query is None:
            return expr
        if stands_alone(expr):
            value = _value(session, expr)
            if value is not None:
                return value
        return replace(expr, query=with_values(session, expr.query))

    return map_parts(query, expression, lambda nested: with_values(session, nested))


def stands_alone(link: tree.SubLink) -> bool:
    """Whether the subquery gives one value from user tables, whatever stands around it."""
    query = link.query
    return (
        query is not None
        and link.kind in _SINGLE
        and has_user_tables(query)
        and not sees_outside(query)
        and not names_outer_with(query)
    )


def names_outer_with(query: Query, depth: int = 0) -> bool:
    """Whether it, or a query inside it, speaks of a WITH query around it."""
    if any(entry.kind is RteKind.CTE and entry.cte_levelsup > depth for entry in query.rtable):
        return True
    if any(names_outer_with(nested, depth + 1) for nested in subqueries(query)):
        return True
    return any(
        isinstance(node, tree.SubLink) and node.query is not None and names_outer_with(node.query, depth + 1)
        for expr in query_exprs(query)
        for node in walk(expr)
    )


def _value(session: Session, link: tree.SubLink) -> Expr | None:
    from pgrepl.query.rowset import rows_of

    assert link.query is not None
    query = link.query
    if query.limit is None:
        query = replace(query, limit=tree.Const(oids.INT8, value=2))
    try:
        rows = list(islice(rows_of(session, query, expanded=True), 2))
    except PgError:
        return None
    if link.kind is SubLinkType.EXISTS:
        return tree.Const(oids.BOOL, value=bool(rows))
    if len(rows) > 1:
        return None
    value = rows[0][0] if rows else None
    return tree.Const(link.type, typmod=link.typmod, collation=link.collation, value=value)
