"""`pgrepl sync` and `pgrepl apply`: the workers of subscriptions, started by hand or kept running; with `--dry-run`
what they would do of each table, as a table."""

from __future__ import annotations

import signal
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgrepl.api.rounds import Work, applied_of, launched, once, server_log, start_spark, stoppable, table_ids, vacuuming
from pgrepl.ground import processes
from pgrepl.shell.commands.subcommand import (
    FAILURE,
    OK,
    Command,
    Seconds,
    as_lsn,
    connection,
    is_only_with,
    on_spark,
    say,
    write_table,
)
from pgrepl.shell.connection import DEFAULT_DATABASE, DEFAULT_USER
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.files.memory import GivenBatch
    from pgrepl.replication.publisher.protocol import Published
    from pgrepl.replication.subscriber.attach import Round
    from pgrepl.replication.subscriber.launcher import SubscriptionToServe
    from pgrepl.replication.subscriber.preview import Preview, TablePreview
    from pgrepl.replication.subscriber.worker import Worker
    from pgrepl.shell.connection import Connection

_NOBODY = "no subscription is enabled"
_INTERRUPTED, _TERMINATED = 130, 143


class Stopped(BaseException):
    """SIGTERM or Ctrl-C, with the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def worker_options(command: Command) -> Command:
    """The options of `sync` and `apply`. Without -d they work for the subscriptions of all databases, as a server's
    workers do."""
    for option in (
        click.option("-U", "--username", envvar="PGUSER", default=DEFAULT_USER, help="act as this role"),
        click.option("-d", "--dbname", envvar="PGDATABASE", help="only the subscriptions of this database"),
        click.option("--catalog", envvar="PGREPL_CATALOG", default="catalog.db", help="the catalog's file or URL"),
        click.option(
            "--log-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="append what workers have to say to this file, not to standard error",
        ),
    ):
        command = option(command)
    return command


@click.command("sync", short_help="copy the tables of subscriptions that wait for it")
@click.argument("subscription", nargs=-1)
@click.option("--tables", metavar="TABLE[,TABLE]", help="only these tables, as schema.name or name")
@click.option("--again", metavar="TABLE[,TABLE]", help="empty these tables, and copy them anew")
@worker_options
@on_spark
def sync_command(
    subscription: tuple[str, ...], tables: str | None, again: str | None, log_file: Path | None, catalog: str,
    dbname: str | None, username: str, data_path: str | None,
) -> int:  # fmt: skip
    """Copy the tables that SUBSCRIPTIONs (default: all that are enabled) have yet to copy.

    Each table is taken as it is at the publisher at that moment, filtered as its publications say. A copy that was
    stopped goes on where it was if the table is large, has a key, and comes from a server; others begin anew. No row is
    there twice. Changes that came meanwhile are applied up to the copies, so that the tables are ready.

    \b
    pgrepl sync                          every subscription of the catalog
    pgrepl sync s1 --tables t1,sales.t2  two tables of one
    pgrepl sync s1 --again t1            one table anew, while the others go on
    """
    if tables is not None and again is not None:
        raise click.UsageError("--tables and --again exclude each other")
    if again is not None and len(subscription) != 1:
        raise click.UsageError("--again is for one subscription")

    def work(subscription: SubscriptionToServe, worker: Worker) -> Round:
        named = tables or again
        relids = None if named is None else table_ids(opened.session, subscription, named.split(","))
        return worker.synchronize(relids, again=() if again is None or relids is None else relids)

    processes.prepare()
    with connection(catalog, dbname or DEFAULT_DATABASE, username, data_path) as opened, stoppable_command():
        return _once(opened, subscription, dbname, log_file, work)


# --- apply ------------------------------------------------------------------------------------------------------------


@click.command("apply", short_help="bring what publishers have done to their subscribers")
@click.argument("subscription", nargs=-1)
@click.option(
    "--upto", type=as_lsn, metavar="LSN", help="only transactions that finished at this LSN or before; copies no tables"
)
@click.option("--max-changes", type=click.IntRange(min=1), help="stop after about so many changes; copies no tables")
@click.option("--follow", is_flag=True, help="go on until stopped (Ctrl-C, SIGTERM)")
@click.option("--interval", type=Seconds(min=0.01), default=1.0, show_default=True, help="seconds between two looks")
@click.option("--dry-run", is_flag=True, help="only say what would be done: filters, columns, operations, counts")
@click.option("--from", "batch", metavar="FILE", help="a batch for a subscription with files=- (-: standard input)")
@worker_options
@on_spark
def apply_command(
    subscription: tuple[str, ...], upto: int | None, max_changes: int | None, follow: bool, interval: float,
    dry_run: bool, batch: str | None, log_file: Path | None, catalog: str, dbname: str | None, username: str,
    data_path: str | None,
) -> int:  # fmt: skip
    """Apply what the publishers of SUBSCRIPTIONs (default: all that are enabled) have committed.

    Each transaction is applied exactly once, in order; tables that wait for their copy are copied. Without --follow
    the work ends where the publisher was at its start. With it new subscriptions and tables are noticed, and after an
    error it is tried again when wal_retrieve_retry_interval has passed.

    \b
    pgrepl apply                     catch up, once
    pgrepl apply s1 --dry-run        what would that be?
    pgrepl apply --follow            as a server's workers do
    pgrepl apply s1 --upto 0/1A      no further than this
    pgrepl apply s1 --from b.json    changes of a file, where CONNECTION says files=-
    """

    if dry_run and follow:
        raise click.UsageError("--dry-run and --follow exclude each other")
    if batch is not None and (follow or len(subscription) != 1):
        raise click.UsageError("--from is for one subscription, and excludes --follow")
    is_only_with("interval", "follow", follow)
    bound = None if upto is None else upto + 1
    copies = upto is None and max_changes is None
    if copies and not dry_run:
        processes.prepare()
    with (
        connection(catalog, dbname or DEFAULT_DATABASE, username, data_path) as opened,
        stoppable_command(),
        _given(opened, subscription, dbname, batch) as given,
    ):
        if dry_run:
            subscriptions = _subscriptions(opened, subscription, dbname)
            if not subscriptions:
                click.echo(_NOBODY)
            return show_plans(opened.session, subscriptions, bound, copies, given)

        def work(subscription: SubscriptionToServe, worker: Worker) -> Round:
            return worker.round(upto=bound, max_changes=max_changes, copy=copies)

        if not follow:
            return _once(opened, subscription, dbname, log_file, work, given=given)
        return _follow(opened, subscription, dbname, log_file, work, interval, bound, max_changes)


@contextmanager
def _given(
    opened: Connection, names: Sequence[str], dbname: str | None, batch: str | None
) -> Iterator[GivenBatch | None]:
    """The batch of --from; an error if the subscription reads its files from elsewhere."""
    if batch is None:
        yield None
        return
    from pgrepl.replication.publisher.files.memory import GivenBatch, check_takes_batches

    check_takes_batches(opened.session, [subscription.oid for subscription in _subscriptions(opened, names, dbname)])
    given = GivenBatch(batch)
    try:
        yield given
    finally:
        given.close()


def _subscriptions(opened: Connection, names: Sequence[str], dbname: str | None) -> list[SubscriptionToServe]:
    from pgrepl.replication.subscriber.launcher import Launcher

    return Launcher(opened.session, server_log(None), names=names, everywhere=dbname is None).subscriptions()


# --- rounds -----------------------------------------------------------------------------------------------------------


def _once(
    opened: Connection,
    names: Sequence[str],
    dbname: str | None,
    log_file: Path | None,
    work: Work,
    *,
    given: GivenBatch | None = None,
) -> int:
    """Run one round for each subscription; the error of one does not keep the others from theirs."""
    from pgrepl.engine import spark
    from pgrepl.replication.publisher.postgres import copy_workers
    from pgrepl.shell.progress import progress_observer

    copy_workers.expect(opened.session)
    spark.expect_tasks()
    start_spark(opened.session)
    failed = False
    with (
        progress_observer() as observer,
        launched(
            opened.session, names, log_file, everywhere=dbname is None, observer=observer, given=given
        ) as launcher,
    ):
        subscriptions = launcher.subscriptions()
        if not subscriptions:
            click.echo(_NOBODY)
        for done in once(opened.session, launcher, subscriptions, work):
            observer.summary(done)
            if done.error is not None:
                failed = True
                if log_file is not None:
                    say(done.error.report)
    return FAILURE if failed else OK


def _follow(
    opened: Connection,
    names: Sequence[str],
    dbname: str | None,
    log_file: Path | None,
    work: Work,
    interval: float,
    upto: int | None,
    max_changes: int | None,
) -> int:
    from pgrepl.shell.progress import progress_observer

    applied: list[int] = []  # changes, by round

    def ends(rounds: Collection[Round]) -> bool:
        if max_changes is not None and sum(applied) >= max_changes:
            return True
        return upto is not None and bool(rounds) and all(done.error is None and done.lsn >= upto for done in rounds)

    def told(subscription: SubscriptionToServe, worker: Worker) -> Round:
        done = work(subscription, worker)
        if done.transactions or done.tables_copied:
            observer.summary(applied_of("", subscription.name, done))
        if max_changes is not None:
            applied.append(done.changes)
        return done

    with (
        progress_observer() as observer,
        launched(
            opened.session, names, log_file, everywhere=dbname is None, observer=observer, keeps_leases=True
        ) as launcher,
        vacuuming(opened.session, log_file),
    ):
        if names:
            launcher.subscriptions()  # an unknown name is an error, not something to wait for
        try:
            launcher.follow(interval, told, ends)
        except Stopped:
            server_log(log_file).log("terminating logical replication workers due to administrator command")
    return OK


@contextmanager
def stoppable_command() -> Iterator[None]:
    """Have SIGTERM and Ctrl-C end the command."""
    codes = {signal.SIGINT: _INTERRUPTED, signal.SIGTERM: _TERMINATED}
    try:
        with stoppable(list(codes), lambda number: Stopped(codes[signal.Signals(number)])):
            yield
    except Stopped as stopped:
        sys.stderr.write("pgrepl: stopped; what was not committed is undone\n")
        sys.exit(stopped.code)


_HEADERS = (
    "Table", "State", "Operations", "Columns", "Filter", "To copy", "Insert", "Update", "Delete", "Truncate", "Engine",
)  # fmt: skip
_NAMED = 10  # files at most
_COUNTED = ("insert", "update", "delete", "truncate")


def show_plans(
    session: Session,
    subscriptions: Sequence[SubscriptionToServe],
    upto: int | None,
    copies: bool,
    given: GivenBatch | None = None,
) -> int:
    from pgrepl.replication.subscriber.lease import SubscriptionChanged, WorkerFailed
    from pgrepl.replication.subscriber.preview import preview

    failed = False
    for subscription in subscriptions:
        there = session.elsewhere(subscription.database, session.role, apart=True)
        there.settings.take_client(session.settings)
        try:
            _show(preview(there, subscription.oid, upto=upto, copy=copies, given=given))
        except WorkerFailed as failure:
            failed = True
            say(failure.error.report)
        except SubscriptionChanged:
            continue
        finally:
            there.close()
    return FAILURE if failed else OK


def _show(preview: Preview) -> None:
    count = f"{preview.transactions} {'transaction' if preview.transactions == 1 else 'transactions'}"
    title = f'Subscription "{preview.name}": {count} from {lsn_text(preview.start)} to {lsn_text(preview.end)}'
    write_table(sys.stdout, title, _HEADERS, [_row(table) for table in preview.tables], numeric=range(5, 10))
    if preview.files:
        more = len(preview.files) - _NAMED
        listed = [*preview.files[:_NAMED], *([f"and {more} more"] if more > 0 else [])]
        sys.stdout.write(f"Files: {', '.join(listed)}\n")
        if preview.reader is not None and preview.reader.on_spark:
            sys.stdout.write(f"Read by: {preview.reader}\n")


def _row(table: TablePreview) -> tuple[str, ...]:
    published = table.published
    counts = tuple([str(table.changes[operation]) for operation in _COUNTED])
    copied = "" if table.to_copy is None else str(table.to_copy)
    engine = "" if table.choice is None else str(table.choice)
    if published is None:
        return (f"{table.schema}.{table.name}", table.state, "", "", "not published", copied, *counts, engine)
    operations = ", ".join(published.operations)
    return (
        f"{table.schema}.{table.name}", table.state, operations, ", ".join(published.columns), _filter(published),
        copied, *counts, engine,
    )  # fmt: skip


def _filter(published: Published) -> str:
    """The row filter if all operations have the same, else each with its operation."""
    filters = dict(published.filters)
    filtered = {filters.get(operation, "") for operation in published.operations if operation != "truncate"}
    if len(filtered) == 1:
        return filtered.pop()
    return "; ".join(f"{operation}: {condition}" for operation, condition in published.filters)
