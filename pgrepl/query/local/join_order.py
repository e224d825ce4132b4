"""The order in which the relations of a query over system catalogs are joined: the fewest rows first.

A number of rows is an estimate as PostgreSQL's without statistics: of each catalog a usual size, of each condition the
share of the rows that pass. `column = value` leaves one row of each different value (eqsel), a join of two columns one
of each pair (eqjoinsel). A query over tables keeps the order of FROM, in which its rows are expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Rte, RteKind
from pgrepl.expr.walk import has_vars
from pgrepl.query.local.join_plan import Condition, JoinPlan, equality
from pgrepl.types import oids
from pgrepl.types.builtin import operator_by_oid

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
            found = 1 / max([_different(arg, rtable) for arg in condition.args if has_vars(arg)], default=1)
            return min(1, found * 4) if isinstance(condition, tree.ScalarArrayOpExpr) else found
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
