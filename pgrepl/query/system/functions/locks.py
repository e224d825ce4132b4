"""Advisory locks (lockfuncs.c), and who waits for whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.lock_modes import MODE_NAMES, RelationMode
from pgrepl.catalog.lock_table import LockRequest
from pgrepl.catalog.locks import AdvisoryKey
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.types import oids
from pgrepl.types.arrays import array_of

if TYPE_CHECKING:
    from pgrepl.catalog.locks import Locks
    from pgrepl.catalog.session import Session

implements = Family()

_WORD = 0xFFFF_FFFF
_VOID = ""


def _locks(session: Session) -> Locks:
    session.transaction.locks.require("an advisory lock")
    return session.transaction.locks


def _lock(session: Session, numbers: tuple[int, ...], mode: RelationMode) -> LockRequest:
    if len(numbers) == 1:
        key = AdvisoryKey(session.database_oid, numbers[0] >> 32 & _WORD, numbers[0] & _WORD, 1)
    else:
        key = AdvisoryKey(session.database_oid, numbers[0] & _WORD, numbers[1] & _WORD, 2)
    return key.lock(mode)


def _taking(mode: RelationMode, *, of_session: bool, wait: bool) -> Callable[..., Any]:
    def take(call: Call, *numbers: int) -> object:
        locks = _locks(call.session)
        taken = locks.take_advisory(_lock(call.session, numbers, mode), of_session=of_session, wait=wait)
        return _VOID if wait else taken

    return take


def _releasing(mode: RelationMode) -> Callable[..., bool]:
    def release(call: Call, *numbers: int) -> bool:
        released = _locks(call.session).release_advisory(_lock(call.session, numbers, mode))
        if not released:
            call.session.notice("WARNING", f"you don't own a lock of type {MODE_NAMES[mode]}")
        return released

    return release


for _mode, _suffix in ((RelationMode.EXCLUSIVE, ""), (RelationMode.SHARE, "_shared")):
    for _keys in ("int8", "int4"):
        for _owner in ("", "xact_"):
            for _try in ("", "try_"):
                implements(f"pg_{_try}advisory_{_owner}lock{_suffix}_{_keys}", context=True)(
                    _taking(_mode, of_session=not _owner, wait=not _try)
                )
        implements(f"pg_advisory_unlock{_suffix}_{_keys}", context=True)(_releasing(_mode))


@implements("pg_advisory_unlock_all", context=True)
def pg_advisory_unlock_all(call: Call) -> str:
    _locks(call.session).release_session_locks()
    return _VOID


@implements("pg_blocking_pids", context=True)
def pg_blocking_pids(call: Call, pid: int) -> Any:
    """The sessions that a session waits for; 0 stands for a prepared transaction."""
    locks = call.session.transaction.locks
    found: list[int] = []
    if locks.possible and locks.table.exists():
        table = locks.table
        table.remove_dead_holders(None)
        holders = table.holders()
        waiting = [each for each in table.waiters() if each.holder in holders and holders[each.holder].pid == pid]
        found = [holders[other].pid for each in waiting for other, _ in table.blockers(each) if other in holders]
    return array_of(oids.INT4, found)


__all__ = ["implements"]
