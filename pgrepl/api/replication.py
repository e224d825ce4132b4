"""`pgrepl.sync()`, `apply()`, `status()`, `publications()`, `compare()` and `repair()`: what the
commands do and show, as frozen dataclasses.

    for done in pgrepl.apply("catalog.db"):
        print(done.subscription, done.changes, done.applied_lsn)

Each opens the catalog and closes it; without `dbname` it is about all databases. Ctrl-C rolls back what is not
committed.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pgrepl.api.exceptions import dbapi_errors, exception_of
from pgrepl.api.opened import OpenedSession, require_catalog
from pgrepl.api.rounds import (
    SubscriptionRound,
    Work,
    launched,
    once,
    server_log,
    start_spark,
    stoppable,
    table_ids,
    undisturbed,
    vacuuming,
)
from pgrepl.catalog.facts.publication import member_schemas, member_tables, publication_facts, published_names
from pgrepl.catalog.facts.roles import has_privs_of_role, is_superuser, role_display
from pgrepl.catalog.session.context import in_recovery
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_subscription
from pgrepl.engine.spark import use
from pgrepl.expr.print.deparse import stored_expression_text
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber.lease import Observer
from pgrepl.replication.subscriber.status import check_may_look, subscription_status
from pgrepl.types.plain import parse_lsn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgrepl.catalog.facts.activity import Copying
    from pgrepl.catalog.facts.publication import PublicationFacts
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.comparison.compare import Comparer, Comparison, Options
    from pgrepl.replication.comparison.found import Progress as TableProgress
    from pgrepl.replication.comparison.repair import Repaired
    from pgrepl.replication.subscriber.attach import Round
    from pgrepl.replication.subscriber.launcher import SubscriptionToServe
    from pgrepl.replication.subscriber.lease import Streamed
    from pgrepl.replication.subscriber.status import Status
    from pgrepl.replication.subscriber.worker import Worker


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table that a publication names. `columns` is None without a column list, `where` without a row filter."""

    table: str
    columns: tuple[str, ...] | None
    where: str | None

    def as_json(self) -> dict[str, Any]:
        columns = None if self.columns is None else list(self.columns)
        return {"table": self.table, "columns": columns, "where": self.where}


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication. `published` are the tables whose changes are sent, by schemas and partition trees, too."""

    name: str
    owner: str
    all_tables: bool
    publish: tuple[str, ...]
    publish_via_partition_root: bool
    tables: tuple[PublishedTable, ...]
    schemas: tuple[str, ...]
    published: tuple[str, ...]
    all_sequences: bool = False
    excepted: tuple[str, ...] = ()  # of all tables
    publish_generated_columns: str = "none"  # or stored

    def as_json(self) -> dict[str, Any]:
        data = {
            "name": self.name,
            "owner": self.owner,
            "all_tables": self.all_tables,
            "publish": list(self.publish),
            "publish_via_partition_root": self.publish_via_partition_root,
            **({} if self.publish_generated_columns == "none" else {"publish_generated_columns": "stored"}),
            "tables": [table.as_json() for table in self.tables],
            "schemas": list(self.schemas),
            "published": list(self.published),
        }
        if self.all_sequences:
            data["all_sequences"] = True
        if self.excepted:
            data["except"] = list(self.excepted)
        return data


def publication_of(session: Session, publication: PublicationFacts) -> Publication:
    listed = [
        PublishedTable(
            member.table.qualified_name,
            member.columns,
            None if member.filter is None else stored_expression_text(session, member.filter, member.table.oid),
        )
        for member in member_tables(session, publication)
    ]
    listed.sort(key=lambda published: published.table)
    return Publication(
        publication.name,
        role_display(session, publication.owner),
        publication.all_tables,
        publication.operations,
        publication.via_root,
        () if publication.all_tables else tuple(listed),
        tuple(sorted(member_schemas(session, publication))),
        tuple(published_names(session, publication)),
        publication.all_sequences,
        tuple(published.table for published in listed) if publication.all_tables else (),
        publication.generated,
    )


# --- replication ------------------------------------------------------------------------------------------------------


Catalog: TypeAlias = "str | os.PathLike[str] | None"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a copy, or of the changes of a subscription (`table` is None). `total` is None if unknown."""

    subscription: str
    table: str | None
    done: int  # rows of a copy, or changes
    total: int | None
    finished: bool


OnProgress: TypeAlias = Callable[[Progress], None]


def sync(
    catalog: Catalog = None,
    *,
    subscriptions: str | Sequence[str] = (),
    tables: Sequence[str] = (),
    dbname: str | None = None,
    user: str | None = None,
    progress: OnProgress | None = None,
    log_file: str | os.PathLike[str] | None = None,
    spark: SparkSession | None = None,
) -> tuple[SubscriptionRound, ...]:
    """Copy the tables that subscriptions have yet to copy. The first error of a subscription is raised when all have
    had their turn; its `results` are what this would have returned."""
    with at_work(catalog, dbname, user, spark) as opened:

        def work(subscription: SubscriptionToServe, worker: Worker) -> Round:
            return worker.synchronize(table_ids(opened.session, subscription, tables) if tables else None)

        return _all(opened, _names(subscriptions), dbname, work, progress, log_file)


def apply(
    catalog: Catalog = None,
    *,
    subscriptions: str | Sequence[str] = (),
    upto: str | None = None,
    max_changes: int | None = None,
    follow: bool = False,
    interval: float = 1.0,
    stop: threading.Event | None = None,
    dbname: str | None = None,
    user: str | None = None,
    progress: OnProgress | None = None,
    log_file: str | os.PathLike[str] | None = None,
    spark: SparkSession | None = None,
) -> tuple[SubscriptionRound, ...]:
    """Apply what publishers have committed, up to where each is now, or to the LSN `upto`; copy tables that wait.

    With `follow` it goes on until `stop` is set, or Ctrl-C: a subscription that fails is tried again, its error goes to
    the log, and nothing is returned. Errors otherwise are raised as by sync()."""
    with at_work(catalog, dbname, user, spark) as opened:
        bound = None if upto is None else parse_lsn(upto) + 1
        copies = upto is None and max_changes is None

        def work(subscription: SubscriptionToServe, worker: Worker) -> Round:
            return worker.round(upto=bound, max_changes=max_changes, copy=copies)

        if not follow:
            return _all(opened, _names(subscriptions), dbname, work, progress, log_file)
        log = _log(log_file)
        ends = stop or threading.Event()
        with (
            launched(
                opened.session, _names(subscriptions), log, everywhere=dbname is None,
                observer=_observer(progress), keeps_leases=True,
            ) as launcher,
            vacuuming(opened.session, log),
        ):  # fmt: skip
            if subscriptions:
                launcher.subscriptions()  # an unknown name is an error, not something to wait for
            launcher.follow(interval, work, lambda rounds: ends.is_set())
        return ()


def status(
    catalog: Catalog = None,
    *,
    subscriptions: str | Sequence[str] = (),
    dbname: str | None = None,
    user: str | None = None,
) -> tuple[Status, ...]:
    """The state of subscriptions: their tables, their positions and lags, and their last errors."""
    with dbapi_errors(), _opened(catalog, dbname, user) as opened:
        check_may_look(opened.session)
        return tuple(subscription_status(opened.session, _names(subscriptions), everywhere=dbname is None))


def publications(
    catalog: Catalog = None, *, name: str | None = None, dbname: str | None = None, user: str | None = None
) -> tuple[Publication, ...]:
    """The publications of a database, or the one of this name."""
    database = dbname or os.environ.get("PGDATABASE")
    with dbapi_errors(), _opened(catalog, database, user) as opened, reading(opened.session):
        facts = publication_facts(opened.session, name)
        if name is not None and not facts:
            raise PgError("42704", f'publication "{name}" does not exist')
        return tuple([publication_of(opened.session, publication) for publication in facts])


# --- the work behind -------------------------------------------------------------------------------------------------


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


@contextmanager
def _opened(catalog: Catalog, dbname: str | None, user: str | None) -> Iterator[OpenedSession]:
    name = os.fspath(catalog or os.environ.get("PGREPL_CATALOG") or "catalog.db")
    require_catalog(name)
    opened = OpenedSession(name, dbname or "postgres", user or os.environ.get("PGUSER") or "postgres")
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def at_work(
    catalog: Catalog, dbname: str | None, user: str | None, spark: SparkSession | None
) -> Iterator[OpenedSession]:
    if spark is not None:
        use(spark)
    numbers = [signal.SIGINT] if signal.getsignal(signal.SIGINT) is signal.default_int_handler else []
    with (
        dbapi_errors(),
        stoppable(numbers, lambda number: KeyboardInterrupt()),
        _opened(catalog, dbname, user) as opened,
    ):
        yield opened


def _all(
    opened: OpenedSession,
    names: Sequence[str],
    dbname: str | None,
    work: Work,
    progress: OnProgress | None,
    log_file: str | os.PathLike[str] | None,
) -> tuple[SubscriptionRound, ...]:
    start_spark(opened.session)
    log = _log(log_file)
    with launched(
        opened.session, names, log, everywhere=dbname is None, observer=_observer(progress)
    ) as launcher:  # fmt: skip
        done = tuple(once(opened.session, launcher, launcher.subscriptions(), work))
    failed = next((ended for ended in done if ended.error is not None), None)
    if failed is not None and failed.error is not None:
        problem = exception_of(failed.error)
        problem.results = done
        raise problem from failed.error
    return done


def _log(path: str | os.PathLike[str] | None) -> Path:
    """The file for what workers have to say: nowhere, unless one is named, since errors are raised."""
    return Path(path if path is not None else os.devnull)


def _observer(progress: OnProgress | None) -> Observer:
    return Observer() if progress is None else _Told(progress)


class _Told(Observer):
    """Tells a function of the progress."""

    def __init__(self, tell: OnProgress) -> None:
        self._tell = tell
        self._changes: dict[str, int] = {}

    def copying(self, subscription: str, table: str) -> None:
        self._tell(Progress(subscription, table, 0, None, False))

    def rows(self, subscription: str, table: str, copying: Copying) -> None:
        self._tell(Progress(subscription, table, copying.tuples_processed, copying.tuples_total, False))

    def copied(self, subscription: str, table: str, count: int) -> None:
        self._tell(Progress(subscription, table, count, count, True))

    def applied(self, subscription: str, start: int, streamed: Streamed) -> None:
        count = self._changes.get(subscription, 0) + streamed.applied.changes
        self._changes[subscription] = 0 if streamed.finished else count
        if count:
            self._tell(Progress(subscription, None, count, count if streamed.finished else None, streamed.finished))


Kind = TypeVar("Kind", bound="Comparer")


@contextmanager
def comparer(
    session: Session,
    name: str,
    options: Options,
    progress: TableProgress,
    log_file: Path | None,
    *,
    everywhere: bool,
    kind: type[Kind],
) -> Iterator[Kind]:
    """Who compares, or repairs, the subscription of this name: one of the session's database, or of any."""
    subscription = _subscription(session, name, everywhere=everywhere)
    there = session.elsewhere(subscription.subdbid, session.role, apart=True)
    there.settings.take_client(session.settings)
    opened = kind(there, subscription.oid, server_log(log_file), options, progress)
    try:
        yield opened
    finally:
        with undisturbed():
            opened.close()
            there.close()


@contextmanager
def _made(opened: OpenedSession, name: str, options: Options, dbname: str | None, kind: type[Kind]) -> Iterator[Kind]:
    from pgrepl.replication.comparison.found import Progress as TableProgress

    with comparer(
        opened.session, name, options, TableProgress(), Path(os.devnull), everywhere=dbname is None, kind=kind
    ) as comparing:
        yield comparing


def _subscription(session: Session, name: str, *, everywhere: bool) -> pg_subscription:
    with reading(session):
        if in_recovery(session):
            raise PgError("55000", "recovery is in progress", hint="Compare the primary.")
        where = {} if everywhere else {"subdbid": session.database_oid}
        named = rows(session, pg_subscription, subname=name, **where)
        if not named:
            raise PgError("42704", f'subscription "{name}" does not exist')
        if len(named) > 1:
            raise PgError("42725", f'several databases have a subscription "{name}"', hint="Name one with -d.")
        if not is_superuser(session, session.role) and not has_privs_of_role(session, session.role, named[0].subowner):
            raise PgError("42501", f"must be owner of subscription {name}")
    return named[0]


# --- for programs -----------------------------------------------------------------------------------------------------


def compare(
    catalog: Catalog = None,
    *,
    subscription: str,
    tables: Sequence[str] = (),
    limit: int | None = None,
    max_connections: int = 2,
    rows_per_second: int | None = None,
    timeout: float = 60.0,
    dbname: str | None = None,
    user: str | None = None,
) -> Comparison:
    """Compare the rows of a subscription's tables with its publisher's, at one LSN; `limit`: differences of a table."""
    from pgrepl.replication.comparison.compare import Comparer, Options

    options = Options(tuple(tables), limit, max_connections, rows_per_second, timeout)
    with (
        at_work(catalog, dbname, user, None) as opened,
        _made(opened, subscription, options, dbname, Comparer) as comparing,
    ):
        return comparing.compare()


def repair(
    catalog: Catalog = None,
    *,
    subscription: str,
    tables: Sequence[str] = (),
    max_connections: int = 2,
    rows_per_second: int | None = None,
    timeout: float = 60.0,
    dbname: str | None = None,
    user: str | None = None,
) -> Repaired | None:
    """Repair what such a comparison finds, in one commit; None: both sides are equal."""
    from pgrepl.replication.comparison.compare import Options
    from pgrepl.replication.comparison.repair import Repairer

    options = Options(tuple(tables), None, max_connections, rows_per_second, timeout)
    with (
        at_work(catalog, dbname, user, None) as opened,
        _made(opened, subscription, options, dbname, Repairer) as repairer,
    ):
        comparison = repairer.look()
        return repairer.repair(comparison) if repairer.new_slot is not None or not comparison.is_equal else None
