"""`pgrepl status`: state, lag and last error of subscriptions, and what has stopped whom; `pgrepl conflicts`: the
conflicts that a subscription with conflict_log keeps."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgrepl.api.overview_history import History, facts_path, history_path, kept
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber.status import check_may_look, subscription_status
from pgrepl.shell.commands.standing import Line, applied_text, behind_text, copy_text, has_left, problems
from pgrepl.shell.commands.subcommand import (
    FAILURE,
    OK,
    Seconds,
    connecting,
    connection,
    is_only_with,
    many,
    on_spark,
    run,
    write_table,
)
from pgrepl.shell.connection import DEFAULT_DATABASE, DEFAULT_USER, Connection
from pgrepl.shell.formats.aligned import aligned, lay_out
from pgrepl.shell.formats.table import PrintOptions, TableContent
from pgrepl.shell.streams import screen_size
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.decisions import Kept
    from pgrepl.replication.subscriber.status import Status, TableStatus

WIDTH = 80  # where there is no terminal
HEADERS = ("Subscription", "Publisher", "Worker", "Tables", "Applied", "Behind")
_UNBROKEN = tuple(HEADERS.index(name) for name in ("Worker", "Applied", "Behind"))  # names may be, numbers not
_LISTED = 4  # tables that are named one by one


def status_text(statuses: Sequence[Status], title: str = "Subscriptions", width: int = WIDTH) -> str:
    rows = [status_row(status) for status in statuses]
    table = TableContent(HEADERS, rows, "l" * len(HEADERS), title, ())
    options = PrintOptions(title=title)
    layout = lay_out(table, options, 0)
    if layout.exceeds(width):
        options = PrintOptions(title=title, format="wrapped", columns=width)
        layout = lay_out(table, options, width, _UNBROKEN)
    wrong = [_wrapped(lines, width) + "\n" for status in statuses for lines in problems(status)]
    return "".join([aligned(table, options, layout), *wrong])


def status_row(status: Status) -> tuple[str, ...]:
    worker = "disabled" if not status.enabled else "" if status.pid is None else str(status.pid)
    return (
        f"{status.name}\nin {status.database}",
        "\n".join([status.publisher, *status.publications]),
        worker,
        _tables(status),
        applied_text(status),
        behind_text(status),
    )


def _tables(status: Status) -> str:
    """The tables with their states; of many only those that are not ready, or not published any more."""
    shown = [_table(table) for table in status.tables]
    if len(shown) <= _LISTED:
        return "\n".join(shown)
    ready = sum(table.state == "r" for table in status.tables)
    unusual = [text for table, text in zip(status.tables, shown, strict=True) if table.state != "r" or has_left(table)]
    lines = [f"{ready} of {len(shown)} r", *unusual[:_LISTED]]
    if len(unusual) > _LISTED:
        lines.append(f"and {len(unusual) - _LISTED} more")
    return "\n".join(lines)


def _table(table: TableStatus) -> str:
    left = ", not published" if has_left(table) else ""
    return f"{table.name} {table.state}{left}" + ("" if table.copy is None else f", {copy_text(table.copy)}")


def over_text(statuses: Sequence[Status], limit: float, width: int = WIDTH) -> str:
    """The subscriptions that are over a limit of seconds, and why."""
    over = [(status, reason) for status in statuses if (reason := status.exceeds(limit)) is not None]
    told = 'Subscription "{}" in database "{}" is over the limit: {}.'
    return _wrapped([Line(told.format(status.name, status.database, reason)) for status, reason in over], width)


def _wrapped(lines: Sequence[Line], width: int) -> str:
    wrapped: list[str] = []
    for text, indent, is_statement in lines:
        further = indent and f"{indent}  "
        for line in text.splitlines():
            whole = len(indent + line) + 1 if is_statement else width - 1
            wrapped += textwrap.wrap(
                line, whole, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False
            )
    return "".join(line + "\n" for line in wrapped)


# --- status -----------------------------------------------------------------------------------------------------------


@click.command("status", short_help="how subscriptions stand")
@click.argument("subscription", nargs=-1)
@click.option("--watch", is_flag=True, help="show it again and again, until Ctrl-C")
@click.option("--interval", type=Seconds(min=0.1), default=2.0, show_default=True, help="seconds between two looks")
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="as a page, in this file")
@click.option("--max-lag", type=Seconds(min=0), metavar="SECONDS", help="exit with 1 if one is further behind")
@click.option("-U", "--username", envvar="PGUSER", default=DEFAULT_USER, help="act as this role")
@click.option("-d", "--dbname", envvar="PGDATABASE", help="only the subscriptions of this database")
@click.option("--catalog", envvar="PGREPL_CATALOG", default="catalog.db", help="the catalog's file or URL")
@on_spark
def status_command(
    subscription: tuple[str, ...], watch: bool, interval: float, as_json: bool, html: Path | None,
    max_lag: float | None, username: str, dbname: str | None, catalog: str, data_path: str | None,
) -> int:  # fmt: skip
    """Show of each SUBSCRIPTION (default: all) its tables, how far it is, and how far behind that is; of one that an
    error has stopped, the key and the LSN of the conflict, and what to type next.

    Table states are those of pg_subscription_rel: i to be copied, d being copied, f and s copied, r ready. The lag
    counts what the publications would send: transactions, changed rows (~: at most), and the seconds since the first
    of them was committed. A PostgreSQL server tells only how many bytes of its log are still to come.

    With --html the page that a server shows is written to a file, for people who look at what a program has done:
    the subscriptions, and the tables, files and slots of the catalog.

    With --max-lag the exit code is for monitoring: 0 if all are at most so many seconds behind, 1 if one is not, 2 if
    the catalog cannot be opened. One that is disabled, stopped by an error, or whose publisher does not answer, is over
    any limit.

    \b
    pgrepl status
    pgrepl status s1 --json
    pgrepl status --watch
    pgrepl status --max-lag 60
    pgrepl status --html status.html
    """
    if watch and max_lag is not None:
        raise click.UsageError("--watch cannot be used with --max-lag")
    if html is not None and (watch or as_json):
        raise click.UsageError(f"--html cannot be used with {'--watch' if watch else '--json'}")
    is_only_with("interval", "watch", watch)
    with connection(catalog, dbname or DEFAULT_DATABASE, username, data_path) as opened:
        check_may_look(opened.session)
        if html is not None:
            statuses = _write_page(opened, subscription, dbname, html)
            return OK if max_lag is None or not any(status.exceeds(max_lag) for status in statuses) else FAILURE
        if not watch:
            statuses = _look(opened, subscription, dbname)
            _write(statuses, as_json=as_json, max_lag=max_lag)
            return OK if max_lag is None or not any(status.exceeds(max_lag) for status in statuses) else FAILURE
        with suppress(KeyboardInterrupt):
            _watch(opened, subscription, dbname, interval, as_json)
    return OK


def _look(opened: Connection, names: Sequence[str], dbname: str | None) -> list[Status]:
    return subscription_status(opened.session, names, everywhere=dbname is None)


def _write_page(opened: Connection, names: Sequence[str], dbname: str | None, file: Path) -> list[Status]:
    """Write the page; the subscriptions that it shows."""
    from pgrepl.api.overview import overview
    from pgrepl.shell.page import page

    catalog = opened.session.catalog.path
    spark = kept(facts_path(catalog))
    shown = replace(overview(opened.session, names, dbname), spark=spark)
    text = page(shown, History(history_path(catalog)), is_served=False)
    try:
        file.write_text(text, "utf-8")
    except OSError as problem:
        raise PgError("58030", f'could not write file "{file}": {problem.strerror}') from None
    return [subscription.status for subscription in shown.subscriptions]


def _watch(opened: Connection, names: Sequence[str], dbname: str | None, interval: float, as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        while True:
            _write(_look(opened, names, dbname), as_json=as_json)
            sys.stdout.flush()
            time.sleep(interval)
    from rich.live import Live
    from rich.text import Text

    with Live(refresh_per_second=4) as live:
        while True:
            statuses, title = _look(opened, names, dbname), f"Subscriptions on {time.strftime('%c')}"
            text = status_text(statuses, title, _width())
            live.update(Text(text, no_wrap=True, overflow="ignore"))
            time.sleep(interval)


def _width() -> int:
    """The columns of the terminal, if there is one."""
    size = screen_size()
    return WIDTH if size is None or not size.columns else size.columns


def _write(statuses: Sequence[Status], *, as_json: bool, max_lag: float | None = None) -> None:
    if not as_json:
        width = _width()
        over = "" if max_lag is None else over_text(statuses, max_lag, width)
        sys.stdout.write(status_text(statuses, width=width) + over)
        return
    listed = [status.as_json() for status in statuses]
    if max_lag is not None:
        listed = [{**facts, "over": status.exceeds(max_lag)} for facts, status in zip(listed, statuses, strict=True)]
    sys.stdout.write(json.dumps(listed, ensure_ascii=False, indent=2) + "\n")


_IDS = click.argument("ids", nargs=-1, required=True, type=int, metavar="ID…")


@click.group("conflicts")
def conflicts_group() -> None:
    """Look at the conflicts of subscriptions, and decide what becomes of rejected changes.

    A subscription made or altered WITH (conflict_log = on) keeps its conflicts, and the changes of transactions that
    ALTER SUBSCRIPTION … SKIP has skipped. The view pgrepl_conflicts shows them, too.

    \b
    pgrepl conflicts list -d reports             what waits for a decision
    pgrepl conflicts retry 7 -d reports          once more, as nothing is in its way now
    pgrepl conflicts retry 7 --set name=other    another row in its place
    pgrepl conflicts discard 7 -d reports        leave it out, and go on
    """


@conflicts_group.command("list", short_help="what was in conflict")
@click.argument("subscription", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="also those that wait for nothing")
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@connecting
def list_command(
    subscription: tuple[str, ...], everything: bool, as_json: bool, catalog: str, dbname: str, username: str
) -> int:
    """List the conflicts of SUBSCRIPTIONs (default: all of the database) that wait for a decision: those that have
    stopped a subscription, and skipped changes. With --all also those that are over."""
    from pgrepl.replication.subscriber.decisions import kept_conflicts

    with connection(catalog, dbname, username) as opened:
        conflicts = kept_conflicts(opened.session, subscription, everything=everything)
    if as_json:
        sys.stdout.write(json.dumps([_facts(conflict) for conflict in conflicts], ensure_ascii=False) + "\n")
        return OK
    if not conflicts:
        click.echo("no conflicts")
        return OK
    headers = ("ID", "Subscription", "LSN", "Table", "Conflict", "State", "Key", "Local row", "Remote row")
    write_table(sys.stdout, "Conflicts", headers, [_cells(conflict) for conflict in conflicts])
    return OK


def _cells(kept: Kept) -> tuple[str, ...]:
    name, row = kept
    what = f"{row.operation} {row.kind}" if row.kind == "skipped" else row.kind
    shown = (row.key, row.local_row, row.mended_row or row.remote_row)
    table = f"{row.schemaname}.{row.relname}"
    return (str(row.id), name, lsn_text(row.finish_lsn), table, what, row.state, *(text or "" for text in shown))


def _facts(kept: Kept) -> dict[str, Any]:
    name, row = kept
    plain = {
        column: getattr(row, column) for column in ("id", "happened", "xid", "operation", "kind", "state", "detail")
    }
    trees = {
        column: None if getattr(row, column) is None else json.loads(getattr(row, column))
        for column in ("key", "local_row", "remote_row", "mended_row")
    }
    where = {"subscription": name, "lsn": lsn_text(row.finish_lsn), "table": f"{row.schemaname}.{row.relname}"}
    return {**plain, **where, **trees, "origin": row.origin}


# --- retry ------------------------------------------------------------------------------------------------------------


@conflicts_group.command("retry", short_help="apply a rejected change once more")
@_IDS
@click.option("--set", "values", metavar="COLUMN=VALUE", multiple=True, help="another value for a column")
@click.option("--set-null", "nulls", metavar="COLUMN", multiple=True, help="NULL for a column")
@connecting
def retry_command(
    ids: tuple[int, ...], values: tuple[str, ...], nulls: tuple[str, ...], catalog: str, dbname: str, username: str
) -> int:
    """Apply rejected changes once more, in the order given.

    One that has stopped its subscription is applied by it, in its transaction, with all that waits behind it, as
    `pgrepl apply` does. A skipped change is applied at once, as a statement of yours: its row is found by its key. With
    --set another row takes the place of the one that was sent.

    Exits with 0; with 1 if one cannot be applied: then those before it are.
    """
    from pgrepl.replication.subscriber.decisions import retry

    changed = dict(_pair(value) for value in values) | dict.fromkeys(nulls)
    stopped: dict[str, None] = {}
    with connection(catalog, dbname, username) as opened:
        for number in ids:
            name = retry(opened.session, number, changed, opened.run)
            if name is None:
                click.echo(f"conflict {number}: applied")
            else:
                stopped[name] = None
    return _apply(stopped, catalog, dbname, username)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f'"{text}" is not COLUMN=VALUE', param_hint="--set")
    return name, value


def _apply(names: dict[str, None], catalog: str, dbname: str, username: str) -> int:
    """Go on with subscriptions that were stopped."""
    from pgrepl.shell.commands.applying import apply_command

    if not names:
        return OK
    return run(apply_command, [*names, "--catalog", catalog, "--dbname", dbname, "--username", username])


# --- discard ----------------------------------------------------------------------------------------------------------


@conflicts_group.command("discard", short_help="leave a rejected change out")
@_IDS
@connecting
def discard_command(ids: tuple[int, ...], catalog: str, dbname: str, username: str) -> int:
    """Leave rejected changes out. A subscription that one has stopped goes on without it, and applies the other changes
    of its transaction; a skipped change is only forgotten."""
    from pgrepl.replication.subscriber.decisions import discard

    stopped: dict[str, None] = {}
    with connection(catalog, dbname, username) as opened:
        for number in ids:
            name = discard(opened.session, number)
            if name is not None:
                stopped[name] = None
    click.echo(f"discarded {many(len(ids), 'conflict')}")
    return _apply(stopped, catalog, dbname, username)
