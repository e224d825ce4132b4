"""Whether a table's definition can change: not while the transaction has pending trigger events on it
(CheckTableNotInUse), or another transaction holds a lock that conflicts."""

from __future__ import annotations

from pgrepl.catalog.inheritance import inheritors, partition_ancestors
from pgrepl.catalog.lock_modes import LockKind, RelationMode, conflicts
from pgrepl.catalog.lock_table import LockRequest
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.transaction import LockNeeded
from pgrepl.errors import PgError


def check_not_in_use(
    session: Session, rel: Relation, what: str, mode: RelationMode = RelationMode.ACCESS_EXCLUSIVE
) -> None:
    """`what`: ALTER TABLE, DROP TABLE …"""
    lock_table(session, rel.oid, mode)
    refuse_used(session, rel, what)
    if not session.transaction.before_commit:
        return
    from pgrepl.rows.foreign import pending

    if pending(session, rel.oid):
        raise PgError("55006", f'cannot {what} "{rel.name}" because it has pending trigger events')


def refuse_used(session: Session, rel: Relation, what: str) -> None:
    """The function of a table's trigger cannot change what the statement around it is using, and nobody what a cursor
    or a loop reads."""
    if any(rel.oid == oid or rel.oid in partition_ancestors(session, oid) for oid in set(session.triggered)):
        raise _used(rel, what)
    transaction = session.transaction
    reading = [*transaction.pinned, *(portal for portal in transaction.portals.values() if not portal.is_held)]
    if not reading:
        return
    for oid in inheritors(session, rel.oid):
        below = relation(session, oid)
        if below.kind != "p" and any(each.reads(session, oid) for each in reading):
            raise _used(below, what)


def _used(rel: Relation, what: str) -> PgError:
    message = f'cannot {what} "{rel.name}" because it is being used by active queries in this session'
    return PgError("55006", message)


def lock_table(session: Session, oid: int, mode: RelationMode) -> None:
    """Lock a table whose definition, or all of whose rows, a statement is about to change. A statement outside a block
    holds the catalog's lock, so it only looks for locks of other sessions."""
    locks = session.transaction.locks
    if not locks.possible:
        return
    if session.in_block:
        if locks.has_relation(oid, mode):
            return
        if session.transaction.had_lock:
            # what was defined before would be lost: it waits with the catalog's lock
            locks.relation(oid, mode)
        elif not locks.relation(oid, mode, wait=False):
            raise LockNeeded(LockRequest(LockKind.RELATION, oid, 0, int(mode)))
    elif locks.are_held_by_others(LockKind.RELATION, [oid], conflicts(LockKind.RELATION, int(mode))):
        raise LockNeeded(LockRequest(LockKind.RELATION, oid, 0, int(mode)))
