"""Whether conditions imply others: the WHERE of ON CONFLICT the predicate of a partial index (predicate_implied_by, as
far as such predicates go)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.opclasses import btree_meanings, family_member
from pgrepl.expr.tree import BoolExpr, Const, Expr, NullTest, OpExpr, ScalarArrayOpExpr, Var
from pgrepl.expr.walk import contains_mutable_functions, walk
from pgrepl.sql.nodes import BoolOp, NullTestType
from pgrepl.types import oids
from pgrepl.types.builtin import operator_by_oid, proc_by_oid

# a comparison with one constant makes another one hold if the constants compare so (BT_implies_table)
_TESTS = {
    ("<", "<"): ">=", ("<", "<="): ">=", ("<", "<>"): ">=",
    ("<=", "<"): ">", ("<=", "<="): ">=", ("<=", "<>"): ">",
    ("=", "<"): ">", ("=", "<="): ">=", ("=", "="): "=", ("=", ">="): "<=", ("=", ">"): "<", ("=", "<>"): "<>",
    (">=", ">="): "<=", (">=", ">"): "<", (">=", "<>"): "<",
    (">", ">="): "<=", (">", ">"): "<=", (">", "<>"): "<=",
    ("<>", "<>"): "=",
}  # fmt: skip
_MOST_ITEMS = 100  # of an array that is looked at one by one (MAX_SAOP_ARRAY_SIZE)
_STRATEGIES = {"<": 1, "<=": 2, "=": 3, ">=": 4, ">": 5}


def implied(predicate: Sequence[Expr], given: Sequence[Expr]) -> bool:
    return all(any(_implies(one, wanted) for one in given) for wanted in predicate)


def _implies(given: Expr, wanted: Expr) -> bool:
    if given == wanted:
        return True
    given, wanted = _spread(given), _spread(wanted)
    if isinstance(given, BoolExpr) and given.op is BoolOp.OR:
        return all(_implies(arm, wanted) for arm in given.args)
    if isinstance(given, BoolExpr) and given.op is BoolOp.AND:
        return any(_implies(part, wanted) for part in given.args)
    if isinstance(wanted, BoolExpr) and wanted.op is BoolOp.OR:
        return any(_implies(given, arm) for arm in wanted.args)
    if isinstance(wanted, BoolExpr) and wanted.op is BoolOp.AND:
        return all(_implies(given, part) for part in wanted.args)
    if isinstance(wanted, NullTest) and wanted.kind is NullTestType.IS_NOT_NULL and not wanted.argisrow:
        return wanted.arg is not None and _is_false_for_null(given, wanted.arg)
    return isinstance(given, OpExpr) and isinstance(wanted, OpExpr) and _compares_further(given, wanted)


def _spread(expr: Expr) -> Expr:
    """x IN (1, 2) as x = 1 OR x = 2 (predicate_classify)."""
    if not isinstance(expr, ScalarArrayOpExpr):
        return expr
    left, items = expr.args
    if not isinstance(items, Const) or items.value is None or len(items.value.items) > _MOST_ITEMS:
        return expr
    element = items.value.elemtype
    arms = [
        OpExpr(
            oids.BOOL,
            op=expr.op,
            args=(left, Const(element, collation=items.collation, value=item)),
            input_collation=expr.input_collation,
        )
        for item in items.value.items
    ]
    return BoolExpr(oids.BOOL, op=BoolOp.OR if expr.use_or else BoolOp.AND, args=tuple(arms))


def _is_false_for_null(expr: Expr, part: Expr) -> bool:
    """Whether the expression is a strict operator over the part (clause_is_strict_for)."""
    if not isinstance(expr, OpExpr) or not any(node == part for node in walk(expr)):
        return False
    for node in walk(expr):
        if isinstance(node, OpExpr):
            found = operator_by_oid(node.op)
            code = proc_by_oid(found.code) if found is not None else None
            if code is None or not code.strict:
                return False
        elif not isinstance(node, (Var, Const)):
            return False
    return True


def _compares_further(given: OpExpr, wanted: OpExpr) -> bool:
    """x > 5 implies x > 3 (operator_predicate_proof)."""
    if len(given.args) != 2 or len(wanted.args) != 2 or given.args[0] != wanted.args[0]:
        return False
    one, other = given.args[1], wanted.args[1]
    if not isinstance(one, Const) or not isinstance(other, Const) or None in (one.value, other.value):
        return False
    known: dict[int, str] = dict(btree_meanings(wanted.op))
    for family, meaning in btree_meanings(given.op):
        test = _TESTS.get((meaning, known.get(family, "")))
        if test is not None:
            return _holds(family, test, other, one) is True
    return False


def _holds(family: int, test: str, left: Const, right: Const) -> Any:
    """`wanted's constant` test `given's constant`."""
    negated = test == "<>"
    op = family_member(family, left.type, right.type, _STRATEGIES["=" if negated else test])
    if not op:
        return None
    comparison = OpExpr(oids.BOOL, op=op, args=(left, right), input_collation=left.collation)
    if contains_mutable_functions(comparison):  # its answer depends on TimeZone
        return None
    answer = evaluate(comparison)
    return not answer if negated else answer
