"""Views in a query become the queries they stand for, and tables whose rows a role must not see become empty
(fireRIRrules)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.row_security import hides_rows
from pgrepl.catalog.store import one
from pgrepl.catalog.tables import pg_rewrite
from pgrepl.expr.stored import from_json
from pgrepl.expr.tree import Cte, Expr, Join, Query, RangeRef, Rte, RteKind, SubLink, TableSample, Window
from pgrepl.expr.walk import map_children
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_INVOKER = frozenset(f"security_invoker={true}" for true in ("true", "on", "yes", "1"))


def view_query(session: Session, view: int) -> Query:
    """The query of a view that a user made."""
    row = one(session, pg_rewrite, ev_class=view)
    assert row is not None
    query: Query = from_json(row.ev_action)
    return query


def view_role(session: Session, view: Relation, role: int) -> int:
    """With whose privileges a view that `role` asks reads its tables."""
    return role if any(option.lower() in _INVOKER for option in view.options or ()) else view.owner


def expand_views(session: Session, query: Query, role: int | None = None) -> Query:
    """The same query with every view in it, at any depth, replaced by a subquery. The entry keeps the view's relid."""
    who = session.role if role is None else role

    def expression(expr: Expr) -> Expr:
        expr = map_children(expr, expression)
        if isinstance(expr, SubLink) and expr.query is not None:
            return replace(expr, query=expand_views(session, expr.query, who))
        return expr

    def optional(expr: Expr | None) -> Expr | None:
        return expression(expr) if expr is not None else None

    def join(item: RangeRef | Join) -> RangeRef | Join:
        if isinstance(item, RangeRef):
            return item
        return replace(item, left=join(item.left), right=join(item.right), quals=optional(item.quals))

    def entry(rte: Rte) -> Rte:
        if rte.kind is RteKind.RELATION and rte.relid >= oids.FIRST_USER_OID:
            found = relation(session, rte.relid)
            if rte.relkind == "v":
                inner = expand_views(session, view_query(session, rte.relid), view_role(session, found, who))
                return replace(rte, kind=RteKind.SUBQUERY, subquery=inner)
            if found.row_security and hides_rows(session, found, who):
                return replace(rte, kind=RteKind.VALUES, values=())
        return replace(
            rte,
            subquery=expand_views(session, rte.subquery, who) if rte.subquery is not None else None,
            functions=tuple(expression(f) for f in rte.functions),
            values=tuple(tuple(expression(v) for v in row) for row in rte.values),
            join_vars=tuple(optional(v) for v in rte.join_vars),
            sample=sample(rte.sample) if rte.sample is not None else None,
        )

    def sample(method: TableSample) -> TableSample:
        return replace(
            method, args=tuple(expression(arg) for arg in method.args), repeatable=optional(method.repeatable)
        )

    def window(frame: Window) -> Window:
        return replace(frame, start_offset=optional(frame.start_offset), end_offset=optional(frame.end_offset))

    def common(cte: Cte) -> Cte:
        return replace(cte, query=expand_views(session, cte.query, who))

    return replace(
        query,
        targets=tuple(replace(t, expr=expression(t.expr)) for t in query.targets),
        rtable=tuple(entry(rte) for rte in query.rtable),
        from_=tuple(join(item) for item in query.from_),
        where=optional(query.where),
        having=optional(query.having),
        limit=optional(query.limit),
        offset=optional(query.offset),
        windows=tuple(window(frame) for frame in query.windows),
        ctes=tuple(common(cte) for cte in query.ctes),
    )
