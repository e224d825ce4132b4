"""A statement's parameters and columns, without running it: what Parse and Describe answer in PostgreSQL's protocol.

    >>> prepare(session, "SELECT oid, $1::date FROM pg_class WHERE relname = $2", ())
    Described(types=(1082, 19), columns=(oid oid, date date), tag='SELECT', ends_block=False)

`\\gdesc` shows the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.context import Block
from pgrepl.catalog.transaction import aborted, reading
from pgrepl.errors import PgError
from pgrepl.expr.parameters import InferredParameters
from pgrepl.expr.typefacts import base_and_typmod
from pgrepl.frozen import frozen
from pgrepl.query.result import ResultColumn
from pgrepl.sql.nodes import (
    DeleteStmt,
    ExecuteStmt,
    ExplainStmt,
    FetchStmt,
    InsertStmt,
    MergeStmt,
    SelectStmt,
    Statement,
    TransactionStmt,
    UpdateStmt,
    VariableShowStmt,
)
from pgrepl.sql.parser import parse
from pgrepl.sql.scanner import parameter_numbers
from pgrepl.sql.tags import command_tag
from pgrepl.statements.utility import execute

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_EXITS = ("COMMIT", "ROLLBACK", "ROLLBACK_TO", "PREPARE")


@frozen
class Described:
    """What is known of a statement before it runs."""

    types: tuple[int, ...]  # of its parameters
    columns: tuple[ResultColumn, ...] | None  # None: it returns no rows
    tag: str | None  # None: there is no statement
    ends_block: bool  # may it run in an aborted transaction, which it ends?


def prepare(session: Session, text: str, given: Sequence[int] = ()) -> Described:
    """`given`: the types of parameters, 0 for one that follows from the statement."""
    session.query = text
    try:
        statements = parse(text, session.report, session.settings.string_rules)
        if len(statements) > 1:
            raise PgError("42601", "cannot insert multiple commands into a prepared statement")
        if not statements:
            return Described(tuple(given), None, None, False)
        stmt = statements[0].stmt
        ends = isinstance(stmt, TransactionStmt) and stmt.kind.name in _EXITS
        if session.transaction.block is Block.ABORTED and not ends:
            raise aborted()
        parameters = InferredParameters(given, max(parameter_numbers(text), default=len(given)))
        columns = None if ends else _analyzed(session, stmt, parameters)
    except PgError:
        session.transaction.fail_statement()
        raise
    return Described(tuple(parameters.types), columns, command_tag(stmt), ends)


def _analyzed(session: Session, stmt: Statement, parameters: InferredParameters) -> tuple[ResultColumn, ...] | None:
    session.parameters = parameters
    try:
        with reading(session):
            columns = _columns(session, stmt)
        parameters.check()
        return columns
    finally:
        session.parameters = None


def _columns(session: Session, stmt: Statement) -> tuple[ResultColumn, ...] | None:
    if isinstance(stmt, SelectStmt):
        from pgrepl.expr.analyze import analyze_query

        found = analyze_query(session, stmt).columns
        return None if stmt.into is not None else _results([(c.name, c.type, c.typmod) for c in found])
    if isinstance(stmt, (InsertStmt, UpdateStmt, DeleteStmt, MergeStmt)):
        from pgrepl.expr.analyze import analyze_modifying

        returning = analyze_modifying(session, stmt).returning
        return _results([(t.name, t.expr.type, t.expr.typmod) for t in returning]) if returning else None
    if isinstance(stmt, VariableShowStmt):
        # SHOW changes nothing, and its columns depend on the parameter.
        return execute(stmt, session).columns
    if isinstance(stmt, ExecuteStmt):
        from pgrepl.statements.prepared import find_prepared

        return find_prepared(session, stmt.name).columns
    if isinstance(stmt, FetchStmt) and not stmt.moves:
        from pgrepl.query.portal import find_portal
        from pgrepl.statements.cursor import fetched_columns

        return fetched_columns(find_portal(session, stmt.name))
    if isinstance(stmt, ExplainStmt):
        from pgrepl.statements.explain import described_column

        return (described_column(session, stmt),)
    return None


def _results(columns: Sequence[tuple[str, int, int]]) -> tuple[ResultColumn, ...]:
    return tuple([ResultColumn(name, *base_and_typmod(typoid, typmod)) for name, typoid, typmod in columns])
