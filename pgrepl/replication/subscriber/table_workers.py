"""Several tables of a subscription are copied at once, as table synchronization workers do it.

Each worker is a thread with a receiver of its own: a session, and a connection to the publisher. The apply worker hands
out the tables in their order, hears of each as it ends, and waits for all of them. They hold the write lock for their
commits only, one after the other. If it is stopped it stops them first: what they are busy with is broken off.
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
from pgrepl.catalog.store import rows
from pgrepl.engine import choose_job
from pgrepl.lake import spark
from pgrepl.replication.publisher.lake.publisher import LakePublisher
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.subscriber import lease
from pgrepl.replication.subscriber.copy import copy_table
from pgrepl.replication.subscriber.receiver import Receiver, SubscriptionChanged, WorkerFailed

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation

_PATIENCE = 2.0  # seconds for all to end that are stopped
_PAUSE = 0.2  # until it is tried again
_numbers = itertools.count(1)


def workers_for(receiver: Receiver, waiting: Sequence[Relation]) -> int:
    """How many workers copy these tables: one where they are few, or so small that another only gets in the way. A
    server works while we wait for it; what is here is worth it when it is for Spark."""
    if len(waiting) < 2:
        return 1
    settings = receiver.session.settings
    with receiver.transaction() as subscription:
        at_work = [row for row in rows(receiver.session, tables.pgrepl_worker) if lease.is_alive(row)]
        count = min(
            len(waiting),
            int(settings.get("max_sync_workers_per_subscription")),
            int(settings.get("max_logical_replication_workers")) - len(at_work),
        )
        publisher = receiver.publisher(subscription)
        if count < 2 or not isinstance(publisher, LakePublisher):
            return max(count, 1)
        try:
            size = publisher.rows_in([(table.schema, table.name) for table in waiting])
        except PublisherError:  # whoever copies will say it
            return 1
        return count if choose_job(receiver.session, size).on_spark else 1


def copy_together(
    receiver: Receiver,
    relids: Sequence[int],
    count: int,
    begins: Callable[[int], None],
    ends: Callable[[int, int | None, WorkerFailed | None], None],
) -> None:
    """Copy tables by `count` workers. `begins` and `ends` are called here, with the rows copied (None: the table waited
    no longer) or the failure. Anything else that goes wrong is raised when all have ended."""
    ended: SimpleQueue[_TableWorker] = SimpleQueue()
    workers: list[_TableWorker] = []
    tag = spark.tag() or f"pgrepl-copies-{next(_numbers)}"
    try:
        for _ in range(count):
            workers.append(_TableWorker(receiver.beside(), ended, tag))
            workers[-1].thread.start()
        _hand_out(receiver, deque(relids), workers, ended, begins, ends)
    except BaseException:
        _stop(workers, tag)
        raise
    finally:
        for worker in workers:
            worker.close()


def _hand_out(
    receiver: Receiver,
    waiting: deque[int],
    workers: Sequence[_TableWorker],
    ended: SimpleQueue[_TableWorker],
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
        receiver.check_stopped()
        idle.append(worker)
        if worker.failure is None or isinstance(worker.failure, WorkerFailed):
            ends(worker.relid, worker.copied, worker.failure)
        elif isinstance(worker.failure, SubscriptionChanged):
            raise worker.failure  # as it will for the others
        else:
            problem = problem or worker.failure
    if problem is not None:
        raise problem


class _TableWorker:
    """A thread that copies one table after the other."""

    def __init__(self, receiver: Receiver, ended: SimpleQueue[_TableWorker], tag: str) -> None:
        self.relid = 0
        self.copied: int | None = None
        self.failure: BaseException | None = None
        self.receiver = receiver
        self._ended = ended
        self._tables: SimpleQueue[int] = SimpleQueue()
        self._tag = tag
        self.thread = threading.Thread(target=self._run, name="pgrepl-table-sync", daemon=True)

    def begin(self, relid: int) -> None:
        self._tables.put(relid)

    def _run(self) -> None:
        spark.tag_jobs(self._tag)
        try:
            while relid := self._tables.get():
                self.relid, self.copied, self.failure = relid, None, None
                try:
                    self.copied = copy_table(self.receiver, relid)
                except BaseException as problem:  # for who waits
                    self.failure = problem
                    self.receiver.copy_ended(relid)
                    if not self.receiver.stopped:
                        self.receiver.disconnect()
                self._ended.put(self)
                if self.receiver.stopped:
                    return
        finally:
            self.receiver.close()

    def close(self) -> None:
        self._tables.put(0)
        if self.thread.ident is None:  # it was never started
            self.receiver.close()
        elif not self.receiver.stopped:
            self.thread.join()


def _stop(workers: Sequence[_TableWorker], tag: str) -> None:
    """Break off what they do, until all have ended; who is stopping is not stopped once more. One that nothing reaches
    is left behind: it ends by itself, or with this process. Only their own jobs are cancelled: what else Spark does
    goes on, and so does what begins when they have ended."""
    until = time.monotonic() + _PATIENCE
    for worker in workers:
        worker.begin(0)
    while any(worker.thread.is_alive() for worker in workers) and time.monotonic() < until:
        with suppress(BaseException):
            spark.cancel_tagged(tag)
            for worker in workers:
                threading.Thread(target=worker.receiver.stop, name="pgrepl-stop", daemon=True).start()
            pause = time.monotonic() + _PAUSE
            for worker in workers:
                worker.thread.join(max(0.0, pause - time.monotonic()))
