"""The SQL transaction of the catalog beneath a session's transaction: reading, and the one write lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from pgrepl.catalog.locks.lock_table import EXCLUSIVE, LockKind, LockRequest
from pgrepl.catalog.locks.locks import Locks
from pgrepl.catalog.session.context import Block, PendingChanges
from pgrepl.catalog.session.numbering import Defining, Numbering
from pgrepl.catalog.store import sql
from pgrepl.ground.errors import PgError, unsupported

if TYPE_CHECKING:
    from pgrepl.catalog.session.settings import Settings

_SLICE = 0.2  # seconds to wait for the write lock before looking at interrupts and the lock table
_ADOPTION_PATIENCE = 0.2  # seconds a reader waits for the write lock


class SqlTransaction(Enum):
    """The state of the SQL transaction on the catalog's connection."""

    NONE = "none"
    READ = "read"
    WRITE = "write"


class ReadSet(Protocol):
    """The reads of a SERIALIZABLE transaction (query/reads.py)."""

    def check(self, snapshot: int) -> None:
        """Raise 40001 if another transaction has changed the rows since the snapshot."""


class SecondConnection(Protocol):
    """A session's second connection (`Beside` of session.py)."""

    def end(self) -> None: ...


class Owner(Defining, Protocol):
    """The session that owns the transaction."""

    is_nested: bool
    on_wait: Callable[[str | None], None] | None

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


class CatalogTransaction:
    """The state of the SQL transaction, and of the session's view of the catalog. `Transaction` adds statements, blocks
    and savepoints."""

    numbering: Numbering

    def __init__(self, session: Owner) -> None:
        self._session = session
        self.block = Block.NONE
        self.sql = SqlTransaction.NONE
        self.locks = Locks(session)
        self.snapshot_taken = False  # a statement has read data: too late to change the isolation level
        self.pending: PendingChanges | None = None
        self.reads: ReadSet | None = None
        self.collects = False  # row changes are pending although it has the write lock
        self.prefers_pending = False  # the changes of a statement by itself are pending, too: others have locks
        self.in_recovery = False  # the instance is a standby
        self.waits_for_disk: bool | None = None  # must the commit, whatever synchronous_commit says? (ForceSyncCommit)
        self.in_statement = False
        self.ends = False  # its end is under way
        self.fetches = False  # a portion of rows is being computed, of a statement that has ended
        self._commits = False
        self._version: int | None = None
        self._definitions: tuple[object, ...] | None = None  # the state that the session remembers
        self._defined_before: int | None = None  # a snapshot since which definitions have not changed

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
        """Read the commits of other sessions, unless the snapshot is kept. True: something has changed."""
        if self.sql is SqlTransaction.WRITE or self.keeps_snapshot:
            return False
        before = self._version
        self.end_reading()
        self.require_read()
        self.numbering.catch_up()
        return self._version != before

    @property
    def version(self) -> int | None:
        """A number that differs when another session has changed the catalog."""
        return self._version

    def contents(self) -> object:
        """Equal to an earlier one if tables and definitions are what they were then. Heartbeats do not count; other
        state that is_work names counts in PostgreSQL only."""
        self.require_read()
        now = self.numbering.read_state()
        return now.definitions, now.snapshot

    def is_up_to_date(self) -> bool:
        """Whether no other session has changed the catalog since this one looked; False also where that takes long to
        say."""
        link = self._session.link
        return link.is_sqlite and self._version is not None and link.version() == self._version

    @property
    def catalog_state(self) -> object:
        """Equal to an earlier one if the catalog holds what it held then."""
        self.require_read()
        return object() if self._version is None else (self._version, self._session.link.changes)

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

    def require_read(self) -> None:
        """Let a statement read one snapshot. Between statements each read sees the catalog as it is then, and leaves no
        transaction open: that would keep a snapshot for the next statement, and the log of SQLite from being reused."""
        if self.sql is SqlTransaction.NONE:
            self._session.link.begin(write=False)
            self.sql = SqlTransaction.READ
            self._notice_commits()
            if not (self.in_statement or self.ends or self.fetches):
                self.end_reading()

    @contextmanager
    def fetching(self) -> Iterator[None]:
        """Let a portion of rows, of a statement that has ended, be computed as of one moment."""
        reads = self.sql is not SqlTransaction.NONE
        self.fetches = True
        try:
            yield
        finally:
            self.fetches = False
            if not reads:
                self.end_reading()

    def require_write(self) -> None:
        if self.sql is SqlTransaction.WRITE:
            return
        self.check_own_snapshot()
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

    def check_own_snapshot(self) -> None:
        """Refuse to write in a transaction that reads another one's snapshot, if others have committed since."""
        if self.numbering.imported is not None:
            raise unsupported("writing with a snapshot that another session has exported before the last commit")

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
        self.end_reading()
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
                    write=True, lock_timeout=min(max(left, 0), _SLICE), synchronous_commit=self._synchronous_commit
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
        if self._commits:  # its rows are locked, so that no other transaction has changed them
            if self.reads is not None:
                self.reads.check(seen)
            return
        changes = ("%insert%", "%deleted_from%", "%inlined_delete%")
        changed = self._session.link.execute(sql.IS_CHANGED_AFTER, (seen, *changes))
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
        """The synchronous_commit of this commit; None: the setting has its default."""
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

    def end_reading(self) -> None:
        if self.sql is SqlTransaction.READ:
            self._session.link.commit()
            self.sql = SqlTransaction.NONE
