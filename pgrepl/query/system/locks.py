"""pg_locks: the locks that transactions hold and wait for (pg_lock_status).

As in PostgreSQL held row locks are not shown; a transaction that waits for a row, or for a key that another transaction
writes, waits for that transaction's ID.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.lock_modes import MODE_NAMES, TUPLE_MODES, LockKind, RelationMode
from pgrepl.catalog.locks import AdvisoryKey
from pgrepl.query.system.forms import Values
from pgrepl.types.tid import ctid

if TYPE_CHECKING:
    from pgrepl.catalog.lock_table import Holder, LockTable, Waiter
    from pgrepl.catalog.session import Session

_EPOCH = 946_684_800  # 2000-01-01 in the seconds of time.time()


def locks(session: Session) -> Iterator[Values]:
    own = session.transaction.locks
    if not own.possible or not own.table.exists():
        return
    table = own.table
    table.remove_dead_holders(None)
    holders = table.holders()
    held = table.held()
    in_transaction = table.with_transaction()
    for holder in holders.values():
        if holder.prepared is None and holder.id in in_transaction:
            yield _lock(holder, "virtualxid", "ExclusiveLock", virtualxid=_virtual(holder), fastpath=True)
    for number, wanted in held:
        if wanted.kind is LockKind.RELATION and number in holders:
            fast = wanted.mode < RelationMode.SHARE_UPDATE_EXCLUSIVE and holders[number].prepared is None
            where = {"database": holders[number].database, "relation": wanted.object, "fastpath": fast}
            yield _lock(holders[number], "relation", MODE_NAMES[wanted.mode], **where)
        elif wanted.kind is LockKind.ADVISORY and number in holders:
            yield _lock(holders[number], "advisory", MODE_NAMES[wanted.mode], **AdvisoryKey.of(wanted)._asdict())
    for number in dict.fromkeys(number for number, wanted in held if wanted.kind is not LockKind.ADVISORY):
        if number in holders:
            yield _lock(holders[number], "transactionid", "ExclusiveLock", transactionid=holders[number].xid)
    for waiter in table.waiters():
        if waiter.holder in holders:
            yield from _waiting(table, waiter, holders)


def _waiting(table: LockTable, waiter: Waiter, holders: dict[int, Holder]) -> Iterator[Values]:
    wanted, holder = waiter.wanted, holders[waiter.holder]
    waits = {"granted": False, "waitstart": int((waiter.since - _EPOCH) * 1_000_000)}
    if wanted.kind is LockKind.ADVISORY:
        yield _lock(holder, "advisory", MODE_NAMES[wanted.mode], **AdvisoryKey.of(wanted)._asdict(), **waits)
        return
    where = {"database": holder.database, "relation": wanted.object}
    if wanted.kind is LockKind.RELATION:
        yield _lock(holder, "relation", MODE_NAMES[wanted.mode], **where, **waits)
        return
    if wanted.kind is LockKind.ROW:
        page, item = ctid(wanted.item)
        yield _lock(holder, "tuple", MODE_NAMES[TUPLE_MODES[wanted.mode]], **where, page=page, tuple=item)
    blocker = next((other for other, _ in table.blockers(waiter) if other in holders), None)
    if blocker is not None:
        yield _lock(holder, "transactionid", "ShareLock", transactionid=holders[blocker].xid, **waits)


def _virtual(holder: Holder) -> str:
    return f"{holder.id}/1"


def _lock(holder: Holder, locktype: str, mode: str, **more: Any) -> Values:
    common = {"virtualtransaction": _virtual(holder), "pid": holder.pid or None, "granted": True, "fastpath": False}
    return {**common, "locktype": locktype, "mode": mode, **more}
