"""`pgrepl status`: state, lag and last error of the catalog's subscriptions."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from pgrepl.api.opened import require_catalog
from pgrepl.shell.connection import DEFAULT_DATABASE, DEFAULT_USER, Connection
from pgrepl.shell.show_table import rich_table, write_table
from pgrepl.shell.subcommand import OK, connection, on_spark, run
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.status import Status

_HEADERS = (
    "Database", "Subscription", "Publication", "Publisher", "Worker", "Tables", "Applied", "Publisher LSN",
    "Transactions", "Rows", "Seconds", "Last error",
)  # fmt: skip
_NUMERIC = range(8, 11)
_LISTED = 4  # tables that are named one by one


@click.command("status", short_help="how subscriptions stand")
@click.argument("subscription", nargs=-1)
@click.option("--watch", is_flag=True, help="show it again and again, until Ctrl-C")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), default=2.0, show_default=True, help="seconds between two looks"
)
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@click.option("-U", "--username", envvar="PGUSER", default=DEFAULT_USER, help="act as this role")
@click.option("-d", "--dbname", envvar="PGDATABASE", help="only the subscriptions of this database")
@click.option("--catalog", envvar="PGREPL_CATALOG", default="catalog.db", help="the catalog's file or URL")
@on_spark
def status_command(
    subscription: tuple[str, ...], watch: bool, interval: float, as_json: bool, username: str, dbname: str | None,
    catalog: str, data_path: str | None,
) -> int:  # fmt: skip
    """Show of each SUBSCRIPTION (default: all) its tables, how far it is, how far behind that is, and its last error.

    Table states are those of pg_subscription_rel: i to be copied, d being copied, f and s copied, r ready. The lag
    counts what the publications would send: transactions, changed rows (~: at most), and the seconds since the first
    of them was committed. A PostgreSQL server tells only how many bytes of its log are still to come.

    \b
    pgrepl status
    pgrepl status s1 --json
    pgrepl status --watch
    """
    from pgrepl.replication.subscriber.status import check_may_look

    require_catalog(catalog)
    with connection(catalog, dbname or DEFAULT_DATABASE, username, data_path) as opened:
        check_may_look(opened.session)
        if not watch:
            _write(_look(opened, subscription, dbname), as_json=as_json)
            return OK
        with suppress(KeyboardInterrupt):
            _watch(opened, subscription, dbname, interval, as_json)
    return OK


def _look(opened: Connection, names: Sequence[str], dbname: str | None) -> list[Status]:
    from pgrepl.replication.subscriber.status import subscription_status

    return subscription_status(opened.session, names, everywhere=dbname is None)


def _watch(opened: Connection, names: Sequence[str], dbname: str | None, interval: float, as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        while True:
            _write(_look(opened, names, dbname), as_json=as_json)
            sys.stdout.flush()
            time.sleep(interval)
    from rich.live import Live

    with Live(refresh_per_second=4) as live:
        while True:
            found = _look(opened, names, dbname)
            rows = [status_row(status) for status in found]
            live.update(rich_table(live.console, time.strftime("%c"), _HEADERS, rows, _NUMERIC))
            time.sleep(interval)


def _write(found: Sequence[Status], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps([status.as_json() for status in found], ensure_ascii=False, indent=2) + "\n")
        return
    write_table(sys.stdout, "Subscriptions", _HEADERS, [status_row(status) for status in found], _NUMERIC)


def status_row(status: Status) -> tuple[str, ...]:
    backlog = status.backlog
    about = "" if backlog is None or backlog.exact else "~"
    worker = "disabled" if not status.enabled else "" if status.pid is None else str(status.pid)
    return (
        status.database,
        status.name,
        ", ".join(status.publications),
        status.publisher,
        worker,
        _tables(status),
        lsn_text(status.applied or (0 if status.lag is None else status.lag.confirmed)),
        _publisher_lsn(status),
        "" if backlog is None else str(backlog.transactions),
        "" if backlog is None else f"{about}{backlog.changes}",
        _seconds(status),
        _error(status),
    )


def _publisher_lsn(status: Status) -> str:
    """The publisher's LSN, for a server with the bytes behind it, as it does not tell the number of changes."""
    if status.lag is None:
        return ""
    bytes_behind = f"\n{status.behind} bytes" if status.backlog is None and status.behind else ""
    return lsn_text(status.lag.current) + bytes_behind


def _seconds(status: Status) -> str:
    if status.seconds is None:
        return ""
    return f"{'~' if status.backlog is None and status.seconds else ''}{status.seconds:.1f}"


def _tables(status: Status) -> str:
    """The tables with their states; of many only those that are not ready."""
    if len(status.tables) <= _LISTED:
        return "\n".join(f"{table.name} {table.state}" for table in status.tables)
    ready = sum(table.state == "r" for table in status.tables)
    waiting = [table for table in status.tables if table.state != "r"]
    lines = [f"{ready} of {len(status.tables)} r", *(f"{table.name} {table.state}" for table in waiting[:_LISTED])]
    if len(waiting) > _LISTED:
        lines.append(f"and {len(waiting) - _LISTED} more")
    return "\n".join(lines)


def _error(status: Status) -> str:
    if status.unreachable is not None:
        return status.unreachable
    return "" if status.error is None else f"{status.error[1]}: {status.error[2]}"


def status(arguments: Sequence[str]) -> int:
    return run(status_command, arguments)
