"""ON CONFLICT (transformOnConflictClause, transformOnConflictArbiter)."""

from __future__ import annotations

from pgrepl.catalog.relation import Relation
from pgrepl.catalog.store import rows
from pgrepl.catalog.tables import pg_constraint
from pgrepl.errors import PgError
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.dml.plan import Conflict, Inference
from pgrepl.expr.dml.update import SetClause
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.range_table import relation_rte
from pgrepl.expr.scope import NsItem, Scope
from pgrepl.expr.transform import analyze_where, transform
from pgrepl.expr.tree import Expr
from pgrepl.expr.typenames import comparing_collation
from pgrepl.expr.walk import location_of
from pgrepl.sql.nodes import ColumnRef, IndexElem, NullsOrder, OnConflictClause, SortDir
from pgrepl.types.builtin import access_method_by_name, opclasses


def transform_on_conflict(scope: Scope, clause: OnConflictClause, relation: Relation) -> Conflict:
    excluded: NsItem | None = None
    if not clause.do_nothing:
        excluded = scope.add_rte(relation_rte(relation, "excluded"))
    elements, where, constraint, columns = _arbiter(scope, clause, relation)
    if excluded is None:
        return Conflict(elements, where, constraint, constraint_columns=columns)
    scope.show(excluded)
    settled = SetClause(scope, relation)
    values = settled.read(clause.targets)
    condition = None
    if clause.where is not None:
        condition = assign_collations(analyze_where(scope, clause.where, ExprKind.WHERE, "WHERE"))
    scope.namespace.remove(excluded)
    return Conflict(elements, where, constraint, values, condition, excluded.varno, tuple(settled.multi), columns)


def _arbiter(
    scope: Scope, clause: OnConflictClause, relation: Relation
) -> tuple[tuple[Inference, ...], Expr | None, int, frozenset[int]]:
    elements = [e for e in clause.elements if isinstance(e, IndexElem)]
    if not clause.do_nothing and not elements and clause.constraint is None:
        raise PgError(
            "42601",
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            hint="For example, ON CONFLICT (column_name).",
            location=clause.location,
        )
    if relation.is_catalog:
        message = "ON CONFLICT is not supported with system catalog tables"
        raise PgError("0A000", message, location=clause.location)
    inferred = tuple(_inference(scope, element, clause.target_location) for element in elements)
    where = None
    if clause.where_index is not None:
        where = assign_collations(transform(scope, clause.where_index, ExprKind.INDEX_PREDICATE))
    if clause.constraint is None:
        return inferred, where, 0, frozenset()
    found = next(iter(rows(scope.session, pg_constraint, conrelid=relation.oid, conname=clause.constraint)), None)
    if found is None:
        message = f'constraint "{clause.constraint}" for table "{relation.name}" does not exist'
        raise PgError("42704", message)
    return inferred, where, found.oid, frozenset(found.conkey or ())


def _inference(scope: Scope, element: IndexElem, location: int) -> Inference:
    """As resolve_unique_index_expr does."""
    if element.dir is not SortDir.DEFAULT:
        raise PgError("42P10", "ASC/DESC is not allowed in ON CONFLICT clause", location=location)
    if element.nulls is not NullsOrder.DEFAULT:
        raise PgError("42P10", "NULLS FIRST/LAST is not allowed in ON CONFLICT clause", location=location)
    node = element.expr
    if node is None:
        assert element.name is not None
        node = ColumnRef((element.name,), location)
    expr = transform(scope, node, ExprKind.INDEX_EXPRESSION)
    collation = opclass = 0
    if element.collation:
        collation = comparing_collation(scope.session, element.collation, location_of(expr))
    if element.opclass:
        opclass = _btree_opclass(element.opclass)
    return Inference(assign_collations(expr), collation, opclass)


def _btree_opclass(names: tuple[str, ...]) -> int:
    btree = access_method_by_name("btree")
    for opclass in opclasses:
        if btree is not None and opclass.method == btree.oid and opclass.name == names[-1]:
            return opclass.oid
    raise PgError("42704", f'operator class "{".".join(names)}" does not exist for access method "btree"')
