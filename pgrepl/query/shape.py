"""The shape of an analysed query, for both engines: its subqueries, its references to outer queries, its groups and
aggregates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Query, RangeRef, Rte, RteKind
from pgrepl.expr.walk import map_children, query_exprs, subqueries, walk, walk_deep, with_levels
from pgrepl.query.bounds import conjuncts
from pgrepl.query.tables import is_user_table
from pgrepl.types.builtin import operator_by_oid


def levels(query: Query) -> Iterator[Query]:
    """The query and all queries inside it."""
    yield query
    for nested in subqueries(query):
        yield from levels(nested)
    for expr in query_exprs(query, joins=False):
        for node in walk(expr):
            if isinstance(node, tree.SubLink) and node.query is not None:
                yield from levels(node.query)


def has_user_tables(query: Query) -> bool:
    """Whether the query reads rows of the lake, at any depth."""
    return any(is_user_table(entry) for level in levels(query) for entry in level.rtable)


def reads_catalogs_alone(query: Query) -> bool:
    """Whether a query reads system catalogs, and no table of the lake."""
    entries = [entry for level in levels(query) for entry in level.rtable if entry.kind is RteKind.RELATION]
    return bool(entries) and not any(map(is_user_table, entries))


def writing_tag(query: Query) -> str | None:
    """What a query that does more than read is called, which no function may run that is not volatile
    (CommandIsReadOnly)."""
    locking = next((level for level in levels(query) if level.row_marks), None)
    if locking is not None:
        return f"SELECT FOR {locking.row_marks[0].strength}"
    return "SELECT" if tree.has_modifying_cte(query.ctes) else None


def locks_rows(query: Query) -> bool:
    """Whether the query has a locking clause (FOR UPDATE …) at any depth."""
    return any(level.row_marks for level in levels(query))


def hashable_equalities(test: Expr) -> list[tuple[Expr, Expr]] | None:
    """The pairs that a hashed IN compares, (left expression, expression over the subquery's columns), if its test is
    that they are equal and their hashes tell (testexpr_is_hashable)."""
    pairs = []
    for condition in conjuncts(test):
        if not isinstance(condition, tree.OpExpr) or len(condition.args) != 2:
            return None
        operator = operator_by_oid(condition.op)
        own, column = condition.args
        if operator is None or operator.name != "=" or not operator.canhash:
            return None
        if any(isinstance(node, tree.Param) for node in walk(own)):
            return None
        pairs.append((own, column))
    return pairs


def sees_outside(query: Query) -> bool:
    """Whether a query depends on the row of an outer query."""
    return any(isinstance(n, (tree.Var, tree.Aggref)) and n.levelsup > level for n, level in walk_deep(query))


def names_outer_with(query: Query, depth: int = 0) -> bool:
    """Whether the query, or a subquery, reads a WITH query of an outer query."""
    if any(entry.kind is RteKind.CTE and entry.cte_levelsup > depth for entry in query.rtable):
        return True
    if any(names_outer_with(nested, depth + 1) for nested in subqueries(query)):
        return True
    return any(
        isinstance(node, tree.SubLink) and node.query is not None and names_outer_with(node.query, depth + 1)
        for expr in query_exprs(query)
        for node in walk(expr)
    )


def depends(query: Query) -> bool:
    """Whether a query refers to columns, or WITH queries, of an outer query."""
    return sees_outside(query) or names_outer_with(query)


def only_entry(query: Query) -> Rte | None:
    """The one entry of FROM, if there is one and no join."""
    if len(query.from_) != 1 or query.set_operation is not None:
        return None
    item = query.from_[0]
    return query.rtable[item.varno - 1] if isinstance(item, RangeRef) else None


def is_simple(query: Query) -> bool:
    """Whether the query could be pulled up into the one around it (is_simple_subquery)."""
    return not (
        query.set_operation is not None
        or query.has_aggregates
        or query.windows
        or query.has_target_srfs
        or query.group
        or query.grouping_sets is not None
        or query.having is not None
        or query.sort
        or query.distinct is not None
        or query.limit is not None
        or query.offset is not None
        or query.ctes
        or any(not mark.pushed_down for mark in query.row_marks)
    )


def uses_groups(query: Query) -> bool:
    return bool(
        query.group
        or query.grouping_sets is not None
        or query.having is not None
        or any(isinstance(n, tree.Aggref) and n.levelsup == up for t in query.targets for n, up in walk_deep(t.expr))
    )


def aggregates(query: Query) -> list[tree.Aggref]:
    """The aggregates of this query, also those that stand in subqueries."""
    found = (
        at_home(node, up)
        for expr in query_exprs(query)
        for node, up in walk_deep(expr)
        if isinstance(node, tree.Aggref) and node.levelsup == up
    )
    return list(dict.fromkeys(found))


def at_home(node: tree.Aggref, level: int) -> tree.Aggref:
    """The aggregate as its own query sees it, `level` queries above the place where it stands."""
    if not level:
        return node
    raised = map_children(node, lambda expr: with_levels(expr, -level))
    assert isinstance(raised, tree.Aggref)
    return replace(raised, levelsup=0)
