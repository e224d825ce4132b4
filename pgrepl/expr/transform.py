"""The base of the analysis: `transform_expr` dispatches on the raw node's class.

`analyze` and the modules it imports register their forms with it.
"""

from __future__ import annotations

from functools import singledispatch

from pgrepl.errors import unsupported
from pgrepl.expr.coerce import coerce_to_boolean
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Expr
from pgrepl.sql import nodes


def analyze_where(scope: Scope, node: nodes.Expr, kind: ExprKind, construct: str) -> Expr:
    """A WHERE condition, cast to boolean (transformWhereClause). Collations are assigned later."""
    return coerce_to_boolean(scope, transform(scope, node, kind), construct)


def transform(scope: Scope, node: nodes.Expr, kind: ExprKind) -> Expr:
    """Analyse a raw expression as transformExpr does, with the scope's ExprKind set meanwhile."""
    saved, scope.kind = scope.kind, kind
    try:
        return transform_expr(node, scope)
    finally:
        scope.kind = saved


@singledispatch
def transform_expr(node: nodes.Expr, scope: Scope) -> Expr:
    raise unsupported(type(node).__name__, location=getattr(node, "location", None))
