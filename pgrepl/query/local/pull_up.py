"""Subqueries and system views in FROM, merged into the query around them (pull_up_subqueries): conditions then reach
the catalogs by their keys, and targets that no row needs are not computed.

    SELECT v.n FROM (SELECT c.oid, c.relname AS n, pg_get_viewdef(c.oid) AS d FROM pg_class c) v WHERE v.oid = 1259
        →  SELECT c.relname FROM pg_class c WHERE c.oid = 1259

What cannot be merged, a UNION or one with groups, gets the conditions that its own rows can be tested with
(subquery_push_qual). Only queries over system catalogs are rewritten: EXPLAIN shows others as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pgrepl.expr import tree
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.tree import Expr, Join, Query, RangeRef, Rte, RteKind, SetOperation
from pgrepl.expr.walk import is_volatile, map_children, map_parts, varnos, walk_deep, with_levels
from pgrepl.ground.frozen import replace
from pgrepl.query import system
from pgrepl.query.local.join_plan import Columns, used_columns, without_useless_joins
from pgrepl.query.reads import conjuncts
from pgrepl.query.shape import is_simple
from pgrepl.sql.nodes import BoolOp, JoinType
from pgrepl.types import oids
from pgrepl.types.builtin import operator_by_oid, proc_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.system import SystemColumn, SystemRelation


def pulled_up(session: Session, query: Query) -> Query:
    """The query with all subqueries and system views merged that can be, at any depth."""

    def expression(expr: Expr) -> Expr:
        expr = map_children(expr, expression)
        if isinstance(expr, tree.SubLink) and expr.query is not None:
            return replace(expr, query=pulled_up(session, expr.query))
        return expr

    query = map_parts(query, expression, lambda nested: pulled_up(session, nested))
    query = replace(query, rtable=tuple([_with_view(session, entry) for entry in query.rtable]))
    return _pushed_down(_merged(query))


# --- system views ---------------------------------------------------------------------------------------------------


def _with_view(session: Session, entry: Rte) -> Rte:
    """A system view as the subquery that it stands for."""
    if entry.kind is not RteKind.RELATION or entry.relid >= oids.FIRST_USER_OID:
        return entry
    known = session.system_relations(entry.release).by_oid(entry.relid)
    if known is None or system.definition(known.schema, known.name, known.release) is None:
        return entry
    return replace(entry, kind=RteKind.SUBQUERY, subquery=_view(session, known))


def _view(session: Session, known: SystemRelation) -> Query:
    """The merged query of a system view with the types that the view declares; it names nothing of a session."""
    key = known.schema, known.name, known.release
    view = _views.get(key)
    if view is None:
        text = system.definition(*key)
        assert text is not None
        query = pulled_up(session, analyze_query(session, text, apart=True))
        view = _views[key] = query if query.set_operation is not None else _declared(query, known.columns)
        if not any(is_volatile(target.expr) for target in view.targets):
            _settled.add(id(view))
    return view


_views: dict[tuple[str, str, int], Query] = {}
_settled: set[int] = set()  # the views whose columns are not volatile, by id()


def _declared(query: Query, columns: Sequence[SystemColumn]) -> Query:
    targets = []
    for target, column in zip(query.targets, columns, strict=True):
        expr = target.expr
        if (expr.type, expr.collation) != (column.type, column.collation):
            expr = tree.RelabelType(column.type, typmod=column.typmod, collation=column.collation, arg=expr)
        targets.append(replace(target, expr=expr))
    return replace(query, targets=tuple(targets))


# --- merging --------------------------------------------------------------------------------------------------------


def _merged(query: Query) -> Query:
    """The query with its simple subqueries merged, and the columns of joins replaced by those of the joined relations:
    these are many, and nothing else needs them."""
    if query.set_operation is not None or query.row_marks:
        return query
    if not any(entry.kind in (RteKind.SUBQUERY, RteKind.JOIN) for entry in query.rtable):
        return query
    bare = replace(query, rtable=tuple([replace(entry, join_vars=()) for entry in query.rtable]))
    joins = {n: entry.join_vars for n, entry in enumerate(query.rtable, 1) if entry.kind is RteKind.JOIN}
    used = used_columns(bare, joins)
    if any((varno, 0) in used for varno in joins):
        return query
    merge = _Merge(bare, used)
    from_, above = [], []
    for item in query.from_:
        merged, conditions = merge.item(item, nullable=False)
        from_.append(merged)
        above += conditions
    where = _all_of([*conjuncts(query.where), *above])
    changed = replace(bare, rtable=tuple(merge.rtable), from_=tuple(from_), where=where)
    columns = {**joins, **merge.columns}
    return _substituted(without_useless_joins(changed, columns), columns)


class _Merge:
    """The range table of a query that is growing by those of its subqueries; `columns` are what the columns of merged
    subqueries stand for, as far as they are used."""

    def __init__(self, query: Query, used: set[tuple[int, int]]) -> None:
        self.rtable = list(query.rtable)
        self.columns: dict[int, Sequence[Expr | None]] = {}
        self._used = used

    def item(self, item: RangeRef | Join, *, nullable: bool) -> tuple[RangeRef | Join, list[Expr]]:
        """An item of FROM with its subqueries merged, and conditions that its rows have to pass. `nullable`: an outer
        join may put a row of NULLs in its place."""
        if isinstance(item, RangeRef):
            return self._relation(item, nullable=nullable)
        if item.kind is JoinType.FULL:
            return item, []
        row = item.right if item.kind in (JoinType.INNER, JoinType.CROSS) and not nullable else None
        if isinstance(row, RangeRef) and self._takes_row(row.varno):
            merged, above = self.item(item.left, nullable=nullable)
            return merged, above + conjuncts(item.quals)
        left, above = self.item(item.left, nullable=nullable or item.kind is JoinType.RIGHT)
        right, others = self.item(item.right, nullable=nullable or item.kind is JoinType.LEFT)
        if item.kind is JoinType.RIGHT:
            above, others = others, above
        elif item.kind is not JoinType.LEFT:
            above, others = above + others, []
        quals = _all_of([*conjuncts(item.quals), *others])
        return replace(item, left=left, right=right, quals=quals), above

    def _takes_row(self, varno: int) -> bool:
        """Merge a subquery without FROM, which is one row of expressions: LATERAL (SELECT a + 1)."""
        inner = self._mergeable(varno)
        if inner is None or inner.from_ or inner.where is not None:
            return False
        self._take(varno, inner)
        return True

    def _mergeable(self, varno: int) -> Query | None:
        """The subquery that may be merged, with the targets that are used."""
        inner = self.rtable[varno - 1].subquery
        if inner is None or (varno, 0) in self._used or not is_simple(inner):
            return None
        if id(inner) not in _settled and any(is_volatile(target.expr) for target in inner.targets):
            return None
        return replace(inner, targets=tuple([t for n, t in enumerate(inner.targets, 1) if (varno, n) in self._used]))

    def _take(self, varno: int, inner: Query) -> Query:
        entry, moved = self.rtable[varno - 1], _moved(inner, len(self.rtable))
        self.rtable += moved.rtable
        self.rtable[varno - 1] = replace(entry, kind=RteKind.VALUES, subquery=None)
        exprs = {target.resno: target.expr for target in moved.targets}
        self.columns[varno] = [exprs.get(number) for number in range(1, len(entry.columns) + 1)]
        return moved

    def _relation(self, item: RangeRef, *, nullable: bool) -> tuple[RangeRef | Join, list[Expr]]:
        inner = self._mergeable(item.varno)
        if inner is None or self.rtable[item.varno - 1].lateral or not inner.from_:
            return item, []
        if nullable and not all(_is_null_with_its_row(target.expr) for target in inner.targets):
            return item, []
        moved = self._take(item.varno, inner)
        merged, *others = moved.from_
        for other in others:
            merged = Join(JoinType.CROSS, merged, other, None, 0)
        return merged, conjuncts(moved.where)


def _is_null_with_its_row(expr: Expr) -> bool:
    """Whether an expression is certainly NULL where its relations are: otherwise an outer join could not tell."""
    if isinstance(expr, tree.RelabelType) and expr.arg is not None:
        return _is_null_with_its_row(expr.arg)
    if isinstance(expr, (tree.FuncExpr, tree.OpExpr)):
        operator = operator_by_oid(expr.op) if isinstance(expr, tree.OpExpr) else None
        proc = proc_by_oid(expr.func if isinstance(expr, tree.FuncExpr) else operator.code if operator else 0)
        return proc is not None and proc.strict and any(map(_is_null_with_its_row, expr.args))
    return isinstance(expr, tree.Var) and not expr.levelsup


def _all_of(conditions: Sequence[Expr]) -> Expr | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return tree.BoolExpr(oids.BOOL, op=BoolOp.AND, args=tuple(conditions))


Node = Callable[[Expr, int], "Expr | None"]
"""What stands for an expression some levels below a query; None: the same with its parts replaced."""


def _mapped(query: Query, node: Node, entry: Callable[[Rte, int], Rte], depth: int = 0) -> Query:
    """The query with the expressions in it, and in all its subqueries, replaced, and its range table entries."""
    changed = map_parts(
        query,
        lambda expr: _mapped_expr(expr, node, entry, depth),
        lambda nested: _mapped(nested, node, entry, depth + 1),
    )
    return (
        changed if entry is _same_entry else replace(changed, rtable=tuple([entry(e, depth) for e in changed.rtable]))
    )


def _mapped_expr(expr: Expr, node: Node, entry: Callable[[Rte, int], Rte], depth: int) -> Expr:
    other = node(expr, depth)
    if other is not None:
        return other
    expr = map_children(expr, lambda child: _mapped_expr(child, node, entry, depth))
    if isinstance(expr, tree.SubLink) and expr.query is not None:
        return replace(expr, query=_mapped(expr.query, node, entry, depth + 1))
    return expr


def _moved(inner: Query, offset: int) -> Query:
    """A subquery as a part of the query around it: its relations are numbered behind those, and what it names of outer
    queries is one level nearer."""

    def node(expr: Expr, depth: int) -> Expr | None:
        if isinstance(expr, tree.Var) and expr.levelsup == depth:
            return replace(expr, varno=expr.varno + offset, varno_written=0)
        if isinstance(expr, tree.Var) and expr.levelsup > depth:
            return replace(expr, levelsup=expr.levelsup - 1)
        if isinstance(expr, (tree.Aggref, tree.GroupingFunc)) and expr.levelsup > depth:
            raised = replace(expr, levelsup=expr.levelsup - 1)
            return map_children(raised, lambda child: _mapped_expr(child, node, entry, depth))
        return None

    def entry(rte: Rte, depth: int) -> Rte:
        named = rte.kind is RteKind.CTE and rte.cte_levelsup > depth
        return replace(rte, cte_levelsup=rte.cte_levelsup - 1) if named else rte

    moved = _mapped(inner, node, entry)
    numbers = {number: number + offset for number in range(1, len(inner.rtable) + 1)}
    return replace(moved, from_=tuple([_renumbered(item, numbers) for item in moved.from_]))


def _renumbered(item: RangeRef | Join, numbers: Mapping[int, int]) -> RangeRef | Join:
    if isinstance(item, RangeRef):
        return RangeRef(numbers[item.varno])
    left, right = _renumbered(item.left, numbers), _renumbered(item.right, numbers)
    return replace(item, left=left, right=right, varno=0)


def _substituted(query: Query, columns: Columns) -> Query:
    """The query with expressions in the places of its relations' columns. Only relations that are still in FROM are
    left in its range table."""
    numbers = {old: new for new, old in enumerate(sorted(chain.from_iterable(map(varnos, query.from_))), 1)}
    kept = replace(query, rtable=tuple([query.rtable[old - 1] for old in numbers]))
    known: dict[tuple[int, int], Expr] = {}

    def node(expr: Expr, depth: int) -> Expr | None:
        if not isinstance(expr, tree.Var) or expr.levelsup != depth:
            return None
        if expr.attnum <= 0 or expr.varno not in columns:
            return replace(expr, varno=numbers[expr.varno], varno_written=0)
        place = expr.varno, expr.attnum
        if place not in known:
            meant = columns[expr.varno][expr.attnum - 1]
            assert meant is not None
            known[place] = _mapped_expr(meant, node, _same_entry, 0)
        return _as_typed(with_levels(known[place], depth), expr)

    changed = _mapped(kept, node, _same_entry)
    return replace(changed, from_=tuple([_renumbered(item, numbers) for item in changed.from_]))


def _same_entry(entry: Rte, depth: int) -> Rte:
    return entry


def _as_typed(expr: Expr, var: tree.Var) -> Expr:
    """An expression with the type of the column that it stands for."""
    if (expr.type, expr.collation) == (var.type, var.collation):
        return expr
    return tree.RelabelType(var.type, typmod=var.typmod, collation=var.collation, arg=expr)


# --- conditions of what cannot be merged ----------------------------------------------------------------------------


def _pushed_down(query: Query) -> Query:
    """The query with conditions of WHERE moved into the subqueries of FROM whose rows they test."""
    rtable, kept = list(query.rtable), []
    for condition in conjuncts(query.where):
        varno = _only_relation(condition)
        inner = rtable[varno - 1].subquery if varno in _inner_relations(query.from_) else None
        into = None if inner is None or is_volatile(condition) else _with_condition(inner, condition)
        if into is None:
            kept.append(condition)
        else:
            rtable[varno - 1] = replace(rtable[varno - 1], subquery=into)
    if len(kept) == len(conjuncts(query.where)):
        return query
    return replace(query, rtable=tuple(rtable), where=_all_of(kept))


def _inner_relations(items: Iterable[RangeRef | Join]) -> set[int]:
    """The relations whose rows no outer join replaces by NULLs."""
    kept: set[int] = set()
    for item in items:
        if isinstance(item, RangeRef):
            kept.add(item.varno)
        elif item.kind is not JoinType.FULL:
            sides = [item.left] * (item.kind is not JoinType.RIGHT) + [item.right] * (item.kind is not JoinType.LEFT)
            kept |= _inner_relations(sides)
    return kept


def _only_relation(condition: Expr) -> int:
    """The one relation of the query that a condition names, by its columns alone; 0: there is none."""
    own = [node for node, level in walk_deep(condition) if isinstance(node, tree.Var) and node.levelsup == level]
    named = {var.varno for var in own}
    has_query = any(isinstance(node, tree.SubLink) for node, _ in walk_deep(condition))
    return own[0].varno if len(named) == 1 and all(var.attnum > 0 for var in own) and not has_query else 0


def _with_condition(inner: Query, condition: Expr) -> Query | None:
    """The subquery with a condition on its columns; None: it would change other rows, too."""
    if inner.limit is not None or inner.offset is not None or inner.distinct_on or inner.row_marks or inner.windows:
        return None
    if inner.set_operation is not None:
        return _with_condition_in_arms(inner, condition)
    if inner.ctes or inner.grouping_sets is not None or inner.has_target_srfs:
        return None
    used = {n.attnum for n, level in walk_deep(condition) if isinstance(n, tree.Var) and n.levelsup == level}
    exprs = {target.resno: target.expr for target in inner.targets if not target.junk}
    if any(is_volatile(exprs[n]) for n in used):
        return None
    if (inner.group or inner.has_aggregates or inner.having is not None) and not used <= {g.resno for g in inner.group}:
        return None
    columns = [exprs[n] for n in sorted(exprs)]

    def moved(node: Expr) -> Expr:
        if not isinstance(node, tree.Var):
            return map_children(node, moved)
        return replace(node, levelsup=node.levelsup + 1) if node.levelsup else _as_typed(columns[node.attnum - 1], node)

    return _pushed_down(replace(inner, where=_all_of([*conjuncts(inner.where), moved(condition)])))


def _with_condition_in_arms(inner: Query, condition: Expr) -> Query | None:
    rtable = list(inner.rtable)
    if inner.ctes:
        return None
    for arm in _arms(inner.set_operation):
        query = rtable[arm - 1].subquery
        into = None if query is None else _with_condition(query, _one_deeper(condition))
        if into is None:
            return None
        rtable[arm - 1] = replace(rtable[arm - 1], subquery=into)
    return replace(inner, rtable=tuple(rtable))


def _one_deeper(condition: Expr) -> Expr:
    """A condition that stands in one more query: what it names of outer queries is one level farther."""

    def visit(node: Expr) -> Expr:
        if isinstance(node, tree.Var) and node.levelsup:
            return replace(node, levelsup=node.levelsup + 1)
        return map_children(node, visit)

    return visit(condition)


def _arms(operation: SetOperation | RangeRef | None) -> list[int]:
    if isinstance(operation, RangeRef):
        return [operation.varno]
    return [] if operation is None else _arms(operation.left) + _arms(operation.right)
