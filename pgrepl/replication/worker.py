"""The worker of one subscription: what PostgreSQL's apply worker and its table synchronization workers do.

    round: read messages up to the publisher's LSN at the start → apply them (a commit each batch)
           copy the tables that wait for it → apply what came meanwhile, so that they are ready

A round works on a session of its own. What goes wrong belongs to the subscription: it is logged, counted, and with
disable_on_error ends it; the caller learns of it from the result only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog import tables
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.relation import relation
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.store import Row, one
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.replication import subscription_state as state
from pgrepl.replication.apply import Applied, SubscriptionChanged, apply_transactions
from pgrepl.replication.applying.writing import may_fold
from pgrepl.replication.connection import connect
from pgrepl.replication.copying import begin_copy, finish_copy, tables_to_copy
from pgrepl.replication.endpoints import ConnectionFailure
from pgrepl.replication.log import ServerLog
from pgrepl.replication.publisher import Publisher, PublisherError
from pgrepl.replication.sending.wire import WireTransaction

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

T = TypeVar("T")
BATCH = 20_000  # changes that are played together


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
        """`session` says where the catalog is and which database; the work is done apart from it."""
        self._session = session.elsewhere(session.database.oid, BOOTSTRAP_SUPERUSER, apart=True)
        self._session.on_report = log.report
        self._subid = subid
        self._log = log

    def close(self) -> None:
        self._session.close()

    def round(self, *, upto: int | None = None, max_changes: int | None = None, copy: bool = True) -> Round:
        """Catch up with the publisher as it is now, or up to an LSN."""
        done = Round()
        try:
            self._apply(done, upto, max_changes)
            if copy and done.error is None and self._copy(done):
                self._apply(done, None, None)
        except SubscriptionChanged:
            pass  # the next round sees what became of it
        return done

    # --- streaming ----------------------------------------------------------------------------------------------------

    def _apply(self, done: Round, upto: int | None, max_changes: int | None) -> None:
        left = max_changes
        end: int | None = upto
        while True:
            try:
                finished, end, count = self._batch(done, end, left)
            except _Failed as failure:
                done.error = failure.error
                self._failed(failure.error, apply=True)
                return
            if left is not None:
                left -= count
            if finished or (left is not None and left <= 0):
                return

    def _batch(self, done: Round, upto: int | None, limit: int | None) -> tuple[bool, int, int]:
        """One commit: whether all is done, up to where, and how many changes there were."""
        session = self._session
        refused: PgError | None = None
        with self._transaction(writes=True) as subscription, self._connected(subscription) as publisher:
            end = _asked(publisher.current_lsn) if upto is None else upto
            start = self._start(publisher, subscription)
            found, more, refused = _read(publisher, subscription, start, end, self._most(limit))
            result = self._applied(subscription, found)
            error = result.error or refused
            reached = (
                end if error is None and not more else (found[result.transactions - 1].end_lsn if found else start)
            )
            if error is not None and result.transactions == 0:
                raise _Failed(error)
            publisher.confirm(subscription.subslotname, reached)
            state.settle_tables(session, subscription.oid, reached)
            done.transactions += result.transactions
            done.changes += result.changes
            done.lsn = reached
        if error is not None:
            raise _Failed(error)
        return not more, end, result.changes

    def _most(self, limit: int | None) -> int:
        if not may_fold(self._session):
            return 1
        return BATCH if limit is None else min(limit, BATCH)

    def _start(self, publisher: Publisher, subscription: Row) -> int:
        try:
            return publisher.start(subscription.subslotname, state.position(self._session, subscription.oid))
        except PublisherError as error:
            raise _Failed(PgError("08006", f"could not start WAL streaming: {error}")) from None

    def _applied(self, subscription: Row, found: list[WireTransaction]) -> Applied:
        session = self._session
        if not found:
            return Applied(0, 0)
        before = session.act_as(subscription.subowner)
        try:
            return apply_transactions(session, subscription, found, self._log)
        except PgError as error:
            raise _Failed(error) from error
        finally:
            session.act_as(before)

    # --- copying ------------------------------------------------------------------------------------------------------

    def _copy(self, done: Round) -> bool:
        """Copy what waits for it; one table's failure is no other's."""
        with reading(self._session):
            waiting = list(tables_to_copy(self._session, self._subid))
        for relid in waiting:
            try:
                self._copy_table(done, relid)
            except _Failed as failure:
                done.error = done.error or failure.error
                self._failed(failure.error, apply=False)
                with reading(self._session):
                    row = one(self._session, tables.pg_subscription, oid=self._subid)
                if row is None or not row.subenabled:
                    break
        return bool(done.tables_copied)

    def _copy_table(self, done: Round, relid: int) -> None:
        session = self._session
        name, what = "", "logical replication table synchronization worker for subscription"
        with self._transaction(writes=True) as subscription, self._connected(subscription) as publisher:
            if relid not in tables_to_copy(session, subscription.oid):
                return
            name = relation(session, relid).name
            what = f'{what} "{subscription.subname}", table "{name}"'
            self._log.log(f"{what} has started")
            _guarded(lambda: begin_copy(session, subscription, relid, publisher))
        with self._transaction(writes=True) as subscription, self._connected(subscription) as publisher:
            before = session.act_as(subscription.subowner)
            try:
                count = _guarded(lambda: finish_copy(session, subscription, relid, publisher))
            finally:
                session.act_as(before)
        done.rows_copied += count
        done.tables_copied.append(name)
        self._log.log(f"{what} has finished")

    # --- the ground ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Row]:
        """A transaction in which the subscription is there and enabled."""
        transaction = self._session.transaction
        transaction.begin_statement(writes=writes)
        try:
            subscription = one(self._session, tables.pg_subscription, oid=self._subid)
            if subscription is None or not subscription.subenabled or not subscription.subslotname:
                raise SubscriptionChanged
            yield subscription
            transaction.end_statement()
        except BaseException:
            transaction.fail_statement()
            raise

    @contextmanager
    def _connected(self, subscription: Row) -> Iterator[Publisher]:
        session = self._session
        required = subscription.subpasswordrequired and not is_superuser(session, subscription.subowner)
        try:
            publisher = connect(session, subscription.subconninfo, must_use_password=required)
        except ConnectionFailure as failure:
            raise _Failed(PgError("08006", f"could not connect to the publisher: {failure}")) from None
        except PgError as error:
            raise _Failed(error) from error
        try:
            yield publisher
        finally:
            publisher.close()

    def _failed(self, error: PgError, *, apply: bool) -> None:
        """As the end of a worker by an error: log it, count it, perhaps disable the subscription."""
        self._log.error(error)
        try:
            with self._transaction(writes=True) as subscription:
                state.count_error(self._session, subscription.oid, apply=apply)
                if subscription.subdisableonerr:
                    state.disable(self._session, subscription.oid)
        except SubscriptionChanged:
            return
        if subscription.subdisableonerr:
            self._log.log(f'subscription "{subscription.subname}" has been disabled because of an error')


class _Failed(Exception):
    def __init__(self, error: PgError) -> None:
        super().__init__(error.message)
        self.error = error


def _guarded(action: Callable[[], T]) -> T:
    try:
        return action()
    except PgError as error:
        raise _Failed(error) from error


def _asked(question: Callable[[], T]) -> T:
    try:
        return question()
    except PublisherError as error:
        raise _Failed(PgError("08006", f"could not receive data from WAL stream: {error}")) from None


def _read(
    publisher: Publisher, subscription: Row, start: int, end: int, most: int
) -> tuple[list[WireTransaction], bool, PgError | None]:
    """Transactions of about `most` changes, whether there are more, and why no more could be read."""
    found: list[WireTransaction] = []
    count = 0
    local_only = subscription.suborigin.lower() == "none"
    stream = publisher.transactions(
        subscription.subslotname, subscription.subpublications, start, end, local_only=local_only
    )
    try:
        for transaction in stream:
            if found and count + len(transaction.messages) > most:
                return found, True, None
            found.append(transaction)
            count += len(transaction.messages)
    except PublisherError as error:
        return found, False, PgError("08006", f"could not receive data from WAL stream: {error}")
    return found, False, None
