"""What is planned about joins: the plans of their sides, and which conditions are equalities of the two."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Query
from pgrepl.expr.walk import calls_volatile, walk_deep
from pgrepl.instrument import counted
from pgrepl.query.local.env import Combination, Env
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.sql.nodes import BoolOp
from pgrepl.types.builtin import operator_by_oid


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
        found = equality_of(expr)
        self.sides = None if found is None else (relations_of(found.one), relations_of(found.two))

    def joins(self, left: frozenset[int], right: frozenset[int]) -> bool:
        if self.sides is None or not all(self.sides):
            return False
        one, two = self.sides
        return (one <= left and two <= right) or (one <= right and two <= left)


def equality(condition: Expr, left: frozenset[int], right: frozenset[int]) -> Equality | None:
    """The equality of an expression of the left and one of the right, if the condition is one."""
    found = equality_of(condition)
    if found is None:
        return None
    first, second = relations_of(found.one), relations_of(found.two)
    if not first or not second:
        return None
    if first <= left and second <= right:
        return found
    if first <= right and second <= left:
        return Equality(found.two, found.one, found.nulls)
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
