r"""The columns a query would return, without running it: what Parse and Describe answer in PostgreSQL's protocol.

`\gdesc` shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.context import Block
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.query.result import ResultColumn
from pgrepl.sql.nodes import ExplainStmt, SelectStmt, Statement, VariableShowStmt
from pgrepl.sql.parser import parse
from pgrepl.statements.utility import execute

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def describe(session: Session, text: str) -> tuple[ResultColumn, ...]:
    """Empty for a statement that returns no rows."""
    session.query = text
    try:
        statements = parse(text, session.report)
        if len(statements) > 1:
            raise PgError("42601", "cannot insert multiple commands into a prepared statement")
    except PgError:
        session.transaction.fail_statement()
        raise
    if not statements:
        return ()
    if session.transaction.block is Block.ABORTED:
        session.transaction.fail_statement()
    with reading(session):
        return _columns(session, statements[0].stmt)


def _columns(session: Session, stmt: Statement) -> tuple[ResultColumn, ...]:
    if isinstance(stmt, SelectStmt):
        from pgrepl.expr.analyze import analyze_query

        return tuple(ResultColumn(c.name, c.type, c.typmod) for c in analyze_query(session, stmt).columns)
    if isinstance(stmt, VariableShowStmt):
        # SHOW changes nothing, and its columns depend on the parameter.
        return execute(stmt, session).columns or ()
    if isinstance(stmt, ExplainStmt):
        from pgrepl.statements.explain import described_column

        return (described_column(session, stmt),)
    return ()
