"""Clauses that all forms of queries share: WITH and LIMIT; and the collations, assigned when all clauses have been
read."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.expr.aggregates import locate_var
from pgrepl.expr.coerce import coerce_to_specific
from pgrepl.expr.collate import assign_collations, assign_target_collations
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import Scope
from pgrepl.expr.transform import transform
from pgrepl.expr.tree import Expr, Join, Query, RangeRef, SortGroup
from pgrepl.expr.walk import has_vars
from pgrepl.sql import nodes
from pgrepl.sql.nodes import AConst, AConstKind, SelectStmt
from pgrepl.types import oids


def read_with(stmt: SelectStmt, scope: Scope) -> bool:
    """Analyse the WITH list. Returns whether it is recursive."""
    if stmt.with_ is None:
        return False
    from pgrepl.expr.ctes import transform_with

    transform_with(scope, stmt.with_)
    return stmt.with_.recursive


def refuse_into(stmt: SelectStmt) -> None:
    if stmt.into is not None:
        raise PgError("42601", "SELECT ... INTO is not allowed here", location=stmt.into.location)


def analyze_limit(scope: Scope, node: nodes.Expr | None, kind: ExprKind, stmt: SelectStmt) -> Expr | None:
    """LIMIT or OFFSET: a bigint without columns of the query (transformLimitClause)."""
    if node is None:
        return None
    expr = coerce_to_specific(scope, transform(scope, node, kind), oids.INT8, kind.title)
    check_no_columns(expr, kind.title)
    if kind is ExprKind.LIMIT and stmt.with_ties and isinstance(node, AConst) and node.kind is AConstKind.NULL:
        raise PgError("2201W", "row count cannot be null in FETCH FIRST ... WITH TIES clause")
    return expr


def check_no_columns(expr: Expr, construct: str) -> None:
    if has_vars(expr):
        message = f"argument of {construct} must not contain variables"
        raise PgError("42P10", message, location=locate_var((expr,), 0))


def settle_collations(query: Query) -> Query:
    """Assign collations as assign_query_collations does. Subqueries in FROM already have theirs; join conditions do
    not."""
    keys = {key.resno for keys in _key_lists(query) for key in keys}

    def settled(expr: Expr | None) -> Expr | None:
        return assign_collations(expr) if expr is not None else None

    return replace(
        query,
        targets=tuple(replace(t, expr=assign_target_collations(t.expr, is_key=t.resno in keys)) for t in query.targets),
        from_=tuple(_settled_join(item) for item in query.from_),
        where=settled(query.where),
        having=settled(query.having),
        limit=settled(query.limit),
        offset=settled(query.offset),
        windows=tuple(
            replace(w, start_offset=settled(w.start_offset), end_offset=settled(w.end_offset)) for w in query.windows
        ),
    )


def _key_lists(query: Query) -> list[tuple[SortGroup, ...]]:
    lists = [query.sort, query.group, query.distinct or ()]
    for window in query.windows:
        lists += [window.partition, window.order]
    return lists


def _settled_join(item: RangeRef | Join) -> RangeRef | Join:
    if isinstance(item, RangeRef):
        return item
    return replace(
        item,
        left=_settled_join(item.left),
        right=_settled_join(item.right),
        quals=assign_collations(item.quals) if item.quals is not None else None,
    )
