"""Views become subqueries, and tables with row security that hides all rows become empty (fireRIRrules); whether a view
is updatable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import hides_rows
from pgrepl.catalog.session.parameters import split_identifiers
from pgrepl.catalog.store.store import one
from pgrepl.catalog.store.tables import pg_rewrite
from pgrepl.expr import tree
from pgrepl.expr.analyse.lookup import relation_rte
from pgrepl.expr.rewrite.folding import folded
from pgrepl.expr.stored import from_json
from pgrepl.expr.walk import map_children, map_parts, query_exprs, returns_set, volatility_of_user, walk
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.numbers import parse_bool

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def _may_skip(expr: tree.Expr) -> bool:
    """Whether parts of the expression may be left out when its constants are folded."""
    if isinstance(expr, tree.CaseExpr):
        return not all(any(map(_is_variable, walk(condition))) for condition, _ in expr.whens)
    if isinstance(expr, (tree.BoolExpr, tree.CoalesceExpr)):
        return not all(any(map(_is_variable, walk(arg))) for arg in expr.args)
    return False


def _is_variable(expr: tree.Expr) -> bool:
    return isinstance(expr, (tree.Var, tree.SubLink))


def view_query(session: Session, view: int) -> tree.Query:
    """The stored query of a user's view; refused where restrict_nonsystem_relation_kind forbids views."""
    restricted = session.settings.get("restrict_nonsystem_relation_kind")
    if restricted and "view" in map(str.lower, split_identifiers(restricted) or ()):
        raise PgError("55000", f'access to non-system view "{relation(session, view).name}" is restricted')
    row = one(session, pg_rewrite, ev_class=view)
    assert row is not None
    query: tree.Query = from_json(row.ev_action, session)
    return query


def view_role(session: Session, view: Relation) -> int:
    """The role whose privileges a view's tables are checked with: the view's owner, or the current user for
    security_invoker, at any depth (RelationBuildRuleLock)."""
    given = (option.partition("=") for option in view.options or ())
    invoker = any(name == "security_invoker" and parse_bool(value) for name, _, value in given)
    return session.role if invoker else view.owner


def expand_views(session: Session, query: tree.Query, role: int | None = None) -> tree.Query:
    """The query with every view in it, at any depth, replaced by a subquery; its range table entry keeps the view's
    relid. Relations get their present columns under their own names, as a whole-row reference needs them."""
    if _has_nothing_to_expand(query):
        return query
    who = session.role if role is None else role

    conditional = 0  # how many nodes around the expression may leave it uncomputed

    def expression(expr: tree.Expr) -> tree.Expr:
        nonlocal conditional
        may_skip = _may_skip(expr)
        conditional += may_skip
        expr = map_children(expr, expression)
        conditional -= may_skip
        if isinstance(expr, tree.SubLink) and expr.query is not None:
            return replace(expr, query=expand_views(session, expr.query, who))
        if volatility_of_user(expr):
            from pgrepl.expr.rewrite.inline import inliner

            return inliner(session, is_certain=not conditional)(expr)
        return expr

    def entry(rte: tree.Rte) -> tree.Rte:
        if rte.kind is tree.RteKind.RELATION and rte.relid >= oids.FIRST_USER_OID:
            rel = relation(session, rte.relid)
            rte = replace(rte, columns=relation_rte(rel).columns)
            if rte.relkind == "v":
                inner = expand_views(session, view_query(session, rte.relid), view_role(session, rel))
                return replace(rte, kind=tree.RteKind.SUBQUERY, subquery=inner)
            if rel.row_security and hides_rows(session, rel, who):
                return replace(rte, kind=tree.RteKind.VALUES, values=())
        elif rte.kind is tree.RteKind.FUNCTION and rte.functions:
            inner_query = _inlined_set(session, rte)
            if inner_query is not None:
                inner = expand_views(session, inner_query, who)
                return replace(rte, kind=tree.RteKind.SUBQUERY, subquery=inner, functions=(), function_columns=())
        elif rte.kind is tree.RteKind.RELATION and rte.alias_columns:
            return replace(rte, columns=relation_rte(relation(session, rte.relid, rte.release)).columns)
        return rte

    query = map_parts(query, expression, lambda nested: expand_views(session, nested, who))
    if query.has_target_srfs:
        query = replace(query, targets=tuple(_without_idle_sets(session, target) for target in query.targets))
    expanded = [entry(rte) for rte in query.rtable]
    for mark in query.row_marks:
        rte = expanded[mark.varno - 1]
        if rte.relkind == "v" and rte.subquery is not None:
            expanded[mark.varno - 1] = replace(rte, subquery=mark_view(rte.subquery, mark))
    from pgrepl.expr.rewrite.virtual import with_virtual_columns

    return with_virtual_columns(session, replace(query, rtable=tuple(expanded)))


def _has_nothing_to_expand(query: tree.Query) -> bool:
    """Whether the query is a row of expressions, as that of INSERT … VALUES is."""
    if query.rtable or query.ctes or query.set_operation is not None or query.has_target_srfs:
        return False
    return not any(
        isinstance(node, tree.SubLink) or volatility_of_user(node) for expr in query_exprs(query) for node in walk(expr)
    )


def _inlined_set(session: Session, rte: tree.Rte) -> tree.Query | None:
    """The query that a user's function in FROM stands for."""
    call = rte.functions[0]
    if not isinstance(call, tree.FuncExpr) or not call.volatile:
        return None
    from pgrepl.expr.rewrite.inline import inlined_set

    return inlined_set(session, rte)


def _without_idle_sets(session: Session, target: tree.Target) -> tree.Target:
    """Fold a target that calls a set-returning function, since a strict call with a NULL constant drops that function:
    `generate_series(1, 3) + NULL` is one NULL."""
    return replace(target, expr=folded(session, target.expr)) if returns_set(target.expr) else target


def mark_view(query: tree.Query, mark: tree.RowMark) -> tree.Query:
    """FOR UPDATE of a view locks the rows of its underlying tables (markQueryForLocking)."""
    marks = list(query.row_marks)
    rtable = list(query.rtable)
    for varno, rte in enumerate(query.rtable, 1):
        if rte.in_from and rte.kind in (tree.RteKind.RELATION, tree.RteKind.SUBQUERY):
            marks.append(replace(mark, varno=varno, pushed_down=True))
            if rte.subquery is not None:
                rtable[varno - 1] = replace(rte, subquery=mark_view(rte.subquery, mark))
    return replace(query, row_marks=tuple(marks), rtable=tuple(rtable))


# --- updatable --------------------------------------------------------------------------------------------------------


ONE_TABLE = "Views that do not select from a single table or view are not automatically updatable."


def require_updatable(query: tree.Query) -> None:
    """Refuse WITH CHECK OPTION for a view that is not automatically updatable."""
    reason = why_not_updatable(query)
    if reason is not None:
        raise PgError("0A000", "WITH CHECK OPTION is supported only on automatically updatable views", hint=reason)


def why_not_updatable(query: tree.Query) -> str | None:
    """The reason why a view is not updatable, in the words of view_query_is_auto_updatable; None: it is."""
    return _clause(query) or _source(query)


def _clause(query: tree.Query) -> str | None:
    clauses = [
        ("Views containing DISTINCT", query.distinct is not None),
        ("Views containing GROUP BY", bool(query.group) or query.grouping_sets is not None),
        ("Views containing HAVING", query.having is not None),
        ("Views containing UNION, INTERSECT, or EXCEPT", query.set_operation is not None),
        ("Views containing WITH", bool(query.ctes)),
        ("Views containing LIMIT or OFFSET", query.limit is not None or query.offset is not None),
        ("Views that return aggregate functions", query.has_aggregates or _has(query, tree.Aggref)),
        ("Views that return window functions", _has(query, tree.WindowFunc)),
        ("Views that return set-returning functions", query.has_target_srfs),
    ]
    for what, there in clauses:
        if there:
            return f"{what} are not automatically updatable."
    return None


def _has(query: tree.Query, kind: type[tree.Expr]) -> bool:
    return any(isinstance(node, kind) for target in query.targets for node in walk(target.expr))


def _source(query: tree.Query) -> str | None:
    if len(query.from_) != 1 or not isinstance(query.from_[0], tree.RangeRef):
        return ONE_TABLE
    varno = query.from_[0].varno
    rte: tree.Rte = query.rtable[varno - 1]
    if rte.kind is not tree.RteKind.RELATION or rte.relkind not in "rfvp":
        return ONE_TABLE
    if rte.sample is not None:
        return "Views containing TABLESAMPLE are not automatically updatable."
    if not any(_is_column(target.expr, varno) for target in query.targets if not target.junk):
        return "Views that have no updatable columns are not automatically updatable."
    return None


def _is_column(expr: tree.Expr, varno: int) -> bool:
    return isinstance(expr, tree.Var) and expr.varno == varno and not expr.levelsup and expr.attnum > 0
