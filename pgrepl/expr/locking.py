"""FOR UPDATE and its like: checked as PostgreSQL does, and kept in the tree for printing (transformLockingClause)."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.expr.tree import Query, RowMark, Rte, RteKind, WindowFunc
from pgrepl.expr.walk import walk
from pgrepl.sql.nodes import LockingClause

_STRENGTHS = ("KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE")
_WAITS = (None, "SKIP LOCKED", "NOWAIT")
_REFUSED = {
    RteKind.JOIN: "a join",
    RteKind.FUNCTION: "a function",
    RteKind.VALUES: "VALUES",
    RteKind.CTE: "a WITH query",
}


def lock_text(clause: LockingClause) -> str:
    return f"FOR {clause.strength}"


def transform_locking(
    query: Query, clause: LockingClause, *, grouping: bool = False, pushed_down: bool = False
) -> Query:
    _check_lockable(query, lock_text(clause), grouping)
    if not clause.relations:
        for varno, rte in enumerate(query.rtable, 1):
            if rte.in_from and rte.kind in (RteKind.RELATION, RteKind.SUBQUERY):
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


def _refname(rte: Rte) -> str | None:
    """The name by which a relation can be referred to here; None: it has none."""
    if rte.alias is None:
        if rte.kind is RteKind.JOIN:
            return rte.join_using_alias
        if rte.kind in (RteKind.SUBQUERY, RteKind.VALUES):
            return None
    return rte.name


def _check_lockable(query: Query, lock: str, grouping: bool) -> None:
    """As CheckSelectLocking does."""
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
    elif any(isinstance(node, WindowFunc) for target in query.targets for node in walk(target.expr)):
        problem = "window functions"
    elif query.has_target_srfs:
        problem = "set-returning functions in the target list"
    if problem is not None:
        raise PgError("0A000", f"{lock} is not allowed with {problem}")


def _lock(query: Query, varno: int, rte: Rte, clause: LockingClause, pushed_down: bool) -> Query:
    query = replace(query, row_marks=_marked(query.row_marks, varno, clause, pushed_down))
    if rte.kind is RteKind.SUBQUERY and rte.subquery is not None:
        inner = transform_locking(rte.subquery, replace(clause, relations=()), pushed_down=True)
        rtable = list(query.rtable)
        rtable[varno - 1] = replace(rte, subquery=inner)
        query = replace(query, rtable=tuple(rtable))
    return query


def _marked(marks: tuple[RowMark, ...], varno: int, clause: LockingClause, pushed_down: bool) -> tuple[RowMark, ...]:
    """The row marks after another locking clause; the stronger lock wins (applyLockingClause)."""
    known = next((m for m in marks if m.varno == varno), None)
    if known is None:
        return (*marks, RowMark(varno, clause.strength, clause.wait, pushed_down))
    mark = RowMark(
        varno,
        max(known.strength, clause.strength, key=_STRENGTHS.index),
        max(known.wait, clause.wait, key=_WAITS.index),
        known.pushed_down and pushed_down,
    )
    return tuple(mark if m is known else m for m in marks)
