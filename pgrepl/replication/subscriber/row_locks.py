"""A worker's work in spite of rows that local sessions have locked: their locks never make it fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from pgrepl.catalog.locks.lock_table import LockRequest
from pgrepl.catalog.session.transaction import DimensionsNeeded, LockNeeded, statement
from pgrepl.ground.errors import PgError
from pgrepl.lake.commit import LockedByOthers
from pgrepl.replication.subscriber.context import WorkerContext

T = TypeVar("T")


def despite_locks(context: WorkerContext, action: Callable[[], T]) -> T:
    """Run an action with a transaction of its own, and again after waiting whenever it meets rows that others have
    locked."""
    locks = context.session.transaction.locks
    needed: DimensionsNeeded | None = None
    while True:
        try:
            if needed is not None:
                _keep_dimensions(context, needed)
                needed = None
            return action()
        except DimensionsNeeded as found:
            needed = found
            continue
        except LockedByOthers as locked:
            wanted = locked.wanted
        try:
            locks.wait_until(wanted, partial(_is_taken, context, wanted))
        except PgError as error:
            if error.sqlstate != "40P01":
                raise
            locks.release()  # the other transaction of the deadlock goes first


def _keep_dimensions(context: WorkerContext, needed: DimensionsNeeded) -> None:
    """Have a column keep arrays of several dimensions, in a transaction of its own."""
    from pgrepl.writing.rewrite import keep_as_text

    try:
        with statement(context.session, writes=True):
            keep_as_text(context.session, needed)
    except LockNeeded as locked:
        raise LockedByOthers(locked.wanted) from None


def _is_taken(context: WorkerContext, wanted: LockRequest, ticket: int) -> bool:
    context.check_stopped()
    return context.session.transaction.locks.is_taken(wanted, ticket)
