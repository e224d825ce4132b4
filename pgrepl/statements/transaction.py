"""BEGIN, COMMIT, ROLLBACK and savepoints (standard_ProcessUtility's TransactionStmt)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.context import Block
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes.utility import TransactionKind, TransactionStmt
from pgrepl.statements.settings import set_transaction

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def execute_transaction(stmt: TransactionStmt, session: Session) -> Result:
    return Result(_run(stmt, session))


def _run(stmt: TransactionStmt, session: Session) -> str:
    transaction = session.transaction
    kind = stmt.kind
    if kind in (TransactionKind.BEGIN, TransactionKind.START):
        before = transaction.block
        transaction.begin_block()
        try:
            set_transaction(session, stmt.options)
        except PgError:
            if before is not Block.EXPLICIT:
                transaction.block = before  # there is no block to leave
            raise
        return str(kind.value)
    if kind is TransactionKind.COMMIT:
        return transaction.commit_block(chain=stmt.chain)
    if kind is TransactionKind.ROLLBACK:
        return transaction.rollback_block(chain=stmt.chain)
    if kind is TransactionKind.PREPARE:
        from pgrepl.statements.two_phase import prepare

        assert stmt.gid is not None
        return prepare(session, stmt.gid)
    if kind in (TransactionKind.COMMIT_PREPARED, TransactionKind.ROLLBACK_PREPARED):
        from pgrepl.statements.two_phase import finish

        assert stmt.gid is not None
        return finish(session, stmt.gid, commit=kind is TransactionKind.COMMIT_PREPARED)
    assert stmt.savepoint is not None
    if kind is TransactionKind.SAVEPOINT:
        transaction.savepoint(stmt.savepoint)
        return "SAVEPOINT"
    if kind is TransactionKind.RELEASE:
        transaction.release(stmt.savepoint)
        return "RELEASE"
    transaction.rollback_to(stmt.savepoint)
    return "ROLLBACK"
