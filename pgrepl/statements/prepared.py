"""PREPARE, EXECUTE and DEALLOCATE (prepare.c). A prepared statement is kept as its raw parse tree, and analysed anew
when it is executed, with the parameters' values as constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.analyze import analyze_modifying, analyze_query
from pgrepl.expr.casts import Context as CastContext
from pgrepl.expr.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.context import Context
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.parameters import InferredParameters
from pgrepl.expr.query import analyze_subquery
from pgrepl.expr.scope import Scope
from pgrepl.expr.transform import transform
from pgrepl.expr.typenames import type_of_name
from pgrepl.expr.walk import location_of
from pgrepl.query.result import Result, ResultColumn
from pgrepl.sql.nodes import DeallocateStmt, ExecuteStmt, PrepareStmt, SelectStmt, Statement
from pgrepl.sql.scanner import parameter_numbers
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Parameter, Session

_CUSTOM_PLANS = 5  # choose_custom_plan: the executions of a statement with parameters that are planned for their values


@dataclass(slots=True)
class PreparedStatement:
    name: str
    text: str
    stmt: Statement
    types: tuple[int, ...]  # of the parameters
    columns: tuple[ResultColumn, ...] | None
    prepared_at: int  # microseconds since 2000
    executions: int = 0

    @property
    def plans(self) -> tuple[int, int]:
        """The generic and the custom plans that PostgreSQL would have made."""
        custom = min(self.executions, _CUSTOM_PLANS) if self.types else 0
        return self.executions - custom, custom


def prepare(stmt: PrepareStmt, session: Session) -> Result:
    """As PrepareQuery does."""
    if not stmt.name:
        raise PgError("26000", "invalid statement name: must not be empty")
    declared = [type_of_name(session, each)[0] for each in stmt.types]
    count = max(parameter_numbers(session.query), default=0)
    parameters = InferredParameters(declared, max(count, len(declared)))
    columns = _columns(session, stmt.query, parameters)
    parameters.check()
    types = tuple(parameters.types)
    if stmt.name in session.prepared:
        raise PgError("42P05", f'prepared statement "{stmt.name}" already exists')
    now = session.transaction.statement_now
    session.prepared[stmt.name] = PreparedStatement(stmt.name, session.query, stmt.query, types, columns, now)
    return Result("PREPARE")


def _columns(session: Session, stmt: Statement, parameters: InferredParameters) -> tuple[ResultColumn, ...] | None:
    """Analyse the statement, which tells the types of its parameters, and the columns that it returns."""
    session.parameters = parameters
    try:
        if isinstance(stmt, SelectStmt):
            listed = [(c.name, c.type, c.typmod) for c in analyze_query(session, stmt).columns]
        else:
            returning = analyze_modifying(session, stmt).returning
            listed = [(t.name, t.expr.type, t.expr.typmod) for t in returning]
            if not listed:
                return None
    finally:
        session.parameters = None
    return tuple([ResultColumn(name, *typefacts.base_and_typmod(typoid, typmod)) for name, typoid, typmod in listed])


def find_prepared(session: Session, name: str) -> PreparedStatement:
    found: PreparedStatement | None = session.prepared.get(name)
    if found is None:
        raise PgError("26000", f'prepared statement "{name}" does not exist')
    return found


def _bound(session: Session, stmt: ExecuteStmt) -> tuple[PreparedStatement, list[Parameter]]:
    """The statement that EXECUTE names, and the values of its parameters. A statement whose columns are others now is
    refused (RevalidateCachedQuery)."""
    found = find_prepared(session, stmt.name)
    values = _values(session, found, stmt)
    try:
        columns = _columns(session, found.stmt, InferredParameters(found.types, len(found.types)))
    except PgError as problem:
        problem.report = replace(problem.report, position=None)  # it is one of the prepared text
        raise
    if _shape(columns) != _shape(found.columns):
        raise PgError("0A000", "cached plan must not change result type")
    found.executions += 1
    return found, values


@contextmanager
def binding(session: Session, stmt: ExecuteStmt) -> Iterator[Statement]:
    """The statement that EXECUTE names, while the session knows the values of its parameters."""
    found, session.parameters = _bound(session, stmt)
    try:
        yield found.stmt
    finally:
        session.parameters = None


def _shape(columns: Sequence[ResultColumn] | None) -> list[tuple[str, int, int]] | None:
    return None if columns is None else [(c.name, c.type, c.typmod) for c in columns]


def _values(session: Session, found: PreparedStatement, stmt: ExecuteStmt) -> list[Parameter]:
    """As EvaluateParams does."""
    if len(stmt.args) != len(found.types):
        raise PgError(
            "42601",
            f'wrong number of parameters for prepared statement "{found.name}"',
            detail=f"Expected {len(found.types)} parameters but got {len(stmt.args)}.",
        )
    scope = Scope(session, analyze_subquery=analyze_subquery, variables=session.variables)
    style = TextStyle(lookup=session.text_style.lookup)
    values: list[Parameter] = []
    for number, (arg, expected) in enumerate(zip(stmt.args, found.types, strict=True), 1):
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
