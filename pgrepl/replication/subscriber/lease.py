"""The lease that makes a worker the only one of its subscription, its heartbeat, the progress of its copies, its
outcome and its end; and meetings, where it waits to be compared.

A lease is a row of the subscriber's catalog: it cannot be taken while its holder is alive, and a commit of a worker
that has lost it fails.

At a meeting the worker of a subscription waits at an LSN of the publisher. Who compares first has the worker apply
nothing more (`call_meeting`), then takes a snapshot of the publisher's, and names its LSN (`name`). The worker, if
there is one, goes on up to exactly that LSN, and stays until the meeting is over. A batch that the worker had begun
before ends before that LSN: the publisher told its end earlier. Whether a meeting has been called meanwhile is looked
at with the write lock again, before a batch is committed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import activity
from pgrepl.catalog.facts.activity import Copying
from pgrepl.catalog.facts.roles import is_superuser
from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.transaction import statement
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, one, rows, update
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.publisher.protocol import PublisherError, not_received

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.tables import CountRows

# the kinds of conflicts that PostgreSQL 18 counts (ConflictType)
CONFLICTS = (
    "insert_exists", "update_origin_differs", "update_exists", "update_deleted", "update_missing",
    "delete_origin_differs", "delete_missing", "multiple_unique_conflicts",
)  # fmt: skip
APPLY = 0  # in place of a table: the worker of the main stream
WHILE_COPYING = 1.0  # seconds
_PATIENCE = 1.0  # seconds to wait for the catalog's lock; the next sign of life comes anyway
MEETING_PAUSE = 0.02  # seconds


@frozen
class Applied:
    """The number of applied transactions and changes, and the end of the last of them."""

    transactions: int
    changes: int
    end_lsn: int
    error: PgError | None = None  # of the transaction that comes next
    passed: int = 0  # changes among these that were skipped, or that the copies of their tables have

    def failed(self, error: PgError) -> Applied:
        return replace(self, error=error)


@frozen
class Streamed:
    """A batch from `start` on: `upto` is the requested end, `reached` the end of this batch."""

    start: int
    upto: int
    reached: int
    applied: Applied

    @property
    def finished(self) -> bool:
        return self.applied.error is not None or self.reached >= self.upto


class Observer:
    """An observer that shows nothing; others override its methods."""

    def copying(self, subscription: str, table: str) -> None:
        """The copy of a table begins."""

    def rows(self, subscription: str, table: str, copying: Copying) -> None:
        """The copy's rows are about to come, or more of them have come. Called in any thread."""

    def copied(self, subscription: str, table: str, count: int) -> None:
        """The copy is done, with so many rows."""

    def applying(self, subscription: str) -> None:
        """The worker is about to ask for a batch."""

    def applied(self, subscription: str, start: int, streamed: Streamed) -> None:
        """A batch has been applied; the first of the run began at `start`."""


class CopyProgress:
    """The copies under one lease."""

    def __init__(self, observer: Observer) -> None:
        self.copying: dict[int, Copying] = {}  # by table
        self._observer = observer

    def begins(
        self, subscription: str, table: Relation, rows: int | None, pieces: tuple[int, int] | None = None
    ) -> CountRows:
        """A function to count rows and bytes of a table's copy. `rows` is the table's number of rows, if known.
        `pieces`: of a table that is copied in pieces those that are copied, and all; their rows are counted
        together."""
        copying = Copying(table.oid, tuples_total=rows)
        if pieces is not None:
            copying = self.copying.get(table.oid, copying)
            copying.count_pieces(*pieces)
        self.copying[table.oid] = copying
        name = table.qualified_name
        self._observer.rows(subscription, name, copying)

        def count_rows(tuples: int, size: int) -> None:
            copying.add(tuples, size)
            self._observer.rows(subscription, name, copying)

        return count_rows

    def pieces_copied(self, relid: int, done: int, total: int) -> None:
        if relid in self.copying:
            self.copying[relid].count_pieces(done, total)

    def ended(self, relid: int) -> None:
        self.copying.pop(relid, None)


# --- lease ------------------------------------------------------------------------------------------------------------


@dataclass
class HeldLease:
    """The lease while a worker holds it. The subscription as it was then tells whether the worker may go on with it as
    it is now (maybe_reread_subscription)."""

    token: str
    subscription: tables.pg_subscription
    of_superuser: bool  # was its owner a superuser then?

    def must_restart(self, session: Session, now: tables.pg_subscription) -> bool:
        """Has the subscription changed so that the worker must restart? Not by ALTER SUBSCRIPTION … SKIP."""
        return not self._is_as(now) or (self.of_superuser and not is_superuser(session, now.subowner))

    def _is_as(self, now: tables.pg_subscription) -> bool:
        return now._replace(subskiplsn=0) == self.subscription._replace(subskiplsn=0)

    def farewell(self, now: tables.pg_subscription | None) -> str:
        """The log message about the end of the worker, which cannot go on."""
        worker = f'logical replication worker for subscription "{self.subscription.subname}"'
        if now is None:
            return f"{worker} will stop because the subscription was removed"
        if not now.subenabled:
            return f"{worker} will stop because the subscription was disabled"
        if self._is_as(now):
            return f"{worker} will restart because the subscription owner's superuser privileges have been revoked"
        return f"{worker} will restart because of a parameter change"


class LeaseHeld(Exception):
    """Another worker is at work."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"the lease is held by PID {pid}")
        self.pid = pid


def holder(session: Session, subid: int) -> tables.pgrepl_worker | None:
    """The worker that has the lease, if it is alive."""
    row = one(session, tables.pgrepl_worker, subid=subid, relid=APPLY)
    return row if row is not None and lock_file.is_at_work(row) else None


def take(session: Session, subid: int, token: str) -> None:
    """Take the lease, in a write transaction; an error where no more workers may run (logicalrep_worker_launch)."""
    row = holder(session, subid)
    if row is not None and row.token != token:
        raise LeaseHeld(row.pid)
    delete(session, tables.pgrepl_worker, subid=subid)
    forget_ended_meetings(session, subid)
    others = [row for row in rows(session, tables.pgrepl_worker, relid=APPLY) if lock_file.is_at_work(row)]
    if len(others) >= int(session.settings.get("max_logical_replication_workers")):
        raise PgError(
            "53400",
            "out of logical replication worker slots",
            hint='You might need to increase "max_logical_replication_workers".',
        )
    begin(session, subid, APPLY, token)


def begin(session: Session, subid: int, relid: int, token: str) -> None:
    """Enter the worker of a table, or of the main stream (relid APPLY)."""
    delete(session, tables.pgrepl_worker, subid=subid, relid=relid)
    insert(
        session,
        tables.pgrepl_worker,
        subid=subid,
        relid=relid,
        token=token,
        pid=lock_file.worker_pid(),
        host=lock_file.machine(),
        since=statistics.now(),
        beat=lock_file.now(),
        received_lsn=0,
        last_msg_send_time=None,
        last_msg_receipt_time=None,
        latest_end_lsn=0,
        latest_end_time=None,
    )


def end(session: Session, subid: int, relid: int, token: str) -> None:
    """Remove the row of a table's worker; that of the main stream is removed with those of all tables."""
    if relid == APPLY:
        delete(session, tables.pgrepl_worker, subid=subid, token=token)
        activity.ended(session, token)
    else:
        delete(session, tables.pgrepl_worker, subid=subid, relid=relid, token=token)
        activity.ended(session, token, relid)


def is_held(session: Session, subid: int, token: str) -> bool:
    row = one(session, tables.pgrepl_worker, subid=subid, relid=APPLY)
    return row is not None and row.token == token


def received(session: Session, subid: int, token: str, lsn: int, *, sent: str | None = None) -> None:
    """Enter that the worker has received all changes before an LSN."""
    moment = statistics.now()
    update(
        session,
        tables.pgrepl_worker,
        {"subid": subid, "relid": APPLY, "token": token},
        received_lsn=lsn,
        last_msg_send_time=sent or moment,
        last_msg_receipt_time=moment,
        latest_end_lsn=lsn,
        latest_end_time=sent or moment,
        beat=lock_file.now(),
    )


def beat(session: Session, token: str, copying: Iterable[Copying]) -> None:
    """Enter a heartbeat, with the progress of copies."""
    update(session, tables.pgrepl_worker, {"token": token}, beat=lock_file.now())
    for copy in copying:
        if one(session, tables.pgrepl_worker, token=token, relid=copy.relid) is not None:  # it has not ended meanwhile
            activity.report(session, token, copy)


def workers(session: Session, subid: int) -> list[tables.pgrepl_worker]:
    """The living workers of a subscription, that of the main stream first."""
    listed = [row for row in rows(session, tables.pgrepl_worker, subid=subid) if lock_file.is_at_work(row)]
    return sorted(listed, key=lambda row: row.relid)


# --- failures ---------------------------------------------------------------------------------------------------------


class SubscriptionChanged(Exception):
    """The subscription was altered, disabled or dropped since its messages were read."""


class WorkerFailed(Exception):
    """The worker ends by an error of the subscription; pg_stat_subscription_stats counts it if the worker `began`."""

    def __init__(self, error: PgError, *, began: bool = True) -> None:
        super().__init__(error.message)
        self.error = error
        self.began = began


class WorkerStopped(BaseException):
    """The worker has been stopped (WorkerContext.stop)."""


@contextmanager
def working() -> Iterator[None]:
    """Work that ends the worker if it fails: a PgError becomes WorkerFailed."""
    try:
        yield
    except PgError as error:
        raise WorkerFailed(error) from error


@contextmanager
def asking() -> Iterator[None]:
    """A question to the publisher, whose PublisherError becomes WorkerFailed."""
    try:
        yield
    except PublisherError as error:
        raise WorkerFailed(not_received(error)) from None


class Heartbeat:
    """Beats from now on until it is stopped."""

    def __init__(self, session: Session, token: str, copies: CopyProgress) -> None:
        self._copies = copies
        self._session = session
        self._place = session.database_oid, session.role
        self._token = token
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgrepl-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        waited = 0.0
        while not self._stopped.wait(WHILE_COPYING):
            waited += WHILE_COPYING
            if self._copies.copying or waited >= lock_file.SIGN_OF_LIFE:
                waited = 0.0
                self._beat()

    def _beat(self) -> None:
        try:
            session = self._session.elsewhere(*self._place, apart=True)
        except PgError:
            return
        try:
            session.settings.set_default("lock_timeout", f"{int(_PATIENCE * 1000)}ms", complain=False)
            session.transaction.waits_for_disk = False
            session.transaction.numbering.is_heartbeat = True
            session.transaction.begin_statement(writes=True)
            beat(session, self._token, list(self._copies.copying.values()))
            session.transaction.end_statement()
        except PgError:
            pass
        finally:
            session.close()


# --- meetings ---------------------------------------------------------------------------------------------------------


class MeetingCalled(Exception):
    """A meeting has been called, or has ended, since the batch began."""


def meeting_bound(session: Session, subid: int) -> int | None:
    """The LSN before which transactions may be applied, 0: none may be; None: there is no meeting."""
    called = [row.lsn or 0 for row in rows(session, tables.pgrepl_meeting, subid=subid) if lock_file.is_at_work(row)]
    return min(called, default=None)


def forget_ended_meetings(session: Session, subid: int) -> None:
    """Forget the meetings of processes that have ended."""
    for row in rows(session, tables.pgrepl_meeting, subid=subid):
        if not lock_file.is_at_work(row):
            delete(session, tables.pgrepl_meeting, subid=subid, token=row.token)


class Meeting:
    """A meeting that was called."""

    def __init__(self, session: Session, subid: int, token: str) -> None:
        self._session, self._subid, self._token = session, subid, token

    def name(self, lsn: int) -> None:
        """Have the worker go on up to this LSN."""
        with statement(self._session, writes=True):
            key = {"subid": self._subid, "token": self._token}
            update(self._session, tables.pgrepl_meeting, key, lsn=lsn, beat=lock_file.now())

    def is_on(self, session: Session) -> bool:
        """Whether it is still there, as a transaction sees it."""
        return bool(rows(session, tables.pgrepl_meeting, subid=self._subid, token=self._token))


@contextmanager
def call_meeting(session: Session, subid: int) -> Iterator[Meeting]:
    token = lock_file.new_token()
    with statement(session, writes=True):
        forget_ended_meetings(session, subid)
        insert(
            session,
            tables.pgrepl_meeting,
            subid=subid,
            token=token,
            pid=lock_file.worker_pid(),
            host=lock_file.machine(),
            beat=lock_file.now(),
            lsn=None,
        )
    try:
        yield Meeting(session, subid, token)
    finally:
        try:
            with statement(session, writes=True):
                delete(session, tables.pgrepl_meeting, subid=subid, token=token)
        finally:
            lock_file.retire(token)
