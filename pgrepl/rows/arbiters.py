"""The unique indexes that ON CONFLICT (…) names: infer_arbiter_indexes."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.catalog.indexes import indexes
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import one
from pgrepl.catalog.tables import pg_constraint, pg_index
from pgrepl.errors import PgError
from pgrepl.expr.dml.plan import Conflict, Inference, Modify
from pgrepl.expr.folding import folded
from pgrepl.expr.stored import from_json
from pgrepl.expr.tree import BoolExpr, Expr, Var
from pgrepl.sql.nodes import BoolOp
from pgrepl.types.builtin import opclass_by_oid


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
    found = [
        index.indexrelid
        for index in indexes(session, relation(session, modify.relid).oid)
        if index.indisunique and index.indisvalid and _matches(session, index, conflict, columns)
    ]
    if not found:
        message = "there is no unique or exclusion constraint matching the ON CONFLICT specification"
        raise PgError("42P10", message)
    return frozenset(found)


def _folded(session: Session, conflict: Conflict) -> Conflict:
    """With constants for what is computed of constants and bound parameters, as indexes are compared."""
    elements = tuple([replace(each, expr=folded(session, each.expr)) for each in conflict.elements])
    where = conflict.arbiter_where
    return replace(conflict, elements=elements, arbiter_where=None if where is None else folded(session, where))


def _of_constraint(session: Session, conflict: Conflict) -> int:
    row = one(session, pg_constraint, oid=conflict.constraint)
    if row is None or not row.conindid or row.contype not in ("p", "u", "x"):
        raise PgError("42809", "constraint in ON CONFLICT clause has no associated index")
    if row.contype == "x" and conflict.assigned is not None:
        raise PgError("42809", "ON CONFLICT DO UPDATE not supported with exclusion constraints")
    return int(row.conindid)


def _matches(session: Session, index: pg_index, conflict: Conflict, columns: set[int]) -> bool:
    keys = list(index.indkey)[: index.indnkeyatts]
    if {key for key in keys if key} != columns:
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
    from pgrepl.rows.implication import implied

    return implied(_conjuncts(predicate), _conjuncts(given) if given is not None else [])


def _conjuncts(expr: Expr) -> list[Expr]:
    if isinstance(expr, BoolExpr) and expr.op is BoolOp.AND:
        return [part for arg in expr.args for part in _conjuncts(arg)]
    return [expr]
