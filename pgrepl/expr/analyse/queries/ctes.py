"""WITH: analysis of its queries, in dependency order if it is RECURSIVE, and whether a recursion is allowed
(parse_cte.c).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import collation_name
from pgrepl.expr.analyse.coerce import coerce_to_common, common_type
from pgrepl.expr.analyse.collate import assign_collations, common_collation
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import Scope, WithItem
from pgrepl.expr.analyse.sorting import equality_operators
from pgrepl.expr.analyse.transform import transform
from pgrepl.expr.print.printer import type_with_typmod
from pgrepl.expr.tree import Column, CteCycle, CteSearch, Expr, Query, RangeRef
from pgrepl.expr.walk import location_of
from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.location import expr_location
from pgrepl.types import builtin, oids


def _parts(node: Any) -> Iterator[nodes.Node]:
    """The direct children of a node, without WITH, which is handled on its own."""
    if isinstance(node, tuple):
        for item in node:
            if isinstance(item, nodes.Node):
                yield item
            elif isinstance(item, tuple):
                yield from _parts(item)
    elif is_dataclass(node):
        for f in fields(node):
            part = getattr(node, f.name)
            if isinstance(part, nodes.WithClause):
                continue
            if isinstance(part, nodes.Node):
                yield part
            elif isinstance(part, tuple):
                yield from _parts(part)


def references(cte: nodes.CommonTableExpr, ctes: Sequence[nodes.CommonTableExpr]) -> set[str]:
    """The WITH queries of the same list that a query refers to (makeDependencyGraph)."""
    wanted = {c.name for c in ctes}
    names: set[str] = set()

    def walk(node: Any, hidden: frozenset[str]) -> None:
        if isinstance(node, nodes.RangeVar):
            if node.schema is None and node.name in wanted and node.name not in hidden:
                names.add(node.name)
            return
        clause = getattr(node, "with_", None)
        if isinstance(clause, nodes.WithClause):
            hidden = _walk_with(clause, hidden)
        for part in _parts(node):
            walk(part, hidden)

    def _walk_with(clause: nodes.WithClause, hidden: frozenset[str]) -> frozenset[str]:
        if clause.recursive:
            hidden |= {c.name for c in clause.ctes}
            for inner in clause.ctes:
                walk(inner.query, hidden)
            return hidden
        for inner in clause.ctes:
            walk(inner.query, hidden)
            hidden |= {inner.name}
        return hidden

    walk(cte.query, frozenset())
    return names


def in_order(ctes: Sequence[nodes.CommonTableExpr], uses: Sequence[set[str]]) -> list[nodes.CommonTableExpr]:
    """The queries in dependency order (TopologicalSort)."""
    waiting = [(cte, used - {cte.name}) for cte, used in zip(ctes, uses, strict=True)]
    result: list[nodes.CommonTableExpr] = []
    for number in range(len(waiting)):
        ready = next((n for n in range(number, len(waiting)) if not waiting[n][1]), None)
        if ready is None:
            message = "mutual recursion between WITH items is not implemented"
            raise PgError("0A000", message, location=waiting[number][0].location)
        waiting[number], waiting[ready] = waiting[ready], waiting[number]
        done = waiting[number][0]
        result.append(done)
        for _, used in waiting[number + 1 :]:
            used.discard(done.name)
    return result


_WITHIN = {
    "nonrecursive": "its non-recursive term",
    "subquery": "a subquery",
    "outer join": "an outer join",
    "intersect": "INTERSECT",
    "except": "EXCEPT",
}
_OK = "ok"


def check_recursion(ctes: Sequence[nodes.CommonTableExpr], recursive: set[str]) -> None:
    """Check the form of a recursive query: `one UNION other`, where only the right term refers to it, once, and not in
    an outer join or subquery (checkWellFormedRecursion)."""
    for cte in ctes:
        if cte.name not in recursive:
            continue
        stmt = cte.query
        if not isinstance(stmt, nodes.SelectStmt):
            message = f'recursive query "{cte.name}" must not contain data-modifying statements'
            raise PgError("42P19", message, location=cte.location)
        if stmt.op is not nodes.SetOp.UNION:
            message = (
                f'recursive query "{cte.name}" does not have the form non-recursive-term UNION [ALL] recursive-term'
            )
            raise PgError("42P19", message, location=cte.location)
        checker = _Checker(cte.name)
        if stmt.with_ is not None:
            for inner in stmt.with_.ctes:
                checker.walk(inner, "subquery", frozenset())
        _refuse(stmt.order_by, "ORDER BY", expr_location(stmt.order_by))
        _refuse(stmt.offset, "OFFSET", expr_location(stmt.offset))
        _refuse(stmt.limit, "LIMIT", expr_location(stmt.limit))
        _refuse(stmt.locking, "FOR UPDATE/SHARE", -1)
        checker.walk(stmt.left, "nonrecursive", frozenset())
        checker.walk(stmt.right, _OK, frozenset())


def _refuse(part: object, what: str, location: int) -> None:
    if part:
        raise PgError("0A000", f"{what} in a recursive query is not implemented", location=location)


class _Checker:
    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def walk(self, node: Any, where: str, hidden: frozenset[str]) -> None:
        if isinstance(node, nodes.RangeVar):
            self.refer(node, where, hidden)
        elif isinstance(node, nodes.SelectStmt):
            self.select(node, where, hidden)
        elif isinstance(node, nodes.JoinExpr):
            outer = "outer join" if where == _OK else where
            left = outer if node.kind in (nodes.JoinType.RIGHT, nodes.JoinType.FULL) else where
            right = outer if node.kind in (nodes.JoinType.LEFT, nodes.JoinType.FULL) else where
            self.walk(node.left, left, hidden)
            self.walk(node.right, right, hidden)
            self.walk(node.quals, where, hidden)
        elif isinstance(node, nodes.SubLink):
            self.walk(node.subselect, "subquery", hidden)
            self.walk(node.test, where, hidden)
        elif node is not None:
            for part in _parts(node):
                self.walk(part, where, hidden)

    def refer(self, node: nodes.RangeVar, where: str, hidden: frozenset[str]) -> None:
        if node.schema is not None or node.name != self.name or node.name in hidden:
            return
        if where != _OK:
            message = f'recursive reference to query "{self.name}" must not appear within {_WITHIN[where]}'
            raise PgError("42P19", message, location=node.location)
        self.count += 1
        if self.count > 1:
            message = f'recursive reference to query "{self.name}" must not appear more than once'
            raise PgError("42P19", message, location=node.location)

    def select(self, node: nodes.SelectStmt, where: str, hidden: frozenset[str]) -> None:
        if node.with_ is not None:
            names = frozenset(c.name for c in node.with_.ctes)
            if node.with_.recursive:
                hidden |= names
            for inner in node.with_.ctes:
                self.walk(inner.query, where, hidden)
                hidden |= {inner.name}
        if where != _OK or node.op in (None, nodes.SetOp.UNION):
            for part in _parts(node):
                self.walk(part, where, hidden)
            return
        intersect = node.op is nodes.SetOp.INTERSECT
        left = ("intersect" if intersect else "except") if node.all else where
        right = left if intersect else "except"
        self.walk(node.left, left, hidden)
        self.walk(node.right, right, hidden)
        for item in (*node.order_by, node.offset, node.limit):
            self.walk(item, where, hidden)


# --- ctes -------------------------------------------------------------------------------------------------------------


def transform_with(scope: Scope, clause: nodes.WithClause) -> None:
    """Analyse the queries; they become the scope's `ctes` (transformWithClause)."""
    for number, cte in enumerate(clause.ctes):
        for other in clause.ctes[number + 1 :]:
            if other.name == cte.name:
                message = f'WITH query name "{other.name}" specified more than once'
                raise PgError("42712", message, location=other.location)
    if not clause.recursive:
        names = [cte.name for cte in clause.ctes]
        for number, cte in enumerate(clause.ctes):
            scope.future_ctes = tuple(names[number:])
            item = _item(cte)
            _analyze(scope, cte, item)
            scope.ctes.append(item)
        scope.future_ctes = ()
        return
    uses = [references(cte, clause.ctes) for cte in clause.ctes]
    recursive = {cte.name for cte, used in zip(clause.ctes, uses, strict=True) if cte.name in used}
    ordered = in_order(clause.ctes, uses)
    check_recursion(ordered, recursive)
    items = [_item(cte) for cte in ordered]
    scope.ctes += items
    for cte, item in zip(ordered, items, strict=True):
        item.recursive = cte.name in recursive
        _analyze(scope, cte, item)


def _item(cte: nodes.CommonTableExpr) -> WithItem:
    return WithItem(cte.name, cte.columns, materialized=cte.materialized)


def _analyze(scope: Scope, cte: nodes.CommonTableExpr, item: WithItem) -> None:
    """Analyses a query of WITH, and checks its columns (analyzeCTE)."""
    cycle = _cycle(scope, cte.cycle) if cte.cycle is not None else None
    if cte.search is not None:
        item.search = CteSearch(cte.search.columns, cte.search.breadth_first, cte.search.sequence_column)
    item.cycle = cycle
    if not isinstance(cte.query, nodes.SelectStmt):
        _modifying(scope, cte, item)
        return
    assert scope.analyze_subquery is not None
    query = scope.analyze_subquery(cte.query, scope, parent_cte=item)
    if item.recursive:
        _check_columns(scope, item, query)
    else:
        set_columns(item, query.columns, cte.location)
    item.query = query
    if cte.search is not None or cte.cycle is not None:
        _check_search_and_cycle(cte, item, query)


def _modifying(scope: Scope, cte: nodes.CommonTableExpr, item: WithItem) -> None:
    """An INSERT, UPDATE or DELETE in WITH. Its columns are those of RETURNING, if it has one."""
    if scope.parent is not None:
        message = "WITH clause containing a data-modifying statement must be at the top level"
        raise PgError("0A000", message, location=cte.location)
    assert scope.analyze_modifying is not None
    item.modify = scope.analyze_modifying(scope.session, cte.query, scope)
    item.query = Query(item.modify.returning)
    set_columns(item, item.query.columns, cte.location)


def set_columns(item: WithItem, columns: Sequence[Column], location: int = -1) -> None:
    """Set the columns of a WITH query. Literals of unknown type in a recursive query become text
    (analyzeCTETargetList)."""
    names = item.alias_columns
    if len(names) > len(columns):
        message = f'WITH query "{item.name}" has {len(columns)} columns available but {len(names)} columns specified'
        raise PgError("42P10", message, location=location)
    result: list[Column] = []
    for number, column in enumerate(columns):
        name = names[number] if number < len(names) else column.name
        typoid, typmod, collation = column.type, column.typmod, column.collation
        if item.recursive and typoid == oids.UNKNOWN:
            typoid, typmod, collation = oids.TEXT, -1, collation or oids.DEFAULT_COLLATION
        result.append(Column(name, typoid, typmod, collation))
    item.columns = tuple(result)


def _check_columns(scope: Scope, item: WithItem, query: Query) -> None:
    """Check that the recursive term has the column types that the non-recursive term has set."""
    shown = [t for t in query.targets if not t.junk]
    for number, (target, column) in enumerate(zip(shown, item.columns, strict=True), 1):
        expr = target.expr
        if (expr.type, expr.typmod) != (column.type, column.typmod):
            one = type_with_typmod(scope.session, column.type, column.typmod)
            other = type_with_typmod(scope.session, expr.type, expr.typmod)
            raise PgError(
                "42804",
                f'recursive query "{item.name}" column {number} has type {one} in non-recursive term '
                f"but type {other} overall",
                hint="Cast the output of the non-recursive term to the correct type.",
                location=location_of(expr),
            )
        if expr.collation != column.collation:
            raise PgError(
                "42P21",
                f'recursive query "{item.name}" column {number} has collation "{collation_name(column.collation)}" '
                f'in non-recursive term but collation "{collation_name(expr.collation)}" overall',
                hint="Use the COLLATE clause to set the collation of the non-recursive term.",
                location=location_of(expr),
            )


def _cycle(scope: Scope, clause: nodes.CTECycleClause) -> CteCycle:
    """Check CYCLE: its two mark values need a common type with = and <>."""
    marks: list[Expr] = []
    for raw, default in ((clause.mark_value, True), (clause.mark_default, False)):
        node = raw if raw is not None else nodes.AConst(nodes.AConstKind.BOOLEAN, default)
        marks.append(transform(scope, node, ExprKind.CYCLE_MARK))
    typoid = common_type(scope, marks, "CYCLE")
    value = assign_collations(coerce_to_common(scope, marks[0], typoid, "CYCLE/SET/TO"))
    default_value = assign_collations(coerce_to_common(scope, marks[1], typoid, "CYCLE/SET/DEFAULT"))
    common_collation((value, default_value), none_ok=True)
    operator = builtin.operator_by_oid(equality_operators(scope, typoid, -1).eq)
    if operator is None or not operator.negator:
        text = lookup.type_text(scope.session, typoid)
        raise PgError("42883", f"could not identify an inequality operator for type {text}")
    return CteCycle(clause.columns, clause.mark_column, typoid, value, default_value, clause.path_column)


def _check_search_and_cycle(cte: nodes.CommonTableExpr, item: WithItem, query: Query) -> None:
    if not item.recursive:
        raise PgError("42601", "WITH query is not recursive", location=cte.location)
    operation = query.set_operation
    assert operation is not None
    if not isinstance(operation.left, RangeRef):
        message = "with a SEARCH or CYCLE clause, the left side of the UNION must be a SELECT"
        raise PgError("0A000", message)
    if not isinstance(operation.right, RangeRef):
        message = "with a SEARCH or CYCLE clause, the right side of the UNION must be a SELECT"
        raise PgError("42601", message)
    names = [c.name for c in item.columns]
    search, cycle = cte.search, cte.cycle
    if search is not None:
        _check_listed("search", search.columns, names, search.location)
        _check_new("search sequence", search.sequence_column, names, search.location)
    if cycle is not None:
        _check_listed("cycle", cycle.columns, names, cycle.location)
        _check_new("cycle mark", cycle.mark_column, names, cycle.location)
        _check_new("cycle path", cycle.path_column, names, cycle.location)
        if cycle.mark_column == cycle.path_column:
            message = "cycle mark column name and cycle path column name are the same"
            raise PgError("42601", message, location=cycle.location)
    if search is not None and cycle is not None:
        for what, name in (("mark", cycle.mark_column), ("path", cycle.path_column)):
            if search.sequence_column == name:
                message = f"search sequence column name and cycle {what} column name are the same"
                raise PgError("42601", message, location=search.location)


def _check_listed(what: str, columns: Sequence[str], names: Sequence[str], location: int) -> None:
    for number, name in enumerate(columns):
        if name not in names:
            message = f'{what} column "{name}" not in WITH query column list'
            raise PgError("42601", message, location=location)
        if name in columns[:number]:
            raise PgError("42701", f'{what} column "{name}" specified more than once', location=location)


def _check_new(what: str, name: str, names: Sequence[str], location: int) -> None:
    if name in names:
        message = f'{what} column name "{name}" already used in WITH query column list'
        raise PgError("42601", message, location=location)
