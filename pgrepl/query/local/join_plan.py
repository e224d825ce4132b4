"""The plan of joins: which conditions are equalities, the order of joins over system catalogs, outer joins that add
nothing.

The fewest rows come first, by estimates as PostgreSQL's without statistics. A query over tables keeps the order of
FROM.

    SELECT a.attname FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        →  SELECT a.attname FROM pg_attribute a
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Join, Query, RangeRef, Rte, RteKind
from pgrepl.expr.walk import calls_volatile, functions_used, has_vars, varnos, walk_deep
from pgrepl.ground.frozen import replace as frozen_replace
from pgrepl.ground.memory import counted
from pgrepl.query.local.env import Combination, Env
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.query.reads import conjuncts
from pgrepl.sql.nodes import BoolOp, JoinType
from pgrepl.types import oids
from pgrepl.types.builtin import operator_by_oid, proc_by_oid


@dataclass(frozen=True)
class Keyed:
    """The scan of a system catalog that can also read only the rows with some OIDs in a column, and perhaps others."""

    varno: int
    attnum: int
    rank: int  # among such catalogs; the higher, the more rows
    run: Callable[[Env, frozenset[int]], Iterable[Combination]]

    def is_key(self, expr: Expr) -> bool:
        while isinstance(expr, tree.RelabelType) and expr.arg is not None:
            expr = expr.arg
        return isinstance(expr, tree.Var) and (expr.varno, expr.attnum, expr.levelsup) == (self.varno, self.attnum, 0)


@dataclass
class JoinPlan:
    """A plan for the combinations of some relations; `required_outer`: the relations to the left that it refers to
    (LATERAL; PATH_REQ_OUTER)."""

    relations: frozenset[int]
    run: Callable[[Env], Iterable[Combination]]
    required_outer: frozenset[int] = frozenset()
    stable: bool = False  # every run returns the same rows
    rows: float = 0  # an estimate, for a query over system catalogs
    keyed: Keyed | None = None


def relations_of(part: Expr | Query | None, depth: int = 0) -> frozenset[int]:
    """The relations of this query that an expression, or a subquery in FROM (depth 1), refers to."""
    if part is None:
        return frozenset()
    nodes = walk_deep(part, depth)
    return frozenset(n.varno for n, level in nodes if isinstance(n, tree.Var) and n.levelsup == level)


def counted_plan(plan: JoinPlan, evaluator: Evaluator) -> JoinPlan:
    """The plan with its rows counted for EXPLAIN ANALYZE."""
    node, run = evaluator.node(plan.relations), plan.run
    return plan if node is None else replace(plan, run=lambda env: counted(node, lambda: run(env)), keyed=None)


class Equality(NamedTuple):
    """The sides of `one = two`, or of `one IS NOT DISTINCT FROM two` (`nulls`), which can be hashed."""

    one: Expr
    two: Expr
    nulls: bool


def equality_of(condition: Expr) -> Equality | None:
    test: Expr = condition
    if isinstance(condition, tree.BoolExpr) and condition.op is BoolOp.NOT:
        (test,) = condition.args
    nulls = test is not condition
    if not isinstance(test, (tree.OpExpr, tree.DistinctExpr)) or len(test.args) != 2:
        return None
    operator = operator_by_oid(test.op)
    if nulls is isinstance(test, tree.OpExpr) or operator is None or operator.name != "=" or not operator.canhash:
        return None
    return Equality(*test.args, nulls)


class Condition:
    """A condition with the relations that it refers to, and those of the sides that it says are equal."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self.relations = relations_of(expr)
        both = equality_of(expr)
        self.sides = None if both is None else (relations_of(both.one), relations_of(both.two))

    def joins(self, left: frozenset[int], right: frozenset[int]) -> bool:
        if self.sides is None or not all(self.sides):
            return False
        one, two = self.sides
        return (one <= left and two <= right) or (one <= right and two <= left)


def equality(condition: Expr, left: frozenset[int], right: frozenset[int]) -> Equality | None:
    """The equality of an expression of the left and one of the right, if the condition is one."""
    both = equality_of(condition)
    if both is None:
        return None
    first, second = relations_of(both.one), relations_of(both.two)
    if not first or not second:
        return None
    if first <= left and second <= right:
        return both
    if first <= right and second <= left:
        return Equality(both.two, both.one, both.nulls)
    return None


def is_changeable(expr: Expr) -> bool:
    """Whether two runs may compute different values for the same row."""
    return any(
        isinstance(node, tree.SubLink) or _is_outer(node, up) or calls_volatile(node) for node, up in walk_deep(expr)
    )


def varies(expr: Expr) -> bool:
    """Whether the expression depends on a row of an outer query. Any other has a single value, for which a hash table
    is not worth it."""
    return any(_is_outer(node, up) for node, up in walk_deep(expr))


def _is_outer(node: Expr, up: int) -> bool:
    return isinstance(node, (tree.Var, tree.Aggref)) and node.levelsup > up


# --- join order -------------------------------------------------------------------------------------------------------


# pg_attribute, pg_proc, pg_depend, pg_type, pg_operator, pg_class
_ROWS = {1249: 4000, 1255: 3500, 2608: 1000, 1247: 800, 2617: 800, 1259: 600}
# pg_namespace, pg_am, pg_database, pg_authid, pg_language, pg_tablespace, pg_extension
_FEW = frozenset((2615, 2601, 1262, 1260, 2612, 1213, 3079))
_USUAL, _SMALL = 200, 5
_ELEMENTS = 2  # of an array in a catalog, which a function in FROM takes apart
_SHARE = 0.5  # of the rows that pass a condition of which nothing is known


def usual_rows(entry: Rte) -> float:
    """The number of rows that an entry of FROM is expected to have."""
    if entry.kind is RteKind.RELATION:
        return _SMALL if entry.relid in _FEW else _ROWS.get(entry.relid, _USUAL)
    if entry.kind is RteKind.FUNCTION and any(map(has_vars, entry.functions)):
        return _ELEMENTS
    return _USUAL if entry.kind is RteKind.SUBQUERY else _SMALL


def _different(expr: Expr, rtable: Sequence[Rte]) -> float:
    """The number of different values that an expression is expected to have."""
    while isinstance(expr, tree.RelabelType) and expr.arg is not None:
        expr = expr.arg
    if not isinstance(expr, tree.Var) or expr.levelsup or expr.attnum <= 0:
        return 10
    entry = rtable[expr.varno - 1]
    rows = usual_rows(entry)
    if entry.columns[expr.attnum - 1].name == "oid":
        return rows
    return max(1, rows / 2 if expr.type == oids.NAME else rows / 10 if expr.type == oids.OID else min(rows, 10))


def share(condition: Expr, rtable: Sequence[Rte]) -> float:
    """The share of the rows, or of the pairs of rows, that pass a condition."""
    if isinstance(condition, (tree.OpExpr, tree.ScalarArrayOpExpr)) and len(condition.args) == 2:
        operator = operator_by_oid(condition.op)
        if operator is not None and operator.name == "=":
            portion = 1 / max([_different(arg, rtable) for arg in condition.args if has_vars(arg)], default=1)
            return min(1, portion * 4) if isinstance(condition, tree.ScalarArrayOpExpr) else portion
    return _SHARE


def passing(rows: float, conditions: Sequence[Expr], rtable: Sequence[Rte]) -> float:
    """The number of rows that are expected to pass the conditions."""
    for condition in conditions:
        rows *= share(condition, rtable)
    return rows


def smallest_operand(
    current: JoinPlan,
    outside: frozenset[int],
    remaining: list[JoinPlan],
    waiting: list[Condition],
    rtable: Sequence[Rte],
) -> JoinPlan:
    """The part whose join is expected to have the fewest rows, of those that an equality or LATERAL joins if there are
    any."""
    known = current.relations | outside
    possible = [p for p in remaining if p.required_outer <= known] or remaining

    def cost(part: JoinPlan) -> tuple[bool, float]:
        tests = [c for c in waiting if c.relations <= known | part.relations]
        joined = bool(part.required_outer) or any(c.joins(known, part.relations) for c in tests)
        return not joined, passing(part.rows, [c.expr for c in tests], rtable)

    return possible[0] if len(possible) == 1 else min(possible, key=cost)


class JoinOperand(Protocol):
    """An operand of a join."""

    relations: frozenset[int]
    required_outer: frozenset[int]


AnyOperand = TypeVar("AnyOperand", bound=JoinOperand)


def next_operand(known: frozenset[int], remaining: list[AnyOperand], waiting: list[Expr]) -> AnyOperand:
    """The part to join next: one that an equality joins to the known ones, else the first whose required_outer is
    known."""
    possible = [p for p in remaining if p.required_outer <= known] or remaining
    for part in possible:
        if any(equality(c, known, part.relations) for c in waiting):
            return part
    return possible[0]


# --- join removal -----------------------------------------------------------------------------------------------------


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
    used: set[tuple[int, int]] = set()
    pending = list(_own_vars(root))
    while pending:
        var = pending.pop()
        if (var.varno, var.attnum) in used:
            continue
        used.add((var.varno, var.attnum))
        meant = columns[var.varno][var.attnum - 1] if var.varno in columns and var.attnum > 0 else None
        if isinstance(meant, tree.Var) and not meant.levelsup:
            pending.append(meant)
        elif meant is not None:
            pending += _own_vars(meant)
    return used


def _own_vars(root: Expr | Query) -> Iterator[tree.Var]:
    return (node for node, level in walk_deep(root) if isinstance(node, tree.Var) and node.levelsup == level)


def without_useless_joins(query: Query, columns: Columns) -> Query:
    """`columns`: what those of joins and of merged subqueries stand for."""
    if not any(map(_has_outer_join, query.from_)):
        return query
    used = {varno for varno, _ in used_columns(frozen_replace(query, from_=tuple(map(_bare, query.from_))), columns)}

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
        return frozen_replace(item, left=kept(item.left), right=kept(item.right))

    return frozen_replace(query, from_=tuple(map(kept, query.from_)))


def _has_outer_join(item: RangeRef | Join) -> bool:
    if isinstance(item, RangeRef):
        return False
    return item.kind in (JoinType.LEFT, JoinType.RIGHT) or _has_outer_join(item.left) or _has_outer_join(item.right)


def _bare(item: RangeRef | Join) -> RangeRef | Join:
    """The joins without the conditions that `kept` comes to."""
    if isinstance(item, RangeRef) or item.kind is JoinType.FULL:
        return item
    return frozen_replace(item, left=_bare(item.left), right=_bare(item.right), quals=None)


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
    found_by = [key_equality for condition in conditions for key_equality in _sides(condition, columns)]
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
    both = equality_of(condition)
    if both is None or both.nulls:
        return
    for own, other in ((both.one, both.two), (both.two, both.one)):
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
