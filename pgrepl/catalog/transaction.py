"""Transactions: PostgreSQL's states, and the SQL transaction of the catalog beneath them.

A statement that only reads has a snapshot until it ends (READ COMMITTED); REPEATABLE READ and SERIALIZABLE keep the
snapshot of their first statement. The row changes of a block are pending (`pending`, lake/pending.py) under row locks
(`locks`), and it takes the catalog's write lock only to commit. A statement by itself takes that lock at once, unless
another session holds locks; so does a block at its first statement that changes definitions, and keeps it until it
ends.
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
from pgrepl.catalog.context import Block, CatalogSession, PendingChanges
from pgrepl.catalog.lock_modes import EXCLUSIVE, LockKind
from pgrepl.catalog.lock_table import LockRequest
from pgrepl.catalog.locks import Locks
from pgrepl.catalog.numbering import Defining, Numbering
from pgrepl.errors import PgError, unsupported
from pgrepl.interrupts import check_for_interrupts, hold_interrupts

if TYPE_CHECKING:
    from pgrepl.catalog.settings import Settings


_SLICE = 0.2  # seconds to wait for the write lock before looking at interrupts and the lock table
_ADOPTION_PATIENCE = 0.2  # seconds a reader waits for the write lock
_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


class SqlTransaction(Enum):
    """The state of the SQL transaction on the catalog's connection."""

    NONE = "none"
    READ = "read"
    WRITE = "write"


class LockNeeded(Exception):
    """A statement that changes definitions needs the lock of a table that another transaction holds. It begins anew
    when it has the lock: while it waits it must not hold the catalog's write lock."""

    def __init__(self, wanted: LockRequest) -> None:
        self.wanted = wanted


class ReadSet(Protocol):
    """The reads of a SERIALIZABLE transaction (query/serializable.py)."""

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
    pending: int
    level: int  # of locks


class SecondConnection(Protocol):
    """A session's second connection (`Beside` of session.py)."""

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
    """The state of a session's transaction. `store` calls require_read and require_write, statements the rest."""

    def __init__(self, session: Owner) -> None:
        self._session = session
        self.block = Block.NONE
        self.sql = SqlTransaction.NONE
        self.savepoints: list[Savepoint] = []
        self.callbacks: list[Callable[[], None]] = []
        self.before_commit: list[Callable[[], None]] = []
        self.undo: list[Callable[[], None]] = []  # for what the catalog's rollback does not reach
        self.settings_before: object = None
        self.settings_at_start: object = None  # with the characteristics of the last transaction, if chained to it
        self.started_at: datetime | None = None
        self.in_statement = False
        self.snapshot_taken = False  # a statement has read data: too late to change the isolation level
        self._commits = False
        self.had_lock = False  # it had the write lock before the running statement
        self.is_alone = False  # the running statement has the write lock, and no other session has locks
        self.numbering = Numbering(self, session)
        self.locks = Locks(session)
        self.pending: PendingChanges | None = None
        self.reads: ReadSet | None = None
        self.collects = False  # row changes are pending although it has the write lock
        self.prefers_pending = False  # the changes of a statement by itself are pending, too: others have locks
        self.in_recovery = False  # the instance is a standby
        self.uses_temporary = False  # it has looked up a temporary relation
        self.waits_for_disk: bool | None = None  # the commit, whatever synchronous_commit says (ForceSyncCommit)
        self._version: int | None = None
        self._definitions: tuple[object, ...] | None = None  # the state that the session remembers
        self._defined_before: int | None = None  # a snapshot since which definitions have not changed

    # --- the SQL transaction --------------------------------------------------------------------------------------

    @property
    def keeps_snapshot(self) -> bool:
        return self.block is not Block.NONE and self._session.settings.get("transaction_isolation") in (
            "repeatable read",
            "serializable",
        )

    @property
    def is_writing(self) -> bool:
        """Has the transaction the catalog's write lock?"""
        return self.sql is SqlTransaction.WRITE

    @property
    def has_written(self) -> bool:
        return self.sql is SqlTransaction.WRITE or self.pending is not None

    @property
    def can_keep_pending(self) -> bool:
        session = self._session
        return self.locks.possible and not session.replays and session.origin is None

    @property
    def keeps_pending(self) -> bool:
        """Are changes of rows pending until the commit, rather than written into the catalog?"""
        if self.collects:
            return True
        if self.sql is SqlTransaction.WRITE or not (self.block is not Block.NONE or self.prefers_pending):
            return False
        return self.can_keep_pending

    @property
    def locks_rows(self) -> bool:
        """Must the transaction lock the rows that it changes? Not a statement by itself with the write lock: others
        come after it."""
        return self.can_keep_pending and (self.block is not Block.NONE or self.prefers_pending)

    def pause(self) -> None:
        """Commit the second connection before the session waits for a lock."""
        self._session.beside.end()

    def refresh(self) -> bool:
        """Read what others have committed, unless the snapshot is kept. Whether anything has changed."""
        if self.sql is SqlTransaction.WRITE or self.keeps_snapshot:
            return False
        before = self._version
        self._end_reading()
        self.require_read()
        self.numbering.catch_up()
        return self._version != before

    @property
    def version(self) -> int | None:
        """A number that differs when another session has changed the catalog."""
        return self._version

    def has_definitions_of(self, snapshot: int) -> bool:
        """Are the definitions now those of a past snapshot? False: no, or not known."""
        self.require_read()
        before = self._defined_before
        return before is not None and before <= snapshot and not self.numbering.has_defined

    def release_write(self) -> None:
        """Give up the write lock, of a statement that has written nothing and begins anew."""
        self._rollback_sql()
        if self.pending is not None:
            self.pending.replayed = False

    def end_unwritten(self) -> None:
        """Give up the write lock, of a statement that has written nothing and goes on with what it has read."""
        self._commit_sql()

    def begin_again(self, needed: LockNeeded, mark: tuple[int, int, int]) -> None:
        """Undo the running statement, wait for a lock, and take the write lock again."""
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
            self._notice_commits()

    def require_write(self) -> None:
        if self.sql is SqlTransaction.WRITE:
            return
        session = self._session
        if self.pending is not None:
            self.numbering.store_snapshot()  # the statement's changes so far
        seen: int | None = None
        if self.sql is SqlTransaction.READ:
            if self.keeps_snapshot:
                seen = self.numbering.committed_snapshot()
            session.link.commit()
            self.sql = SqlTransaction.NONE
        self._take_write_lock()
        self._notice_commits()
        if seen is not None and self.snapshot_taken:
            self._check_serializable(seen)
        if self.in_recovery and not session.replays:
            self._rollback_sql()
            raise PgError("25006", "cannot write to the catalog during recovery")
        if self.block is not Block.NONE and not self._commits:
            self.locks.hold_catalog()
        if self.pending is not None:
            self.numbering.begin_replay()
            self.pending.replay()

    def try_write(self) -> bool:
        """Take the write lock for a statement by itself, unless that needs waiting."""
        link = self._session.link
        if (
            self.sql is SqlTransaction.WRITE
            or self.block is not Block.NONE
            or self.pending is not None
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
        self._notice_commits()
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
        """Raise 40001 if others have changed rows since the snapshot that the transaction keeps: it is about to read
        the catalog as it is now."""
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

    def _notice_commits(self) -> None:
        version = self._session.link.version()
        if version != self._version:
            self._version = version
            now = self.numbering.read_state()
            if now.definitions == self._definitions:
                self._session.forget_work()
            else:
                self._session.forget_all()
                self._definitions, self._defined_before = now.definitions, now.snapshot
            self.in_recovery = now.in_recovery
            if not self.in_recovery and now.is_behind:
                self._adopt()

    def _adopt(self) -> None:
        """Adopt definitions of another writer of the lake. A transaction that reads takes the write lock for a moment;
        if that is not free, the next statement tries again."""
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
            if self.numbering.read_state().is_behind:
                self.numbering.adopt()
            self._commit_sql()
        link.begin(write=False)
        self.sql = SqlTransaction.READ
        self._session.forget_all()
        self._version = None if self.numbering.read_state().is_behind else link.version()

    @property
    def _synchronous_commit(self) -> str | None:
        """The synchronous_commit of this commit; None: nobody has set it."""
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
            self._version = None  # adopted definitions have to be adopted again

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
        """End a statement that succeeded, and outside a block the transaction with it."""
        self._session.beside.end()
        self.numbering.store_snapshot()
        self.in_statement = False
        if self.block is Block.NONE:
            self._commit()
        elif self.sql is SqlTransaction.READ and not self.keeps_snapshot:
            self._end_reading()

    def fail_statement(self) -> None:
        """End a statement that failed: undo the transaction, and leave an explicit block aborted."""
        self.in_statement = False
        with hold_interrupts():
            self._session.beside.end()
            if self.block in (Block.EXPLICIT, Block.ABORTED):
                self._abort()
            else:
                self._rollback()

    def end(self) -> None:
        """Roll back at the end of the session."""
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
        """Commit the implicit block after the last statement of a string."""
        if self.block is Block.IMPLICIT:
            self._commit()

    def begin_block(self) -> None:
        """BEGIN. The block includes what an implicit block has done so far."""
        session = self._session
        if self.block is Block.EXPLICIT:
            session.notice("WARNING", "there is already a transaction in progress", sqlstate="25001")
            return
        self.block = Block.EXPLICIT

    def commit_block(self, *, chain: bool = False) -> str:
        """COMMIT; returns the command tag, COMMIT or ROLLBACK."""
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
        if self.pending is not None and not self.keeps_snapshot:
            self._end_reading()  # the checks below read the catalog as it is now
        try:
            for action in self.before_commit:
                action()
            if self.sql is SqlTransaction.WRITE:
                self._session.advance_origin()
            self.numbering.store_snapshot()
            check_for_interrupts()
            if self.pending is not None and not self.pending.replayed:
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
    def collecting(self, changes: PendingChanges) -> Iterator[None]:
        """Collect row changes, which a worker is going to prepare, instead of writing them into the catalog."""
        assert self.pending is None
        self.pending, self.collects = changes, True
        try:
            yield
        finally:
            self.pending, self.collects = None, False

    def prepare(self, record: Callable[[PendingChanges | None], str]) -> None:
        """PREPARE TRANSACTION: `record` stores the pending changes for the transaction that finishes them, and returns
        the name under which the locks stay."""
        if self.pending is not None and not self.keeps_snapshot:
            self._end_reading()
        try:
            for action in self.before_commit:
                action()
            self.numbering.store_snapshot()
            check_for_interrupts()
            if self.sql is SqlTransaction.WRITE:
                raise unsupported("PREPARE TRANSACTION after changes of definitions in the same transaction")
            self._commits = self.waits_for_disk = True
            changes, self.pending = self.pending, None
            self.numbering.begin_replay()
            self.require_write()
            self.locks.table.prepare(self.locks.entered.id, record(changes))
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
        self.pending = None
        self.reads = None
        self.prefers_pending = self.uses_temporary = False
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
        """Undo to the innermost savepoint; without one roll back the SQL transaction at once."""
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
            self.pending = None
            self.locks.release()
        else:
            self._pending_back_to(point)
        self._undo_from(0 if point is None else point.undo)
        self._session.settings.restore(point.settings if point is not None else self.settings_at_start)

    def _undo_sql(self) -> None:
        """Return to a savepoint that was set before the write lock was taken. A snapshot that is kept stays."""
        if self.sql is SqlTransaction.READ and self.keeps_snapshot:
            self.numbering.rolled_back_to_savepoint()
        else:
            self._rollback_sql()

    def _pending_back_to(self, point: Savepoint) -> None:
        self.locks.back_to(point.level)
        if self.pending is not None and self.sql is not SqlTransaction.WRITE:
            self.pending.back_to(point.pending)

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
        # a transaction that only reads has nothing to undo, and may end with the statement
        if self.sql is SqlTransaction.WRITE:
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
                0 if self.pending is None else self.pending.mark,
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
        self._pending_back_to(point)
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
    """An error inside a block, for statements that cannot be rolled back (PreventInTransactionBlock)."""
    if session.transaction.block is not Block.NONE:
        raise PgError("25001", f"{what} cannot run inside a transaction block")


def is_read_only(session: CatalogSession) -> bool:
    return session.settings.get("transaction_read_only") == "on"


def require_writable(session: CatalogSession, what: str) -> None:
    """An error in a read-only transaction (PreventCommandIfReadOnly)."""
    if is_read_only(session):
        raise PgError("25006", f"cannot execute {what} in a read-only transaction")


class Transacting(CatalogSession, Protocol):
    @property
    def transaction(self) -> Transaction: ...


@contextmanager
def statement(session: Transacting, *, writes: bool = False) -> Iterator[None]:
    """A statement that nobody typed: undone if it fails, else committed outside a block."""
    transaction = session.transaction
    try:
        transaction.begin_statement(writes=writes)
        yield
        transaction.end_statement()
    except BaseException:
        transaction.fail_statement()
        raise


@contextmanager
def reading(session: Transacting) -> Iterator[None]:
    """One snapshot of the catalog for reads that belong to no statement."""
    transaction = session.transaction
    if transaction.block is Block.ABORTED:
        raise aborted()
    if transaction.in_statement:
        yield
        return
    with statement(session):
        yield


def aborted() -> PgError:
    return PgError("25P02", "current transaction is aborted, commands ignored until end of transaction block")


__all__ = [
    "Savepoint",
    "SqlTransaction",
    "Transaction",
    "aborted",
    "reading",
    "require_no_block",
    "require_writable",
    "statement",
]
