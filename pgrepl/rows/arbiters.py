"""The unique indexes that ON CONFLICT (…) names (infer_arbiter_indexes), and whether conditions imply others
(predicate_implied_by).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.relation_parts import indexes
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.store import one
from pgrepl.catalog.store.tables import pg_constraint, pg_index
from pgrepl.expr.analyse.sorting import btree_meanings, family_member
from pgrepl.expr.catalog_trees import index_info
from pgrepl.expr.dml_tree import Conflict, Inference, Modify
from pgrepl.expr.evaluate.evaluate import evaluate
from pgrepl.expr.rewrite.folding import folded
from pgrepl.expr.stored import from_json
from pgrepl.expr.tree import BoolExpr, Const, Expr, NullTest, OpExpr, ScalarArrayOpExpr, Var
from pgrepl.expr.walk import contains_mutable_functions, walk
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import BoolOp, NullTestType
from pgrepl.types import oids
from pgrepl.types.builtin import opclass_by_oid, operator_by_oid, proc_by_oid

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
            operator = operator_by_oid(node.op)
            code = proc_by_oid(operator.code) if operator is not None else None
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


def arbiter_indexes(session: Session, modify: Modify, conflict: Conflict) -> frozenset[int]:
    """The OIDs of the arbiter indexes. Empty: any unique index will do."""
    if conflict.constraint:
        return frozenset([_of_constraint(session, conflict)])
    if not conflict.elements:
        return frozenset()
    conflict = _folded(session, conflict)
    columns: set[int] = set()
    for element in conflict.elements:
        if isinstance(element.expr, Var):
            if element.expr.attnum == 0:
                message = "whole row unique index inference specifications are not supported"
                raise PgError("0A000", message)
            columns.add(element.expr.attnum)
    arbiters = [
        index.indexrelid
        for index in indexes(session, relation(session, modify.relid).oid)
        if index.indisunique and index.indisvalid and _matches(session, index, conflict, columns)
    ]
    if not arbiters:
        message = "there is no unique or exclusion constraint matching the ON CONFLICT specification"
        raise PgError("42P10", message)
    return frozenset(arbiters)


def _folded(session: Session, conflict: Conflict) -> Conflict:
    """With constants for what is computed of constants and bound parameters, as indexes are compared."""
    elements = tuple([replace(element, expr=folded(session, element.expr)) for element in conflict.elements])
    where = conflict.arbiter_where
    return replace(conflict, elements=elements, arbiter_where=None if where is None else folded(session, where))


def _of_constraint(session: Session, conflict: Conflict) -> int:
    row = one(session, pg_constraint, oid=conflict.constraint)
    if row is None or not row.conindid or row.contype not in ("p", "u", "x"):
        raise PgError("42809", "constraint in ON CONFLICT clause has no associated index")
    if (row.contype == "x" or row.conperiod) and conflict.assigned is not None:
        raise PgError("42809", "ON CONFLICT DO UPDATE not supported with exclusion constraints")
    return int(row.conindid)


def _matches(session: Session, index: pg_index, conflict: Conflict, columns: set[int]) -> bool:
    keys = list(index.indkey)[: index.indnkeyatts]
    if {key for key in keys if key} != columns or index_info(session, index.indexrelid).is_temporal:
        return False
    exprs: list[Expr] = [folded(session, from_json(e, session)) for e in index.indexprs or ()]
    for element in conflict.elements:
        if not _same_comparison(index, keys, exprs, element):
            return False
        if not isinstance(element.expr, Var) and element.expr not in exprs:
            return False
    named = [e.expr for e in conflict.elements if not isinstance(e.expr, Var)]
    if any(expr not in named for expr in exprs):
        return False
    if index.indpred is None:
        return True
    return implies(conflict.arbiter_where, folded(session, from_json(index.indpred, session)))


def _same_comparison(index: pg_index, keys: list[int], exprs: list[Expr], element: Inference) -> bool:
    """Whether an index column that is the element has the collation and operator class written there
    (infer_collation_opclass_match)."""
    if not element.collation and not element.opclass:
        return True
    seen = 0
    for number, key in enumerate(keys):
        expr = None
        if not key:
            expr = exprs[seen]
            seen += 1
        own, asked = opclass_by_oid(index.indclass[number]), opclass_by_oid(element.opclass)
        if element.opclass and (own is None or asked is None or own.family != asked.family):
            continue
        if element.collation and index.indcollation[number] != element.collation:
            continue
        if isinstance(element.expr, Var) and key == element.expr.attnum:
            return True
        if expr is not None and expr == element.expr:
            return True
    return False


def implies(given: Expr | None, predicate: Expr) -> bool:
    """Whether the written WHERE has every conjunct of the index's predicate (predicate_implied_by)."""
    return implied(_conjuncts(predicate), _conjuncts(given) if given is not None else [])


def _conjuncts(expr: Expr) -> list[Expr]:
    if isinstance(expr, BoolExpr) and expr.op is BoolOp.AND:
        return [part for arg in expr.args for part in _conjuncts(arg)]
    return [expr]
