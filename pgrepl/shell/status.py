"""`pgrepl status`: state, lag and last error of the catalog's subscriptions."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgrepl.errors import PgError
from pgrepl.shell.connection import DEFAULT_DATABASE, DEFAULT_USER, Connection
from pgrepl.shell.status_text import WIDTH, over_text, status_text
from pgrepl.shell.streams import screen_size
from pgrepl.shell.subcommand import FAILURE, OK, Seconds, connection, is_only_with, on_spark, run

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.status import Status


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
    from pgrepl.replication.subscriber.status import check_may_look

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
    from pgrepl.replication.subscriber.status import subscription_status

    return subscription_status(opened.session, names, everywhere=dbname is None)


def _write_page(opened: Connection, names: Sequence[str], dbname: str | None, file: Path) -> list[Status]:
    """Write the page; the subscriptions that it shows."""
    from pgrepl.api.overview import overview
    from pgrepl.api.overview_history import History, history_path
    from pgrepl.shell.page.render import page

    found = overview(opened.session, names, dbname)
    text = page(found, History(history_path(opened.session.catalog.path)), is_served=False)
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
