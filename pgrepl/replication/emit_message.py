"""pg_logical_emit_message: messages of users in the stream of changes (message.c).

A transactional message is decoded with its transaction, at its place among the changes. Any other is decoded by itself,
and stays when the transaction that wrote it is rolled back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pgrepl.catalog.recovery import in_recovery
from pgrepl.errors import PgError
from pgrepl.expr.functions.registry import Family
from pgrepl.replication.publisher import slots

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.context import Call

implements = Family()


@implements("pg_logical_emit_message_text", context=True)
def emit_text(call: Call, transactional: bool, prefix: str, content: str, flush: bool) -> int:
    return _emit(call.session, transactional, prefix, content.encode())


@implements("pg_logical_emit_message_bytea", context=True)
def emit_bytes(call: Call, transactional: bool, prefix: str, content: bytes, flush: bool) -> int:
    return _emit(call.session, transactional, prefix, content)


def _emit(session: Session, transactional: bool, prefix: str, content: bytes) -> int:
    """The LSN behind the message. Every commit is on disk: there is nothing to flush."""
    if in_recovery(session):
        raise PgError(
            "55000",
            "recovery is in progress",
            hint="WAL control functions cannot be executed during recovery.",
        )
    if transactional:
        _note(session, transactional, prefix, content)
        return session.snapshot() + 1
    return _emit_at_once(session, prefix, content)


def _emit_at_once(session: Session, prefix: str, content: bytes) -> int:
    with slots.at_once(session) as there:
        _note(there, False, prefix, content)
        if session.origin is not None:
            there.transaction.numbering.note("origin", session.origin.name)
        lsn = there.snapshot() + 1
    if there is session:  # a rollback of the transaction undoes the message: then it is written again
        session.transaction.undo.append(partial(_emit_again, session, prefix, content))
    return lsn


def _emit_again(session: Session, prefix: str, content: bytes) -> None:
    _emit_at_once(session, prefix, content)


def _note(session: Session, transactional: bool, prefix: str, content: bytes) -> None:
    session.transaction.numbering.note_message(
        transactional=transactional, prefix=prefix, content=content, database=session.database_oid
    )
