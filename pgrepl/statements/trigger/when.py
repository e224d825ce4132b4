"""The WHEN condition of a trigger: over OLD (varno 1) and NEW (varno 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.triggers import BEFORE, DELETE, INSERT, ROW
from pgrepl.errors import PgError
from pgrepl.expr.attmap import attnum_map
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.range_table import relation_rte
from pgrepl.expr.scope import Scope
from pgrepl.expr.transform import analyze_where
from pgrepl.expr.tree import Expr, Var
from pgrepl.expr.walk import map_attnums, walk

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session
    from pgrepl.sql import nodes

OLD, NEW = 1, 2


def analyze_when(session: Session, rel: Relation, raw: nodes.Expr, kind: int) -> Expr:
    """The condition, checked as CreateTriggerFiringOn does; `kind` is the trigger's tgtype."""
    scope = Scope(session)
    for name in ("old", "new"):
        scope.show(scope.add_rte(relation_rte(rel, name)))
    when = assign_collations(analyze_where(scope, raw, ExprKind.TRIGGER_WHEN, "WHEN"))
    for node in walk(when):
        if isinstance(node, Var):
            _check(rel, node, kind)
    return when


def _check(rel: Relation, var: Var, kind: int) -> None:
    where = var.location
    if not kind & ROW:
        raise PgError("42P17", "statement trigger's WHEN condition cannot reference column values", location=where)
    if var.varno == OLD:
        if kind & INSERT:
            raise PgError("42P17", "INSERT trigger's WHEN condition cannot reference OLD values", location=where)
        return
    if kind & DELETE:
        raise PgError("42P17", "DELETE trigger's WHEN condition cannot reference NEW values", location=where)
    if not kind & BEFORE:
        return
    if var.attnum < 0:
        message = "BEFORE trigger's WHEN condition cannot reference NEW system columns"
        raise PgError("0A000", message, location=where)
    message = "BEFORE trigger's WHEN condition cannot reference NEW generated columns"
    if var.attnum == 0 and any(column.generated for column in rel.columns):
        detail = "A whole-row reference is used and the table contains generated columns."
        raise PgError("42P17", message, detail=detail, location=where)
    if var.attnum > 0 and rel.attributes[var.attnum - 1].generated:
        detail = f'Column "{rel.attributes[var.attnum - 1].name}" is a generated column.'
        raise PgError("42P17", message, detail=detail, location=where)


def of_partition(when: Expr, parent: Relation, partition: Relation) -> Expr:
    """The condition over the rows of a partition (map_partition_varattnos)."""
    numbers = attnum_map(partition, parent)
    return map_attnums(map_attnums(when, numbers, OLD), numbers, NEW)
