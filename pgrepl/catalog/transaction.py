"""Transactions: PostgreSQL's states, and the SQL transaction of the catalog beneath them.

One PostgreSQL transaction is one SQL transaction. It begins when it is first needed: a statement that only reads gets a
snapshot for its own length (as READ COMMITTED has it), one that writes takes the catalog's write lock until the
transaction ends. REPEATABLE READ and SERIALIZABLE keep the snapshot of their first statement; if somebody has committed
since, their first write fails as PostgreSQL's would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING

from pgrepl.catalog import recovery
from pgrepl.catalog.numbering import Numbering
from pgrepl.errors import PgError
from pgrepl.interrupts import check_for_interrupts, hold_interrupts

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


_ADOPTION_PATIENCE = 0.2  # seconds a reader waits for the write lock
_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


class Block(Enum):
    """Where the session is: between transactions, in a string of several statements, in BEGIN … COMMIT, or after an
    error in it."""

    NONE = "idle"
    IMPLICIT = "implicit block"
    EXPLICIT = "in block"
    ABORTED = "aborted"


class Sql(Enum):
    """What the catalog's connection is doing."""

    NONE = "none"
    READ = "read"
    WRITE = "write"


@dataclass(slots=True)
class Savepoint:
    name: str
    settings: object
    sql_name: str | None  # None: nothing had been written
    callbacks: int
    before_commit: int
    undo: int


class Transaction:
    """The state of a session's transaction. `store` calls require_read and require_write, commands the rest."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.block = Block.NONE
        self.sql = Sql.NONE
        self.savepoints: list[Savepoint] = []
        self.callbacks: list[Callable[[], None]] = []
        self.before_commit: list[Callable[[], None]] = []
        self.undo: list[Callable[[], None]] = []  # for what the catalog's rollback does not reach
        self.settings_before: object = None
        self.settings_at_start: object = None  # with the characteristics that a chained transaction has from the last
        self.started_at: datetime | None = None
        self.statement_at: datetime | None = None
        self.in_statement = False
        self.snapshot_taken = False  # a statement has looked at data: too late to change the isolation level
        self.numbering = Numbering(self, session)
        self.in_recovery = False  # the instance is a standby
        self.waits_for_disk: bool | None = None  # the commit, whatever synchronous_commit says (ForceSyncCommit)
        self._version: int | None = None

    # --- the SQL transaction --------------------------------------------------------------------------------------

    @property
    def _keeps_snapshot(self) -> bool:
        return self.block is not Block.NONE and self._session.settings.get("transaction_isolation") in (
            "repeatable read",
            "serializable",
        )

    @property
    def is_writing(self) -> bool:
        """Has it the catalog's write lock?"""
        return self.sql is Sql.WRITE

    @property
    def version(self) -> int | None:
        """Changes whenever another session has changed the catalog."""
        return self._version

    def release_write(self) -> None:
        """Nothing was written: others may, while the statement begins anew."""
        self._rollback_sql()

    def require_read(self) -> None:
        if self.sql is Sql.NONE:
            self._session.link.begin(write=False)
            self.sql = Sql.READ
            self._look_around()

    def require_write(self) -> None:
        if self.sql is Sql.WRITE:
            return
        session = self._session
        seen: int | None = None
        if self.sql is Sql.READ:
            if self._keeps_snapshot:
                seen = self._version
            session.link.commit()
            self.sql = Sql.NONE
        session.link.begin(write=True, lock_timeout=session.lock_timeout, synchronous_commit=self._synchronous_commit)
        self.sql = Sql.WRITE
        self._look_around()
        if seen is not None and self._version != seen:
            raise PgError("40001", "could not serialize access due to concurrent update")
        if self.in_recovery and not session.replays:
            self._rollback_sql()
            raise PgError("25006", "cannot write to the catalog during recovery")

    def _look_around(self) -> None:
        version = self._session.link.version()
        if version != self._version:
            self._version = version
            self._session.forget_all()
            self.in_recovery = recovery.is_standby(self._session.link)
            if not self.in_recovery and self.numbering.is_behind():
                self._adopt()

    def _adopt(self) -> None:
        """Somebody else has defined something in the lake. Who only reads needs the write lock for a moment; if it is
        not to be had, the next statement tries again."""
        link = self._session.link
        if not self._session.is_admitted:
            self._version = None  # the first statement looks again
            return
        if self.sql is Sql.WRITE:
            self.numbering.adopt()
            self._session.forget_all()
            return
        link.commit()
        self.sql = Sql.NONE
        try:
            link.begin(write=True, lock_timeout=_ADOPTION_PATIENCE)
        except PgError as problem:
            if problem.sqlstate != "55P03":
                raise
        else:
            self.sql = Sql.WRITE
            if self.numbering.is_behind():
                self.numbering.adopt()
            self._commit_sql()
        link.begin(write=False)
        self.sql = Sql.READ
        self._session.forget_all()
        self._version = None if self.numbering.is_behind() else link.version()

    @property
    def _synchronous_commit(self) -> str | None:
        """What the commit waits for; None: nobody has said so."""
        settings = self._session.settings
        chosen = settings.get("synchronous_commit") if settings.source("synchronous_commit") != "default" else None
        if self.waits_for_disk is None:
            return chosen
        return "off" if not self.waits_for_disk else "local" if chosen == "off" else chosen

    def _commit_sql(self) -> None:
        if self.sql is Sql.NONE:
            return
        link = self._session.link
        if self.sql is Sql.WRITE:
            self.numbering.close_group()
            self.numbering.store_oids()
            if not link.is_sqlite:
                self._version = link.version()
        link.commit(self._synchronous_commit if self.sql is Sql.WRITE else None)
        self.sql = Sql.NONE
        self.numbering.committed()

    def _rollback_sql(self) -> None:
        wrote = self.sql is Sql.WRITE
        self.sql = Sql.NONE
        self.numbering.rolled_back()
        self._session.link.rollback()
        if wrote:
            self._session.forget_all()
            self._version = None  # what was adopted is to be adopted again

    # --- statements -----------------------------------------------------------------------------------------------

    def begin_statement(self, *, writes: bool = False) -> None:
        now = datetime.now(timezone.utc)
        self.statement_at = now
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
        self.numbering.store_snapshot()
        self.in_statement = False
        if self.block is Block.NONE:
            self._commit()
        elif self.sql is Sql.READ and not self._keeps_snapshot:
            self._end_reading()

    def fail_statement(self) -> None:
        """The statement failed: everything of the transaction is undone, an explicit block is left aborted."""
        self.in_statement = False
        with hold_interrupts():
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
        if self.sql is Sql.READ:
            self._session.link.commit()
            self.sql = Sql.NONE

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
        try:
            for action in self.before_commit:
                action()
            if self._session.origin is not None and self.sql is Sql.WRITE:
                self._session.origin.advance(self._session)
        except PgError:
            self.block = Block.NONE  # the caller rolls all of it back
            raise
        check_for_interrupts()
        with hold_interrupts():
            self.numbering.store_snapshot()
            self._commit_sql()
            callbacks = self.callbacks
            self._leave(committed=True, chain=chain)
            for callback in callbacks:
                callback()

    def _rollback(self, *, chain: bool = False) -> None:
        self._rollback_sql()
        self._leave(committed=False, chain=chain)

    def _leave(self, *, committed: bool, chain: bool) -> None:
        settings = self._session.settings
        kept = settings.transaction_characteristics() if chain else None
        self.savepoints = []
        self.callbacks = []
        self.before_commit = []
        if not committed:
            self._undo_from(0)
        self.undo = []
        self.waits_for_disk = None
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
        if point is None or point.sql_name is None or not link.in_transaction:
            self._rollback_sql()
        else:
            self._rollback_sql_to(point.sql_name)
        self._undo_from(0 if point is None else point.undo)
        self._session.settings.restore(point.settings if point is not None else self.settings_at_start)

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
        if self.sql is Sql.WRITE:  # a transaction that only reads has nothing to undo, and may end with the statement
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
            self._rollback_sql()
        else:
            self._rollback_sql_to(point.sql_name)
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


def require_no_block(session: Session, what: str) -> None:
    """Statements that cannot be undone insist on a transaction of their own (PreventInTransactionBlock)."""
    if session.transaction.block is not Block.NONE:
        raise PgError("25001", f"{what} cannot run inside a transaction block")


def is_read_only(session: Session) -> bool:
    return session.settings.get("transaction_read_only") == "on"


def require_writable(session: Session, what: str) -> None:
    """As PreventCommandIfReadOnly."""
    if is_read_only(session):
        raise PgError("25006", f"cannot execute {what} in a read-only transaction")


@contextmanager
def reading(session: Session) -> Iterator[None]:
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


__all__ = ["Block", "Savepoint", "Sql", "Transaction", "aborted", "reading", "require_no_block", "require_writable"]
