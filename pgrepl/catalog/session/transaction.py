"""Transactions with PostgreSQL's states: statements, blocks and savepoints (PostgreSQL's xact.c).

A statement that only reads has a snapshot until it ends (READ COMMITTED); REPEATABLE READ and SERIALIZABLE keep the
snapshot of their first statement. The row changes of a block are pending (`pending`, lake/commit.py) under row
locks
(`locks`), and it takes the catalog's write lock only to commit. A statement by itself takes that lock at once, unless
another session holds locks; so does a block at its first statement that changes definitions, and keeps it until it
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog.locks.lock_table import LockRequest
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.catalog_transaction import CatalogTransaction, Owner, SqlTransaction
from pgrepl.catalog.session.context import Block, CatalogSession, PendingChanges
from pgrepl.catalog.session.numbering import Numbering
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.interrupts import check_for_interrupts, hold_interrupts

if TYPE_CHECKING:
    from pgrepl.catalog.locks.notification_queue import Notification

_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


def _usecs(moment: datetime) -> int:
    """Microseconds since 2000-01-01 UTC."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _no_wait() -> None:
    return


class LockNeeded(Exception):
    """A statement that changes definitions needs the lock of a table that another transaction holds. It begins anew
    when it has the lock: while it waits it must not hold the catalog's write lock."""

    def __init__(self, wanted: LockRequest) -> None:
        self.wanted = wanted


class DimensionsNeeded(Exception):
    """A new row has a value that is no list or struct, such as an array of several dimensions. The statement begins
    anew when the column keeps its values as text."""

    def __init__(self, relid: int, attnum: int) -> None:
        self.relid = relid
        self.attnum = attnum


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
    portals: dict[str, Any]  # that were open


class Announcements(Protocol):
    """The notifications that a transaction sends to other sessions, and receives from them, when it has committed
    (notifications.py)."""

    channels: dict[str, None]

    @property
    def has_pending(self) -> bool: ...

    def unlisten(self, channel: str | None) -> None: ...

    def before_commit(self) -> None: ...

    def committed(self) -> None: ...

    def end(self) -> None: ...

    def close(self) -> None: ...

    def take(self) -> list[Notification]: ...


class Transaction(CatalogTransaction):
    """The state of a session's transaction. `store` calls require_read and require_write, statements the rest."""

    def __init__(self, session: Owner) -> None:
        super().__init__(session)
        self.numbering = Numbering(self, session)
        self.savepoints: list[Savepoint] = []
        self.exported: list[str] = []  # the names of snapshots that others may use
        self.portals: dict[str, Any] = {}  # open cursors (query/portal.py)
        self.pinned: list[Any] = []  # the rows that running loops of PL/pgSQL read (query/portal.py: CursorRows)
        self.callbacks: list[Callable[[], None]] = []
        self.before_commit: list[Callable[[], None]] = []
        self.undo: list[Callable[[], object]] = []  # for effects outside the catalog's SQL transaction
        self.settings_before: object = None
        self.settings_at_start: object = None  # with the characteristics of the last transaction, if chained to it
        self.started_at: datetime | None = None
        self.string_at: datetime | None = None  # when the running query string arrived
        self.begins_pipeline = False  # the running statement is the first of several before Sync
        self.had_lock = False  # it had the write lock before the running statement
        self.notifications: Announcements | None = None  # None: the session has had none yet
        self.is_alone = False  # the running statement has the write lock, and no other session has locks
        self.uses_temporary = False  # it has looked up a temporary relation
        self.uncommitted_enums: set[int] = set()  # types made outside savepoints (uncommitted_enum_types)
        self.uncommitted_labels: set[int] = set()  # new labels of other enums (uncommitted_enum_values)

    def begin_again(self, needed: LockNeeded, mark: tuple[int, int, int]) -> None:
        """Undo the running statement, wait for a lock, and take the write lock again."""
        self.release_write()
        self._forget_since(mark)
        self.locks.take([needed.wanted])
        self.require_write()

    def undo_statement(self, mark: tuple[int, int, int]) -> bool:
        """Undo what the running statement has done outside a block. False: it is in one, and stays."""
        if self.block is not Block.NONE:
            return False
        self.release_write()
        self._forget_since(mark)
        return True

    def _forget_since(self, mark: tuple[int, int, int]) -> None:
        callbacks, before_commit, undo = mark
        del self.callbacks[callbacks:]
        del self.before_commit[before_commit:]
        self._undo_from(undo)

    @property
    def statement_mark(self) -> tuple[int, int, int]:
        return len(self.callbacks), len(self.before_commit), len(self.undo)

    # --- statements -----------------------------------------------------------------------------------------------

    def begin_statement(self, *, writes: bool = False) -> None:
        now = datetime.now(timezone.utc)
        self.had_lock = self.sql is SqlTransaction.WRITE
        self.is_alone = self.ends = False
        if self.block is Block.NONE:
            self.end_reading()
            self.started_at = now
            self.snapshot_taken = False
            if self.in_recovery:  # it may have been promoted since
                self.require_read()
                self.end_reading()
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
            self.end_reading()

    def end_looking(self) -> None:
        """End a statement that is no transaction by itself, if it has only read."""
        left = self.callbacks or self.before_commit or self.undo or self.notifications is not None
        if left or self.block is not Block.NONE or self.has_written or self.reads is not None:
            self.end_statement()
            return
        session = self._session
        session.beside.end()
        self.in_statement = False
        self.end_reading()
        self.locks.release()
        self.prefers_pending = self.uses_temporary = False
        session.settings.end(self.settings_before, committed=True)
        self.settings_before = None

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
        return _usecs(self.started_at or datetime.now(timezone.utc))

    @property
    def statement_now(self) -> int:
        """statement_timestamp(): the arrival of the query string, which may have begun the transaction."""
        return max(self.now, _usecs(self.string_at)) if self.string_at is not None else self.now

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
        self.ends = True
        if self.pending is not None and not self.keeps_snapshot:
            self.end_reading()  # the checks below read the catalog as it is now
        try:
            for action in self.before_commit:
                action()
            for portal in self.portals.values():
                if portal.declared.holds and not portal.is_held:
                    portal.rows.hold()
            if self.sql is SqlTransaction.WRITE:
                self._session.advance_origin()
            self.numbering.store_snapshot()
            if self.has_written:  # behind COMMIT there is nothing that could still be undone
                check_for_interrupts()
            if self.pending is not None and not self.pending.replayed:
                self._commits = True
                self.require_write()
            if self.notifications is not None:
                self.notifications.before_commit()
        except PgError:
            self.block = Block.NONE  # the caller rolls all of it back
            raise
        with hold_interrupts():
            wait = self._wait_for_standbys()
            self._commit_or_leave_block()
            if self.notifications is not None:
                self.notifications.committed()
            callbacks = self.callbacks
            self._leave(committed=True, chain=chain)
            for callback in callbacks:
                callback()
            wait()

    def _wait_for_standbys(self, *, commit: bool = True) -> Callable[[], None]:
        """How the session waits for synchronous standbys once its transaction has ended; by the settings as they are in
        the transaction. One that has changed nothing waits for none."""
        if self.sql is not SqlTransaction.WRITE or self.numbering.first_snapshot is None:
            return _no_wait
        if not self._session.settings.get("synchronous_standby_names"):
            return _no_wait
        from pgrepl.catalog.session.sync_rep import wait_for_standbys, waited_position

        position, lsn = waited_position(self._session, commit=commit), self.numbering.last_snapshot() + 1
        return _no_wait if position is None else partial(wait_for_standbys, self._session, position, lsn)

    def _commit_or_leave_block(self) -> None:
        try:
            self._commit_sql()
        except PgError:
            self.block = Block.NONE  # the caller rolls all of it back
            raise

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
        self.ends = True
        if self.pending is not None and not self.keeps_snapshot:
            self.end_reading()
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
            wait = self._wait_for_standbys(commit=False)
            self._commit_or_leave_block()
            self.locks.detach()
            callbacks = self.callbacks
            self._leave(committed=True, chain=False)
            for callback in callbacks:
                callback()
            wait()

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
        self._keep_portals(committed)
        self.callbacks = []
        self.before_commit = []
        if not committed:
            self._undo_from(0)
        self.undo = []
        self.waits_for_disk = None
        self._commits = self.ends = False
        self.pending = None
        self.reads = None
        self.prefers_pending = self.uses_temporary = False
        self.uncommitted_enums.clear()
        if self.uncommitted_labels:
            self.uncommitted_labels.clear()
            self._session.forget_all()
        if self.notifications is not None:
            self.notifications.end()
        self.locks.release()
        settings.end(self.settings_before, committed=committed)
        self.settings_before = None
        self.block = Block.NONE
        if kept is not None:
            self.begin_statement()
            self.block = Block.EXPLICIT
            settings.set_characteristics(kept)
            self.settings_at_start = settings.begin()

    def _keep_portals(self, committed: bool) -> None:
        """Keep cursors WITH HOLD, those of this transaction only if it has committed (PreCommit_Portals), and those of
        loops."""
        read = {id(rows) for rows in self.pinned}
        kept = {
            n: p for n, p in self.portals.items() if p.is_held or (committed and p.declared.holds) or id(p.rows) in read
        }
        for portal in kept.values():
            portal.is_held = True
        self.portals = kept

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
        self._session.link.rollback_to_savepoint(sql_name)
        self.numbering.rolled_back_to_savepoint()
        self._session.forget_all()

    # --- COMMIT and ROLLBACK within a statement --------------------------------------------------------------------

    def begin_within(self) -> None:
        """Begin the transaction of a statement that may itself commit or roll back (DO, CALL)."""
        self.begin_implicit()

    def end_within(self, *, commit: bool, chain: bool) -> None:
        """End the statement's transaction so far, and begin the next one of the same statement."""
        for rows in self.pinned:
            rows.hold()
        self._session.beside.end()
        if commit:
            self._commit(chain=chain)
        else:
            self._rollback(chain=chain)
        if not chain:
            self.begin_statement()
        self.block = Block.IMPLICIT

    def leave_within(self) -> None:
        """Let the end of the statement commit."""
        self.block = Block.NONE

    # --- savepoints -----------------------------------------------------------------------------------------------

    def savepoint(self, name: str) -> None:
        self._require_block("SAVEPOINT")
        self._push(name)

    def begin_subtransaction(self) -> None:
        """Begin what an error handler of a routine may undo (BeginInternalSubTransaction)."""
        self.numbering.store_snapshot()
        self._push("")

    def release_subtransaction(self) -> None:
        self.numbering.store_snapshot()
        self._release(len(self.savepoints) - 1)

    def rollback_subtransaction(self) -> None:
        """Undo the innermost subtransaction, and end it."""
        self._session.beside.end()
        self._back_to(len(self.savepoints) - 1)
        self.savepoints.pop()

    def _push(self, name: str) -> None:
        sql_name = None
        # a transaction that only reads has nothing to undo, and may end with the statement
        if self.sql is SqlTransaction.WRITE:
            sql_name = f"s{len(self.savepoints) + 1}"
            self._session.link.savepoint(sql_name)
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
                dict(self.portals),
            )
        )

    def release(self, name: str) -> None:
        self._require_block("RELEASE SAVEPOINT")
        self._release(self._find(name))

    def _release(self, position: int) -> None:
        sql_name = self.savepoints[position].sql_name
        if sql_name is not None:
            self._session.link.execute(f"RELEASE SAVEPOINT {sql_name}")
        self._session.settings.leave_savepoint(self.savepoints[position].settings)
        del self.savepoints[position:]

    def rollback_to(self, name: str) -> None:
        self._require_block("ROLLBACK TO SAVEPOINT")
        self._back_to(self._find(name))
        self.block = Block.EXPLICIT

    def _back_to(self, position: int) -> None:
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
        self.portals = {name: portal for name, portal in self.portals.items() if point.portals.get(name) is portal}

    @property
    def is_outside_block(self) -> bool:
        """Is the running statement of the client in no block? The first of a pipeline is not, those behind it are."""
        alone = self.block is Block.NONE or (self.block is Block.IMPLICIT and self.begins_pipeline)
        return alone and not self._session.is_nested

    def require_some_block(self, what: str) -> None:
        """An error outside a block, for statements whose effect ends with it (RequireTransactionBlock). The block of
        several statements in one string will do, or a routine."""
        if self.is_outside_block:
            raise PgError("25P01", f"{what} can only be used in transaction blocks")

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
    if session.contexts and session.transaction.block is not Block.EXPLICIT:
        raise PgError("25001", f"{what} cannot be executed from a function")
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
def statement(session: Transacting, *, writes: bool = False, looks: bool = False) -> Iterator[None]:
    """A statement of pgrepl's own: undone if it fails; outside a block it commits, unless it only `looks`."""
    transaction = session.transaction
    try:
        transaction.begin_statement(writes=writes)
        yield
        if looks:
            transaction.end_looking()
        else:
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
    portals = transaction.portals
    with statement(session, looks=True):
        yield
    transaction.portals = portals  # those of Bind wait for their transaction to begin


def aborted() -> PgError:
    return PgError("25P02", "current transaction is aborted, commands ignored until end of transaction block")
