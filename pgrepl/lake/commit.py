"""The commit of statements' writes into the catalog.

It runs in the session's write transaction, at the statement's own snapshot; the transaction's COMMIT makes all of its
snapshots visible at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.lock_modes import EXCLUSIVE, LockKind, RelationMode, RowMode, conflicts
from pgrepl.catalog.lock_table import LockRequest
from pgrepl.catalog.relation import relation_or_none
from pgrepl.catalog.transaction import LockNeeded
from pgrepl.lake import sql
from pgrepl.lake.commit_rows import record
from pgrepl.lake.crash_points import crash_point
from pgrepl.lake.history import ROW_CHANGES, changes_after
from pgrepl.lake.pending import changes_of
from pgrepl.lake.table import lake_table
from pgrepl.lake.write import Write

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


class Stale(Exception):
    """Another session has changed a table since the snapshot at which it was read: read and stage again."""


class LockedByOthers(Stale, LockNeeded):
    """Another transaction has locked a table, or rows of it: wait for it, and stage again."""


def check_unchanged(session: Session, table_ids: Sequence[int], snapshot: int) -> None:
    """Raise Stale if another session has changed a table since `snapshot`: its rows, definition, constraints, indexes
    or privileges. The caller holds the write lock."""
    wanted = set(table_ids)
    if any(table in wanted for _, table in changes_after(session, snapshot)):
        raise Stale
    _check_definitions(session, table_ids, snapshot)


def check_only_rows_changed(session: Session, table_id: int, snapshot: int) -> None:
    """Raise Stale if another session has changed more than rows of the table since the snapshot."""
    if any(table == table_id and word not in ROW_CHANGES for word, table in changes_after(session, snapshot)):
        raise Stale
    _check_definitions(session, [table_id], snapshot)


def _check_definitions(session: Session, table_ids: Sequence[int], snapshot: int) -> None:
    own = session.transaction.numbering.first_snapshot
    until = session.transaction.numbering.last_snapshot() + 1 if own is None else own
    for table_id in table_ids:
        if session.link.execute(sql.REDEFINED, (table_id, *(snapshot, until) * 3))[0][0]:
            raise Stale


def apply(session: Session, writes: Sequence[Write], extra: Mapping[str, Any] | None = None) -> None:
    """Record the writes at the running statement's snapshot, and stage what is not staged.

    `extra` goes into commit_extra_info as JSON (origin, truncation …); without an entry `truncate` there, truncated
    tables are noted under it. Raises Stale before anything is written if a Write's table has changed since its
    snapshot.

    A transaction with pending changes (pending.py) records them when it commits.
    """
    collects = session.transaction.collects
    if session.transaction.keeps_pending and (collects or not any(_needs_catalog(write) for write in writes)):
        _keep_pending(session, writes, extra or {})
        return
    session.transaction.require_write()
    for write in writes:
        if write.snapshot is not None:
            check_unchanged(session, [write.table.table_id], write.snapshot)
    _respect_locks(session, writes)
    session.snapshot()
    for write in writes:
        write.stage()
        crash_point("commit.begin")
        record(session, write)
        if write.table.oid in session.emptied_at_commit and not write.truncates:
            _empty_at_commit(session, write.table.oid)
    numbering = session.transaction.numbering
    for key, value in (extra or {}).items():
        numbering.note(key, value)
    truncated = [write.table.oid for write in writes if write.truncates]
    if truncated and "truncate" not in (extra or {}):
        numbering.note("truncate", {"tables": truncated, "cascade": False, "restart_identity": False})
    crash_point("commit.end")


def _respect_locks(session: Session, writes: Sequence[Write]) -> None:
    """Raise LockedByOthers if another transaction has locked tables, keys or rows that are about to be written. For
    writes without locks of their own (workers, Spark), under the catalog's write lock."""
    transaction = session.transaction
    if transaction.is_alone or transaction.locks_rows or not transaction.locks.has_others():
        return
    locks = transaction.locks
    for write in writes:
        oid = write.table.oid
        whole = write.truncates or write.has_positions
        mode = RelationMode.EXCLUSIVE if whole else RelationMode.ROW_EXCLUSIVE
        if locks.are_held_by_others(LockKind.RELATION, [oid], conflicts(LockKind.RELATION, mode)):
            raise LockedByOthers(LockRequest(LockKind.RELATION, oid, 0, mode))
        brings = write.rows or write.files or write.updates
        if brings and not write.has_free_keys and locks.are_held_by_others(LockKind.KEY, [oid], (EXCLUSIVE,)):
            raise LockedByOthers(LockRequest(LockKind.RELATION, oid, 0, RelationMode.SHARE_ROW_EXCLUSIVE))
        row = locks.first_locked(oid, write.changed_row_ids)
        if row is not None:
            raise LockedByOthers(LockRequest(LockKind.ROW, oid, row, RowMode.UPDATE))


def _needs_catalog(write: Write) -> bool:
    """Does the write concern more than rows: TRUNCATE, and files whose columns are found by name?"""
    return write.truncates or write.snapshot is not None or any(file.mapping for file in write.files)


def _keep_pending(session: Session, writes: Sequence[Write], extra: Mapping[str, Any]) -> None:
    pending = changes_of(session)
    snapshot = session.transaction.numbering.pending_snapshot()
    for write in writes:
        pending.add(write, snapshot)
        if write.table.oid in session.emptied_at_commit:
            _empty_at_commit(session, write.table.oid)
    for key, value in extra.items():
        session.transaction.numbering.note(key, value)


def _empty_at_commit(session: Session, oid: int) -> None:
    """Empty a temporary table ON COMMIT DELETE ROWS before the commit."""

    def empty() -> None:
        if relation_or_none(session, oid) is not None:
            write = Write(session, lake_table(session, oid))
            write.truncate()
            apply(session, [write])

    session.transaction.before_commit.append(empty)
