"""Expressions and assignments of PL/pgSQL. Both are queries without the word SELECT."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.analyze import analyze_query
from pgrepl.expr.casts import Context
from pgrepl.expr.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.dml.assign import HINT, Parts
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import Scope
from pgrepl.expr.transform import transform
from pgrepl.expr.tree import Expr, Query, SubLink
from pgrepl.expr.walk import location_of, returns_set, walk
from pgrepl.sql.nodes import ColumnRef, ParamRef, PlAssign
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


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
        made = parts.into(target, stmt.name, False, (target.type, target.typmod, target.collation), steps, value)
    elif target.type != value.type and _is_row(target.type) and _is_row(value.type):
        made = value  # rows are converted column by column when the value is there
    else:
        made = _coerced(scope, stmt.name, target, value)
    made = assign_collations(made)
    return replace(query, targets=tuple(replace(t, expr=made) if t is shown[0] else t for t in query.targets))


def _is_row(typoid: int) -> bool:
    return typoid == oids.RECORD or typefacts.is_complex(typoid)


def _coerced(scope: Scope, name: str, target: Expr, value: Expr) -> Expr:
    made = coerce_to_target(scope, value, value.type, target.type, target.typmod, Context.PLPGSQL, IMPLICIT_CAST, -1)
    if made is not None:
        return made
    wanted, given = (typefacts.type_text(scope.session, typoid) for typoid in (target.type, value.type))
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
