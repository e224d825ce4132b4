"""BEGIN, COMMIT, ROLLBACK and savepoints (standard_ProcessUtility's TransactionStmt)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.transaction import Block, require_no_block
from pgrepl.commands.base import Result, execute
from pgrepl.commands.settings import set_transaction
from pgrepl.errors import PgError
from pgrepl.sql.nodes.utility import TransactionKind, TransactionStmt

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


@execute.register(TransactionStmt)
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
        return _prepare(session)
    if kind in (TransactionKind.COMMIT_PREPARED, TransactionKind.ROLLBACK_PREPARED):
        require_no_block(session, kind.value)
        raise PgError("42704", f'prepared transaction with identifier "{stmt.gid}" does not exist')
    assert stmt.savepoint is not None
    if kind is TransactionKind.SAVEPOINT:
        transaction.savepoint(stmt.savepoint)
        return "SAVEPOINT"
    if kind is TransactionKind.RELEASE:
        transaction.release(stmt.savepoint)
        return "RELEASE"
    transaction.rollback_to(stmt.savepoint)
    return "ROLLBACK"


def _prepare(session: Session) -> str:
    """Two-phase commit is off, as on a server with its defaults: the transaction is lost."""
    transaction = session.transaction
    if transaction.block is not Block.EXPLICIT:
        return transaction.commit_block() if transaction.block is Block.ABORTED else transaction.rollback_block()
    transaction.rollback_block()
    raise PgError(
        "55000",
        "prepared transactions are disabled",
        hint='Set "max_prepared_transactions" to a nonzero value.',
    )
