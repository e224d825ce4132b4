"""Expressions and assignments of PL/pgSQL, which are queries without SELECT; and analysed trees of statements that run
again.

A tree is kept while only types of users have changed: in it types and labels are OIDs, whatever their names
(plancache.c).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.namespace import collation_row, operator_row, routine_row
from pgrepl.catalog.facts.relation import relation_or_none
from pgrepl.catalog.facts.user_types import type_row, user_types
from pgrepl.catalog.store.system import PG_CLASS, PG_COLLATION, PG_OPERATOR, PG_PROC, PG_TYPE, ObjectAddress
from pgrepl.expr import stored
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.analyse.casts import Context
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.queries.update import HINT, Parts
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.transform import transform
from pgrepl.expr.catalog_trees import objects_of
from pgrepl.expr.dml_tree import query_of, with_literals
from pgrepl.expr.tree import Expr, Query, SubLink, has_modifying_cte
from pgrepl.expr.walk import location_of, returns_set, walk, walk_deep
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes import ColumnRef, ParamRef, PlAssign
from pgrepl.types import oids
from pgrepl.types.user_types import UserType

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.dml_tree import Modify
    from pgrepl.types.user_types import UserTypes


def analyze_assignment(session: Session, stmt: PlAssign, names: int) -> Query:
    """The query whose only column is the new value of the variable, or of the record's field, that the first `names`
    words of the target mean (transformPLAssignStmt)."""
    scope = Scope(session, variables=session.variables)
    words = [stmt.name, *(str(part) for part in stmt.indirection[: names - 1])]
    steps = stmt.indirection[names - 1 :]
    reference = ParamRef(int(stmt.name[1:])) if stmt.name.startswith("$") else ColumnRef(tuple(words), stmt.location)
    target = transform(scope, reference, ExprKind.UPDATE_SOURCE)
    query = analyze_query(session, stmt.query, resolve_unknown=False)
    shown = [t for t in query.targets if not t.junk]
    if len(shown) != 1:
        raise PgError("42601", f"assignment source returned {len(shown)} column{'s' * (len(shown) != 1)}")
    value = shown[0].expr
    if steps:
        parts = Parts(scope, location_of(target), Context.PLPGSQL)
        assigned = parts.into(target, stmt.name, False, (target.type, target.typmod, target.collation), steps, value)
    elif target.type != value.type and _is_row(target.type) and _is_row(value.type):
        assigned = value  # rows are converted column by column when the value is there
    else:
        assigned = _coerced(scope, stmt.name, target, value)
    assigned = assign_collations(assigned)
    return replace(query, targets=tuple(replace(t, expr=assigned) if t is shown[0] else t for t in query.targets))


def _is_row(typoid: int) -> bool:
    return typoid == oids.RECORD or lookup.is_complex(typoid)


def _coerced(scope: Scope, name: str, target: Expr, value: Expr) -> Expr:
    cast = coerce_to_target(scope, value, value.type, target.type, target.typmod, Context.PLPGSQL, IMPLICIT_CAST, -1)
    if cast is not None:
        return cast
    wanted, given = (lookup.type_text(scope.session, typoid) for typoid in (target.type, value.type))
    message = f'variable "{name}" is of type {wanted} but expression is of type {given}'
    raise PgError("42804", message, hint=HINT, location=location_of(value))


def plain_expression(query: Query) -> Expr | None:
    """The expression of a query that is no more than one (exec_simple_check_plan); None: it is more."""
    if (
        query.rtable
        or query.from_
        or query.ctes
        or query.set_operation is not None
        or query.where is not None
        or query.having is not None
        or query.group
        or query.has_aggregates
        or query.windows
        or query.distinct is not None
        or query.sort
        or query.limit is not None
        or query.offset is not None
        or query.row_marks
        or len(query.targets) != 1
    ):
        return None
    expr = query.targets[0].expr
    if returns_set(expr) or any(isinstance(node, SubLink) for node in walk(expr)):
        return None
    return expr


# --- meaning ----------------------------------------------------------------------------------------------------------


@frozen
class Meaning:
    """The analysed tree of a statement, in which parameters are variables."""

    tree: Query | Modify
    types: UserTypes
    named: dict[ObjectAddress, str]  # what it names, as it was then
    is_all: bool = False  # the raw tree would not give it any more


def names_types_of_users(session: Session, tree: Query | Modify) -> bool:
    """Whether the statement may mean something else by the names of types and labels, and can be kept."""
    if not user_types(session).data:
        return False
    query = tree if isinstance(tree, Query) else query_of(tree)
    if query.row_marks or has_modifying_cte(query.ctes):
        return False
    return any(isinstance(expr.type, UserType) for expr, _ in walk_deep(query))


def meaning_of(session: Session, tree: Query | Modify) -> Meaning:
    query = tree if isinstance(tree, Query) else query_of(tree)
    named = _named(session, objects_of(session, [query]))
    return Meaning(tree if isinstance(tree, Query) else with_literals(tree), user_types(session), named)


def going_on(session: Session, meaning: Meaning | None) -> Meaning | None:
    """The meaning as things are now, if types of users have changed, but nothing else that the statement names."""
    types = user_types(session)
    if meaning is None or not (meaning.is_all or types.data != meaning.types.data):
        return None
    if _named(session, meaning.named) != meaning.named:
        return None
    tree = stored.from_json(stored.to_json(meaning.tree), session)
    return replace(meaning, tree=tree, types=types, is_all=True)


def _named(session: Session, objects: Iterable[ObjectAddress]) -> dict[ObjectAddress, str]:
    """The names of a statement's objects, in words that do not depend on what types of users mean."""
    return {address: _state(session, address) for address in objects}


def _state(session: Session, address: ObjectAddress) -> str:
    if address.classid == PG_CLASS:
        rel = relation_or_none(session, address.objid)
        return "" if rel is None else rel.kind if rel.kind == "c" else repr(rel)
    if address.classid == PG_PROC:
        return repr(routine_row(session, address.objid))
    if address.classid == PG_OPERATOR:
        return repr(operator_row(session, address.objid))
    if address.classid == PG_COLLATION:
        return repr(collation_row(session, address.objid))
    row = type_row(session, address.objid) if address.classid == PG_TYPE else None
    return "" if row is None else row.typtype
