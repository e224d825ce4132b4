"""UNION, INTERSECT and EXCEPT (transformSetOperationStmt), and FOR UPDATE and its like (transformLockingClause)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pgrepl.expr import tree
from pgrepl.expr.analyse.coerce import coerce_to_common, common_type_and_expr, common_typmod
from pgrepl.expr.analyse.collate import common_collation
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.queries.clauses import analyze_limit, read_with, refuse_into, settle_collations
from pgrepl.expr.analyse.queries.ctes import set_columns
from pgrepl.expr.analyse.scope import NsColumn, NsItem, Scope
from pgrepl.expr.analyse.sorting import TargetList, equality_operators, transform_sort
from pgrepl.expr.walk import location_of, walk
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import LockingClause, SelectStmt, SetOp
from pgrepl.types import oids

_STRENGTHS = ("KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE")
_WAITS = (None, "SKIP LOCKED", "NOWAIT")
_REFUSED = {
    tree.RteKind.JOIN: "a join",
    tree.RteKind.FUNCTION: "a function",
    tree.RteKind.VALUES: "VALUES",
    tree.RteKind.CTE: "a WITH query",
}


def lock_text(clause: LockingClause) -> str:
    return f"FOR {clause.strength}"


def transform_locking(
    query: tree.Query, clause: LockingClause, *, grouping: bool = False, pushed_down: bool = False
) -> tree.Query:
    _check_lockable(query, lock_text(clause), grouping)
    if not clause.relations:
        for varno, rte in enumerate(query.rtable, 1):
            if rte.in_from and rte.kind in (tree.RteKind.RELATION, tree.RteKind.SUBQUERY):
                query = _lock(query, varno, rte, clause, pushed_down)
        return query
    for named in clause.relations:
        if named.catalog is not None or named.schema is not None:
            message = f"{lock_text(clause)} must specify unqualified relation names"
            raise PgError("42601", message, location=named.location)
        for varno, rte in enumerate(query.rtable, 1):
            if rte.in_from and _refname(rte) == named.name:
                if rte.kind in _REFUSED:
                    message = f"{lock_text(clause)} cannot be applied to {_REFUSED[rte.kind]}"
                    raise PgError("0A000", message, location=named.location)
                query = _lock(query, varno, rte, clause, pushed_down)
                break
        else:
            message = f'relation "{named.name}" in {lock_text(clause)} clause not found in FROM clause'
            raise PgError("42P01", message, location=named.location)
    return query


def _refname(rte: tree.Rte) -> str | None:
    """The name by which a relation can be referred to here; None: it has none."""
    if rte.alias is None:
        if rte.kind is tree.RteKind.JOIN:
            return rte.join_using_alias
        if rte.kind in (tree.RteKind.SUBQUERY, tree.RteKind.VALUES):
            return None
    return rte.name


def _check_lockable(query: tree.Query, lock: str, grouping: bool) -> None:
    """Raises for a query whose rows cannot be locked (CheckSelectLocking)."""
    problem = None
    if query.set_operation is not None:
        problem = "UNION/INTERSECT/EXCEPT"
    elif query.distinct is not None:
        problem = "DISTINCT clause"
    elif query.group or query.grouping_sets is not None or grouping:
        problem = "GROUP BY clause"
    elif query.having is not None:
        problem = "HAVING clause"
    elif query.has_aggregates:
        problem = "aggregate functions"
    elif any(isinstance(node, tree.WindowFunc) for target in query.targets for node in walk(target.expr)):
        problem = "window functions"
    elif query.has_target_srfs:
        problem = "set-returning functions in the target list"
    if problem is not None:
        raise PgError("0A000", f"{lock} is not allowed with {problem}")


def _lock(query: tree.Query, varno: int, rte: tree.Rte, clause: LockingClause, pushed_down: bool) -> tree.Query:
    query = replace(query, row_marks=_marked(query.row_marks, varno, clause, pushed_down))
    if rte.kind is tree.RteKind.SUBQUERY and rte.subquery is not None:
        inner = transform_locking(rte.subquery, replace(clause, relations=()), pushed_down=True)
        rtable = list(query.rtable)
        rtable[varno - 1] = replace(rte, subquery=inner)
        query = replace(query, rtable=tuple(rtable))
    return query


def _marked(
    marks: tuple[tree.RowMark, ...], varno: int, clause: LockingClause, pushed_down: bool
) -> tuple[tree.RowMark, ...]:
    """The row marks after another locking clause; the stronger lock wins (applyLockingClause)."""
    known = next((m for m in marks if m.varno == varno), None)
    if known is None:
        return (*marks, tree.RowMark(varno, clause.strength, clause.wait, pushed_down))
    mark = tree.RowMark(
        varno,
        max(known.strength, clause.strength, key=_STRENGTHS.index),
        max(known.wait, clause.wait, key=_WAITS.index),
        known.pushed_down and pushed_down,
    )
    return tuple(mark if m is known else m for m in marks)


# --- setops -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Result:
    """A column of one side of a set operation. leaf: its (varno, resno) in a member query, where a literal of unknown
    type can still be replaced."""

    expr: tree.Expr
    leaf: tuple[int, int] | None = None


def analyze_set_operation(stmt: SelectStmt, scope: Scope) -> tree.Query:
    refuse_into(stmt)
    if stmt.locking:
        message = f"{lock_text(stmt.locking[0])} is not allowed with UNION/INTERSECT/EXCEPT"
        raise PgError("0A000", message)
    recursive = read_with(stmt, scope)
    bare = replace(stmt, order_by=(), limit=None, offset=None, with_=None)
    node, _ = _tree(scope, bare, top=True)
    assert isinstance(node, tree.SetOperation)
    first = node
    while isinstance(first.left, tree.SetOperation):
        first = first.left
    assert isinstance(first.left, tree.RangeRef)
    varno = first.left.varno
    query = scope.rtable[varno - 1].subquery
    assert query is not None
    targets: list[tree.Target] = []
    for target, column in zip((t for t in query.targets if not t.junk), node.columns, strict=True):
        var = tree.Var(
            column.type,
            typmod=column.typmod,
            collation=column.collation,
            location=location_of(target.expr),
            varno=varno,
            attnum=target.resno,
        )
        targets.append(tree.Target(var, target.name, scope.next_resno))
        scope.next_resno += 1
    target_list = TargetList(targets)
    sort = _sort(scope, stmt, target_list)
    offset = analyze_limit(scope, stmt.offset, ExprKind.OFFSET, stmt)
    limit = analyze_limit(scope, stmt.limit, ExprKind.LIMIT, stmt)
    return settle_collations(
        tree.Query(
            tuple(target_list.items),
            rtable=tuple(scope.rtable),
            sort=tuple(sort),
            limit=limit,
            offset=offset,
            with_ties=stmt.with_ties,
            set_operation=node,
            ctes=tuple(item.finished() for item in scope.ctes),
            recursive=recursive,
            has_sublinks=scope.has_sublinks,
        )
    )


def _sort(scope: Scope, stmt: SelectStmt, targets: TargetList) -> list[tree.SortGroup]:
    """ORDER BY of a set operation; it may name output columns only."""
    columns = []
    for target in targets.items:
        var = target.expr
        assert isinstance(var, tree.Var)
        columns.append(NsColumn(var.varno, var.attnum, var.type, var.typmod, var.collation))
    rte = tree.Rte(
        tree.RteKind.JOIN,
        "unnamed_join",
        tuple(tree.Column(t.name, t.expr.type, t.expr.typmod, t.expr.collation) for t in targets.items),
        join_vars=tuple(t.expr for t in targets.items),
        in_from=False,
    )
    count = len(targets.items)
    known = len(scope.rtable)
    scope.rtable.append(rte)
    item = NsItem(rte.name, tuple(t.name for t in targets.items), rte, known + 1, tuple(columns), rel_visible=False)
    saved, scope.namespace = scope.namespace, [item]
    keys = transform_sort(scope, stmt.order_by, targets, ExprKind.ORDER_BY)
    scope.namespace = saved
    del scope.rtable[known:]
    if len(targets.items) != count:
        raise PgError(
            "0A000",
            "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
            detail="Only result column names can be used, not expressions or functions.",
            hint="Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
            location=location_of(targets.items[count].expr),
        )
    return keys


def _tree(
    scope: Scope, stmt: SelectStmt, *, top: bool = False
) -> tuple[tree.SetOperation | tree.RangeRef, list[_Result]]:
    """The tree of UNION, INTERSECT and EXCEPT, and its columns (transformSetOperationTree)."""
    if stmt.into is not None:
        message = "INTO is only allowed on first SELECT of UNION/INTERSECT/EXCEPT"
        raise PgError("42601", message, location=stmt.into.location)
    if stmt.locking:
        message = f"{lock_text(stmt.locking[0])} is not allowed with UNION/INTERSECT/EXCEPT"
        raise PgError("0A000", message)
    if stmt.op is None or stmt.order_by or stmt.offset is not None or stmt.limit is not None or stmt.with_ is not None:
        return _leaf(scope, stmt)
    assert stmt.left is not None and stmt.right is not None
    name = stmt.op.name
    left, left_columns = _tree(scope, stmt.left)
    cte = scope.parent_cte
    if top and cte is not None and cte.recursive:
        _set_recursive_columns(scope, left, left_columns)
    right, right_columns = _tree(scope, stmt.right)
    if len(left_columns) != len(right_columns):
        message = f"each {name} query must have the same number of columns"
        raise PgError("42601", message, location=_first(right_columns))
    columns: list[tree.Column] = []
    results: list[_Result] = []
    sortops: list[int] = []
    keyed = stmt.op is not SetOp.UNION or not stmt.all
    for one, other in zip(left_columns, right_columns, strict=True):
        typoid, best = common_type_and_expr(scope, [one.expr, other.expr], name)
        location = location_of(best)
        pair = [_as_common(scope, part, typoid, name) for part in (one, other)]
        typmod = common_typmod(pair, typoid)
        collation = common_collation(tuple(pair), none_ok=not keyed)
        columns.append(tree.Column("", typoid, typmod, collation))
        if keyed:
            operators = equality_operators(scope, typoid, location)
            sortops.append(operators.lt)
        results.append(_Result(tree.SetToDefault(typoid, typmod=typmod, collation=collation, location=location)))
    node = tree.SetOperation(stmt.op, stmt.all, left, right, tuple(columns), tuple(sortops))
    return node, results


def _first(columns: list[_Result]) -> int:
    return next((loc for loc in (location_of(c.expr) for c in columns) if loc >= 0), -1)


def _as_common(scope: Scope, part: _Result, typoid: int, name: str) -> tree.Expr:
    """Cast a column to the common type. A literal of unknown type is also replaced in the member query."""
    if part.expr.type != oids.UNKNOWN:
        return coerce_to_common(scope, part.expr, typoid, name)
    if isinstance(part.expr, tree.Const):
        cast = coerce_to_common(scope, part.expr, typoid, name)
        if part.leaf is not None:
            _set_target(scope, *part.leaf, cast)
        return cast
    return part.expr


def _set_target(scope: Scope, varno: int, resno: int, expr: tree.Expr) -> None:
    rte = scope.rtable[varno - 1]
    query = rte.subquery
    assert query is not None
    query = replace(query, targets=tuple(replace(t, expr=expr) if t.resno == resno else t for t in query.targets))
    columns = tuple(
        replace(own, type=column.type, typmod=column.typmod, collation=column.collation)
        for own, column in zip(rte.columns, query.columns, strict=True)
    )
    scope.rtable[varno - 1] = replace(rte, subquery=query, columns=columns)


def _leaf(scope: Scope, stmt: SelectStmt) -> tuple[tree.RangeRef, list[_Result]]:
    assert scope.analyze_subquery is not None
    query = scope.analyze_subquery(stmt, scope, resolve_unknown=False)
    name = f"*SELECT* {len(scope.rtable) + 1}"
    item = scope.add_rte(
        tree.Rte(tree.RteKind.SUBQUERY, name, query.columns, alias=name, subquery=query, in_from=False)
    )
    results = [_Result(t.expr, (item.varno, t.resno)) for t in query.targets if not t.junk]
    return tree.RangeRef(item.varno), results


def _set_recursive_columns(scope: Scope, left: tree.SetOperation | tree.RangeRef, results: list[_Result]) -> None:
    """Take the recursive query's columns from its non-recursive term (determineRecursiveColTypes)."""
    first = left
    while isinstance(first, tree.SetOperation):
        first = first.left
    query = scope.rtable[first.varno - 1].subquery
    assert query is not None and scope.parent_cte is not None
    names = [t.name for t in query.targets if not t.junk]
    columns = [
        tree.Column(name, r.expr.type, r.expr.typmod, r.expr.collation) for name, r in zip(names, results, strict=True)
    ]
    set_columns(scope.parent_cte, columns)
