"""Subqueries with one value for all rows are executed first, as PostgreSQL's InitPlans: their values let scans skip
files, and Spark meets no subquery where it allows none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Query
from pgrepl.expr.walk import map_children, map_parts
from pgrepl.query.shape import depends, has_user_tables
from pgrepl.sql.nodes import SubLinkType
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

RowsOf = Callable[["Session", Query], Iterable[tuple[Any, ...]]]
_SINGLE = (SubLinkType.EXPR, SubLinkType.EXISTS)


def with_values(session: Session, query: Query, rows_of: RowsOf) -> Query:
    """The query, its views expanded, with such subqueries replaced by their values, which `rows_of` computes. One that
    fails stays in place: it fails again if its value is needed at all."""

    def expression(expr: Expr) -> Expr:
        expr = map_children(expr, expression)
        if not isinstance(expr, tree.SubLink) or expr.query is None:
            return expr
        if _stands_alone(expr):
            value = _value(session, expr, rows_of)
            if value is not None:
                return value
        return replace(expr, query=with_values(session, expr.query, rows_of))

    return map_parts(query, expression, lambda nested: with_values(session, nested, rows_of))


def _stands_alone(link: tree.SubLink) -> bool:
    """Whether the subquery returns one value from user tables and depends on no row around it."""
    query = link.query
    return query is not None and link.kind in _SINGLE and has_user_tables(query) and not depends(query)


def _value(session: Session, link: tree.SubLink, rows_of: RowsOf) -> Expr | None:
    assert link.query is not None
    query = link.query
    if query.limit is None:
        query = replace(query, limit=tree.Const(oids.INT8, value=2))
    try:
        rows = list(islice(rows_of(session, query), 2))
    except PgError:
        return None
    if link.kind is SubLinkType.EXISTS:
        return tree.Const(oids.BOOL, value=bool(rows))
    if len(rows) > 1:
        return None
    value = rows[0][0] if rows else None
    return tree.Const(link.type, typmod=link.typmod, collation=link.collation, value=value)
