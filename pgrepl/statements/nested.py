"""A statement inside another: one of a routine's body, within the statement that has called the routine."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pgrepl.statements.prepared import binding
from pgrepl.statements.run import take_locks
from pgrepl.statements.utility import execute

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.query.result import Result
    from pgrepl.sql.nodes import ExecuteStmt, Statement


def execute_nested(session: Session, stmt: Statement) -> Result:
    """Carry out the statement; its rows are Python values. What it has written is seen by the next one."""
    if type(stmt).__name__ == "ExecuteStmt":
        with binding(session, cast("ExecuteStmt", stmt)) as prepared:
            return execute_nested(session, prepared)
    take_locks(session, stmt, nested=True)
    before = session.keeps_values, session.streams, session.is_nested
    session.keeps_values, session.streams, session.is_nested = True, False, True
    try:
        result = execute(stmt, session)
    finally:
        session.keeps_values, session.streams, session.is_nested = before
    session.transaction.numbering.store_snapshot()
    return result
