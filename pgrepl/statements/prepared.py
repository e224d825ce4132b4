"""PREPARE, EXECUTE and DEALLOCATE (prepare.c)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.casts import Context as CastContext
from pgrepl.expr.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.context import Context
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.lookup import existing_type
from pgrepl.expr.parameters import InferredParameters
from pgrepl.expr.query import analyze_subquery
from pgrepl.expr.scope import Scope
from pgrepl.expr.transform import transform
from pgrepl.expr.typenames import type_of_name
from pgrepl.expr.walk import location_of
from pgrepl.query.result import Result
from pgrepl.sql.nodes import DeallocateStmt, ExecuteStmt, PrepareStmt, Statement
from pgrepl.sql.scanner import parameter_count
from pgrepl.statements.plan_cache import (
    PreparedStatement,
    analyze,
    bound,
    find_prepared,
    keep_prepared,
    revalidate,
)
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Parameter, Session


def prepare(stmt: PrepareStmt, session: Session) -> Result:
    """As PrepareQuery does."""
    if not stmt.name:
        raise PgError("26000", "invalid statement name: must not be empty")
    declared = [type_of_name(session, each)[0] for each in stmt.types]
    count = parameter_count(session.query)
    now = session.transaction.statement_now
    prepared = PreparedStatement(stmt.name, session.query, stmt.query, now, from_sql=True)
    analyze(session, prepared, InferredParameters(declared, max(count, len(declared))))
    keep_prepared(session, prepared)
    return Result("PREPARE")


@contextmanager
def binding(session: Session, stmt: ExecuteStmt) -> Iterator[Statement]:
    """The statement that EXECUTE names, while the session knows the values of its parameters."""
    found = find_prepared(session, stmt.name)
    values = _values(session, found, stmt)
    try:
        revalidate(session, found)
    except PgError as problem:
        problem.report = replace(problem.report, position=None)  # it is one of the prepared text
        raise
    with bound(session, found, values) as meant:
        yield meant


def _values(session: Session, found: PreparedStatement, stmt: ExecuteStmt) -> list[Parameter]:
    """As EvaluateParams does; the arguments of a statement without parameters are not looked at."""
    if not found.types:
        return []
    if len(stmt.args) != len(found.types):
        raise PgError(
            "42601",
            f'wrong number of parameters for prepared statement "{found.name}"',
            detail=f"Expected {len(found.types)} parameters but got {len(stmt.args)}.",
        )
    scope = Scope(session, analyze_subquery=analyze_subquery, variables=session.variables)
    style = TextStyle(lookup=session.text_style.lookup)
    values: list[Parameter] = []
    for number, (arg, typoid) in enumerate(zip(stmt.args, found.types, strict=True), 1):
        expected = existing_type(session, typoid)
        expr = transform(scope, arg, ExprKind.EXECUTE_PARAMETER)
        given = expr.type
        cast = coerce_to_target(scope, expr, given, expected, -1, CastContext.ASSIGNMENT, IMPLICIT_CAST, -1)
        if cast is None:
            raise PgError(
                "42804",
                f"parameter ${number} of type {typefacts.type_text(session, given)} cannot be coerced to the expected"
                f" type {typefacts.type_text(session, expected)}",
                hint="You will need to rewrite or cast the expression.",
                location=location_of(expr),
            )
        value = evaluate(assign_collations(cast), (), Context(session))
        values.append((expected, None if value is None else write_text(value, expected, style)))
    return values


def deallocate(stmt: DeallocateStmt, session: Session) -> Result:
    if stmt.name is None:
        session.prepared.clear()
        return Result("DEALLOCATE ALL")
    find_prepared(session, stmt.name)
    del session.prepared[stmt.name]
    return Result("DEALLOCATE")
