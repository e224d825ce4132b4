"""PREPARE TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED (twophase.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.context import Block
from pgrepl.catalog.recovery import refuse_in_recovery
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.transaction import require_no_block
from pgrepl.errors import PgError, unsupported
from pgrepl.lake import prepared
from pgrepl.lake.prepared import Prepared

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_LONGEST = 200  # bytes of an identifier, with the zero at its end (GIDSIZE)


def prepare(session: Session, gid: str) -> str:
    """As PrepareTransactionBlock; returns the command tag, which is that of a ROLLBACK if nothing is prepared."""
    transaction = session.transaction
    refuse_in_recovery(session, "PREPARE TRANSACTION")
    if transaction.block is Block.ABORTED:
        return transaction.commit_block()
    if transaction.block is Block.NONE:
        return transaction.rollback_block()
    if transaction.block is Block.IMPLICIT:
        session.notice("WARNING", "there is no transaction in progress", sqlstate="25P01")
    try:
        _check(session, gid)
        prepared.prepare(session, gid)
    except PgError:
        transaction.block = Block.NONE  # whatever is wrong, the transaction is lost
        raise
    return "PREPARE TRANSACTION"


def _check(session: Session, gid: str) -> None:
    """As PrepareTransaction and MarkAsPreparing."""
    transaction = session.transaction
    if any(portal.declared.holds and not portal.is_held for portal in transaction.portals.values()):
        raise PgError("0A000", "cannot PREPARE a transaction that has created a cursor WITH HOLD")
    if transaction.uses_temporary:
        raise PgError("0A000", "cannot PREPARE a transaction that has operated on temporary objects")
    if transaction.exported:
        raise PgError("0A000", "cannot PREPARE a transaction that has exported snapshots")
    if len(gid.encode()) >= _LONGEST:
        raise PgError("22023", f'transaction identifier "{gid}" is too long')
    prepared.check_enabled(session)
    if transaction.notifications is not None and transaction.notifications.has_pending:
        raise PgError("0A000", "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY")
    if transaction.locks.has_of_both:
        raise PgError(
            "0A000", "cannot PREPARE while holding both session-level and transaction-level locks on the same object"
        )
    if not transaction.can_keep_pending:
        raise unsupported("PREPARE TRANSACTION in a catalog on a PostgreSQL server")


def finish(session: Session, gid: str, *, commit: bool) -> str:
    """As FinishPreparedTransaction."""
    what = "COMMIT PREPARED" if commit else "ROLLBACK PREPARED"
    require_no_block(session, what)
    refuse_in_recovery(session, what)
    session.transaction.require_write()
    prepared.finish(session, _locked(session, gid), commit=commit)
    return what


def _locked(session: Session, gid: str) -> Prepared:
    """As LockGXact."""
    found = prepared.found(session, gid)
    if found is None:
        raise PgError("42704", f'prepared transaction with identifier "{gid}" does not exist')
    if session.role != found.owner and not is_superuser(session):
        raise PgError(
            "42501",
            "permission denied to finish prepared transaction",
            hint="Must be superuser or the user that prepared the transaction.",
        )
    if session.database_oid != found.database:
        raise PgError(
            "0A000",
            "prepared transaction belongs to another database",
            hint="Connect to the database where the transaction was prepared to finish it.",
        )
    return found


__all__ = ["finish", "prepare"]
