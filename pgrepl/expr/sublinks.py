"""Subqueries in expressions (SubLink)."""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.comparisons import compare_rows
from pgrepl.expr.kinds import subquery_refused
from pgrepl.expr.scope import Scope
from pgrepl.expr.transform import transform_expr
from pgrepl.expr.tree import Expr, Param, RowExpr, SubLink
from pgrepl.sql import nodes
from pgrepl.sql.nodes import SubLinkType
from pgrepl.types import oids


@transform_expr.register
def _(node: nodes.SubLink, scope: Scope) -> Expr:
    """As transformSubLink does."""
    from pgrepl.expr.query import analyze_subquery

    problem = subquery_refused(scope.kind, node.location)
    if problem is not None:
        raise problem
    scope.has_sublinks = True
    query = analyze_subquery(node.subselect, scope)
    scope.subqueries[id(node)] = query
    columns = query.columns
    if node.kind is SubLinkType.EXISTS:
        return SubLink(oids.BOOL, location=node.location, kind=node.kind, query=query)
    if node.kind in (SubLinkType.EXPR, SubLinkType.ARRAY):
        if len(columns) != 1:
            raise PgError("42601", "subquery must return only one column", location=node.location)
        column = columns[0]
        typoid = column.type
        if node.kind is SubLinkType.ARRAY:
            # an array of arrays is an array of one more dimension
            typoid = column.type if typefacts.is_array(column.type) else typefacts.array_over(column.type)
            if not typoid:
                text = typefacts.type_text(scope.session, column.type)
                raise PgError("42704", f"could not find array type for data type {text}")
        return SubLink(
            typoid,
            typmod=column.typmod,
            collation=column.collation,
            location=node.location,
            kind=node.kind,
            query=query,
        )
    assert node.test is not None
    operator = node.operator or ("=",)
    left = transform_expr(node.test, scope)
    lefts = left.args if isinstance(left, RowExpr) else (left,)
    rights = tuple(Param(c.type, typmod=c.typmod, collation=c.collation, number=n) for n, c in enumerate(columns, 1))
    if len(lefts) < len(rights):
        raise PgError("42601", "subquery has too many columns", location=node.location)
    if len(lefts) > len(rights):
        raise PgError("42601", "subquery has too few columns", location=node.location)
    test = compare_rows(scope, operator, lefts, rights, node.location)
    return SubLink(
        oids.BOOL,
        location=node.location,
        kind=node.kind,
        test=test,
        operator=node.operator[-1] if node.operator else "",
        query=query,
    )
