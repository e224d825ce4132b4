"""Transactions: PostgreSQL's states, and the SQL transaction of the catalog beneath them.

A statement that only reads gets a snapshot for its own length (as READ COMMITTED has it); REPEATABLE READ and
SERIALIZABLE keep the snapshot of their first statement. What a block changes of rows it keeps aside (`aside`,
lake/pending.py) under row locks (`locks`), and takes the catalog's write lock for its commit alone. A statement by
itself takes that lock at once, unless somebody has locked something; so does a block from the first statement on that
changes definitions, and holds it until it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from pgrepl.catalog import statistics
from pgrepl.catalog.context import Aside, Block, CatalogSession
from pgrepl.catalog.lock_modes import EXCLUSIVE, LockKind
from pgrepl.catalog.lock_table import LockRequest
from pgrepl.catalog.locks import Locks
from pgrepl.catalog.numbering import Defining, Numbering
from pgrepl.errors import PgError, unsupported
from pgrepl.interrupts import check_for_interrupts, hold_interrupts

if TYPE_CHECKING:
    from pgrepl.catalog.settings import Settings


_SLICE = 0.2  # seconds a writer waits for another before it looks around
_ADOPTION_PATIENCE = 0.2  # seconds a reader waits for the write lock
_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


class SqlTransaction(Enum):
    """What the catalog's connection is doing."""

    NONE = "none"
    READ = "read"
    WRITE = "write"


class LockNeeded(Exception):
    """A statement that changes definitions has met a table on which another transaction is at work. It begins anew
    once it has the lock: while it waits it must not hold the catalog's."""

    def __init__(self, wanted: LockRequest) -> None:
        self.wanted = wanted


class ReadSet(Protocol):
    """What a SERIALIZABLE transaction has read (query/serializable.py)."""

    def check(self, snapshot: int) -> None:
        """Raise 40001 if others have changed it since the snapshot."""


@dataclass(slots=True)
class Savepoint:
    name: str
    settings: object
    sql_name: str | None  # None: nothing had been written
    callbacks: int
    before_commit: int
    undo: int
    aside: int
    level: int  # of locks


class SecondConnection(Protocol):
    """What a session does beside its transaction (session.py)."""

    def end(self) -> None: ...


class Owner(Defining, Protocol):
    """The session whose transaction it is."""

    @property
    def settings(self) -> Settings: ...

    @property
    def beside(self) -> SecondConnection: ...

    @property
    def is_admitted(self) -> bool: ...

    @property
    def lock_timeout(self) -> float: ...

    def advance_origin(self) -> None: ...

    def forget_all(self) -> None: ...

    def forget_work(self) -> None: ...


class Transaction:
    """The state of a session's transaction. `store` calls require_read and require_write, commands the rest."""

    def __init__(self, session: Owner) -> None:
        self._session = session
        self.block = Block.NONE
        self.sql = SqlTransaction.NONE
        self.savepoints: list[Savepoint] = []
        self.callbacks: list[Callable[[], None]] = []
        self.before_commit: list[Callable[[], None]] = []
        self.undo: list[Callable[[], None]] = []  # for what the catalog's rollback does not reach
        self.settings_before: object = None
        self.settings_at_start: object = None  # with the characteristics that a chained transaction has from the last
        self.started_at: datetime | None = None
        self.in_statement = False
        self.snapshot_taken = False  # a statement has looked at data: too late to change the isolation level
        self._commits = False
        self.had_lock = False  # the catalog's, before the running statement
        self.is_alone = False  # the running statement has the catalog's lock, and nobody has locked anything
        self.numbering = Numbering(self, session)
        self.locks = Locks(session)
        self.aside: Aside | None = None
        self.reads: ReadSet | None = None
        self.collects = False  # row changes go aside although it has the catalog's lock
        self.prefers_aside = False  # a statement by itself is to be kept aside, too: others have locked something
        self.in_recovery = False  # the instance is a standby
        self.uses_temporary = False  # it has looked up a temporary relation
        self.waits_for_disk: bool | None = None  # the commit, whatever synchronous_commit says (ForceSyncCommit)
        self._version: int | None = None
        self._definitions: tuple[object, ...] | None = None  # that the session's memory is of
        self._defined_before: int | None = None  # a snapshot since which nobody has changed them

    # --- the SQL transaction --------------------------------------------------------------------------------------

    @property
    def keeps_snapshot(self) -> bool:
        return self.block is not Block.NONE and self._session.settings.get("transaction_isolation") in (
            "repeatable read",
            "serializable",
        )

    @property
    def is_writing(self) -> bool:
        """Has it the catalog's write lock?"""
        return self.sql is SqlTransaction.WRITE

    @property
    def has_written(self) -> bool:
        return self.sql is SqlTransaction.WRITE or self.aside is not None

    @property
    def can_keep_aside(self) -> bool:
        session = self._session
        return self.locks.possible and not session.replays and session.origin is None

    @property
    def keeps_aside(self) -> bool:
        """Are changes of rows kept aside until the commit?"""
        if self.collects:
            return True
        if self.sql is SqlTransaction.WRITE or not (self.block is not Block.NONE or self.prefers_aside):
            return False
        return self.can_keep_aside

    @property
    def locks_rows(self) -> bool:
        """Must others be kept from the rows that it changes? A statement by itself that has the catalog's lock need
        not: others come after it."""
        return self.can_keep_aside and (self.block is not Block.NONE or self.prefers_aside)

    def pause(self) -> None:
        """The session is going to wait for somebody: it must not hold what that one needs."""
        self._session.beside.end()

    def refresh(self) -> bool:
        """See what others have committed; has anybody? A snapshot that is to be kept stays."""
        if self.sql is SqlTransaction.WRITE or self.keeps_snapshot:
            return False
        before = self._version
        self._end_reading()
        self.require_read()
        self.numbering.catch_up()
        return self._version != before

    @property
    def version(self) -> int | None:
        """Changes whenever another session has changed the catalog."""
        return self._version

    def is_as_at(self, snapshot: int) -> bool:
        """Are the definitions now those of a past snapshot? False if that is not known."""
        self.require_read()
        before = self._defined_before
        return before is not None and before <= snapshot and not self.numbering.has_defined

    def release_write(self) -> None:
        """Nothing was written: others may, while the statement begins anew."""
        self._rollback_sql()
        if self.aside is not None:
            self.aside.replayed = False

    def end_unwritten(self) -> None:
        """Nothing was written: others may, while the statement goes on with what it has read."""
        self._commit_sql()

    def begin_again(self, needed: LockNeeded, mark: tuple[int, int, int]) -> None:
        """Undo what the running statement has done, wait for a lock, and take the catalog's lock once more."""
        self.release_write()
        callbacks, before_commit, undo = mark
        del self.callbacks[callbacks:]
        del self.before_commit[before_commit:]
        self._undo_from(undo)
        self.locks.take([needed.wanted])
        self.require_write()

    @property
    def statement_mark(self) -> tuple[int, int, int]:
        return len(self.callbacks), len(self.before_commit), len(self.undo)

    def require_read(self) -> None:
        if self.sql is SqlTransaction.NONE:
            self._session.link.begin(write=False)
            self.sql = SqlTransaction.READ
            self._look_around()

    def require_write(self) -> None:
        if self.sql is SqlTransaction.WRITE:
            return
        session = self._session
        if self.aside is not None:
            self.numbering.store_snapshot()  # what the statement has written so far
        seen: int | None = None
        if self.sql is SqlTransaction.READ:
            if self.keeps_snapshot:
                seen = self.numbering.committed_snapshot()
            session.link.commit()
            self.sql = SqlTransaction.NONE
        self._take_write_lock()
        self._look_around()
        if seen is not None and self.snapshot_taken:
            self._check_serializable(seen)
        if self.in_recovery and not session.replays:
            self._rollback_sql()
            raise PgError("25006", "cannot write to the catalog during recovery")
        if self.block is not Block.NONE and not self._commits:
            self.locks.hold_catalog()
        if self.aside is not None:
            self.numbering.begin_replay()
            self.aside.replay()

    def try_write(self) -> bool:
        """Have the catalog's lock for a statement by itself, if that needs no waiting."""
        link = self._session.link
        if (
            self.sql is SqlTransaction.WRITE
            or self.block is not Block.NONE
            or self.aside is not None
            or not link.is_sqlite
        ):
            return self.sql is SqlTransaction.WRITE
        self._end_reading()
        self._session.beside.end()
        try:
            link.begin(write=True, lock_timeout=0, synchronous_commit=self._synchronous_commit)
        except PgError as problem:
            if problem.sqlstate != "55P03":
                raise
            return False
        self.sql = SqlTransaction.WRITE
        self._look_around()
        if self.in_recovery:
            self._rollback_sql()
        return self.is_writing

    def _take_write_lock(self) -> None:
        session = self._session
        self._session.beside.end()
        patience = session.lock_timeout
        began = time.monotonic()

        def begin(ticket: int = 0) -> bool:
            left = began + session.link.patience(patience) - time.monotonic()
            try:
                session.link.begin(
                    write=True,
                    lock_timeout=min(max(left, 0), _SLICE),
                    synchronous_commit=self._synchronous_commit,
                )
            except PgError as problem:
                if problem.sqlstate != "55P03":
                    raise
                if left <= 0:
                    raise session.catalog.lock_failure(patience) from problem
                return False
            return True

        if not self.locks.possible:
            session.link.begin(write=True, lock_timeout=patience, synchronous_commit=self._synchronous_commit)
        elif not begin():
            self.locks.wait_until(LockRequest(LockKind.CATALOG, 0, 0, EXCLUSIVE), begin)
        self.sql = SqlTransaction.WRITE

    def _check_serializable(self, seen: int) -> None:
        """A transaction that keeps its snapshot is about to see the catalog as it is now."""
        if self._commits:  # its rows are locked: what others have changed it has not
            if self.reads is not None:
                self.reads.check(seen)
            return
        link = self._session.link
        like = "changes_made LIKE ?"
        changed = link.execute(
            f"SELECT 1 FROM ducklake_snapshot_changes WHERE snapshot_id > ? AND ({like} OR {like} OR {like}) LIMIT 1",
            (seen, "%insert%", "%deleted_from%", "%inlined_delete%"),
        )
        if changed:
            raise PgError("40001", "could not serialize access due to concurrent update")

    def _look_around(self) -> None:
        version = self._session.link.version()
        if version != self._version:
            self._version = version
            now = self.numbering.look()
            if now.definitions == self._definitions:
                self._session.forget_work()
            else:
                self._session.forget_all()
                self._definitions, self._defined_before = now.definitions, now.snapshot
            self.in_recovery = now.in_recovery
            if not self.in_recovery and now.is_behind:
                self._adopt()

    def _adopt(self) -> None:
        """Somebody else has defined something in the lake. Who only reads needs the write lock for a moment; if it is
        not to be had, the next statement tries again."""
        link = self._session.link
        if not self._session.is_admitted:
            self._version = None  # the first statement looks again
            return
        self._definitions = self._defined_before = None
        if self.sql is SqlTransaction.WRITE:
            self.numbering.adopt()
            self._session.forget_all()
            return
        link.commit()
        self.sql = SqlTransaction.NONE
        try:
            link.begin(write=True, lock_timeout=_ADOPTION_PATIENCE)
        except PgError as problem:
            if problem.sqlstate != "55P03" and link.catalog.obstacle is None:
                raise
        else:
            self.sql = SqlTransaction.WRITE
            if self.numbering.look().is_behind:
                self.numbering.adopt()
            self._commit_sql()
        link.begin(write=False)
        self.sql = SqlTransaction.READ
        self._session.forget_all()
        self._version = None if self.numbering.look().is_behind else link.version()

    @property
    def _synchronous_commit(self) -> str | None:
        """What the commit waits for; None: nobody has said so."""
        settings = self._session.settings
        chosen = settings.get("synchronous_commit") if settings.source("synchronous_commit") != "default" else None
        if self.waits_for_disk is None:
            return chosen
        return "off" if not self.waits_for_disk else "local" if chosen == "off" else chosen

    def _commit_sql(self) -> None:
        if self.sql is SqlTransaction.NONE:
            return
        link = self._session.link
        if self.sql is SqlTransaction.WRITE:
            if self.numbering.has_defined:
                self._defined_before = None
            self.numbering.close_group()
            self.numbering.store_oids()
            if not link.is_sqlite:
                self._version = link.version()
        link.commit(self._synchronous_commit if self.sql is SqlTransaction.WRITE else None)
        self.sql = SqlTransaction.NONE
        self.numbering.committed()

    def _rollback_sql(self) -> None:
        wrote = self.sql is SqlTransaction.WRITE
        self.sql = SqlTransaction.NONE
        self.numbering.rolled_back()
        self._session.link.rollback()
        if wrote:
            self._session.forget_all()
            self._version = None  # what was adopted is to be adopted again

    # --- statements -----------------------------------------------------------------------------------------------

    def begin_statement(self, *, writes: bool = False) -> None:
        now = datetime.now(timezone.utc)
        self.had_lock = self.sql is SqlTransaction.WRITE
        self.is_alone = False
        if self.block is Block.NONE:
            self._end_reading()
            self.started_at = now
            self.snapshot_taken = False
            if self.in_recovery:  # it may have been promoted since
                self.require_read()
                self._end_reading()
            self.settings_before = self._session.settings.begin()
            self._session.settings.start_transaction(read_only=self.in_recovery and not self._session.replays)
            self.settings_at_start = self._session.settings.begin()
        self.in_statement = True
        if writes:
            self.require_write()

    def end_statement(self) -> None:
        """The statement succeeded: outside a block that commits."""
        self._session.beside.end()
        self.numbering.store_snapshot()
        self.in_statement = False
        if self.block is Block.NONE:
            self._commit()
        elif self.sql is SqlTransaction.READ and not self.keeps_snapshot:
            self._end_reading()

    def fail_statement(self) -> None:
        """The statement failed: everything of the transaction is undone, an explicit block is left aborted."""
        self.in_statement = False
        with hold_interrupts():
            self._session.beside.end()
            if self.block in (Block.EXPLICIT, Block.ABORTED):
                self._abort()
            else:
                self._rollback()

    def end(self) -> None:
        """The session ends: what is open is rolled back."""
        self.in_statement = False
        self._rollback()

    @property
    def now(self) -> int:
        """now(): the start of the transaction, in microseconds since 2000-01-01 UTC."""
        started = self.started_at or datetime.now(timezone.utc)
        return (started - _EPOCH) // timedelta(microseconds=1)

    def _end_reading(self) -> None:
        if self.sql is SqlTransaction.READ:
            self._session.link.commit()
            self.sql = SqlTransaction.NONE

    # --- blocks ---------------------------------------------------------------------------------------------------

    def begin_implicit(self) -> None:
        if self.block is Block.NONE:
            self.block = Block.IMPLICIT

    def end_implicit(self) -> None:
        """The last statement of a string is done."""
        if self.block is Block.IMPLICIT:
            self._commit()

    def begin_block(self) -> None:
        """BEGIN. What an implicit block has done so far becomes part of it."""
        session = self._session
        if self.block is Block.EXPLICIT:
            session.notice("WARNING", "there is already a transaction in progress", sqlstate="25001")
            return
        self.block = Block.EXPLICIT

    def commit_block(self, *, chain: bool = False) -> str:
        """COMMIT; the tag says what became of it."""
        if self.block is Block.EXPLICIT:
            self._commit(chain=chain)
            return "COMMIT"
        if self.block is Block.ABORTED:
            self._rollback(chain=chain)
            return "ROLLBACK"
        self._no_block("COMMIT", chain)
        self._commit()
        return "COMMIT"

    def rollback_block(self, *, chain: bool = False) -> str:
        if self.block in (Block.NONE, Block.IMPLICIT):
            self._no_block("ROLLBACK", chain)
        self._rollback(chain=chain)
        return "ROLLBACK"

    def _no_block(self, verb: str, chain: bool) -> None:
        if chain:
            raise PgError("25P01", f"{verb} AND CHAIN can only be used in transaction blocks")
        self._session.notice("WARNING", "there is no transaction in progress", sqlstate="25P01")

    def _commit(self, *, chain: bool = False) -> None:
        if self.aside is not None and not self.keeps_snapshot:
            self._end_reading()  # what is looked at now is looked at as it is now
        try:
            for action in self.before_commit:
                action()
            if self.sql is SqlTransaction.WRITE:
                self._session.advance_origin()
            self.numbering.store_snapshot()
            check_for_interrupts()
            if self.aside is not None and not self.aside.replayed:
                self._commits = True
                self.require_write()
        except PgError:
            self.block = Block.NONE  # the caller rolls all of it back
            raise
        with hold_interrupts():
            self._commit_sql()
            callbacks = self.callbacks
            self._leave(committed=True, chain=chain)
            for callback in callbacks:
                callback()

    @contextmanager
    def collecting(self, changes: Aside) -> Iterator[None]:
        """What is written goes there and nowhere else: a worker is going to prepare it."""
        assert self.aside is None
        self.aside, self.collects = changes, True
        try:
            yield
        finally:
            self.aside, self.collects = None, False

    def prepare(self, record: Callable[[Aside | None], str]) -> None:
        """PREPARE TRANSACTION: `record` writes down what was kept aside, for another transaction to finish. The locks
        stay, under the name that it gives."""
        if self.aside is not None and not self.keeps_snapshot:
            self._end_reading()
        try:
            for action in self.before_commit:
                action()
            self.numbering.store_snapshot()
            check_for_interrupts()
            if self.sql is SqlTransaction.WRITE:
                raise unsupported("PREPARE TRANSACTION after changes of definitions in the same transaction")
            self._commits = self.waits_for_disk = True
            aside, self.aside = self.aside, None
            self.numbering.begin_replay()
            self.require_write()
            self.locks.table.prepare(self.locks.entered.id, record(aside))
            self._session.advance_origin()
            self.numbering.store_snapshot()
        except PgError:
            self.block = Block.NONE  # the caller rolls all of it back
            raise
        with hold_interrupts():
            self._commit_sql()
            self.locks.detach()
            callbacks = self.callbacks
            self._leave(committed=True, chain=False)
            for callback in callbacks:
                callback()

    def _rollback(self, *, chain: bool = False) -> None:
        self._rollback_sql()
        self._leave(committed=False, chain=chain)

    def _leave(self, *, committed: bool, chain: bool) -> None:
        session = self._session
        settings = session.settings
        if session.is_admitted:
            ended = "xact_commit" if committed else "xact_rollback"
            statistics.count(session, statistics.DATABASE, session.database_oid, **{ended: 1})
            statistics.counters(session.catalog).end_transaction()
        kept = settings.transaction_characteristics() if chain else None
        self.savepoints = []
        self.callbacks = []
        self.before_commit = []
        if not committed:
            self._undo_from(0)
        self.undo = []
        self.waits_for_disk = None
        self._commits = False
        self.aside = None
        self.reads = None
        self.prefers_aside = self.uses_temporary = False
        self.locks.release()
        settings.end(self.settings_before, committed=committed)
        self.settings_before = None
        self.block = Block.NONE
        if kept is not None:
            self.begin_statement()
            self.block = Block.EXPLICIT
            settings.set_characteristics(kept)
            self.settings_at_start = settings.begin()

    def _abort(self) -> None:
        """Undo to the innermost savepoint; without one let go of the catalog at once."""
        self.block = Block.ABORTED
        link = self._session.link
        point = self.savepoints[-1] if self.savepoints else None
        self._session.beside.end()
        if point is not None and point.sql_name is None:
            self._undo_sql()
        elif point is None or point.sql_name is None or not link.in_transaction:
            self._rollback_sql()
        else:
            self._rollback_sql_to(point.sql_name)
        if point is None:
            self.aside = None
            self.locks.release()
        else:
            self._aside_back_to(point)
        self._undo_from(0 if point is None else point.undo)
        self._session.settings.restore(point.settings if point is not None else self.settings_at_start)

    def _undo_sql(self) -> None:
        """Back to a savepoint before the catalog's lock was taken. A snapshot that is kept stays."""
        if self.sql is SqlTransaction.READ and self.keeps_snapshot:
            self.numbering.rolled_back_to_savepoint()
        else:
            self._rollback_sql()

    def _aside_back_to(self, point: Savepoint) -> None:
        self.locks.back_to(point.level)
        if self.aside is not None and self.sql is not SqlTransaction.WRITE:
            self.aside.back_to(point.aside)

    def _undo_from(self, first: int) -> None:
        undone = self.undo[first:]
        del self.undo[first:]
        for action in reversed(undone):
            action()

    def _rollback_sql_to(self, sql_name: str) -> None:
        self._session.link.execute(f"ROLLBACK TO SAVEPOINT {sql_name}")
        self.numbering.rolled_back_to_savepoint()
        self._session.forget_all()

    # --- savepoints -----------------------------------------------------------------------------------------------

    def savepoint(self, name: str) -> None:
        self._require_block("SAVEPOINT")
        sql_name = None
        if (
            self.sql is SqlTransaction.WRITE
        ):  # a transaction that only reads has nothing to undo, and may end with the statement
            sql_name = f"s{len(self.savepoints) + 1}"
            self._session.link.execute(f"SAVEPOINT {sql_name}")
        self.savepoints.append(
            Savepoint(
                name,
                self._session.settings.begin(),
                sql_name,
                len(self.callbacks),
                len(self.before_commit),
                len(self.undo),
                0 if self.aside is None else self.aside.mark,
                self.locks.new_level(),
            )
        )

    def release(self, name: str) -> None:
        self._require_block("RELEASE SAVEPOINT")
        position = self._find(name)
        sql_name = self.savepoints[position].sql_name
        if sql_name is not None:
            self._session.link.execute(f"RELEASE SAVEPOINT {sql_name}")
        self._session.settings.leave_savepoint(self.savepoints[position].settings)
        del self.savepoints[position:]

    def rollback_to(self, name: str) -> None:
        self._require_block("ROLLBACK TO SAVEPOINT")
        position = self._find(name)
        point = self.savepoints[position]
        if point.sql_name is None:
            self._undo_sql()
        else:
            self._rollback_sql_to(point.sql_name)
        self._aside_back_to(point)
        del self.savepoints[position + 1 :]
        del self.callbacks[point.callbacks :]
        del self.before_commit[point.before_commit :]
        self._undo_from(point.undo)
        self._session.settings.restore(point.settings)
        self.block = Block.EXPLICIT

    def _require_block(self, what: str) -> None:
        if self.block not in (Block.EXPLICIT, Block.ABORTED):
            raise PgError("25P01", f"{what} can only be used in transaction blocks")

    def _find(self, name: str) -> int:
        for position in range(len(self.savepoints) - 1, -1, -1):
            if self.savepoints[position].name == name:
                return position
        raise PgError("3B001", f'savepoint "{name}" does not exist')


def require_no_block(session: CatalogSession, what: str) -> None:
    """Statements that cannot be undone insist on a transaction of their own (PreventInTransactionBlock)."""
    if session.transaction.block is not Block.NONE:
        raise PgError("25001", f"{what} cannot run inside a transaction block")


def is_read_only(session: CatalogSession) -> bool:
    return session.settings.get("transaction_read_only") == "on"


def require_writable(session: CatalogSession, what: str) -> None:
    """As PreventCommandIfReadOnly."""
    if is_read_only(session):
        raise PgError("25006", f"cannot execute {what} in a read-only transaction")


class Transacting(CatalogSession, Protocol):
    @property
    def transaction(self) -> Transaction: ...


@contextmanager
def reading(session: Transacting) -> Iterator[None]:
    """For what only looks and is no statement of its own: one view of the catalog for all its questions."""
    transaction = session.transaction
    if transaction.block is Block.ABORTED:
        raise aborted()
    if transaction.in_statement:
        yield
        return
    try:
        transaction.begin_statement()
        yield
        transaction.end_statement()
    except BaseException:
        transaction.fail_statement()
        raise


def aborted() -> PgError:
    return PgError("25P02", "current transaction is aborted, commands ignored until end of transaction block")


__all__ = ["Savepoint", "SqlTransaction", "Transaction", "aborted", "reading", "require_no_block", "require_writable"]
