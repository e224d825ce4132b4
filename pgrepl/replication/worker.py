"""The worker of one subscription: what PostgreSQL's apply worker and its table synchronization workers do.

    round: receive messages up to the publisher's LSN at the start → apply them (a commit each batch)
           copy the tables that wait for it → apply what came meanwhile, so that they are ready

A worker has a session of its own. What goes wrong belongs to the subscription: it is logged, counted, and with
disable_on_error ends it; the caller learns of it from the result only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import relation
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.replication import lease
from pgrepl.replication import subscription_state as state
from pgrepl.replication.copying import copy_table, forget_slot, tables_copied, tables_to_copy
from pgrepl.replication.lease import LeaseHeld
from pgrepl.replication.log import ServerLog
from pgrepl.replication.observer import Observer
from pgrepl.replication.receiver import Receiver, SubscriptionChanged, WorkerFailed
from pgrepl.replication.streaming import stream_batch

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_CANCELLED = "57014"
_POLL = 0.05  # seconds between two looks whether another worker has finished


@dataclass
class Round:
    """What a round did."""

    transactions: int = 0
    changes: int = 0
    rows_copied: int = 0
    tables_copied: list[str] = field(default_factory=list)
    error: PgError | None = None
    lsn: int = 0  # up to where there is nothing more to do
    ran: bool = False  # there was something to do, and the lease was to be had


class Worker:
    """Works for one subscription of one database."""

    def __init__(
        self,
        session: Session,
        subid: int,
        log: ServerLog,
        *,
        observer: Observer | None = None,
        keeps_lease: bool = False,
        patience: float | None = None,
    ) -> None:
        """One that keeps its lease remains the subscription's worker between rounds. `patience`: see Receiver."""
        self.keeps_lease = keeps_lease
        self._receiver = Receiver(session, subid, log, observer, patience=patience)
        self._session = self._receiver.session
        self._subid = subid
        self._log = log
        self._observer = self._receiver.observer

    @property
    def session(self) -> Session:
        """Its own, apart from its maker's."""
        return self._session

    def close(self) -> None:
        self._receiver.close()

    def say_goodbye(self) -> None:
        """Log why a worker that holds the lease ends."""
        reason = self._receiver.farewell()
        if reason:
            self._log.log(reason)

    # --- rounds -------------------------------------------------------------------------------------------------------

    def round(
        self, *, upto: int | None = None, max_changes: int | None = None, copy: bool = True, wait: bool = False
    ) -> Round:
        """Catch up with the publisher as it is now, or up to an LSN. If there is nothing to do, that costs little.
        Another worker is waited for until it has given up or done it all, or it is an error."""

        def work(done: Round) -> None:
            self._apply(done, upto, max_changes)
            if copy and done.error is None and self._copy(done):
                self._apply(done, None, None)

        return self._run(work, wait=wait)

    def synchronize(self, relids: Collection[int] | None = None, *, wait: bool = False) -> Round:
        """Copy the tables that wait for it, or some of them, and let the main stream come up to them."""

        def work(done: Round) -> None:
            if self._copy(done, relids) and done.error is None:
                with reading(self._session):
                    states = state.table_states(self._session, self._subid)
                    target = max([states[relid][1] for relid in tables_copied(self._session, self._subid)], default=0)
                self._apply(done, target, None)

        return self._run(work, wait=wait)

    def _run(self, work: Callable[[Round], None], *, wait: bool) -> Round:
        done = Round()
        ended = False
        try:
            ended = self._tried(done, work, wait=wait)
        except PgError as error:  # of the catalog: locked, gone, full
            done.error = done.error or error
            self._log.error(error)
        finally:
            if ended or not self.keeps_lease or done.error is not None:
                self._receiver.release()
        if done.error is not None:
            self._receiver.disconnect()
        return done

    def _tried(self, done: Round, work: Callable[[Round], None], *, wait: bool) -> bool:
        """Whether the subscription is no longer what it was."""
        try:
            try:
                if self._begins(wait=wait):
                    done.ran = True
                    self._forget_slots()
                    work(done)
            except WorkerFailed as failure:
                self._fails(done, failure)
        except SubscriptionChanged as changed:  # the next round sees what became of it
            if self.keeps_lease and str(changed):
                self._log.log(str(changed))
            return True
        except LeaseHeld as held:
            done.error = self._in_use(held.pid)
            self._log.error(done.error)
        return False

    def _begins(self, *, wait: bool) -> bool:
        """Take the lease, unless there is nothing to do, or no longer."""
        if not wait:
            self._receiver.check_free()
        missing: int | None = None
        while self.keeps_lease or (missing := self._receiver.missing_before(missing)) is not None:
            try:
                self._receiver.hold()
                return True
            except LeaseHeld:
                if not wait:
                    raise
            time.sleep(_POLL)
        return False

    def _in_use(self, pid: int) -> PgError:
        with reading(self._session):
            subscription = self._receiver.subscription()
        name = "" if subscription is None else subscription.subslotname
        return PgError(
            "55006", f'could not start WAL streaming: ERROR:  replication slot "{name}" is active for PID {pid}'
        )

    # --- the main stream ----------------------------------------------------------------------------------------------

    def _apply(self, done: Round, upto: int | None, max_changes: int | None) -> None:
        left = max_changes
        start = 0
        while True:
            try:
                streamed = stream_batch(self._receiver, upto, left)
            except WorkerFailed as failure:
                return self._fails(done, failure)
            start = start or streamed.start
            applied = streamed.applied
            done.transactions += applied.transactions
            done.changes += applied.changes
            done.lsn, upto = streamed.reached, streamed.upto
            self._observer.applied(self._receiver.name, start, streamed)
            if applied.error is not None:
                return self._fails(done, WorkerFailed(applied.error))
            if left is not None:
                left -= applied.changes
            if streamed.finished or (left is not None and left <= 0):
                return self._succeeds(lease.APPLY)

    # --- tables -------------------------------------------------------------------------------------------------------

    def _copy(self, done: Round, relids: Collection[int] | None = None) -> bool:
        """Copy what waits for it; one table's failure is no other's."""
        with reading(self._session):
            waiting = [
                (relid, relation(self._session, relid))
                for relid in tables_to_copy(self._session, self._subid)
                if relids is None or relid in relids
            ]
        for relid, table in waiting:
            try:
                self._copy_table(done, relid, table.name, table.qualified_name)
            except WorkerFailed as failure:
                self._fails(done, failure, relid)
        return bool(done.tables_copied)

    def _copy_table(self, done: Round, relid: int, name: str, qualified_name: str) -> None:
        with self._receiver.transaction() as subscription:
            what = (
                "logical replication table synchronization worker for subscription "
                f'"{subscription.subname}", table "{name}"'
            )
        self._log.log(f"{what} has started")
        self._observer.copying(subscription.subname, qualified_name)
        count = copy_table(self._receiver, relid)
        if count is not None:
            done.rows_copied += count
            done.tables_copied.append(name)
            self._observer.copied(subscription.subname, qualified_name, count)
        self._succeeds(relid)
        self._log.log(f"{what} has finished")

    def _forget_slots(self) -> None:
        """What a worker that was killed has left at the publisher."""
        with self._receiver.transaction():
            copied = list(tables_copied(self._session, self._subid))
        for relid in copied:
            forget_slot(self._receiver, relid)

    # --- how it ends --------------------------------------------------------------------------------------------------

    def _succeeds(self, relid: int) -> None:
        """Whatever stopped this worker before does so no longer."""
        with reading(self._session):
            stopped = any(row.relid == relid for row in state.errors(self._session, self._subid))
        if stopped:
            with self._receiver.transaction():
                self._session.transaction.require_write()
                state.forget_errors(self._session, self._subid, relid)

    def _fails(self, done: Round, failure: WorkerFailed, relid: int = lease.APPLY) -> None:
        """As the end of a worker by an error: log it, count it, perhaps disable the subscription. An apply worker that
        could not even connect counts no error."""
        done.error = done.error or failure.error
        if failure.error.sqlstate == _CANCELLED:  # by whoever runs the worker: no error of the subscription
            return
        self._log.error(failure.error)
        counts = relid != lease.APPLY or failure.began
        with self._receiver.transaction() as subscription:
            self._session.transaction.require_write()
            state.remember_error(self._session, subscription.oid, relid, failure.error)
            if relid != lease.APPLY:
                lease.end(self._session, subscription.oid, relid, self._receiver.token)
            if counts:
                state.count_error(self._session, subscription.oid, apply=relid == lease.APPLY)
            disables = counts and subscription.subdisableonerr
            if disables:
                state.disable(self._session, subscription.oid)
        if disables:
            self._log.log(f'subscription "{subscription.subname}" has been disabled because of an error')
