"""Table synchronization workers: several tables of a subscription are copied at once.

Each worker is a thread with a context of its own: a session, and a connection to the publisher. The apply worker hands
out the tables in their order and waits for all of them. Workers hold the write lock for their commits only, one after
the other. When the apply worker is stopped, it interrupts them first.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.store import rows
from pgrepl.engine import choose_job
from pgrepl.interrupts import JoinedThread
from pgrepl.lake import spark
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.subscriber import lease
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.copy import copy_table
from pgrepl.replication.subscriber.failures import SubscriptionChanged, WorkerFailed

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation

_PATIENCE = 2.0  # seconds for all stopped workers to end
_PAUSE = 0.2  # seconds between two attempts to stop them
_numbers = itertools.count(1)


def workers_for(context: WorkerContext, waiting: Sequence[Relation]) -> int:
    """The number of workers to copy these tables. Several are worth it if the publisher is a server, which works while
    we wait for it, or if the tables are large enough for Spark."""
    if len(waiting) < 2:
        return 1
    settings = context.session.settings
    with context.transaction() as subscription:
        at_work = [row for row in rows(context.session, tables.pgrepl_worker) if lease.is_alive(row)]
        count = min(
            len(waiting),
            int(settings.get("max_sync_workers_per_subscription")),
            int(settings.get("max_logical_replication_workers")) - len(at_work),
        )
        publisher = context.connection.publisher(subscription)
        if count < 2:
            return 1
        try:
            size = publisher.rows_in([(table.schema, table.name) for table in waiting])
        except PublisherError:  # the copy will raise it
            return 1
        return count if size is None or choose_job(context.session, size).on_spark else 1


def copy_together(
    context: WorkerContext,
    relids: Sequence[int],
    count: int,
    begins: Callable[[int], None],
    ends: Callable[[int, int | None, WorkerFailed | None], None],
) -> None:
    """Copy tables by `count` workers. `begins` and `ends` are called in this thread; `ends` gets the number of rows
    (None: the table needed no copy any more) or the failure. Other errors are raised when all workers have ended."""
    ended: SimpleQueue[TableWorker] = SimpleQueue()
    workers: list[TableWorker] = []
    tag = spark.tag() or f"pgrepl-copies-{next(_numbers)}"
    try:
        for _ in range(count):
            workers.append(TableWorker(context, ended, tag))
            workers[-1].thread.start()
        _hand_out(context, deque(relids), workers, ended, begins, ends)
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
    ended: SimpleQueue[TableWorker],
    begins: Callable[[int], None],
    ends: Callable[[int, int | None, WorkerFailed | None], None],
) -> None:
    idle = deque(workers)
    problem: BaseException | None = None
    while True:
        while waiting and idle and problem is None:
            begins(waiting[0])
            idle.popleft().begin(waiting.popleft())
        if len(idle) == len(workers):
            break
        worker = ended.get()
        context.check_stopped()
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
    """A thread that copies one table after the other."""

    def __init__(self, leader: WorkerContext, ended: SimpleQueue[TableWorker], tag: str) -> None:
        """`leader`: the apply worker's context, whose lease and settings count for this one, too."""
        self.relid = 0
        self.copied: int | None = None
        self.failure: BaseException | None = None
        self.context = _beside(leader)
        self._leader = leader
        self._ended = ended
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
                    self.copied = copy_table(self.context, relid)
                except BaseException as problem:  # for _hand_out
                    self.failure = problem
                    self.context.copies.ended(relid)
                    if not self.context.stopped:
                        self.context.connection.close()
                self._ended.put(self)
                if self.context.stopped:
                    return
        finally:
            self._end()

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
    made = WorkerContext(there, leader.subid, leader.log.server_log, leader.observer, patience=leader.settings.patience)
    made.session.settings.take_defaults(there.settings)
    made.session.authenticated_user = there.authenticated_user
    made.session.act_as(BOOTSTRAP_SUPERUSER)
    made.lease, made.copies = leader.lease, leader.copies
    leader.beside.append(made)
    return made


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
