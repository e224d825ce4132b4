"""Outer joins that add nothing, left out (remove_useless_joins): no column of the joined side is used, and no row finds
more than one row of it.

    SELECT a.attname FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        →  SELECT a.attname FROM pg_attribute a

PostgreSQL leaves out one relation; here they may be several, each found by its key, if no condition can fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Join, Query, RangeRef, Rte, RteKind
from pgrepl.expr.walk import functions_used, varnos, walk_deep
from pgrepl.frozen import replace
from pgrepl.query.bounds import conjuncts
from pgrepl.query.local.join_plan import equality_of
from pgrepl.sql.nodes import JoinType
from pgrepl.types import oids
from pgrepl.types.builtin import proc_by_oid

Columns = Mapping[int, "Sequence[Expr | None]"]
"""What the columns of relations stand for, by number in the range table."""

# the unique indexes of catalogs without an OID: pg_attribute, pg_attrdef, pg_index, pg_sequence, pg_range, and comments
_KEYS = {
    1249: {"attrelid", "attnum"},
    2604: {"adrelid", "adnum"},
    2610: {"indexrelid"},
    2224: {"seqrelid"},
    3541: {"rngtypid"},
    2609: {"objoid", "classoid", "objsubid"},
}


def used_columns(root: Expr | Query, columns: Columns) -> set[tuple[int, int]]:
    """The columns of a query's relations that it, or an expression of it, uses: 0 is the whole row."""
    found: set[tuple[int, int]] = set()
    pending = list(_own_vars(root))
    while pending:
        var = pending.pop()
        if (var.varno, var.attnum) in found:
            continue
        found.add((var.varno, var.attnum))
        meant = columns[var.varno][var.attnum - 1] if var.varno in columns and var.attnum > 0 else None
        if isinstance(meant, tree.Var) and not meant.levelsup:
            pending.append(meant)
        elif meant is not None:
            pending += _own_vars(meant)
    return found


def _own_vars(root: Expr | Query) -> Iterator[tree.Var]:
    return (node for node, level in walk_deep(root) if isinstance(node, tree.Var) and node.levelsup == level)


def without_useless_joins(query: Query, columns: Columns) -> Query:
    """`columns`: what those of joins and of merged subqueries stand for."""
    if not any(map(_has_outer_join, query.from_)):
        return query
    used = {varno for varno, _ in used_columns(replace(query, from_=tuple(map(_bare, query.from_))), columns)}

    def kept(item: RangeRef | Join) -> RangeRef | Join:
        """From the outermost join to the inner ones: their conditions name none that is outside."""
        if isinstance(item, RangeRef) or item.kind is JoinType.FULL:
            return item
        stays, goes = (item.right, item.left) if item.kind is JoinType.RIGHT else (item.left, item.right)
        if item.kind in (JoinType.LEFT, JoinType.RIGHT) and used.isdisjoint(varnos(goes)):
            if _finds_one(query, columns, item, goes):
                return kept(stays)
        if item.quals is not None:
            used.update(varno for varno, _ in used_columns(item.quals, columns))
        return replace(item, left=kept(item.left), right=kept(item.right))

    return replace(query, from_=tuple(map(kept, query.from_)))


def _has_outer_join(item: RangeRef | Join) -> bool:
    if isinstance(item, RangeRef):
        return False
    return item.kind in (JoinType.LEFT, JoinType.RIGHT) or _has_outer_join(item.left) or _has_outer_join(item.right)


def _bare(item: RangeRef | Join) -> RangeRef | Join:
    """The joins without the conditions that `kept` comes to."""
    if isinstance(item, RangeRef) or item.kind is JoinType.FULL:
        return item
    return replace(item, left=_bare(item.left), right=_bare(item.right), quals=None)


def _finds_one(query: Query, columns: Columns, join: Join, side: RangeRef | Join) -> bool:
    """Whether a row finds one row of a side of an outer join at most: each relation is found by a key, from the other
    side or from relations that are found."""
    waiting = set(varnos(side))
    inner = _inner_conditions(side)
    if inner is None or not all(_key(query.rtable[varno - 1]) for varno in waiting):
        return False
    conditions = [*conjuncts(join.quals), *inner]
    if len(waiting) > 1 and not all(map(_cannot_fail, conditions)):
        return False
    found_by = [each for condition in conditions for each in _sides(condition, columns)]
    while waiting:
        known = {
            varno
            for varno in waiting
            for entry in (query.rtable[varno - 1],)
            if _key(entry)
            <= {entry.columns[n - 1].name for of, n, by in found_by if of == varno and n > 0 and not by & waiting}
        }
        if not known:
            return False
        waiting -= known
    return True


def _inner_conditions(item: RangeRef | Join) -> list[Expr] | None:
    """The conditions of inner joins; None: there are others."""
    if isinstance(item, RangeRef):
        return []
    left, right = _inner_conditions(item.left), _inner_conditions(item.right)
    if item.kind not in (JoinType.INNER, JoinType.CROSS) or left is None or right is None:
        return None
    return [*conjuncts(item.quals), *left, *right]


def _key(entry: Rte) -> set[str]:
    """The columns of a unique index of a system catalog; none is known: empty."""
    if entry.kind is not RteKind.RELATION or entry.relid >= oids.FIRST_USER_OID or entry.relkind != "r":
        return set()
    return _KEYS.get(entry.relid) or ({"oid"} if entry.columns and entry.columns[0].name == "oid" else set())


def _sides(condition: Expr, columns: Columns) -> Iterator[tuple[int, int, set[int]]]:
    """The columns that an equality gives a value, each with the relations of that value."""
    found = equality_of(condition)
    if found is None or found.nulls:
        return
    for own, other in ((found.one, found.two), (found.two, found.one)):
        var: Expr | None = own
        while isinstance(var, tree.Var) and not var.levelsup and var.varno in columns and var.attnum > 0:
            var = columns[var.varno][var.attnum - 1]
        if isinstance(var, tree.Var) and not var.levelsup:
            yield var.varno, var.attnum, {varno for varno, _ in used_columns(other, columns)}


def _cannot_fail(condition: Expr) -> bool:
    for node, _ in walk_deep(condition):
        procs = map(proc_by_oid, functions_used(node))
        if isinstance(node, tree.SubLink) or not all(proc is not None and proc.leakproof for proc in procs):
            return False
    return True
