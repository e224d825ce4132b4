"""The stream of one table, whose copy has ended behind the main stream (LogicalRepSyncTableStart, the part behind
copy_table): from the slot of its synchronization the table gets what the main stream has had already.

    f    the copy is committed as of an LSN, the table's own origin stands there, and moves with each batch
    s    the origin has come to where the main stream is, found under the write lock: from there that goes on

The transactions are received and applied as those of the main stream; only the changes of this table count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pgrepl.catalog import statistics
from pgrepl.catalog import subscription as catalog
from pgrepl.errors import PgError
from pgrepl.lake.crash_points import crash_point
from pgrepl.replication.origins import drop_origin
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.subscriber import apply_loop as loop
from pgrepl.replication.subscriber import lease, state
from pgrepl.replication.subscriber.attach import occupy
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.copy import forget_slot
from pgrepl.replication.subscriber.failures import SubscriptionChanged, WorkerFailed
from pgrepl.replication.subscriber.row_locks import despite_locks
from pgrepl.replication.subscriber.streaming import StreamBatch, following_of, start_stream

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.subscriber.outcome import Streamed

_SOON = 0.5  # seconds that are left to catch up: the main stream can wait for that
_PASSES = 10  # before it has to wait for longer


def stream_table(context: WorkerContext, relid: int, alone: Callable[[], AbstractContextManager[object]]) -> None:
    """Bring a table from f to s, unless it is in another state. The main stream goes on, and is followed; when little
    is left, `alone` lets it wait, until the slot is dropped: behind that it may make the table ready."""
    slot = _occupy(context, relid)
    if slot is None:
        return
    try:
        for _ in range(_PASSES):
            since = time.monotonic()
            _catch_up(context, relid, hands_over=False)
            if time.monotonic() - since < _SOON:
                break
        with alone():
            while not _catch_up(context, relid, hands_over=True):
                pass
            _leave(context, slot)
            crash_point("table.left")
            forget_slot(context, relid)
    except BaseException:
        _leave(context, slot)
        raise


def _occupy(context: WorkerContext, relid: int) -> str | None:
    """Become the reader of the table's slot. None: the table is not in f."""
    session = context.session
    with context.transaction() as subscription:
        publisher = context.connection.publisher(subscription)
        if state.table_state(session, subscription.oid, relid) != catalog.FINISHED_COPY:
            return None
        slot = catalog.sync_slot_name(session, subscription.oid, relid)
        lsn = state.position(session, subscription.oid, relid)
        context.lock(subscription)
        lease.begin(session, subscription.oid, relid, context.token)
        if publisher.shares_catalog:
            occupy(context, publisher, subscription, slot, slot, lsn, context.token)
    if not publisher.shares_catalog:
        occupy(context, publisher, subscription, slot, slot, lsn, context.token)
    return slot


def _leave(context: WorkerContext, slot: str) -> None:
    publisher = context.connection.opened
    if publisher is not None and publisher.slots is not None and not context.stopped:
        with suppress(PublisherError, PgError):
            publisher.slots.leave(slot, context.token)


def _catch_up(context: WorkerContext, relid: int, *, hands_over: bool) -> bool:
    """Apply what the main stream has had when this begins; whether the table has been handed over to it."""
    while True:
        streamed, is_handed_over = despite_locks(context, partial(_stream_batch, context, relid, hands_over=hands_over))
        if streamed.applied.error is not None:
            raise WorkerFailed(streamed.applied.error)
        if is_handed_over or streamed.finished:
            return is_handed_over


def _stream_batch(context: WorkerContext, relid: int, *, hands_over: bool) -> tuple[Streamed, bool]:
    """Receive and apply one batch; whether the table is handed over with it."""
    session = context.session
    with ExitStack() as transaction:
        subscription = transaction.enter_context(context.transaction())
        if state.table_state(session, subscription.oid, relid) != catalog.FINISHED_COPY:
            raise SubscriptionChanged
        publisher = context.connection.publisher(subscription)
        position = state.position(session, subscription.oid, relid)
        end = max(position, state.position(session, subscription.oid))
        start = start_stream(publisher.stream, catalog.sync_slot_name(session, subscription.oid, relid), position)
        at = loop.Bounds(position, start, end, end, publisher.shares_catalog)
        following = following_of(context, subscription, publisher, relid)
        with ExitStack() as received:
            batch = _TableBatch(
                context,
                subscription,
                publisher.stream,
                following,
                at,
                statistics.now(),
                transaction,
                received,
                only=relid,
            )
            batch.hands_over = hands_over
            return loop.carry_out(loop.apply_batch(at, None), batch.work), batch.is_handed_over


@dataclass
class _TableBatch(StreamBatch):
    """What the steps of one batch do."""

    hands_over: bool = False
    is_handed_over: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.slot = catalog.sync_slot_name(self.session, self.subscription.oid, self.only)

    def lock(self) -> None:
        self.context.lock(self.subscription)
        current = state.table_state(self.session, self.subscription.oid, self.only)
        if current != catalog.FINISHED_COPY or state.position(*self._own) != self.at.position:
            raise SubscriptionChanged

    @property
    def _own(self) -> tuple[Session, int, int]:
        return self.session, self.subscription.oid, self.only

    def ask_unsettled(self, step: loop.AskUnsettled) -> bool:
        return True

    def settle(self, step: loop.Settle) -> None:
        session, subid, relid = self._own
        if not session.transaction.is_writing:
            self.lock()
        if self.hands_over and step.lsn >= state.position(session, subid):
            state.set_table_state(session, subid, relid, catalog.SYNC_DONE, step.lsn)
            drop_origin(session, catalog.origin_name(subid, relid))
            lease.end(session, subid, relid, self.context.token)
            self.is_handed_over = True
        elif step.moves_origin:
            state.move(session, subid, step.lsn, relid)
        crash_point("table.settled")
