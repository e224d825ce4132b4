"""Prepared transactions of a publisher, prepared and ended by the subscriber, too (apply_handle_prepare,
apply_handle_commit_prepared, apply_handle_rollback_prepared).

The changes are pending, with locks on tables, rows and keys, under a GID that names the subscription and the
transaction: `pg_gid_<subscription>_<xid>`. Each step holds the catalog's write lock, and commits together with the
origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import store, tables
from pgrepl.catalog import subscription as catalog
from pgrepl.catalog.lock_modes import LockKind, RelationMode, RowMode
from pgrepl.catalog.lock_table import LockRequest
from pgrepl.errors import PgError, unsupported
from pgrepl.lake import prepared
from pgrepl.lake.commit import LockedByOthers
from pgrepl.lake.crash_points import crash_point
from pgrepl.lake.history import COMMIT, PREPARE
from pgrepl.lake.pending import RowChanges
from pgrepl.replication.subscriber.apply.write import keys_of, said, write
from pgrepl.rows.key_locks import change_lock
from pgrepl.rows.unique import unique_indexes

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.subscriber.apply.overlay import Overlay
    from pgrepl.replication.subscriber.apply.play import Player
    from pgrepl.replication.wire.messages import Phase, WireTransaction

_MESSAGES = {PREPARE: "PREPARE", COMMIT: "COMMIT PREPARED"}


def message_type(phase: Phase) -> str:
    return _MESSAGES.get(phase.kind, "ROLLBACK PREPARED")


def prepare(
    session: Session, subscription: tables.pg_subscription, transaction: WireTransaction, player: Player | None
) -> None:
    """Prepare the applied transaction; `player` None: the transaction is skipped, and prepared without changes."""
    phase = transaction.phase
    assert phase is not None
    gid = gid_of(subscription, transaction)
    before = prepared.found(session, gid)
    if before is not None and before.origin_lsn == phase.prepare_end_lsn:
        return  # it was sent before
    prepared.check_enabled(session)
    if not session.transaction.locks.possible:
        raise unsupported("PREPARE TRANSACTION in a catalog on a PostgreSQL server")
    origin = catalog.origin_name(subscription.oid)
    numbering = session.transaction.numbering
    numbering.store_snapshot()
    changes = RowChanges(session, numbering.last_snapshot())
    if player is not None:
        _lock(session, list(_wanted(session, player)))
        with session.transaction.collecting(changes):
            write(session, player, origin)
            numbering.store_snapshot()
    crash_point("apply.prepared")
    numbering.begin_group()
    prepared.record(session, gid, changes, phase.prepare_end_lsn, phase.prepared_at)
    _note(session, said(origin, transaction))


def end(session: Session, subscription: tables.pg_subscription, transaction: WireTransaction) -> None:
    """Carry out COMMIT PREPARED or ROLLBACK PREPARED."""
    phase = transaction.phase
    assert phase is not None
    gid = gid_of(subscription, transaction)
    found = prepared.found(session, gid)
    if phase.kind == COMMIT:
        if found is None:
            raise PgError("42704", f'prepared transaction with identifier "{gid}" does not exist')
    elif found is None or (found.origin_lsn, found.origin_at) != (phase.prepare_end_lsn, phase.prepared_at):
        return  # it has not been received (LookupGXact)
    session.transaction.numbering.begin_group()
    prepared.finish(session, found, commit=phase.kind == COMMIT)
    _note(session, said(catalog.origin_name(subscription.oid), transaction))


def gid_of(subscription: tables.pg_subscription, transaction: WireTransaction) -> str:
    """The GID of a publisher's transaction (TwoPhaseTransactionGid)."""
    return f"pg_gid_{subscription.oid}_{transaction.xid}"


def prepared_of(session: Session, subscription: tables.pg_subscription) -> list[str]:
    """The prepared transactions of a subscription."""
    found = store.rows(session, tables.pgrepl_prepared, datid=subscription.subdbid)
    return [row.gid for row in found if row.gid.startswith(f"pg_gid_{subscription.oid}_")]


def _note(session: Session, what: dict[str, Any]) -> None:
    """Note the origin of the snapshot just begun."""
    for key, value in what.items():
        session.transaction.numbering.note(key, value)
    session.transaction.numbering.store_snapshot()


# --- locks ------------------------------------------------------------------------------------------------------------


def _lock(session: Session, wanted: list[LockRequest]) -> None:
    """Take all locks without waiting: the session holds the catalog's write lock."""
    locks = session.transaction.locks
    locks.table.remove_dead_holders(locks.entered.id)
    blocked = locks.table.take(locks.entered.id, wanted, locks.level)
    if blocked is not None:
        raise LockedByOthers(blocked)


def _wanted(session: Session, player: Player) -> Iterator[LockRequest]:
    for oid in player.truncated:
        yield LockRequest(LockKind.RELATION, oid, 0, RelationMode.ACCESS_EXCLUSIVE)
    for overlay in player.overlays.values():
        yield LockRequest(LockKind.RELATION, overlay.relation.oid, 0, RelationMode.ROW_EXCLUSIVE)
        yield from _of_rows(session, overlay)


def _of_rows(session: Session, overlay: Overlay) -> Iterator[LockRequest]:
    oid = overlay.relation.oid
    has_keys = bool(unique_indexes(session, overlay.relation))
    for each in overlay.steps():
        if each.place is not None:
            yield LockRequest(LockKind.ROW, oid, each.place.row, RowMode.UPDATE)
            if has_keys:
                yield change_lock(oid, each.place.row)
    yield from keys_of(session, overlay)


__all__ = ["end", "gid_of", "message_type", "prepare", "prepared_of"]
