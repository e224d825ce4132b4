"""The workers of an instance: which subscriptions there are, and who works for them, as PostgreSQL's launcher does it.

once    every subscription as far as its publisher is at that moment
follow  again and again until told to stop; new and altered subscriptions are noticed; one that failed is tried
        again after wal_retrieve_retry_interval
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.recovery import in_recovery
from pgrepl.catalog.roles import has_privs_of_role, is_superuser
from pgrepl.catalog.store import Row, one, rows
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake import passing
from pgrepl.replication.log import ServerLog
from pgrepl.replication.observer import Observer
from pgrepl.replication.worker import Round, Worker

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


@frozen
class Subscription:
    """One of those to work for."""

    oid: int
    name: str
    database: int
    database_name: str


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
    ) -> None:
        self._session = session
        self._log = log
        self._names = names
        self._everywhere = everywhere
        self._observer = observer
        self._keeps_leases = keeps_leases
        self._workers: dict[int, Worker] = {}
        passing.clean()

    def close(self) -> None:
        """Give back what is held; work that was under way is undone."""
        while self._workers:
            self._workers.popitem()[1].close()

    # --- which --------------------------------------------------------------------------------------------------------

    def subscriptions(self) -> list[Subscription]:
        """Those that are enabled; an error for a name that has nothing to work for."""
        session = self._session
        with reading(session):
            if in_recovery(session):
                raise PgError(
                    "55000",
                    "recovery is in progress",
                    hint="Subscriptions have no workers before a standby is promoted.",
                )
            where = {} if self._everywhere else {"subdbid": session.database.oid}
            listed = sorted(rows(session, tables.pg_subscription, **where), key=lambda row: row.oid)
            for name in self._names:
                self._check(name, [row for row in listed if row.subname == name])
            chosen = [row for row in listed if not self._names or row.subname in self._names]
            return [self._described(row) for row in chosen if row.subenabled and row.subslotname and self._may_run(row)]

    def _check(self, name: str, named: list[Row]) -> None:
        if not named:
            raise PgError("42704", f'subscription "{name}" does not exist')
        for row in named:
            if not self._may_run(row):
                raise PgError("42501", f"must be owner of subscription {name}")
        if not any(row.subenabled for row in named):
            raise PgError(
                "55000",
                f'subscription "{name}" is disabled',
                hint=f"Enable it with ALTER SUBSCRIPTION {name} ENABLE.",
            )
        if not any(row.subenabled and row.subslotname for row in named):
            raise PgError("55000", "subscription has no replication slot set")

    def _may_run(self, row: Row) -> bool:
        session = self._session
        return is_superuser(session, session.role) or has_privs_of_role(session, session.role, row.subowner)

    def _described(self, row: Row) -> Subscription:
        database = one(self._session, tables.pg_database, oid=row.subdbid)
        return Subscription(row.oid, row.subname, row.subdbid, "" if database is None else database.datname)

    # --- working ------------------------------------------------------------------------------------------------------

    def worker(self, subscription: Subscription) -> Worker:
        found = self._workers.get(subscription.oid)
        if found is None:
            there = self._session.elsewhere(subscription.database, self._session.role)
            found = self._workers[subscription.oid] = Worker(
                there, subscription.oid, self._log, observer=self._observer, keeps_lease=self._keeps_leases
            )
        return found

    def follow(
        self,
        interval: float,
        work: Callable[[Subscription, Worker], Round],
        ends: Callable[[Collection[Round]], bool] = lambda rounds: False,
    ) -> None:
        """Let every subscription's worker `work` again and again, until the rounds of one turn say that it `ends`."""
        tried: dict[int, float] = {}  # failed subscriptions: when
        begun: set[int] = set()
        while True:
            found = {subscription.oid: subscription for subscription in self._present()}
            for gone in self._workers.keys() - found.keys():
                worker = self._workers.pop(gone)
                with suppress(PgError):
                    worker.say_goodbye()
                worker.close()
            rounds = []
            for oid, subscription in found.items():
                if time.monotonic() - tried.get(oid, -1e9) < self._retry_interval():
                    continue
                if oid not in begun:
                    self._log.log(
                        f'logical replication apply worker for subscription "{subscription.name}" has started'
                    )
                try:
                    done = work(subscription, self.worker(subscription))
                except PgError as error:  # the subscriber's catalog cannot be read
                    self._log.error(error)
                    done = Round(error=error)
                rounds.append(done)
                tried.pop(oid, None)
                if done.error is not None:
                    tried[oid] = time.monotonic()
            begun = found.keys() - tried.keys()
            if ends(rounds):
                return
            time.sleep(interval)

    def _present(self) -> list[Subscription]:
        """While it goes on, what is not there yet or not at the moment is waited for."""
        try:
            return self.subscriptions()
        except PgError as error:
            if error.sqlstate not in ("42704", "55000", "55P03", "58030", "XX001"):
                raise
            return []

    def _retry_interval(self) -> float:
        return int(self._session.settings.value("wal_retrieve_retry_interval")) / 1000
