"""The analysis of queries: SELECT, VALUES, set operations, and FROM (analyze.c, parse_clause.c).

Clauses are analysed in PostgreSQL's order, so that of several errors its first one is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgrepl.catalog.facts.relation import Relation, TransitionRows, TransitionTable, find_relation
from pgrepl.expr import tree
from pgrepl.expr.analyse.coerce import coerce_to_common, coerce_to_specific, common_type, common_typmod
from pgrepl.expr.analyse.collate import assign_collations, common_collation
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.lookup import relation_rte
from pgrepl.expr.analyse.queries.clauses import analyze_limit, read_with, refuse_into, settle_collations, transform_join
from pgrepl.expr.analyse.scope import (
    NsItem,
    Scope,
    WithItem,
    check_name_conflicts,
    find_cte,
    is_future_cte,
    item_vars,
    set_lateral,
)
from pgrepl.expr.analyse.sorting import TargetList, transform_distinct, transform_distinct_on, transform_sort
from pgrepl.expr.analyse.targets import expand_expressions, mark_origins, resolve_unknowns, transform_targets
from pgrepl.expr.analyse.transform import analyze_where, transform
from pgrepl.expr.walk import first_location, has_vars
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.sql import nodes
from pgrepl.sql.nodes import FromItem, JoinExpr, RangeFunction, RangeSubselect, RangeTableSample, RangeVar, SelectStmt
from pgrepl.types import builtin, oids
from pgrepl.types.input_checks import MAX_ROW

UNNAMED_SUBQUERY = "unnamed_subquery"


def transform_from(scope: Scope, items: Sequence[FromItem]) -> tuple[tree.RangeRef | tree.Join, ...]:
    """Analyse FROM as transformFromClause does: an item sees the items before it only if it is LATERAL."""
    result: list[tree.RangeRef | tree.Join] = []
    for item in items:
        node, _, namespace = transform_item(scope, item)
        check_name_conflicts(scope.namespace, namespace)
        set_lateral(namespace, True, True)
        result.append(node)
        scope.namespace += namespace
    set_lateral(scope.namespace, False, True)
    return tuple(result)


def transform_item(scope: Scope, item: FromItem) -> tuple[tree.RangeRef | tree.Join, NsItem, list[NsItem]]:
    """The join tree node of a FROM item, the columns of its `*`, and the names it adds (transformFromClauseItem)."""
    if isinstance(item, JoinExpr):
        return transform_join(scope, item, transform_item)
    if isinstance(item, RangeVar):
        added = _relation(scope, item)
    elif isinstance(item, RangeSubselect):
        added = _subselect(scope, item)
    elif isinstance(item, RangeFunction):
        from pgrepl.expr.analyse.queries.from_functions import past_of, transform_functions

        past = past_of(scope, item)
        if isinstance(past, RangeSubselect):
            return transform_item(scope, past)
        added = transform_functions(scope, item) if past is None else past
    elif isinstance(item, RangeTableSample):
        added = _sampled(scope, item)
    elif isinstance(item, nodes.JsonTable):
        from pgrepl.expr.analyse.queries.from_functions import transform_json_table

        added = transform_json_table(scope, item)
    else:
        raise unsupported(getattr(item, "what", type(item).__name__), location=getattr(item, "location", None))
    return tree.RangeRef(added.varno), added, [added]


def open_relation(scope: Scope, name: RangeVar) -> Relation:
    """The relation of a name. The error for a missing one mentions a WITH query defined later (parserOpenTable)."""
    relation = find_relation(scope.session, name, missing_ok=True)
    if relation is None:
        if name.schema is not None:
            raise PgError("42P01", f'relation "{name.schema}.{name.name}" does not exist', location=name.location)
        detail = hint = None
        if is_future_cte(scope, name.name):
            detail = (
                f'There is a WITH item named "{name.name}", but it cannot be referenced from this part of the query.'
            )
            hint = "Use WITH RECURSIVE, or re-order the WITH items to remove forward references."
        message = f'relation "{name.name}" does not exist'
        raise PgError("42P01", message, detail=detail, hint=hint, location=name.location)
    if relation.kind in _NOT_OPENED:
        detail = f"This operation is not supported for {_NOT_OPENED[relation.kind]}."
        raise PgError("42809", f'cannot open relation "{relation.name}"', detail=detail, location=name.location)
    return relation


_NOT_OPENED = {"i": "indexes", "I": "partitioned indexes", "c": "composite types"}


def _relation(scope: Scope, name: RangeVar) -> NsItem:
    if name.schema is None:
        cte = find_cte(scope, name.name)
        if cte is not None:
            return _cte_reference(scope, name, *cte)
        transition = scope.session.transition_tables.get(name.name)
        if transition is not None:
            return _transition_table(scope, name, transition)
    table = open_relation(scope, name)
    alias = name.alias
    rte = relation_rte(
        table, alias.name if alias is not None else None, alias.columns if alias is not None else (), name.inh
    )
    return scope.add_rte(rte)


def aliased_columns(columns: Sequence[tree.Column], alias: nodes.Alias | None, name: str) -> tuple[tree.Column, ...]:
    """The columns, renamed by a column alias list; a list longer than the columns is an error."""
    names = alias.columns if alias is not None else ()
    if len(names) > len(columns):
        raise PgError(
            "42P10", f'table "{name}" has {len(columns)} columns available but {len(names)} columns specified'
        )
    return tuple(replace(c, name=names[n]) if n < len(names) else c for n, c in enumerate(columns))


def _subselect(scope: Scope, item: RangeSubselect) -> NsItem:
    assert scope.analyze_subquery is not None
    saved, scope.kind = scope.kind, ExprKind.FROM_SUBSELECT
    scope.lateral_active = item.lateral
    locked = is_locked(scope, item.alias.name if item.alias is not None else None)
    query = scope.analyze_subquery(item.subquery, scope, locked=locked)
    scope.lateral_active = False
    scope.kind = saved
    alias = item.alias
    name = alias.name if alias is not None else UNNAMED_SUBQUERY
    added = scope.add_rte(
        tree.Rte(
            tree.RteKind.SUBQUERY,
            name,
            aliased_columns(query.columns, alias, name),
            alias=alias.name if alias is not None else None,
            alias_columns=alias.columns if alias is not None else (),
            subquery=query,
            lateral=item.lateral,
        )
    )
    added.rel_visible = alias is not None
    return added


def is_locked(scope: Scope, name: str | None) -> bool:
    """Whether FOR UPDATE applies to a relation of that alias (isLockedRefname)."""
    if scope.locked_from_parent:
        return True
    return any(not c.relations or any(r.name == name for r in c.relations) for c in scope.locking)


def _transition_table(scope: Scope, name: RangeVar, table: TransitionTable) -> NsItem:
    """The entry of FROM for a transition table (addRangeTableEntryForENR)."""
    alias = name.alias
    rte = relation_rte(
        replace(table.relation, name=table.name),
        alias.name if alias is not None else None,
        alias.columns if alias is not None else (),
    )
    return scope.add_rte(
        replace(rte, kind=tree.RteKind.VALUES, relid=0, rows=TransitionRows(scope.session, table.name))
    )


def _cte_reference(scope: Scope, name: RangeVar, cte: WithItem, levels: int) -> NsItem:
    """The entry of FROM for a query of WITH (addRangeTableEntryForCTE)."""
    if cte.modify is not None and not cte.modify.returning:
        message = f'WITH query "{cte.name}" does not have a RETURNING clause'
        raise PgError("0A000", message, location=name.location)
    alias = name.alias
    refname = alias.name if alias is not None else name.name
    columns = aliased_columns(cte.columns, alias, refname)
    hidden = 0
    if cte.search is not None:
        typoid = oids.RECORD if cte.search.breadth_first else oids.RECORD_ARRAY
        columns += (tree.Column(cte.search.sequence, typoid),)
        hidden += 1
    if cte.cycle is not None:
        columns += (
            tree.Column(
                cte.cycle.mark, cte.cycle.mark_type, cte.cycle.mark_value.typmod, cte.cycle.mark_value.collation
            ),
            tree.Column(cte.cycle.path, oids.RECORD_ARRAY),
        )
        hidden += 2
    added = scope.add_rte(
        tree.Rte(
            tree.RteKind.CTE,
            refname,
            columns,
            alias=alias.name if alias is not None else None,
            alias_columns=alias.columns if alias is not None else (),
            cte=name.name,
            cte_levelsup=levels,
            self_reference=cte.query is None,
        )
    )
    if levels and hidden:
        shown = len(added.columns) - hidden
        added.columns = (*added.columns[:shown], *(replace(c, expands=False) for c in added.columns[shown:]))
    return added


_SAMPLING = {"bernoulli": oids.FLOAT4, "system": oids.FLOAT4}


def _sampled(scope: Scope, item: RangeTableSample) -> NsItem:
    """TABLESAMPLE, as transformRangeTableSample does."""
    added = _relation(scope, item.relation)
    rte = added.rte
    if rte.kind is not tree.RteKind.RELATION or rte.relkind not in "rmp":
        message = "TABLESAMPLE clause can only be applied to tables and materialized views"
        raise PgError("0A000", message, location=item.relation.location)
    method = ".".join(item.method)
    procs = [p for p in builtin.procs_by_name(item.method[-1]) if p.argtypes == (oids.INTERNAL,)]
    if not procs or item.method[-1] not in _SAMPLING:
        raise PgError("42704", f"tablesample method {method} does not exist", location=item.location)
    if len(item.args) != 1:
        message = f"tablesample method {method} requires 1 argument, not {len(item.args)}"
        raise PgError("2202H", message, location=item.location)
    args = [transform(scope, arg, ExprKind.FROM_FUNCTION) for arg in item.args]
    args = [coerce_to_specific(scope, arg, _SAMPLING[item.method[-1]], "TABLESAMPLE") for arg in args]
    repeatable = None
    if item.repeatable is not None:
        repeatable = transform(scope, item.repeatable, ExprKind.FROM_FUNCTION)
        repeatable = assign_collations(coerce_to_specific(scope, repeatable, oids.FLOAT8, "REPEATABLE"))
    sample = tree.TableSample(procs[0].oid, tuple(assign_collations(arg) for arg in args), repeatable)
    added.rte = scope.rtable[added.varno - 1] = replace(rte, sample=sample)
    return added


# --- query ------------------------------------------------------------------------------------------------------------


def analyze_subquery(
    stmt: SelectStmt,
    parent: Scope,
    *,
    parent_cte: WithItem | None = None,
    locked: bool = False,
    resolve_unknown: bool = True,
) -> tree.Query:
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


def analyze_select(stmt: SelectStmt, scope: Scope) -> tree.Query:
    query = _analyzed(stmt, scope)
    if len(query.targets) > MAX_ROW:
        raise PgError("54011", f"target lists can have at most {MAX_ROW} entries")
    return query


def _analyzed(stmt: SelectStmt, scope: Scope) -> tree.Query:
    if stmt.values is not None:
        return _values(stmt, scope)
    if stmt.op is not None:
        from pgrepl.expr.analyse.queries.setops import analyze_set_operation

        return analyze_set_operation(stmt, scope)
    return _select(stmt, scope)


def _select(stmt: SelectStmt, scope: Scope) -> tree.Query:
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
    group: list[tree.SortGroup] = []
    group_sets: tuple[tree.GroupSet, ...] | None = None
    if stmt.group_by:
        from pgrepl.expr.analyse.queries.grouping import transform_group

        group, group_sets = transform_group(scope, stmt.group_by, targets, sort, ExprKind.GROUP_BY)
    distinct: list[tree.SortGroup] | None = None
    if stmt.distinct is not None:
        if stmt.distinct:
            distinct = transform_distinct_on(scope, stmt.distinct, targets, sort)
        else:
            distinct = transform_distinct(scope, targets, sort)
    offset = analyze_limit(scope, stmt.offset, ExprKind.OFFSET, stmt)
    limit = analyze_limit(scope, stmt.limit, ExprKind.LIMIT, stmt)
    windows: list[tree.Window] = []
    if scope.window_defs:
        from pgrepl.expr.analyse.queries.grouping import transform_windows

        windows = transform_windows(scope, scope.window_defs, targets)
    if scope.resolve_unknowns:
        targets.items = resolve_unknowns(scope, targets.items)
    query = tree.Query(
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
        from pgrepl.expr.analyse.queries.setops import transform_locking

        for clause in stmt.locking:
            query = transform_locking(query, clause, grouping=group_sets is not None)
    query = settle_collations(query)
    if scope.has_aggregates or group or group_sets is not None or having is not None:
        from pgrepl.expr.analyse.queries.grouping import check_aggregates

        query = check_aggregates(scope, query, group_sets)
    return query


def _values(stmt: SelectStmt, scope: Scope) -> tree.Query:
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
    columns: list[tree.Column] = []
    lists: list[list[tree.Expr]] = []
    for number, exprs in enumerate(zip(*rows, strict=True), 1):
        typoid = common_type(scope, exprs, "VALUES")
        cast = [coerce_to_common(scope, expr, typoid, "VALUES") for expr in exprs]
        typmod = common_typmod(cast, typoid)
        cast = [assign_collations(expr) for expr in cast]
        columns.append(tree.Column(f"column{number}", typoid, typmod, common_collation(tuple(cast), none_ok=True)))
        lists.append(cast)
    values = tuple(zip(*lists, strict=True)) if lists else tuple(() for _ in rows)
    lateral = bool(scope.rtable) and any(has_vars(expr) for row in values for expr in row)
    item = scope.add_rte(tree.Rte(tree.RteKind.VALUES, "*VALUES*", tuple(columns), values=values, lateral=lateral))
    scope.show(item)
    targets = TargetList([tree.Target(var, name, n) for n, (name, var) in enumerate(item_vars(item, 0, -1), 1)])
    scope.next_resno = len(targets.items) + 1
    sort = transform_sort(scope, stmt.order_by, targets, ExprKind.ORDER_BY)
    offset = analyze_limit(scope, stmt.offset, ExprKind.OFFSET, stmt)
    limit = analyze_limit(scope, stmt.limit, ExprKind.LIMIT, stmt)
    if stmt.locking:
        raise PgError("0A000", f"FOR {stmt.locking[0].strength} cannot be applied to VALUES")
    return settle_collations(
        tree.Query(
            tuple(targets.items),
            rtable=tuple(scope.rtable),
            from_=(tree.RangeRef(item.varno),),
            sort=tuple(sort),
            limit=limit,
            offset=offset,
            with_ties=stmt.with_ties,
            ctes=tuple(item.finished() for item in scope.ctes),
            recursive=recursive,
            has_sublinks=scope.has_sublinks,
        )
    )
