"""The locks of one session's transaction: taken, waited for, given back when it ends.

Who waits looks again every few milliseconds. After deadlock_timeout it looks once whether those it waits for wait for
itself (DeadLockCheck); then it is the one that gives up. lock_timeout ends a wait, and so does Ctrl-C.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from pgrepl.catalog import processes
from pgrepl.catalog.lock_modes import EXCLUSIVE, MODE_NAMES, TUPLE_MODES, LockKind, RelationMode, conflicts
from pgrepl.catalog.lock_table import Holder, LockRequest, LockTable, Waiter
from pgrepl.errors import PgError
from pgrepl.interrupts import check_for_interrupts

if TYPE_CHECKING:
    from pgrepl.catalog.connection import Catalog
    from pgrepl.catalog.context import CatalogSession

_SHORTEST, _LONGEST = 0.001, 0.02  # seconds between two looks
_LOOK_FOR_DEAD = 0.3
PAGE = 65535  # rows of a page, as far as ctid can tell: offsets have 16 bits


class Wait(Enum):
    """What to do about a row that somebody else has locked."""

    BLOCK = "wait"
    SKIP = "SKIP LOCKED"
    ERROR = "NOWAIT"


def _has_file(catalog: Catalog) -> bool:
    """Who can only read has no locks."""
    return catalog.is_sqlite and catalog.obstacle is None


class Locks:
    """A session's. Nothing is opened before the first lock is asked for."""

    def __init__(self, session: CatalogSession) -> None:
        self._session = session
        catalog = session.catalog
        self._table = LockTable(catalog.path) if _has_file(catalog) and catalog.path else None
        self._token = ""
        self._level = 0  # of savepoints
        self._relations: dict[tuple[int, int], int] = {}  # tables that are locked: since which savepoint
        self.holder: Holder | None = None

    @property
    def possible(self) -> bool:
        """A catalog in PostgreSQL has one writer at a time, and no locks besides."""
        return self._table is not None

    @property
    def table(self) -> LockTable:
        assert self._table is not None
        return self._table

    @property
    def _id(self) -> int | None:
        return self.holder.id if self.holder is not None else None

    def _entered(self) -> Holder:
        if self.holder is None:
            session = self._session
            self.holder = self.table.enter(session.pid, "client backend", self.token, session.database_oid)
        return self.holder

    @property
    def entered(self) -> Holder:
        return self._entered()

    @property
    def token(self) -> str:
        """By which others know that the session is at work."""
        if not self._token:
            self._token = processes.new_token()
            weakref.finalize(self._session, processes.retire, self._token)
        return self._token

    @property
    def xid(self) -> int:
        """The transaction's number, as pg_locks and deadlock reports show it."""
        return self._entered().xid

    # --- taking -----------------------------------------------------------------------------------------------------

    def has_others(self) -> bool:
        """Does any other session hold locks?"""
        return self._table is not None and self._table.has_others(self._id)

    def are_held_by_others(self, kind: LockKind, objects: Sequence[int], modes: Iterable[int]) -> bool:
        return bool(objects) and self.has_others() and self.table.is_held_by_others(self._id, kind, objects, modes)

    def first_locked(self, oid: int, row_ids: Sequence[int]) -> int | None:
        """The first of a table's rows that somebody else has locked, however weakly."""
        if not row_ids:
            return None
        locked = self.table.locked_by_others(self._id, LockKind.ROW, oid)
        return next((row_id for row_id in row_ids if row_id in locked), None)

    def first_key(self, oid: int, keys: Iterable[LockRequest]) -> LockRequest | None:
        """The first of a table's keys that somebody else holds."""
        held = self.table.locked_by_others(self._id, LockKind.KEY, oid)
        return next((each for each in keys if each.item in held), None) if held else None

    def take(
        self,
        wanted: Sequence[LockRequest],
        *,
        context: Callable[[LockRequest], str] | None = None,
        blocked: Wait = Wait.BLOCK,
    ) -> tuple[list[LockRequest], bool]:
        """Take the locks one after the other, waiting where need be; those that were skipped, and whether anything
        was waited for. With Wait.ERROR the caller is told by `LockNotAvailable`."""
        holder = self._entered()
        skipped: list[LockRequest] = []
        waited = False
        left = list(wanted)
        while left:
            first = self.table.take(holder.id, left, self._level)
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
        for each in wanted:
            if each.kind is LockKind.RELATION:
                self._relations.setdefault((each.object, each.mode), self._level)
        return skipped, waited

    def wait_for(self, wanted: LockRequest) -> bool:
        """Wait until nobody has the lock, without taking it; was there anybody?"""
        holder = self._entered()
        if not self.table.in_the_way(holder.id, wanted):
            return False
        self.wait_until(wanted, lambda ticket: not self.table.in_the_way(holder.id, wanted))
        return True

    def is_taken(self, wanted: LockRequest, ticket: int) -> bool:
        """Take what was waited for, if it is to be had now."""
        return self.table.take(self._entered().id, [wanted], self._level, ticket) is None

    def _is_held(self, wanted: LockRequest) -> bool:
        """Whether it is still in the way once the dead are buried."""
        holder = self._entered()
        self.table.bury_the_dead(holder.id)
        return self.table.take(holder.id, [wanted], self._level) is not None

    def has_relation(self, oid: int, mode: RelationMode) -> bool:
        """Has the transaction locked the table so already?"""
        return (oid, int(mode)) in self._relations

    def relation(self, oid: int, mode: RelationMode, *, wait: bool = True) -> bool:
        """Lock a table; False: it is locked by somebody else and not to be waited for."""
        wanted = LockRequest(LockKind.RELATION, oid, 0, int(mode))
        if wait:
            self.take([wanted])
            return True
        return self.table.take(self._entered().id, [wanted], self._level) is None or not self._is_held(wanted)

    def hold_catalog(self) -> None:
        """The transaction keeps the catalog's write lock until it ends: others that need it know whom they wait for."""
        if self._table is not None:
            self.table.take(self._entered().id, [LockRequest(LockKind.CATALOG, 0, 0, EXCLUSIVE)], self._level)

    def is_catalog_held(self) -> bool:
        """Does somebody hold it for longer than a moment?"""
        return self.are_held_by_others(LockKind.CATALOG, [0], [EXCLUSIVE])

    # --- waiting ----------------------------------------------------------------------------------------------------

    def _wait(self, wanted: LockRequest, context: Callable[[LockRequest], str] | None) -> None:
        try:
            self.wait_until(wanted, lambda ticket: self.is_taken(wanted, ticket))
        except PgError as error:
            from dataclasses import replace

            if context is not None and error.report.context is None:
                error.report = replace(error.report, context=context(wanted))
            raise

    def wait_until(self, wanted: LockRequest, done: Callable[[int], bool]) -> None:
        """Wait in the queue until `done`."""
        session, table = self._session, self.table
        session.transaction.pause()
        holder = self._entered()
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
                    table.bury_the_dead(holder.id)
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

    @property
    def level(self) -> int:
        return self._level

    def new_level(self) -> int:
        """A savepoint is set; what was taken until then is at the level it is given."""
        before, self._level = self._level, self._level + 1
        return before

    def back_to(self, level: int) -> None:
        self._relations = {key: since for key, since in self._relations.items() if since <= level}
        if self.holder is not None:
            self.table.give_back(self.holder.id, level)

    def restore(self) -> None:
        """A session begins: prepared transactions have locks, also where the file has been lost."""
        if self._table is not None and not self._table.exists():
            if self._session.link.execute("SELECT 1 FROM pgrepl_prepared LIMIT 1"):
                self._table.open()

    def hand_over(self, name: str) -> Holder:
        """The transaction that it is at work on prepares another: that has its locks from now on."""
        holder = self.entered
        self.table.prepare(holder.id, name)
        self.holder = None
        self._session.transaction.undo.append(lambda: self.table.leave(holder.id))
        self._session.on_commit(lambda: self.table.settle(holder.id))
        return holder

    def detach(self) -> None:
        """The transaction is prepared: it keeps its locks without the session."""
        if self.holder is not None:
            self.table.settle(self.holder.id)
            self.holder = None

    def release(self) -> None:
        """The transaction is over."""
        self._level = 0
        self._relations = {}
        if self.holder is not None:
            holder, self.holder = self.holder, None
            self.table.leave(holder.id)

    def close(self) -> None:
        if self._table is not None:
            self.release()
            self._table.close()
            if self._token:
                processes.retire(self._token)


class LockNotAvailable(Exception):
    """A lock is not to be had at once."""

    def __init__(self, wanted: LockRequest) -> None:
        self.wanted = wanted


def shown(wanted: LockRequest, holders: dict[int, Holder], blocker: int, database: int) -> tuple[str, str]:
    """A lock that is waited for, as PostgreSQL has it: rows and keys by the transaction that holds them
    (DescribeLockTag)."""
    if wanted.kind is LockKind.RELATION:
        return MODE_NAMES[wanted.mode], f"relation {wanted.object} of database {database}"
    other = holders.get(blocker)
    return "ShareLock", f"transaction {other.xid if other is not None else 0}"


def find_deadlock(table: LockTable, holder: int) -> list[tuple[Waiter, int]]:
    """The circle of waits that a holder is part of: each waiter with whom it waits for; empty: there is none."""
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
                found = follow(other, step, seen)
                if found:
                    return found
        return []

    return follow(holder, [], {holder})


__all__ = ["PAGE", "TUPLE_MODES", "LockNotAvailable", "Locks", "Wait", "conflicts", "find_deadlock", "shown"]
