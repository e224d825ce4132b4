"""The locks of one session's transaction: taken, waited for, released when it ends.

A waiter tries again every few milliseconds. After deadlock_timeout it checks once whether a transaction that it
waits for waits for it in turn (DeadLockCheck); then it fails. lock_timeout ends a wait, and so does Ctrl-C.
"""

from __future__ import annotations

import struct
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.locks.lock_table import (
    EXCLUSIVE,
    MODE_NAMES,
    SESSION_LEVEL,
    Holder,
    LockKind,
    LockRequest,
    LockTable,
    RelationMode,
    Waiter,
)
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.interrupts import check_for_interrupts, hold_interrupts, met_while

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession

_SHORTEST, _LONGEST = 0.001, 0.02  # seconds between two looks
_LOOK_FOR_DEAD = 0.3


class AdvisoryKey(NamedTuple):
    """The key of an advisory lock, as pg_locks shows it: a number of 64 bits in two halves (objsubid 1), or two numbers
    of 32 bits (objsubid 2)."""

    database: int
    classid: int
    objid: int
    objsubid: int

    def lock(self, mode: RelationMode) -> LockRequest:
        item = int.from_bytes(struct.pack("!II", self.classid, self.objid), "big", signed=True)
        return LockRequest(LockKind.ADVISORY, self.database << 2 | self.objsubid, item, int(mode))

    @staticmethod
    def of(lock: LockRequest) -> AdvisoryKey:
        high, low = struct.unpack("!II", lock.item.to_bytes(8, "big", signed=True))
        return AdvisoryKey(lock.object >> 2, high, low, lock.object & 3)


class Wait(Enum):
    """The policy for a row that another transaction has locked (LockWaitPolicy)."""

    BLOCK = "wait"
    SKIP = "SKIP LOCKED"
    ERROR = "NOWAIT"


class Locks:
    """The locks of a session. The lock table is opened for the first of them."""

    def __init__(self, session: CatalogSession) -> None:
        self._session = session
        catalog = session.catalog
        is_written = catalog.is_sqlite and catalog.obstacle is None  # one that can only be read has no lock table
        self._table = LockTable(catalog.path) if is_written and catalog.path else None
        self._token = ""
        self.level = 0  # of savepoints
        self._relations: dict[tuple[int, int], int] = {}  # tables that are locked: since which savepoint
        self.holder: Holder | None = None
        self.of_session: Counter[LockRequest] = Counter()  # advisory locks, and how often the session has taken each
        self._advisory: dict[LockRequest, int] = {}  # those of the transaction: since which savepoint

    @property
    def possible(self) -> bool:
        """Is there a lock table? Not for a catalog in PostgreSQL, where one transaction at a time writes."""
        return self._table is not None

    @property
    def table(self) -> LockTable:
        assert self._table is not None
        return self._table

    @property
    def _id(self) -> int | None:
        return self.holder.id if self.holder is not None else None

    @property
    def entered(self) -> Holder:
        if self.holder is None:
            session = self._session
            self.holder = self.table.enter(session.pid, "client backend", self.token, session.database_oid)
        return self.holder

    @property
    def token(self) -> str:
        """The token by which other processes know that the session is alive."""
        if not self._token:
            self._token = lock_file.new_token()
            weakref.finalize(self._session, lock_file.retire, self._token)
        return self._token

    @property
    def xid(self) -> int:
        """The transaction's number, as pg_locks and deadlock reports show it."""
        return self.entered.xid

    # --- taking -----------------------------------------------------------------------------------------------------

    def has_others(self) -> bool:
        """Does any other session hold locks?"""
        return self._table is not None and self._table.has_others(self._id)

    def are_held_by_others(self, kind: LockKind, objects: Sequence[int], modes: Iterable[int]) -> bool:
        return bool(objects) and self.has_others() and self.table.is_held_by_others(self._id, kind, objects, modes)

    def first_locked(self, oid: int, row_ids: Sequence[int]) -> int | None:
        """The first of a table's rows that another session has locked, in any mode."""
        if not row_ids:
            return None
        locked = self.table.locked_by_others(self._id, LockKind.ROW, oid)
        return next((row_id for row_id in row_ids if row_id in locked), None)

    def first_key(self, oid: int, keys: Iterable[LockRequest]) -> LockRequest | None:
        """The first of a table's keys that another session holds."""
        held = self.table.locked_by_others(self._id, LockKind.KEY, oid)
        return next((key for key in keys if key.item in held), None) if held else None

    def take(
        self,
        wanted: Sequence[LockRequest],
        *,
        context: Callable[[LockRequest], str] | None = None,
        blocked: Wait = Wait.BLOCK,
    ) -> tuple[list[LockRequest], bool]:
        """Take the locks one after the other, waiting where need be. Returns those that were skipped, and whether it
        waited. Wait.ERROR raises `LockNotAvailable`."""
        holder = self.entered
        skipped: list[LockRequest] = []
        waited = False
        left = list(wanted)
        while left:
            first = self.table.take(holder.id, left, self.level)
            if first is None:
                break
            at = left.index(first)
            if blocked is Wait.ERROR and self._is_held(first):
                raise LockNotAvailable(first)
            if blocked is Wait.SKIP and self._is_held(first):
                skipped.append(first)
            else:
                waited = True
                self._wait(first, context)
            left = left[at + 1 :]
        for request in wanted:
            if request.kind is LockKind.RELATION:
                self._relations.setdefault((request.object, request.mode), self.level)
        return skipped, waited

    def wait_for(self, wanted: LockRequest) -> bool:
        """Wait until no other transaction has the lock, without taking it. True: it had to wait."""
        holder = self.entered
        if not self.table.conflicting_holders(holder.id, wanted):
            return False
        self.wait_until(wanted, lambda ticket: not self.table.conflicting_holders(holder.id, wanted))
        return True

    def is_taken(self, wanted: LockRequest, ticket: int) -> bool:
        """Take the lock that was waited for, if it is granted now."""
        return self.table.take(self.entered.id, [wanted], self.level, ticket) is None

    def _is_held(self, wanted: LockRequest) -> bool:
        """Is the lock still held when killed processes have lost theirs?"""
        holder = self.entered
        self.table.remove_dead_holders(holder.id)
        return self.table.take(holder.id, [wanted], self.level) is not None

    def has_relation(self, oid: int, mode: RelationMode) -> bool:
        """Has the transaction locked the table in this mode already?"""
        return (oid, int(mode)) in self._relations

    def relation(self, oid: int, mode: RelationMode, *, wait: bool = True) -> bool:
        """Lock a table; False: another transaction has locked it, and `wait` is False."""
        wanted = LockRequest(LockKind.RELATION, oid, 0, int(mode))
        if wait:
            self.take([wanted])
            return True
        return self.table.take(self.entered.id, [wanted], self.level) is None or not self._is_held(wanted)

    def require(self, what: str) -> LockTable:
        """The table, for something that sessions do together; an error where there is none."""
        if not self.possible:
            raise unsupported(f"{what} in a catalog that is not a file, or can only be read,")
        return self.table

    # --- advisory locks ---------------------------------------------------------------------------------------------

    def take_advisory(self, lock: LockRequest, *, of_session: bool, wait: bool) -> bool:
        """Take an advisory lock for the session, once more each time, or for the transaction; False: another session
        has it, and `wait` is False."""
        holder = self.entered

        def taken(ticket: int | None = None) -> bool:
            with hold_interrupts():
                if not self._holds(lock):
                    level = SESSION_LEVEL if of_session else self.level
                    if self.table.take(holder.id, [lock], level, ticket) is not None:
                        return False
                elif of_session and not self.of_session[lock]:
                    self.table.set_level(holder.id, lock, SESSION_LEVEL)
                if of_session:
                    self.of_session[lock] += 1
                else:
                    self._advisory.setdefault(lock, self.level)
                return True

        if taken():
            return True
        if not wait:
            self.table.remove_dead_holders(holder.id)
            return taken()
        if self._session.transaction.is_writing:
            self.hold_catalog()  # for whoever finds a deadlock
        self.wait_until(lock, taken)
        return True

    def _holds(self, lock: LockRequest) -> bool:
        return lock in self._advisory or self.of_session[lock] > 0

    def release_advisory(self, lock: LockRequest) -> bool:
        """Release an advisory lock of the session once; False: the session does not hold it."""
        if not self.of_session[lock]:
            return False
        with hold_interrupts():
            self.of_session[lock] -= 1
            if not self.of_session[lock]:
                self._end_of_session_lock(lock)
        return True

    def release_session_locks(self) -> None:
        """Release all advisory locks of the session (LockReleaseSession)."""
        with hold_interrupts():
            for lock in list(self.of_session):
                self._end_of_session_lock(lock)

    @property
    def has_of_both(self) -> bool:
        """Are there advisory locks of the session and of the transaction with one key?"""
        return not {request[:3] for request in self.of_session}.isdisjoint(request[:3] for request in self._advisory)

    def _end_of_session_lock(self, lock: LockRequest) -> None:
        del self.of_session[lock]
        holder = self.entered
        if lock in self._advisory:
            self.table.set_level(holder.id, lock, self._advisory[lock])
        else:
            self.table.release(holder.id, lock)

    def hold_catalog(self) -> None:
        """Enter that the transaction keeps the catalog's write lock until it ends, so that others see whom they wait
        for."""
        if self._table is not None:
            self.table.take(self.entered.id, [LockRequest(LockKind.CATALOG, 0, 0, EXCLUSIVE)], self.level)

    def is_catalog_held(self) -> bool:
        """Does another transaction keep the catalog's write lock until it ends?"""
        return self.are_held_by_others(LockKind.CATALOG, [0], [EXCLUSIVE])

    # --- waiting ----------------------------------------------------------------------------------------------------

    def _wait(self, wanted: LockRequest, context: Callable[[LockRequest], str] | None) -> None:
        try:
            self.wait_until(wanted, lambda ticket: self.is_taken(wanted, ticket))
        except PgError as error:
            if context is not None and error.report.context is None:
                with hold_interrupts():
                    said = context(wanted)
                error.with_context(said)
                met_while(said)
            raise

    def wait_until(self, wanted: LockRequest, done: Callable[[int], bool]) -> None:
        """Wait in the queue until `done`."""
        session, table = self._session, self.table
        session.transaction.pause()
        holder = self.entered
        ticket = table.wait(holder.id, wanted)
        began = last_look = time.monotonic()
        limit = int(session.settings.value("lock_timeout")) / 1000
        patience = int(session.settings.value("deadlock_timeout")) / 1000
        checked = False
        pause = _SHORTEST
        try:
            while not done(ticket):
                check_for_interrupts()
                now = time.monotonic()
                if limit and wanted.kind is not LockKind.CATALOG and now - began >= limit:
                    raise PgError("55P03", "canceling statement due to lock timeout")
                if now - last_look >= _LOOK_FOR_DEAD:
                    last_look = now
                    table.remove_dead_holders(holder.id)
                if not checked and now - began >= patience:
                    checked = True
                    cycle = find_deadlock(table, holder.id)
                    if cycle:
                        raise self._deadlock(cycle)
                time.sleep(pause)
                pause = min(pause * 1.5, _LONGEST)
        finally:
            table.give_up(ticket)

    def _deadlock(self, cycle: Sequence[tuple[Waiter, int]]) -> PgError:
        holders = self.table.holders()
        lines = []
        for waiter, blocker in cycle:
            mode, what = shown(waiter.wanted, holders, blocker, self._session.database_oid)
            own, other = holders[waiter.holder], holders.get(blocker)
            lines.append(
                f"Process {own.pid} waits for {mode} on {what}; blocked by process {other.pid if other else 0}."
            )
        return PgError("40P01", "deadlock detected", detail="\n".join(lines), hint="See server log for query details.")

    # --- savepoints, and the end ------------------------------------------------------------------------------------

    def new_level(self) -> int:
        """Begin a level of locks for a savepoint; returns the level of the locks before it."""
        before, self.level = self.level, self.level + 1
        return before

    def back_to(self, level: int) -> None:
        self._relations = {key: since for key, since in self._relations.items() if since <= level}
        self._advisory = {key: since for key, since in self._advisory.items() if since <= level}
        if self.holder is not None:
            self.table.release_after(self.holder.id, level)

    def restore(self) -> None:
        """Make a lost lock table anew when a session begins, if prepared transactions have locks."""
        if self._table is not None and not self._table.exists():
            if self._session.link.execute("SELECT 1 FROM pgrepl_prepared LIMIT 1"):
                self._table.open()

    def hand_over(self, name: str) -> Holder:
        """Give the locks to a prepared transaction, which the running transaction writes down."""
        holder = self.entered
        self.table.prepare(holder.id, name)
        self.holder = None
        self._session.transaction.undo.append(lambda: self.table.leave(holder.id))
        self._session.on_commit(lambda: self.table.finish_prepare(holder.id))
        return holder

    def detach(self) -> None:
        """Leave the locks to the transaction, which is prepared, without the session."""
        if self.holder is not None:
            before, self.holder = self.holder, None
            self._advisory = {}
            if self.of_session:
                self.table.move_session_locks(before.id, self.entered.id)
            self.table.finish_prepare(before.id)

    def release(self) -> None:
        """Release all locks at the end of the transaction, but not those of the session."""
        self.level = 0
        self._relations = {}
        self._advisory = {}
        if self.holder is not None and self.of_session:
            self.table.end_transaction(self.holder.id)
        elif self.holder is not None:
            holder, self.holder = self.holder, None
            self.table.leave(holder.id)

    def close(self) -> None:
        if self._table is not None:
            self.of_session.clear()
            self.release()
            self._table.close()
            if self._token:
                lock_file.retire(self._token)


class LockNotAvailable(Exception):
    """A lock that Wait.ERROR asked for is not available."""

    def __init__(self, wanted: LockRequest) -> None:
        self.wanted = wanted


def shown(wanted: LockRequest, holders: dict[int, Holder], blocker: int, database: int) -> tuple[str, str]:
    """The mode and object of a lock that is waited for, in PostgreSQL's words: a row or key is its holder's
    transaction (DescribeLockTag)."""
    if wanted.kind is LockKind.RELATION:
        return MODE_NAMES[wanted.mode], f"relation {wanted.object} of database {database}"
    if wanted.kind is LockKind.ADVISORY:
        key = AdvisoryKey.of(wanted)
        return MODE_NAMES[wanted.mode], f"advisory lock [{','.join(map(str, key))}]"
    other = holders.get(blocker)
    return "ShareLock", f"transaction {other.xid if other is not None else 0}"


def find_deadlock(table: LockTable, holder: int) -> list[tuple[Waiter, int]]:
    """The cycle of waits that a holder is part of, as pairs of a waiter and the holder it waits for."""
    waiting = {waiter.holder: waiter for waiter in table.waiters()}

    def follow(current: int, path: list[tuple[Waiter, int]], seen: set[int]) -> list[tuple[Waiter, int]]:
        waiter = waiting.get(current)
        if waiter is None:
            return []
        for other, _ in table.blockers(waiter):
            step = [*path, (waiter, other)]
            if other == holder:
                return step
            if other not in seen:
                seen.add(other)
                cycle = follow(other, step, seen)
                if cycle:
                    return cycle
        return []

    return follow(holder, [], {holder})
