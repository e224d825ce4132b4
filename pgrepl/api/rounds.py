"""Rounds of subscriptions' workers: what `pgrepl.sync()`, `pgrepl.apply()` and the commands of these names do."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_subscription
    from pgrepl.replication.log import ServerLog
    from pgrepl.replication.subscriber.attach import Round
    from pgrepl.replication.subscriber.launcher import Launcher, SubscriptionToServe
    from pgrepl.replication.subscriber.worker import Worker

Work: TypeAlias = "Callable[[SubscriptionToServe, Worker], Round]"

_TOGETHER = 0.5  # seconds within which signals are one
_PATIENCE = 0.2  # seconds between two attempts to stop Spark's jobs


@dataclass(frozen=True, slots=True)
class SubscriptionRound:
    """The result of a round for one subscription."""

    database: str
    subscription: str
    tables_copied: tuple[str, ...]
    rows_copied: int
    transactions: int
    changes: int  # those that were applied, without skipped ones
    lsn: int  # all changes before it are applied
    error: PgError | None = None  # why the subscription has stopped

    @property
    def applied_lsn(self) -> str:
        """The LSN as PostgreSQL prints it."""
        return lsn_text(self.lsn)


def applied_of(database: str, subscription: str, done: Round) -> SubscriptionRound:
    return SubscriptionRound(
        database,
        subscription,
        tuple(done.tables_copied),
        done.rows_copied,
        done.transactions,
        done.changes - done.passed,
        done.lsn,
        done.error,
    )


def once(
    session: Session, launcher: Launcher, subscriptions: Sequence[SubscriptionToServe], work: Work
) -> Iterator[SubscriptionRound]:
    """Run one round for each subscription; the error of one does not keep the others from theirs."""
    names = database_names(session)
    for subscription in subscriptions:
        done = work(subscription, launcher.worker(subscription))
        yield applied_of(names.get(subscription.database, ""), subscription.name, done)


def database_names(session: Session) -> dict[int, str]:
    from pgrepl.catalog.facts.roles import databases
    from pgrepl.catalog.session.transaction import reading

    with reading(session):
        return {row.oid: str(row.datname) for row in databases(session)}


@contextmanager
def launched(
    session: Session, names: Sequence[str], log_file: Path | None, *, everywhere: bool, **options: Any
) -> Iterator[Launcher]:
    """A launcher, whose workers are stopped at the end. `log_file`: what they have to say, not to standard error."""
    from pgrepl.replication.subscriber.launcher import Launcher

    launcher = Launcher(session, server_log(log_file), names=names, everywhere=everywhere, **options)
    try:
        yield launcher
    finally:
        with undisturbed():
            launcher.close()


def server_log(path: Path | None) -> ServerLog:
    """The log, which can be written."""
    from pgrepl.replication.log import ServerLog

    log = ServerLog(path)
    log.check()
    return log


@contextmanager
def vacuuming(session: Session, log_file: Path | None) -> Iterator[None]:
    """Run autovacuum beside the workers, and the export of Iceberg tables."""
    from pgrepl.statements.upkeep.background import AutovacuumLauncher, IcebergExporter

    log = server_log(log_file)
    threads = AutovacuumLauncher(session, log), IcebergExporter(session, log)
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        with undisturbed():
            for thread in threads:
                thread.stop()


def start_spark(session: Session) -> None:
    """Start Spark in the background, if a table waits for its copy and the largest table of all would be copied by
    Spark."""
    from pgrepl.catalog.facts.subscription import rows_of_largest, subscriptions_to_copy
    from pgrepl.catalog.session.transaction import reading
    from pgrepl.engine.choice import choose_kernels

    with reading(session):
        waiting = subscriptions_to_copy(session)
        rows = rows_of_largest(session) if waiting else 0
        is_needed = rows and any(
            choose_kernels(_as_worker(session, subscription), rows).on_spark for subscription in waiting
        )
    if is_needed:
        from pgrepl.engine import spark

        spark.start_in_background()


def _as_worker(session: Session, subscription: pg_subscription) -> Session:
    """A session with the settings that a subscription's worker has."""
    from pgrepl.catalog.session.login import apply_stored_settings

    there = session.elsewhere(subscription.subdbid, session.role)
    apply_stored_settings(there, subscription.subowner, subscription.subdbid)
    there.settings.take_client(session.settings)
    return there


def table_ids(session: Session, subscription: SubscriptionToServe, wanted: Sequence[str]) -> set[int]:
    """The OIDs of a subscription's tables by their names; an error for a name that is none of them."""
    from pgrepl.catalog.facts.subscription import subscribed_tables
    from pgrepl.catalog.session.transaction import reading

    there = session.elsewhere(subscription.database, session.role, apart=True)
    try:
        with reading(there):
            listed = [subscribed.table for subscribed in subscribed_tables(there, subscription.oid)]
    finally:
        there.close()
    relids = set()
    for name in wanted:
        named = {table.oid for table in listed if name.strip() in (table.qualified_name, table.name)}
        if not named:
            raise PgError("42704", f'subscription "{subscription.name}" has no table "{name.strip()}"')
        relids |= named
    return relids


# --- signals ---------------------------------------------------------------------------------------------------------


@contextmanager
def stoppable(numbers: Sequence[signal.Signals], stopped: Callable[[int], BaseException]) -> Iterator[None]:
    """Have these signals raise the exception that `stopped` makes of their number: open transactions are rolled back,
    leases given back. Signals that come together, as of a terminal and of a parent, count once. In other threads than
    the main one nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []  # signals, until they are raised
    again: list[threading.Timer] = []
    raised = -_TOGETHER

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal raised
        if time.monotonic() < raised + _TOGETHER:
            return
        if interrupts.cancel():  # a call to the JVM must not be interrupted: it ends by itself now
            asked.append(number)
            timer = threading.Timer(_PATIENCE, os.kill, (os.getpid(), number))
            timer.daemon = True
            timer.start()
            again.append(timer)
            return
        asked.clear()
        raised = time.monotonic()
        raise stopped(number)

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
        if asked:  # the cancelled job was the last thing to do
            raise stopped(asked[0])
    finally:
        for timer in again:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore SIGTERM and Ctrl-C while stopping."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
