"""The launcher of an instance: starts workers for its subscriptions, as PostgreSQL's launcher does.

once    every subscription up to its publisher's LSN at that moment
follow  again and again until stopped, each subscription in a thread of its own; new and altered ones are noticed;
        one that failed is tried again after wal_retrieve_retry_interval

A follower repeats the rounds of one subscription:

    round → wait until there is something → round … after an error: until wal_retrieve_retry_interval has passed
    the subscription was altered → it continues in a new thread, with a new PID

Each has a thread, a session and a connection of its own. Before a statement the bound is the publisher's LSN at that
moment: two databases that subscribe to each other would never end otherwise.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.roles import has_privs_of_role, is_superuser
from pgrepl.catalog.session.context import Block, in_recovery
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.engine import spark, spark_options
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.replication.log import ServerLog, log_beside
from pgrepl.replication.subscriber.at_once import has_news
from pgrepl.replication.subscriber.attach import Round
from pgrepl.replication.subscriber.lease import Observer, WorkerStopped
from pgrepl.replication.subscriber.state import enabled_subscriptions
from pgrepl.replication.subscriber.worker import Worker

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.files.memory import GivenBatch

_PATIENCE = 2.0  # seconds for all workers to end
_GRACE = 1.0  # seconds for a worker whose subscription was dropped
_PASSING = ("55P03", "58030", "XX001")  # a catalog that is locked, away or being replaced
_PAUSE = 0.2  # seconds between two attempts to stop a worker
PATIENCE = 3.0  # seconds that a statement waits for another session's write lock


@frozen
class SubscriptionToServe:
    """A subscription that a worker serves."""

    oid: int
    name: str
    database: int


class Launcher:
    """Workers for some subscriptions of a session's instance: those of one database or of all, by name or all."""

    def __init__(
        self,
        session: Session,
        log: ServerLog,
        *,
        names: Sequence[str] = (),
        everywhere: bool = False,
        observer: Observer | None = None,
        keeps_leases: bool = False,
        given: GivenBatch | None = None,
    ) -> None:
        """`given`: see WorkerContext."""
        self._given = given
        self._session = session
        self._log = log
        self._names = names
        self._everywhere = everywhere
        self._observer = observer
        self._keeps_leases = keeps_leases
        self._workers: dict[int, Worker] = {}
        self._followers: dict[int, Follower] = {}
        spark_options.clean()

    def close(self) -> None:
        """Stop all workers and release their leases; unfinished work is rolled back."""
        _stop(self._followers.values(), _PATIENCE)
        self._followers.clear()
        while self._workers:
            self._workers.popitem()[1].close()

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscriptions(self) -> list[SubscriptionToServe]:
        """The enabled subscriptions; an error for a name without a subscription that can be served."""
        session = self._session
        with reading(session):
            if in_recovery(session):
                raise PgError(
                    "55000",
                    "recovery is in progress",
                    hint="Subscriptions have no workers before a standby is promoted.",
                )
            listed = self._listed()
            for name in self._names:
                self._check(name, [row for row in listed if row.subname == name])
            return self._chosen()

    def _listed(self) -> list[tables.pg_subscription]:
        where = {} if self._everywhere else {"subdbid": self._session.database_oid}
        return sorted(rows(self._session, tables.pg_subscription, **where), key=lambda row: row.oid)

    def _chosen(self) -> list[SubscriptionToServe]:
        chosen = [row for row in self._listed() if not self._names or row.subname in self._names]
        return [
            SubscriptionToServe(row.oid, row.subname, row.subdbid)
            for row in chosen
            if row.subenabled and row.subslotname and self._may_run(row)
        ]

    def _check(self, name: str, named: list[tables.pg_subscription]) -> None:
        if not named:
            hint = "A file is given to a subscription with files=-: pgrepl apply SUBSCRIPTION --from FILE."
            is_file = os.path.isfile(name)
            raise PgError("42704", f'subscription "{name}" does not exist', hint=hint if is_file else None)
        for row in named:
            if not self._may_run(row):
                raise PgError("42501", f"must be owner of subscription {name}")
        if not any(row.subenabled for row in named):
            raise PgError(
                "55000", f'subscription "{name}" is disabled', hint=f"Enable it with ALTER SUBSCRIPTION {name} ENABLE."
            )
        if not any(row.subenabled and row.subslotname for row in named):
            raise PgError("55000", "subscription has no replication slot set")

    def _may_run(self, row: tables.pg_subscription) -> bool:
        session = self._session
        return is_superuser(session, session.role) or has_privs_of_role(session, session.role, row.subowner)

    # --- working ------------------------------------------------------------------------------------------------------

    def worker(self, subscription: SubscriptionToServe) -> Worker:
        worker = self._workers.get(subscription.oid)
        if worker is None:
            worker = self._workers[subscription.oid] = self._made(subscription)
        return worker

    def _made(self, subscription: SubscriptionToServe) -> Worker:
        there = self._session.elsewhere(subscription.database, self._session.role)
        there.settings.take_client(self._session.settings)
        return Worker(
            there,
            subscription.oid,
            self._log,
            observer=self._observer,
            keeps_lease=self._keeps_leases,
            warns=True,
            given=self._given,
        )

    def follow(
        self,
        interval: float,
        work: Callable[[SubscriptionToServe, Worker], Round],
        ends: Callable[[Collection[Round]], bool] = lambda rounds: False,
    ) -> None:
        """Let every subscription's worker `work` again and again, each by itself, until their last rounds say that it
        `ends`. `work` is called in the workers' threads, `ends` in one thread at a time."""
        rounds: dict[int, Round] = {}
        ended = threading.Event()
        telling = threading.Lock()

        def look() -> None:
            if not ended.is_set() and ends(list(rounds.values())):
                ended.set()

        def told(oid: int, done: Round) -> None:
            with telling:
                if oid not in rounds:
                    return
                rounds[oid] = done
                look()

        def start(subscription: SubscriptionToServe) -> None:
            oid = subscription.oid
            worker = self._made(subscription)
            with telling:
                rounds[oid] = Round()
            follower = self._followers[oid] = Follower(
                subscription.name, worker, partial(work, subscription), interval, partial(told, oid)
            )
            follower.start()

        while True:
            present = self._present()
            if present is not None:
                for oid in [oid for oid in self._followers if self._is_over(oid, present)]:
                    with telling:
                        rounds.pop(oid, None)
                    self._end(oid)
                for oid in present.keys() - self._followers.keys():
                    start(present[oid])
            with telling:
                look()
            if ended.wait(interval):
                return

    def _is_over(self, oid: int, present: Collection[int]) -> bool:
        follower = self._followers[oid]
        if follower.problem is not None:
            raise follower.problem
        return oid not in present or follower.ending_since is not None

    def _end(self, oid: int) -> None:
        """End the worker of a dropped subscription. It has a moment to notice that by itself, and is then stopped."""
        follower = self._followers[oid]
        follower.end()
        if not follower.is_alive:
            del self._followers[oid]
        elif follower.ending_since is not None and time.monotonic() - follower.ending_since > _GRACE:
            _stop([follower], _PAUSE)

    def _present(self) -> dict[int, SubscriptionToServe] | None:
        """The subscriptions to follow; a name without a subscription is waited for. None: the catalog cannot be read at
        the moment."""
        try:
            with reading(self._session):
                if in_recovery(self._session):
                    return {}
                return {subscription.oid: subscription for subscription in self._chosen()}
        except PgError as error:
            if error.sqlstate not in _PASSING:
                raise
            return None


def _stop(followers: Collection[Follower], seconds: float) -> None:
    """Interrupt the followers, and wait for them. One that does not end in time is left behind: its lease is free once
    this process has ended."""
    until = time.monotonic() + seconds
    while (alive := [follower for follower in followers if follower.is_alive]) and time.monotonic() < until:
        for follower in alive:  # each in a thread: a stop may have to send a cancel request
            threading.Thread(target=follower.stop, name="pgrepl-stop", daemon=True).start()
        for follower in alive:
            follower.wait(min(_PAUSE, until - time.monotonic()))


# --- followers --------------------------------------------------------------------------------------------------------


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
