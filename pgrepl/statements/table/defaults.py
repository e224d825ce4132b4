"""Column defaults and generation expressions: from text to typed tree, into pg_attrdef and out of it."""

from __future__ import annotations

from typing import Any

from pgrepl.catalog import store
from pgrepl.catalog.classes import PG_ATTRDEF, PG_CLASS, ObjectAddress
from pgrepl.catalog.depend import Dependency, record_dependency
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_attrdef, pg_attribute
from pgrepl.errors import PgError
from pgrepl.expr import stored, typefacts
from pgrepl.expr.analyze import transform
from pgrepl.expr.casts import Context
from pgrepl.expr.coerce import coerce_to_target
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.inline import is_immutable
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import Scope, scope_of_relation
from pgrepl.expr.tree import Const, Expr, Var
from pgrepl.expr.walk import walk
from pgrepl.sql import nodes
from pgrepl.sql.nodes import CoercionForm
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.dependencies import record_expression_dependencies


def cook_default(
    session: Session, relation: Relation, raw: nodes.Expr, name: str, type_: int, typmod: int, generated: str
) -> Expr | None:
    """A default as it will be stored, of the column's type; None if it is just NULL. As cookDefault does."""
    scope = scope_of_relation(session, relation)
    expr = transform(scope, raw, ExprKind.GENERATED if generated else ExprKind.DEFAULT)
    if generated:
        _refuse_generated_references(relation, expr)
        if not is_immutable(session, expr):
            raise PgError("42P17", "generation expression is not immutable")
    typed = assign_collations(coerce_default(session, scope, expr, name, type_, typmod))
    if not generated and isinstance(typed, Const) and typed.value is None:
        return None
    return typed


def coerce_default(session: Session, scope: Scope, expr: Expr, name: str, type_: int, typmod: int) -> Expr:
    typed = coerce_to_target(scope, expr, expr.type, type_, typmod, Context.ASSIGNMENT, CoercionForm.IMPLICIT_CAST, -1)
    if typed is None:
        wanted, given = typefacts.type_text(session, type_), typefacts.type_text(session, expr.type)
        raise PgError(
            "42804",
            f'column "{name}" is of type {wanted} but default expression is of type {given}',
            hint="You will need to rewrite or cast the expression.",
        )
    return typed


def _refuse_generated_references(relation: Relation, expr: Expr) -> None:
    """A generated column is computed from ordinary columns only, as check_nested_generated requires."""
    for node in walk(expr):
        if not isinstance(node, Var):
            continue
        if node.attnum == 0:
            raise PgError(
                "42P17",
                "cannot use whole-row variable in column generation expression",
                detail="This would cause the generated column to depend on its own value.",
                location=node.location,
            )
        attribute = relation.attribute_by_number(node.attnum)
        if attribute is not None and attribute.generated:
            raise PgError(
                "42P17",
                f'cannot use generated column "{attribute.name}" in column generation expression',
                detail="A generated column cannot reference another generated column.",
                location=node.location,
            )


def default_values(session: Session, relid: int, attnum: int, expr: Expr) -> dict[str, Any]:
    """The pg_attrdef row of a default."""
    return {"oid": store.new_oid(session), "adrelid": relid, "adnum": attnum, "adbin": stored.to_json(expr)}


def record_default_dependencies(
    session: Session, oid: int, relid: int, attnum: int, expr: Expr, generated: str
) -> None:
    self = ObjectAddress(PG_ATTRDEF, oid)
    column = ObjectAddress(PG_CLASS, relid, attnum)
    record_dependency(session, self, column, Dependency.INTERNAL if generated else Dependency.AUTO)
    record_expression_dependencies(session, self, expr, relid)


def store_default(session: Session, relid: int, attnum: int, expr: Expr, generated: str) -> None:
    """Give an existing column a default, as StoreAttrDefault does."""
    values = default_values(session, relid, attnum, expr)
    store.insert(session, pg_attrdef, **values)
    store.update(session, pg_attribute, {"attrelid": relid, "attnum": attnum}, atthasdef=True)
    record_default_dependencies(session, values["oid"], relid, attnum, expr, generated)


def remove_default(session: Session, relid: int, attnum: int) -> None:
    """As RemoveAttrDefault does; nothing happens when there is none."""
    row = store.one(session, pg_attrdef, adrelid=relid, adnum=attnum)
    if row is not None:
        drop_objects(session, [ObjectAddress(PG_ATTRDEF, row.oid)], cascade=False)
