"""`pgrepl status`: state, lag and last error of subscriptions, and what has stopped whom."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgrepl.api.overview_history import History, history_path
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber.status import check_may_look, subscription_status
from pgrepl.shell.commands.standing import Line, applied_text, behind_text, copy_text, has_left, problems
from pgrepl.shell.commands.subcommand import FAILURE, OK, Seconds, connection, is_only_with, on_spark, run
from pgrepl.shell.connection import DEFAULT_DATABASE, DEFAULT_USER, Connection
from pgrepl.shell.formats.aligned import aligned, lay_out
from pgrepl.shell.formats.table import PrintOptions, TableContent
from pgrepl.shell.streams import screen_size

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.status import Status, TableStatus

WIDTH = 80  # where there is no terminal
HEADERS = ("Subscription", "Publisher", "Worker", "Tables", "Applied", "Behind")
_UNBROKEN = tuple(HEADERS.index(name) for name in ("Worker", "Applied", "Behind"))  # names may be, numbers not
_LISTED = 4  # tables that are named one by one


def status_text(found: Sequence[Status], title: str = "Subscriptions", width: int = WIDTH) -> str:
    rows = [status_row(status) for status in found]
    table = TableContent(HEADERS, rows, "l" * len(HEADERS), title, ())
    options = PrintOptions(title=title)
    layout = lay_out(table, options, 0)
    if layout.exceeds(width):
        options = PrintOptions(title=title, format="wrapped", columns=width)
        layout = lay_out(table, options, width, _UNBROKEN)
    wrong = [_wrapped(lines, width) + "\n" for status in found for lines in problems(status)]
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


def over_text(found: Sequence[Status], limit: float, width: int = WIDTH) -> str:
    """The subscriptions that are over a limit of seconds, and why."""
    over = [(status, reason) for status in found if (reason := status.exceeds(limit)) is not None]
    told = 'Subscription "{}" in database "{}" is over the limit: {}.'
    return _wrapped([Line(told.format(status.name, status.database, reason)) for status, reason in over], width)


def _wrapped(lines: Sequence[Line], width: int) -> str:
    found: list[str] = []
    for text, indent, is_statement in lines:
        further = indent and f"{indent}  "
        for line in text.splitlines():
            whole = len(indent + line) + 1 if is_statement else width - 1
            found += textwrap.wrap(
                line, whole, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False
            )
    return "".join(line + "\n" for line in found)


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
            found = _write_page(opened, subscription, dbname, html)
            return OK if max_lag is None or not any(each.exceeds(max_lag) for each in found) else FAILURE
        if not watch:
            found = _look(opened, subscription, dbname)
            _write(found, as_json=as_json, max_lag=max_lag)
            return OK if max_lag is None or not any(each.exceeds(max_lag) for each in found) else FAILURE
        with suppress(KeyboardInterrupt):
            _watch(opened, subscription, dbname, interval, as_json)
    return OK


def _look(opened: Connection, names: Sequence[str], dbname: str | None) -> list[Status]:
    return subscription_status(opened.session, names, everywhere=dbname is None)


def _write_page(opened: Connection, names: Sequence[str], dbname: str | None, file: Path) -> list[Status]:
    """Write the page; the subscriptions that it shows."""
    from pgrepl.api import overview_spark
    from pgrepl.api.overview import overview
    from pgrepl.shell.page.render import page

    catalog = opened.session.catalog.path
    spark = overview_spark.kept(overview_spark.facts_path(catalog))
    found = replace(overview(opened.session, names, dbname), spark=spark)
    text = page(found, History(history_path(catalog)), is_served=False)
    try:
        file.write_text(text, "utf-8")
    except OSError as problem:
        raise PgError("58030", f'could not write file "{file}": {problem.strerror}') from None
    return [each.status for each in found.subscriptions]


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
            found, title = _look(opened, names, dbname), f"Subscriptions on {time.strftime('%c')}"
            text = status_text(found, title, _width())
            live.update(Text(text, no_wrap=True, overflow="ignore"))
            time.sleep(interval)


def _width() -> int:
    """The columns of the terminal, if there is one."""
    size = screen_size()
    return WIDTH if size is None or not size.columns else size.columns


def _write(found: Sequence[Status], *, as_json: bool, max_lag: float | None = None) -> None:
    if not as_json:
        width = _width()
        over = "" if max_lag is None else over_text(found, max_lag, width)
        sys.stdout.write(status_text(found, width=width) + over)
        return
    listed = [status.as_json() for status in found]
    if max_lag is not None:
        listed = [{**each, "over": status.exceeds(max_lag)} for each, status in zip(listed, found, strict=True)]
    sys.stdout.write(json.dumps(listed, ensure_ascii=False, indent=2) + "\n")


def status(arguments: Sequence[str]) -> int:
    return run(status_command, arguments)
