"""`pgrepl compare` and `pgrepl repair`: are a subscription's tables as they ought to be, and what brings them there."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgrepl.api.comparing import comparer
from pgrepl.errors import PgError
from pgrepl.replication.comparison.found import Progress
from pgrepl.shell.applying import stoppable_command, worker_options
from pgrepl.shell.connection import DEFAULT_DATABASE
from pgrepl.shell.subcommand import BAD_CONNECTION, FAILURE, OK, Command, Seconds, connection, on_spark, run

if TYPE_CHECKING:
    from pgrepl.replication.comparison.compare import Comparison
    from pgrepl.replication.comparison.found import TableComparison

_DIFFERENT, _NOT_TOLD = FAILURE, BAD_CONNECTION
_SHOWN = 100


def _server_options(command: Command) -> Command:
    for option in (
        click.option(
            "--timeout",
            type=Seconds(min=0.1),
            default=60.0,
            show_default=True,
            help="seconds until both are at one LSN",
        ),
        click.option(
            "--rows-per-second", type=click.IntRange(min=1), help="so many rows at most are read at the publisher"
        ),
        click.option(
            "--max-connections",
            type=click.IntRange(min=1, max=64),
            default=2,
            show_default=True,
            help="connections to a PostgreSQL server",
        ),
    ):
        command = option(command)
    return command


@click.command("compare", short_help="whether a subscription's tables are as they ought to be")
@click.argument("subscription")
@click.argument("table", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=_SHOWN,
    show_default=True,
    help="look for so many differences of a table; 0: all",
)
@click.option(
    "--resume",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="keep in FILE what is equal, and leave out what it has",
)
@_server_options
@worker_options
@on_spark
def compare_command(
    subscription: str, table: tuple[str, ...], as_json: bool, limit: int, resume: Path | None, max_connections: int,
    rows_per_second: int | None, timeout: float, log_file: Path | None, catalog: str, dbname: str | None,
    username: str, data_path: str | None,
) -> int:  # fmt: skip
    """Compare the rows of SUBSCRIPTION's TABLEs (default: all) with those of its publisher, both at one LSN, while both
    are written. Row filters, column lists, conversions and partitions count as replication counts them; columns that
    are not sent do not.

    A server's rows are compared by hashes of ranges of their key first, and read where these differ. Changes up to
    the publisher's snapshot are waited for, if somebody follows, or applied.

    Exits with 0 if all is equal, with 1 if something differs, with 2 if it could not be told.

    \b
    pgrepl compare s1
    pgrepl compare s1 orders sales.items --json
    pgrepl compare s1 --rows-per-second 100000 --resume s1.json
    """
    from pgrepl.replication.comparison.compare import Comparer, Options
    from pgrepl.replication.comparison.progress_file import ProgressFile
    from pgrepl.shell.compare_text import as_json as json_text
    from pgrepl.shell.compare_text import lines

    with (
        connection(catalog, dbname or DEFAULT_DATABASE, username, data_path) as opened,
        stoppable_command(),
        _Shown() as progress,
    ):
        file = None if resume is None else ProgressFile(resume, subscription)
        options = Options(table, limit or None, max_connections, rows_per_second, timeout, file)
        with comparer(
            opened.session, subscription, options, progress, log_file, everywhere=dbname is None, kind=Comparer
        ) as found_by:
            found = found_by.compare()
    sys.stdout.write(json_text(found) + "\n" if as_json else "".join(f"{line}\n" for line in lines(found)))
    return _code(found)


def _code(found: Comparison) -> int:
    if not found.is_told:
        return _NOT_TOLD
    return OK if found.is_equal else _DIFFERENT


# --- repair -----------------------------------------------------------------------------------------------------------


@click.command("repair", short_help="bring a subscription's rows to what they ought to be")
@click.argument("subscription")
@click.argument("table", nargs=-1)
@click.option("--yes", is_flag=True, help="do not ask")
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs; with --yes")
@_server_options
@worker_options
@on_spark
def repair_command(
    subscription: str, table: tuple[str, ...], yes: bool, as_json: bool, max_connections: int,
    rows_per_second: int | None, timeout: float, log_file: Path | None, catalog: str, dbname: str | None,
    username: str, data_path: str | None,
) -> int:  # fmt: skip
    """Compare the rows of SUBSCRIPTION's TABLEs (default: all) with those of its publisher, show what differs, ask, and
    repair it in one commit.

    Rows are inserted, updated and deleted as the publisher's changes would do it. What was shown is looked at again
    before that, while the worker waits: a row that is right by then, or has another value, is repaired to what it ought
    to be then. A subscription whose slot is lost gets a new one, and goes on from there without a new copy.

    Exits with 0 if all is as it ought to be, with 1 if it was not to be repaired, with 2 if that was not possible.

    \b
    pgrepl repair s1
    pgrepl repair s1 orders --yes
    """
    from pgrepl.replication.comparison.compare import Options
    from pgrepl.replication.comparison.repair import Repairer
    from pgrepl.shell.compare_text import as_json as json_text
    from pgrepl.shell.compare_text import lines, repaired_facts, repaired_line

    if as_json and not yes:
        raise click.UsageError("--json is for --yes")
    with (
        connection(catalog, dbname or DEFAULT_DATABASE, username, data_path) as opened,
        stoppable_command(),
    ):
        options = Options(table, None, max_connections, rows_per_second, timeout)
        with (
            _Shown() as progress,
            comparer(
                opened.session, subscription, options, progress, log_file, everywhere=dbname is None, kind=Repairer
            ) as repairer,
        ):
            found = repairer.look()
            progress.end()
            if not as_json:
                sys.stdout.write("".join(f"{line}\n" for line in lines(found, _SHOWN)))
            is_wrong = not found.is_equal or repairer.new_slot is not None
            if is_wrong and not (yes or _is_wanted(found, repairer.new_slot)):
                return _DIFFERENT
            done = repairer.repair(found) if is_wrong else None
    if as_json:
        sys.stdout.write(json_text(found, repaired=repaired_facts(done)) + "\n")
    elif done is not None:
        sys.stdout.write(f"{repaired_line(done)}\n")
    return OK


def _is_wanted(found: Comparison, new_slot: str | None) -> bool:
    sys.stdout.flush()
    if not sys.stdin.isatty():
        raise PgError("55000", "nothing was repaired", hint="Say --yes where nobody can be asked.")
    what = f"repair {found.count:,} row{'' if found.count == 1 else 's'}"
    if new_slot is not None:
        what += f' and go on from the new replication slot "{new_slot}"'
    return click.confirm(f"{what}?")


# --- progress ---------------------------------------------------------------------------------------------------------


class _Shown(Progress):
    """Bars on standard error, if that is a terminal: one for each table, of the rows of both sides."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._bars: Any = None
        self._tasks: dict[str, tuple[Any, float]] = {}
        self._rows: dict[str, int] = {}

    def __enter__(self) -> _Shown:
        if not sys.stderr.isatty():
            return self
        from rich.console import Console

        from pgrepl.shell.applying_bars import Above, progress

        console = Console(stderr=True)
        if not console.is_dumb_terminal:
            self._bars = self._opened.enter_context(progress(console))
            self._opened.callback(setattr, sys, "stderr", sys.stderr)
            sys.stderr = Above(console, sys.stderr)
        return self

    def __exit__(self, *problem: object) -> None:
        self.end()

    def end(self) -> None:
        """Draw no more."""
        self._opened.close()
        self._bars = None

    def begins(self, table: str, rows: int) -> None:
        if self._bars is not None:
            task = self._bars.add_task(table, total=rows or None, visible=False, seen="")
            self._tasks[table] = task, time.monotonic()
            self._rows[table] = 0

    def looked(self, table: str, rows: int) -> None:
        if self._bars is None or table not in self._tasks:
            return
        task, since = self._tasks[table]
        self._rows[table] += rows
        rate = self._rows[table] / max(time.monotonic() - since, 0.001)
        self._bars.update(task, completed=self._rows[table], seen=f"{self._rows[table]:,} rows, {rate:,.0f}/s")

    def ends(self, found: TableComparison) -> None:
        if (known := self._tasks.pop(found.name, None)) is not None and self._bars is not None:
            self._bars.remove_task(known[0])


def compare(arguments: Sequence[str]) -> int:
    return run(compare_command, arguments, failure=_NOT_TOLD)


def repair(arguments: Sequence[str]) -> int:
    return run(repair_command, arguments, failure=_NOT_TOLD)
