"""Whether a table's definition can change: no pending trigger events, no lock of others (CheckTableNotInUse); tables
that reference others.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraint_row, inheritors, partition_ancestors
from pgrepl.catalog.locks.lock_table import LockKind, LockRequest, RelationMode, conflicts
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import LockNeeded
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.ground.errors import PgError


def check_not_in_use(
    session: Session, rel: Relation, what: str, mode: RelationMode = RelationMode.ACCESS_EXCLUSIVE
) -> None:
    """`what`: ALTER TABLE, DROP TABLE …"""
    lock_table(session, rel.oid, mode)
    refuse_used(session, rel, what)
    if not session.transaction.before_commit:
        return
    from pgrepl.rows.after_triggers import pending

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
        if below.kind != "p" and any(reader.reads(session, oid) for reader in reading):
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


# --- references -------------------------------------------------------------------------------------------------------


def referencing_tables(session: Session, tables: Sequence[int]) -> list[int]:
    """The OIDs of other tables with foreign keys to any of these. A key to a partition is a key to the whole table
    (heap_truncate_find_FKs)."""
    reached = list(tables)
    referencing: set[int] = set()
    for table in reached:
        for row in store.rows(session, pg_constraint, confrelid=table, contype="f"):
            if row.conrelid not in tables:
                referencing.add(row.conrelid)
            while row.conparentid:
                row = constraint_row(session, row.conparentid)
            if row.confrelid not in reached:
                reached.append(row.confrelid)
    return sorted(referencing)


def refuse_referenced(session: Session, tables: Sequence[int]) -> None:
    """Raise unless every table that references a truncated one is truncated too (heap_truncate_check_FKs)."""
    for table in tables:
        for other in referencing_tables(session, [table]):
            if other not in tables:
                name, others = relation(session, table).name, relation(session, other).name
                raise PgError(
                    "0A000",
                    "cannot truncate a table referenced in a foreign key constraint",
                    detail=f'Table "{others}" references "{name}".',
                    hint=f'Truncate table "{others}" at the same time, or use TRUNCATE ... CASCADE.',
                )
