"""A statement's parameters and columns, without running it: what Parse and Describe answer in PostgreSQL's protocol.

    >>> found = prepare(session, "SELECT oid, $1::date FROM pg_class WHERE relname = $2", ())
    >>> found.types, found.columns, found.tag
    ((1082, 19), (oid oid, date date), 'SELECT')

`\\gdesc` shows the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.session.context import Block
from pgrepl.catalog.session.transaction import aborted, reading
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.analyse.kinds import InferredParameters
from pgrepl.ground.errors import PgError
from pgrepl.query.result import ResultColumn
from pgrepl.sql.nodes import (
    CallStmt,
    CreateTableAsStmt,
    DeclareCursorStmt,
    DeleteStmt,
    ExecuteStmt,
    ExplainStmt,
    FetchStmt,
    InsertStmt,
    MergeStmt,
    SelectStmt,
    Statement,
    UpdateStmt,
    VariableShowStmt,
)
from pgrepl.sql.parser import parse
from pgrepl.sql.scanner import parameter_count
from pgrepl.statements.explain import described_column
from pgrepl.statements.prepared import PreparedStatement, analyze, find_prepared, revalidate
from pgrepl.statements.routine.call import prepare_call
from pgrepl.statements.transaction import fetched_columns
from pgrepl.statements.utility import execute

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

# in these PostgreSQL's analysis knows parameters (stmt_requires_parse_analysis)
_WITH_PARAMETERS = (
    CallStmt, CreateTableAsStmt, DeclareCursorStmt, DeleteStmt, ExplainStmt, InsertStmt, MergeStmt, SelectStmt,
    UpdateStmt,
)  # fmt: skip


def prepare(session: Session, text: str, given: Sequence[int] = (), name: str = "") -> PreparedStatement:
    """`given`: the types of parameters, 0 for one that follows from the statement."""
    session.query = text
    try:
        statements = parse(text, session.report, session.settings.string_rules)
        if len(statements) > 1:
            raise PgError("42601", "cannot insert multiple commands into a prepared statement")
        stmt = statements[0].stmt if statements else None
        prepared = PreparedStatement(name, text, stmt, 0, from_sql=False, types=tuple(given))
        if stmt is None:
            return prepared
        if session.transaction.block is Block.ABORTED and not prepared.ends_block:
            raise aborted()
        count = parameter_count(text) if isinstance(stmt, _WITH_PARAMETERS) else 0
        if prepared.ends_block:
            InferredParameters(given, len(given)).check()
            return prepared
        with reading(session):
            prepared.prepared_at = session.transaction.statement_now
            types = [session.type_of(typoid) for typoid in given]
            parameters = InferredParameters(types, max(count, len(types)))
            _analyze(session, prepared, stmt, parameters)
        prepared.types = tuple(map(int, parameters.types))
    except PgError:
        session.transaction.fail_statement()
        raise
    return prepared


def _analyze(session: Session, prepared: PreparedStatement, stmt: Statement, parameters: InferredParameters) -> None:
    if prepared.is_analyzed:
        analyze(session, prepared, parameters)
        return
    session.parameters = parameters
    try:
        prepared.columns = _columns(session, stmt)
    finally:
        session.parameters = None
    parameters.check()


def _columns(session: Session, stmt: Statement) -> tuple[ResultColumn, ...] | None:
    """The columns of a utility statement's rows (UtilityTupleDescriptor)."""
    if isinstance(stmt, (CreateTableAsStmt, DeclareCursorStmt)):
        stmt = stmt.query
        if isinstance(stmt, ExecuteStmt):
            return None
    if isinstance(stmt, SelectStmt):  # of SELECT INTO, CREATE TABLE AS or DECLARE
        analyze_query(session, replace(stmt, into=None))
        return None
    if isinstance(stmt, CallStmt):
        return prepare_call(session, stmt).columns or None
    if isinstance(stmt, VariableShowStmt):
        # SHOW changes nothing, and its columns depend on the parameter.
        return execute(stmt, session).columns
    if isinstance(stmt, ExecuteStmt):
        return find_prepared(session, stmt.name).columns if stmt.name in session.prepared else None
    if isinstance(stmt, FetchStmt) and not stmt.moves:
        portal = session.transaction.portals.get(stmt.name)
        return fetched_columns(session, portal) if portal is not None and portal.returns_rows else None
    if isinstance(stmt, ExplainStmt):
        return (described_column(session, stmt),)
    return None


def described(session: Session, prepared: PreparedStatement) -> tuple[ResultColumn, ...] | None:
    """The columns that the statement returns now, as clients are told."""
    with reading(session):
        revalidate(session, prepared)
        if isinstance(prepared.stmt, ExecuteStmt):
            return find_prepared(session, prepared.stmt.name).sent_columns
    return prepared.sent_columns
