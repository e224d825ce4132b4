"""The shape of an analysed query, for both engines: subqueries, outer references, groups, aggregates, rows that are in
no table.

Subqueries with one value for all rows are executed first, as PostgreSQL's InitPlans: their values let scans skip
files.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.store.system import FIRST_NORMAL_OID
from pgrepl.expr import tree
from pgrepl.expr.analyse.lookup import TABLEOID
from pgrepl.expr.tree import PLACE, Expr, PinnedRow, Query, RangeRef, Rte, RteKind
from pgrepl.expr.walk import map_children, map_parts, query_exprs, subqueries, walk, walk_deep, with_levels
from pgrepl.ground.errors import PgError
from pgrepl.query.reads import conjuncts
from pgrepl.rows.changes import Member
from pgrepl.sql.nodes import SubLinkType
from pgrepl.types import oids
from pgrepl.types.builtin import operator_by_oid
from pgrepl.types.lake.forms import ctid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.read.data_file import RowPlace

_CTID, _XMIN = -1, -2
# the values of the other system columns for a row that is visible to all transactions (FrozenTransactionId)
SETTLED = {_XMIN: 2, -3: 0, -4: 0, -5: 0}


def is_user_table(entry: Rte) -> bool:
    """Whether the entry's rows are in the lake."""
    return entry.kind is RteKind.RELATION and entry.relkind in ("r", "p", "m") and entry.relid >= FIRST_NORMAL_OID


def table_rows(
    session: Session, scanned: Sequence[Member], attnums: Sequence[int], bounds: Sequence[Bound] = ()
) -> Iterator[tuple[Any, ...]]:
    """The rows of a scan: these columns, those below zero (system columns) last."""
    for member in scanned:
        yield from _member_rows(session, member, attnums, bounds)


def _member_rows(
    session: Session, member: Member, attnums: Sequence[int], bounds: Sequence[Bound]
) -> Iterator[tuple[Any, ...]]:
    from pgrepl.lake.read import local
    from pgrepl.lake.table import lake_table

    table = lake_table(session, member.relation.oid)
    own = [member.numbers[n] for n in attnums if n > 0]
    system = [n for n in attnums if n < 0]
    below = member.bounds(bounds)
    if not system:
        return iter(local.rows(session, table, own, bounds=below))
    if _CTID not in system and PLACE not in system:
        fixed = tuple([system_value(member.relation.oid, n) for n in system])
        return ((*row, *fixed) for row in local.rows(session, table, own, bounds=below))
    makers = [_system_column(member.relation.oid, n) for n in system]
    return (
        (*row[:-1], *[make(row[-1]) for make in makers])
        for row in local.rows(session, table, own, bounds=below, places=True)
    )


def pinned_row(pinned: PinnedRow, attnums: Sequence[int]) -> tuple[Any, ...]:
    return tuple([pinned.row[n - 1] if n > 0 else _system_column(pinned.table, n)(pinned.place) for n in attnums])


def system_value(relid: int, attnum: int) -> int:
    """A system column that is the same for all rows of a table."""
    return relid if attnum == TABLEOID else SETTLED[attnum]


def _system_column(relid: int, attnum: int) -> Callable[[RowPlace], Any]:
    if attnum == PLACE:
        return lambda place: place
    if attnum == _CTID:
        return lambda place: ctid(place.row)
    value = system_value(relid, attnum)
    return lambda place: value


# --- shape ------------------------------------------------------------------------------------------------------------


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
    aggregates_at_home = (
        at_home(node, up)
        for expr in query_exprs(query)
        for node, up in walk_deep(expr)
        if isinstance(node, tree.Aggref) and node.levelsup == up
    )
    return list(dict.fromkeys(aggregates_at_home))


def grouping_functions(query: Query) -> list[tree.GroupingFunc]:
    """The calls of grouping() for this query, also those that stand in subqueries."""
    calls = (
        node
        for expr in query_exprs(query)
        for node, up in walk_deep(expr)
        if isinstance(node, tree.GroupingFunc) and node.levelsup == up
    )
    return list(dict.fromkeys(calls))


def at_home(node: tree.Aggref, level: int) -> tree.Aggref:
    """The aggregate as its own query sees it, `level` queries above the place where it stands."""
    if not level:
        return node
    raised = map_children(node, lambda expr: with_levels(expr, -level))
    assert isinstance(raised, tree.Aggref)
    return replace(raised, levelsup=0)


class OutsideRows(Sequence[tuple[Any, ...]]):
    """Iteration returns tuples of Python values."""

    @abstractmethod
    def frame(self, numbers: Sequence[int]) -> DataFrame:
        """The rows as a DataFrame: the columns of these numbers, counted from 1, as c{number} in their lake forms."""


# --- initplans --------------------------------------------------------------------------------------------------------


RowsOf = Callable[["Session", Query], Iterable[tuple[Any, ...]]]
_SINGLE = (SubLinkType.EXPR, SubLinkType.EXISTS)


def with_values(session: Session, query: Query, rows_of: RowsOf) -> Query:
    """The query, its views expanded, with such subqueries replaced by their values, which `rows_of` computes. One that
    fails stays in place: it fails again if its value is needed at all."""

    def expression(expr: Expr) -> Expr:
        expr = map_children(expr, expression)
        if not isinstance(expr, tree.SubLink) or expr.query is None:
            return expr
        if _stands_alone(expr):
            value = _value(session, expr, rows_of)
            if value is not None:
                return value
        return replace(expr, query=with_values(session, expr.query, rows_of))

    return map_parts(query, expression, lambda nested: with_values(session, nested, rows_of))


def _stands_alone(link: tree.SubLink) -> bool:
    """Whether the subquery returns one value from user tables and depends on no row around it."""
    query = link.query
    return query is not None and link.kind in _SINGLE and has_user_tables(query) and not depends(query)


def _value(session: Session, link: tree.SubLink, rows_of: RowsOf) -> Expr | None:
    assert link.query is not None
    query = link.query
    if query.limit is None:
        query = replace(query, limit=tree.Const(oids.INT8, value=2))
    try:
        rows = list(islice(rows_of(session, query), 2))
    except PgError:
        return None
    if link.kind is SubLinkType.EXISTS:
        return tree.Const(oids.BOOL, value=bool(rows))
    if len(rows) > 1:
        return None
    value = rows[0][0] if rows else None
    return tree.Const(link.type, typmod=link.typmod, collation=link.collation, value=value)
