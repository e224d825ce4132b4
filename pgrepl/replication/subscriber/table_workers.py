"""Table synchronization workers: tables are copied, several at once, while the main stream goes on; then a stream of
their own brings them there.

    f    the copy is committed as of an LSN, the table's own origin stands there, and moves with each batch
    s    the origin has come to where the main stream is, found under the write lock: from there that goes on

Each is a thread with a session and a connection, and holds the write lock for its commits only. Who stops the apply
worker stops them first.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.transaction import DimensionsNeeded
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER
from pgrepl.engine import spark
from pgrepl.engine.choice import choose_job
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.lake.commit import LockedByOthers
from pgrepl.lake.storage import crash_point
from pgrepl.replication.origins import drop_origin
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.subscriber import apply_loop as loop
from pgrepl.replication.subscriber import lease, state
from pgrepl.replication.subscriber.apply.triggers import has_triggers
from pgrepl.replication.subscriber.attach import occupy
from pgrepl.replication.subscriber.context import WorkerContext, despite_locks
from pgrepl.replication.subscriber.copying.copy import copy_table, forget_slot
from pgrepl.replication.subscriber.lease import SubscriptionChanged, WorkerFailed, WorkerStopped
from pgrepl.replication.subscriber.streaming import StreamBatch, following_of, start_stream

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.subscriber.lease import Streamed


_ALMOST_THERE = 0.5  # seconds that are left to catch up: the main stream can wait for that
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
            if time.monotonic() - since < _ALMOST_THERE:
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
        if state.table_state(session, subscription.oid, relid) != subscriptions.FINISHED_COPY:
            return None
        slot = subscriptions.sync_slot_name(session, subscription.oid, relid)
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
        if state.table_state(session, subscription.oid, relid) != subscriptions.FINISHED_COPY:
            raise SubscriptionChanged
        publisher = context.connection.publisher(subscription)
        position = state.position(session, subscription.oid, relid)
        end = max(position, state.position(session, subscription.oid))
        start = start_stream(publisher.stream, subscriptions.sync_slot_name(session, subscription.oid, relid), position)
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
        self.slot = subscriptions.sync_slot_name(self.session, self.subscription.oid, self.only)

    def lock(self) -> None:
        self.context.lock(self.subscription)
        current = state.table_state(self.session, self.subscription.oid, self.only)
        if current != subscriptions.FINISHED_COPY or state.position(*self._own) != self.at.position:
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
            state.set_table_state(session, subid, relid, subscriptions.SYNC_DONE, step.lsn)
            drop_origin(session, subscriptions.origin_name(subid, relid))
            lease.end(session, subid, relid, self.context.token)
            self.is_handed_over = True
        elif step.moves_origin:
            state.move(session, subid, step.lsn, relid)
        crash_point("table.settled")


# --- table workers ----------------------------------------------------------------------------------------------------


_SOON = 0.1  # seconds for copies to end before the main stream goes on
_SMALL = 100_000  # rows that a lake copies soon enough for the main stream to wait
_PATIENCE = 2.0  # seconds for all stopped workers to end
_PAUSE = 0.2  # seconds between two attempts to stop them
_numbers = itertools.count(1)


def shared_out(context: WorkerContext, waiting: Sequence[Relation]) -> tuple[list[Relation], int]:
    """The tables that workers are to copy, and the number of these workers. The others are copied by the apply worker:
    those of an instance that are small together, and those with triggers, whose copies hold the write lock."""
    session = context.session
    with context.transaction() as subscription:
        begun = state.table_states(session, subscription.oid)
        streams = [table for table in waiting if begun.get(table.oid, ("", 0))[0] == subscriptions.FINISHED_COPY]
        at_work = [row for row in rows(session, tables.pgrepl_worker) if lock_file.is_at_work(row)]
        most = min(
            int(session.settings.get("max_sync_workers_per_subscription")),
            int(session.settings.get("max_logical_replication_workers")) - len(at_work),
        )
        fit = [table for table in waiting if table in streams or not has_triggers(session, table.oid)]
        publisher = context.connection.publisher(subscription)
        try:
            copies, names = publisher.copies, [(table.schema, table.name) for table in fit]
            size = 0 if not fit or most <= 0 else None if copies is None else copies.rows_in(names)
        except PublisherError:  # the copy will raise it
            size = 0
        if size is None or choose_job(session, size).on_spark:
            return fit, max(min(len(fit), most), 1)
        return (fit if size > _SMALL else streams), 1


class News(Enum):
    """What a worker tells the apply worker."""

    WANTS_ALONE = auto()  # the main stream is to wait
    GOES_ON = auto()  # so may the main stream
    ENDED = auto()  # the table is copied, or its copy has failed


class Bell:
    """The news of workers for the apply worker, in order."""

    def __init__(self, leader: WorkerContext) -> None:
        self._leader = leader
        self._told: SimpleQueue[tuple[TableWorker, News]] = SimpleQueue()
        self._soon = time.monotonic() + _SOON
        self.some = threading.Event()  # there may be something

    def ring(self, worker: TableWorker, news: News) -> None:
        self._told.put((worker, news))
        self.some.set()
        self._leader.connection.wake()

    def next(self, go_on: Callable[[threading.Event], bool] | None) -> tuple[TableWorker, News]:
        """The next news. Until then the main stream goes on, if it may, step by step: a step ends early when the event
        is set."""
        if go_on is None:
            return self._told.get()
        with suppress(Empty):
            return self._told.get(timeout=max(self._soon - time.monotonic(), 0.0))
        while True:
            self.some.clear()
            with suppress(Empty):
                return self._told.get_nowait()
            if not go_on(self.some):
                return self._told.get()


def copy_together(
    context: WorkerContext,
    relids: Sequence[int],
    count: int,
    begins: Callable[[int], None],
    ends: Callable[[int, int | None, WorkerFailed | None], None],
    go_on: Callable[[threading.Event], bool],
) -> None:
    """Copy tables by `count` workers. `begins`, `ends` and `go_on` are called in this thread; `ends` gets the number of
    rows (None: the table needed no copy any more) or the failure, `go_on` takes the main stream one step further, and
    tells whether that has not failed. Other errors are raised when all workers have ended."""
    bell = Bell(context)
    workers: list[TableWorker] = []
    tag = spark.tag() or f"pgrepl-copies-{next(_numbers)}"
    try:
        for _ in range(count):
            workers.append(TableWorker(context, bell, tag))
            workers[-1].thread.start()
        _hand_out(context, deque(relids), workers, bell, begins, ends, go_on)
    except BaseException:
        stop_workers(workers, tag)
        raise
    finally:
        for worker in workers:
            worker.close()


def _hand_out(
    context: WorkerContext,
    waiting: deque[int],
    workers: Sequence[TableWorker],
    bell: Bell,
    begins: Callable[[int], None],
    ends: Callable[[int, int | None, WorkerFailed | None], None],
    go_on: Callable[[threading.Event], bool],
) -> None:
    idle, alone = deque(workers), set[TableWorker]()
    problem: BaseException | None = None
    stands = False  # the main stream has failed: no further copy begins

    def step(until: threading.Event) -> bool:
        nonlocal stands
        stands = not go_on(until)
        return not stands

    while True:
        while waiting and idle and problem is None and not stands:
            begins(waiting[0])
            idle.popleft().begin(waiting.popleft())
        if len(idle) == len(workers):
            break
        worker, news = bell.next(None if stands or alone else step)
        context.check_stopped()
        alone.discard(worker)
        if news is News.WANTS_ALONE:
            alone.add(worker)
            worker.begin(worker.relid)
        if news is not News.ENDED:
            continue
        idle.append(worker)
        if worker.failure is None or isinstance(worker.failure, WorkerFailed):
            ends(worker.relid, worker.copied, worker.failure)
        elif isinstance(worker.failure, SubscriptionChanged):
            raise worker.failure  # the other workers will meet it, too
        else:
            problem = problem or worker.failure
    if problem is not None:
        raise problem


class TableWorker:
    """A thread that copies one table after the other, and brings each to where the main stream is."""

    def __init__(self, leader: WorkerContext, bell: Bell, tag: str) -> None:
        """`leader`: the apply worker's context, whose lease and settings count for this one, too."""
        self.relid = 0
        self.copied: int | None = None
        self.failure: BaseException | None = None
        self.context = _beside(leader)
        self._leader = leader
        self._bell = bell
        self._tables: SimpleQueue[int] = SimpleQueue()
        self._tag = tag
        self.thread = JoinedThread(self._run, "pgrepl-table-sync")

    def begin(self, relid: int) -> None:
        self._tables.put(relid)

    def _run(self) -> None:
        spark.tag_jobs(self._tag)
        try:
            while relid := self._tables.get():
                self.relid, self.copied, self.failure = relid, None, None
                try:
                    self.copied = copy_table(self.context, relid, alone=self._alone)
                    stream_table(self.context, relid, self._alone)
                except BaseException as problem:  # for _hand_out
                    self.failure = problem
                    self.context.copies.ended(relid)
                    if not self.context.stopped:
                        self.context.connection.close()
                is_stopped = self.context.stopped or isinstance(self.failure, WorkerStopped)
                self._bell.ring(self, News.ENDED)
                if is_stopped:
                    return
        finally:
            self._end()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let the main stream wait. Else it might wait longer for the write lock than it may. After a failure it waits
        until that is told: a table that has been handed over may still have its slot."""
        self._bell.ring(self, News.WANTS_ALONE)
        if not self._tables.get():
            raise WorkerStopped
        try:
            yield
        except (DimensionsNeeded, LockedByOthers):  # it is tried again
            self._bell.ring(self, News.GOES_ON)
            raise
        self._bell.ring(self, News.GOES_ON)

    def _end(self) -> None:
        self._leader.beside.remove(self.context)
        self.context.close()

    def close(self) -> None:
        self._tables.put(0)
        if self.thread.ident is None:  # it was never started
            self._end()
        elif not self.context.stopped:
            self.thread.join()


def _beside(leader: WorkerContext) -> WorkerContext:
    """A context for another thread, with a session and a connection of its own."""
    there = leader.session
    own = WorkerContext(there, leader.subid, leader.log.server_log, leader.observer, patience=leader.settings.patience)
    own.session.settings.take_defaults(there.settings)
    own.session.authenticated_user = there.authenticated_user
    own.session.act_as(BOOTSTRAP_SUPERUSER)
    own.lease, own.copies, own.unforgotten = leader.lease, leader.copies, leader.unforgotten
    leader.beside.append(own)
    return own


def stop_workers(workers: Sequence[TableWorker], tag: str) -> None:
    """Interrupt the workers until all have ended; an interrupt of this thread meanwhile is ignored. A worker that does
    not end in time is left behind: it ends by itself, or with this process. Only Spark jobs with the tag are
    cancelled."""
    until = time.monotonic() + _PATIENCE
    for worker in workers:
        worker.begin(0)
    while any(worker.thread.is_alive() for worker in workers) and time.monotonic() < until:
        with suppress(BaseException):
            spark.cancel_tagged(tag)
            for worker in workers:
                threading.Thread(target=worker.context.stop, name="pgrepl-stop", daemon=True).start()
            pause = time.monotonic() + _PAUSE
            for worker in workers:
                worker.thread.join(max(0.0, pause - time.monotonic()))
