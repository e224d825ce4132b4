"""A round of a worker: its result, and what its success or failure leaves in the catalog and the log.

An error belongs to the main stream or to the copy of one table, which has a worker of its own in PostgreSQL.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pgrepl.catalog.transaction import reading, statement
from pgrepl.errors import PgError
from pgrepl.replication.subscriber import conflicts, lease, state
from pgrepl.replication.subscriber.conflicts import Rejected
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.failures import SubscriptionChanged, WorkerFailed
from pgrepl.replication.subscriber.stopped import remember

CANCELLED = "57014"


@dataclass
class Round:
    """The result of a round."""

    transactions: int = 0
    changes: int = 0
    passed: int = 0  # changes among these that were skipped, or that the copies of their tables have
    rows_copied: int = 0
    tables_copied: list[str] = field(default_factory=list)
    error: PgError | None = None
    stands: bool = False  # the main stream cannot go on, because of an error
    lsn: int = 0  # all changes before it are applied
    restarts: bool = False  # the subscription was altered: its worker must restart


def succeeds(context: WorkerContext, relid: int) -> None:
    """Remove the stored error of the worker of the main stream or of a table."""
    session = context.session
    with reading(session):
        stopped = any(row.relid == relid for row in state.errors(session, context.subid))
    if stopped:
        with context.transaction():
            session.transaction.require_write()
            state.forget_errors(session, context.subid, relid)


def fails(context: WorkerContext, done: Round, failure: WorkerFailed, relid: int = lease.APPLY) -> None:
    """Log and count an error that ends a worker, and perhaps disable the subscription. An apply worker that could not
    even connect counts no error."""
    context.check_stopped()  # an error that the stop has caused is not reported
    if not failure.began and _is_over(context):
        raise SubscriptionChanged
    done.error = done.error or failure.error
    done.stands = done.stands or relid == lease.APPLY
    if failure.error.sqlstate == CANCELLED:  # cancelled by the user: no error of the subscription
        return
    if isinstance(failure.error, Rejected):
        conflicts.count(context.session, context.subid, Counter([failure.error.kind]))
        if failure.error.told is not None:
            context.log.report(failure.error.told.report)
    context.log.error(failure.error)
    store_error(context, relid, failure.error, counts=relid != lease.APPLY or failure.began)


def _is_over(context: WorkerContext) -> bool:
    """Is the subscription dropped or disabled? DROP SUBSCRIPTION drops the slot first: its commit is waited for."""
    with statement(context.session, writes=True):
        subscription = context.subscription()
    return subscription is None or not subscription.subenabled


def store_error(context: WorkerContext, relid: int, error: PgError, *, counts: bool) -> None:
    with context.transaction() as subscription:
        context.session.transaction.require_write()
        if context.subscription() is None:
            raise SubscriptionChanged
        if relid != lease.APPLY:
            lease.end(context.session, subscription.oid, relid, context.token)
        if isinstance(error, Rejected) and error.told is not None:
            conflicts.keep_rejected(context.session, subscription.oid, error.told)
        told = remember(context.session, subscription, relid, error, counts=counts)
    for report in told:
        context.log.report(report)
