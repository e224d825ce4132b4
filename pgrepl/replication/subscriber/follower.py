"""The worker of one subscription that repeats its rounds until it is stopped, and rounds before a statement.

    round → wait until there is something → round … after an error: until wal_retrieve_retry_interval has passed
    the subscription was altered → it continues in a new thread, with a new PID

Each has a thread, a session and a connection of its own. Before a statement the bound is the publisher's LSN at that
moment: two databases that subscribe to each other would never end otherwise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pgrepl.catalog.session.context import Block, in_recovery
from pgrepl.catalog.session.transaction import reading
from pgrepl.engine import spark
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.replication.log import ServerLog, log_beside
from pgrepl.replication.subscriber.at_once import has_news
from pgrepl.replication.subscriber.attach import Round
from pgrepl.replication.subscriber.lease import WorkerStopped
from pgrepl.replication.subscriber.state import enabled_subscriptions
from pgrepl.replication.subscriber.worker import Worker

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

PATIENCE = 3.0  # seconds that a statement waits for another session's write lock


class CatchUp:
    """Catches up the database of a session each time it is called."""

    def __init__(self, session: Session, log: ServerLog | None = None) -> None:
        self._session = session
        self._log = log or log_beside(session)
        session.at_close.append(self.close)
        self._workers: dict[int, Worker] = {}
        self._quiet: dict[int, float] = {}  # failed subscriptions, and when
        self._contents: object = None  # of the catalog after the last rounds

    def now(self) -> None:
        session = self._session
        if session.transaction.block is not Block.NONE or session.catalog.obstacle is not None:
            return
        first = next(iter(self._workers.values()), None)
        session = session if first is None else first.session  # the worker's session caches what is read
        with reading(session):
            standby = in_recovery(session)  # subscriptions sleep until it is promoted
            waiting = [] if standby else [row.oid for row in enabled_subscriptions(session)]
            idle = {subid for subid in waiting if self._is_idle(subid, session)}
            changed = bool(self._quiet) and session.transaction.contents() != self._contents
        for subid in self._workers.keys() - set(waiting):
            self._workers.pop(subid).close()
            self._quiet.pop(subid, None)
        trying = [subid for subid in waiting if subid not in idle and (changed or self._may_try(subid))]
        for subid in trying:
            self._round(subid)
        if trying and self._quiet:
            with reading(self._session):
                self._contents = self._session.transaction.contents()

    def _is_idle(self, subid: int, session: Session) -> bool:
        worker = self._workers.get(subid)
        return worker is not None and subid not in self._quiet and not has_news(worker.context, session)

    def close(self) -> None:
        while self._workers:
            self._workers.popitem()[1].close()

    def _may_try(self, subid: int) -> bool:
        failed = self._quiet.get(subid)
        pause = int(self._session.settings.value("wal_retrieve_retry_interval")) / 1000
        return failed is None or time.monotonic() - failed >= pause

    def _round(self, subid: int) -> None:
        worker = self._workers.get(subid)
        if worker is None:  # the worker is kept, with its connection, for the next statements
            worker = self._workers[subid] = Worker(self._session, subid, self._log, patience=PATIENCE)
        done = worker.round(wait=True)
        self._quiet.pop(subid, None)
        if done.error is not None:
            self._quiet[subid] = time.monotonic()


class Follower:
    """A thread in which a worker does round after round."""

    def __init__(
        self, name: str, worker: Worker, work: Callable[[Worker], Round], interval: float, told: Callable[[Round], None]
    ) -> None:
        """`told` is called in the thread, with the result of each round."""
        self.problem: BaseException | None = None  # an error of the program, not of the subscription
        self.ending_since: float | None = None
        self._name = name
        self._worker = worker
        self._work = work
        self._interval = interval
        self._log = worker.log
        self._told = told
        self._over = threading.Event()
        self._thread = self._new_thread()

    def _new_thread(self) -> JoinedThread:
        return JoinedThread(self._run, f"pgrepl-apply-{self._name}")

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """End after this round."""
        if self.ending_since is None:
            self.ending_since = time.monotonic()
        self._over.set()
        self._worker.context.connection.wake()

    def stop(self) -> None:
        """Interrupt the round. To be called again until the thread has ended: it may have been about to begin work that
        this call did not reach."""
        self.end()
        self._worker.stop()

    def wait(self, seconds: float) -> None:
        self._thread.join(max(0.0, seconds))

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        spark.tag_jobs(self._worker.tag)
        begun = False
        restarts = False
        try:
            while not self._over.is_set():
                if not begun:
                    self._log.log(
                        f'logical replication apply worker for subscription "{self._subscription}" has started'
                    )
                since = time.monotonic()
                done = self._round()
                begun = done.error is None
                self._told(done)
                if done.restarts and not self._over.is_set():
                    restarts = True
                    return
                if begun:
                    while not (self._over.is_set() or self._worker.wait(done.lsn, self._interval, self._over)):
                        pass
                else:
                    self._over.wait(self._until_next_attempt(since))
        except WorkerStopped:
            pass
        except BaseException as problem:  # the launcher raises it
            self.problem = problem
        finally:
            if restarts:  # a restarted worker shows another PID
                fresh = self._new_thread()
                fresh.start()
                self._thread = fresh
            else:
                with suppress(PgError, WorkerStopped):
                    self._worker.say_goodbye()
                self._worker.close()

    @property
    def _subscription(self) -> str:
        """The subscription's present name; it may have been renamed."""
        with suppress(PgError):
            return self._worker.subscription or self._name
        return self._name

    def _round(self) -> Round:
        try:
            return self._work(self._worker)
        except PgError as error:  # the subscriber's catalog cannot be read
            self._worker.context.check_stopped()
            self._log.error(error)
            return Round(error=error)

    def _until_next_attempt(self, since: float) -> float:
        """The seconds to wait. PostgreSQL's launcher counts from the start of one attempt to the start of the next."""
        seconds = int(self._worker.session.settings.value("wal_retrieve_retry_interval")) / 1000
        return max(self._interval, seconds - (time.monotonic() - since))
