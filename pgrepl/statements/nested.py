"""A statement inside another: one of a routine's body, within the statement that has called the routine."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pgrepl.catalog.session.context import Block
from pgrepl.catalog.session.transaction import is_read_only, require_writable
from pgrepl.sql.tags import command_tag
from pgrepl.statements.prepared import binding
from pgrepl.statements.run import LOCK_LATER, READING
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
    _take_locks(session, stmt)
    before = session.keeps_values, session.streams, session.is_nested
    session.keeps_values, session.streams, session.is_nested = True, False, True
    try:
        result = execute(stmt, session)
    finally:
        session.keeps_values, session.streams, session.is_nested = before
    session.transaction.numbering.store_snapshot()
    return result


def _take_locks(session: Session, stmt: Statement) -> None:
    """As for a statement of its own (run.py); but the catalog's write lock is kept until the outer statement ends."""
    name = type(stmt).__name__
    if name in READING:
        return
    transaction = session.transaction
    if name not in LOCK_LATER or transaction.in_recovery:
        require_writable(session, command_tag(stmt))
    pending = transaction.keeps_pending or is_read_only(session)
    if name not in LOCK_LATER or (session.in_block and not pending) or transaction.block is Block.NONE:
        transaction.require_write()
