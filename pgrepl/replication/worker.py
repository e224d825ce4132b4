"""The worker of one subscription: what PostgreSQL's apply worker and its table synchronization workers do.

    round: receive messages up to the publisher's LSN at the start → apply them (a commit each batch)
           copy the tables that wait for it → apply what came meanwhile, so that they are ready

A worker has a session of its own. What goes wrong belongs to the subscription: it is logged, counted, and with
disable_on_error ends it; the caller learns of it from the result only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import relation
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.replication import subscription_state as state
from pgrepl.replication.copying import copy_table, forget_slot, tables_copied, tables_to_copy
from pgrepl.replication.log import ServerLog
from pgrepl.replication.receiver import Receiver, SubscriptionChanged, WorkerFailed
from pgrepl.replication.streaming import stream_batch

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


@dataclass
class Round:
    """What a round did."""

    transactions: int = 0
    changes: int = 0
    rows_copied: int = 0
    tables_copied: list[str] = field(default_factory=list)
    error: PgError | None = None
    lsn: int = 0  # up to where there is nothing more to do


class Worker:
    """Works for one subscription of one database."""

    def __init__(self, session: Session, subid: int, log: ServerLog) -> None:
        self._receiver = Receiver(session, subid, log)
        self._session = self._receiver.session
        self._subid = subid
        self._log = log

    def close(self) -> None:
        self._receiver.close()

    def round(self, *, upto: int | None = None, max_changes: int | None = None, copy: bool = True) -> Round:
        """Catch up with the publisher as it is now, or up to an LSN."""
        done = Round()
        try:
            self._forget_slots()
            self._apply(done, upto, max_changes)
            if copy and done.error is None and self._copy(done):
                self._apply(done, None, None)
        except SubscriptionChanged:
            pass  # the next round sees what became of it
        if done.error is not None:
            self._receiver.disconnect()
        return done

    def _apply(self, done: Round, upto: int | None, max_changes: int | None) -> None:
        left = max_changes
        while True:
            try:
                streamed = stream_batch(self._receiver, upto, left)
            except WorkerFailed as failure:
                return self._failed(done, failure.error, apply=True)
            applied = streamed.applied
            done.transactions += applied.transactions
            done.changes += applied.changes
            done.lsn, upto = streamed.reached, streamed.upto
            if applied.error is not None:
                return self._failed(done, applied.error, apply=True)
            if left is not None:
                left -= applied.changes
            if streamed.finished or (left is not None and left <= 0):
                return None

    def _copy(self, done: Round) -> bool:
        """Copy what waits for it; one table's failure is no other's."""
        with reading(self._session):
            waiting = [
                (relid, relation(self._session, relid).name) for relid in tables_to_copy(self._session, self._subid)
            ]
        for relid, name in waiting:
            try:
                self._copy_table(done, relid, name)
            except WorkerFailed as failure:
                self._failed(done, failure.error, apply=False)
        return bool(done.tables_copied)

    def _copy_table(self, done: Round, relid: int, name: str) -> None:
        with self._receiver.transaction() as subscription:
            what = (
                "logical replication table synchronization worker for subscription "
                f'"{subscription.subname}", table "{name}"'
            )
        self._log.log(f"{what} has started")
        count = copy_table(self._receiver, relid)
        if count is not None:
            done.rows_copied += count
            done.tables_copied.append(name)
        self._log.log(f"{what} has finished")

    def _forget_slots(self) -> None:
        """What a worker that was killed has left at the publisher."""
        with self._receiver.transaction():
            copied = list(tables_copied(self._session, self._subid))
        for relid in copied:
            forget_slot(self._receiver, relid)

    def _failed(self, done: Round, error: PgError, *, apply: bool) -> None:
        """As the end of a worker by an error: log it, count it, perhaps disable the subscription."""
        done.error = done.error or error
        self._log.error(error)
        with self._receiver.transaction() as subscription:
            self._session.transaction.require_write()
            state.count_error(self._session, subscription.oid, apply=apply)
            if subscription.subdisableonerr:
                state.disable(self._session, subscription.oid)
        if subscription.subdisableonerr:
            self._log.log(f'subscription "{subscription.subname}" has been disabled because of an error')
