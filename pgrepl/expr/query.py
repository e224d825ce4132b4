"""The analysis of queries: SELECT, VALUES lists and set operations (analyze.c).

The clauses are analysed in PostgreSQL's order, so that of several errors the one that PostgreSQL reports is raised.
Modules for rare clauses are imported only when a query has such a clause.
"""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.expr.clauses import analyze_limit, read_with, refuse_into, settle_collations
from pgrepl.expr.collate import assign_collations, common_collation
from pgrepl.expr.common import coerce_to_common, common_type, common_typmod
from pgrepl.expr.from_clause import transform_from
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import Scope, WithItem, item_vars
from pgrepl.expr.sorting import TargetList, transform_distinct, transform_distinct_on, transform_sort
from pgrepl.expr.targets import expand_expressions, mark_origins, resolve_unknowns, transform_targets
from pgrepl.expr.transform import analyze_where
from pgrepl.expr.tree import Column, Expr, GroupSet, Query, RangeRef, Rte, RteKind, SortGroup, Target, Window
from pgrepl.expr.walk import first_location, has_vars
from pgrepl.sql.nodes import SelectStmt
from pgrepl.types.sizes import MAX_ROW


def analyze_subquery(
    stmt: SelectStmt,
    parent: Scope,
    *,
    parent_cte: WithItem | None = None,
    locked: bool = False,
    resolve_unknown: bool = True,
) -> Query:
    """Analyse a query inside another (parse_sub_analyze)."""
    scope = Scope(
        parent.session,
        parent,
        parent_cte=parent_cte,
        resolve_unknowns=resolve_unknown,
        analyze_subquery=analyze_subquery,
    )
    scope.locked_from_parent = locked
    return analyze_select(stmt, scope)


def analyze_select(stmt: SelectStmt, scope: Scope) -> Query:
    query = _analyzed(stmt, scope)
    if len(query.targets) > MAX_ROW:
        raise PgError("54011", f"target lists can have at most {MAX_ROW} entries")
    return query


def _analyzed(stmt: SelectStmt, scope: Scope) -> Query:
    if stmt.values is not None:
        return _values(stmt, scope)
    if stmt.op is not None:
        from pgrepl.expr.setops import analyze_set_operation

        return analyze_set_operation(stmt, scope)
    return _select(stmt, scope)


def _select(stmt: SelectStmt, scope: Scope) -> Query:
    recursive = read_with(stmt, scope)
    refuse_into(stmt)
    scope.locking = stmt.locking
    scope.window_defs = list(stmt.windows)
    from_ = transform_from(scope, stmt.from_)
    targets = TargetList(mark_origins(scope, transform_targets(scope, stmt.targets, ExprKind.SELECT_TARGET)))
    where = having = None
    if stmt.where is not None:
        where = analyze_where(scope, stmt.where, ExprKind.WHERE, "WHERE")
    if stmt.having is not None:
        having = analyze_where(scope, stmt.having, ExprKind.HAVING, "HAVING")
    sort = transform_sort(scope, stmt.order_by, targets, ExprKind.ORDER_BY)
    group: list[SortGroup] = []
    group_sets: tuple[GroupSet, ...] | None = None
    if stmt.group_by:
        from pgrepl.expr.grouping_sets import transform_group

        group, group_sets = transform_group(scope, stmt.group_by, targets, sort, ExprKind.GROUP_BY)
    distinct: list[SortGroup] | None = None
    if stmt.distinct is not None:
        if stmt.distinct:
            distinct = transform_distinct_on(scope, stmt.distinct, targets, sort)
        else:
            distinct = transform_distinct(scope, targets, sort)
    offset = analyze_limit(scope, stmt.offset, ExprKind.OFFSET, stmt)
    limit = analyze_limit(scope, stmt.limit, ExprKind.LIMIT, stmt)
    windows: list[Window] = []
    if scope.window_defs:
        from pgrepl.expr.windows import transform_windows

        windows = transform_windows(scope, scope.window_defs, targets)
    if scope.resolve_unknowns:
        targets.items = resolve_unknowns(scope, targets.items)
    query = Query(
        tuple(targets.items),
        rtable=tuple(scope.rtable),
        from_=from_,
        where=where,
        group=tuple(group),
        group_distinct=stmt.group_distinct,
        having=having,
        windows=tuple(windows),
        distinct=tuple(distinct) if distinct is not None else None,
        distinct_on=bool(stmt.distinct),
        sort=tuple(sort),
        limit=limit,
        offset=offset,
        with_ties=stmt.with_ties,
        ctes=tuple(item.finished() for item in scope.ctes),
        recursive=recursive,
        has_aggregates=scope.has_aggregates,
        has_sublinks=scope.has_sublinks,
        has_target_srfs=scope.has_target_srfs,
    )
    if stmt.locking:
        from pgrepl.expr.locking import transform_locking

        for clause in stmt.locking:
            query = transform_locking(query, clause, grouping=group_sets is not None)
    query = settle_collations(query)
    if scope.has_aggregates or group or group_sets is not None or having is not None:
        from pgrepl.expr.grouping import check_aggregates

        query = check_aggregates(scope, query, group_sets)
    return query


def _values(stmt: SelectStmt, scope: Scope) -> Query:
    """A VALUES list as a query: SELECT * FROM (VALUES …) (transformValuesClause)."""
    recursive = read_with(stmt, scope)
    assert stmt.values is not None
    rows = [expand_expressions(scope, stmt.values[0], ExprKind.VALUES)]
    for raw in stmt.values[1:]:
        row = expand_expressions(scope, raw, ExprKind.VALUES)
        if len(row) != len(rows[0]):
            message = "VALUES lists must all be the same length"
            raise PgError("42601", message, location=first_location(row))
        rows.append(row)
    columns: list[Column] = []
    lists: list[list[Expr]] = []
    for number, exprs in enumerate(zip(*rows, strict=True), 1):
        typoid = common_type(scope, exprs, "VALUES")
        cast = [coerce_to_common(scope, expr, typoid, "VALUES") for expr in exprs]
        typmod = common_typmod(cast, typoid)
        cast = [assign_collations(expr) for expr in cast]
        columns.append(Column(f"column{number}", typoid, typmod, common_collation(tuple(cast), none_ok=True)))
        lists.append(cast)
    values = tuple(zip(*lists, strict=True)) if lists else tuple(() for _ in rows)
    lateral = bool(scope.rtable) and any(has_vars(expr) for row in values for expr in row)
    item = scope.add_rte(Rte(RteKind.VALUES, "*VALUES*", tuple(columns), values=values, lateral=lateral))
    scope.show(item)
    targets = TargetList([Target(var, name, n) for n, (name, var) in enumerate(item_vars(item, 0, -1), 1)])
    scope.next_resno = len(targets.items) + 1
    sort = transform_sort(scope, stmt.order_by, targets, ExprKind.ORDER_BY)
    offset = analyze_limit(scope, stmt.offset, ExprKind.OFFSET, stmt)
    limit = analyze_limit(scope, stmt.limit, ExprKind.LIMIT, stmt)
    if stmt.locking:
        raise PgError("0A000", f"FOR {stmt.locking[0].strength} cannot be applied to VALUES")
    return settle_collations(
        Query(
            tuple(targets.items),
            rtable=tuple(scope.rtable),
            from_=(RangeRef(item.varno),),
            sort=tuple(sort),
            limit=limit,
            offset=offset,
            with_ties=stmt.with_ties,
            ctes=tuple(item.finished() for item in scope.ctes),
            recursive=recursive,
            has_sublinks=scope.has_sublinks,
        )
    )
