"""`pgrepl compare` and `pgrepl repair`: the commands, and what they print."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgrepl.api.replication import comparer
from pgrepl.ground.errors import PgError
from pgrepl.replication.comparison.compare import Comparer, Options, ProgressFile
from pgrepl.replication.comparison.found import Progress
from pgrepl.replication.comparison.repair import Repairer
from pgrepl.shell.commands.applying import stoppable_command, worker_options
from pgrepl.shell.commands.subcommand import BAD_CONNECTION, FAILURE, OK, Command, Seconds, connection, on_spark
from pgrepl.shell.connection import DEFAULT_DATABASE
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.replication.comparison.compare import Comparison
    from pgrepl.replication.comparison.found import Difference, TableComparison
    from pgrepl.replication.comparison.repair import Repaired


_LONGEST = 60  # characters of a value


def lines(comparison: Comparison, most: int | None = None) -> Iterator[str]:
    """`most`: differences that are shown of a table."""
    yield f'subscription "{comparison.subscription}": compared at {lsn_text(comparison.lsn)}'
    for table in comparison.tables:
        yield from _table(table, most)


def _table(table: TableComparison, most: int | None) -> Iterator[str]:
    if table.error is not None:
        yield f"{table.name}: could not be told: {table.error.message}"
        for label, text in (("DETAIL", table.error.report.detail), ("HINT", table.error.report.hint)):
            if text:
                yield f"  {label}:  {text}"
        return
    if table.is_equal:
        yield f"{table.name}: equal, {_counted(table.rows_here, 'row')}"
    else:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in table.counts.items() if count)
        least = "" if table.is_complete else "at least "
        there, here = f"{table.rows_there:,}", f"{table.rows_here:,}"
        yield f"{table.name}: {least}{kinds}, of {there} rows at the publisher and {here} here"
    if table.known:
        yield f"  left out: {table.known:,} of {table.pieces:,} pieces, which were equal before"
    for text in table.unjudged:
        yield f"  not compared: {text}"
    for difference in table.differences[:most]:
        yield f"  {difference.kind:<9}  {_named(table, difference)}{''.join(_columns(table, difference))}"
    if most is not None and len(table.differences) > most:
        yield f"  and {len(table.differences) - most:,} more"
    if not table.is_complete:
        yield f"  and more, in {_counted(len(table.differing), 'piece')} that differ"


def _named(table: TableComparison, difference: Difference) -> str:
    names = table.key or table.columns
    values = dict(zip(table.columns, difference.texts, strict=True))
    return ", ".join(f"{name}={_value(values[name])}" for name in names)


def _columns(table: TableComparison, difference: Difference) -> Iterator[str]:
    if difference.here is None or difference.there is None:
        return
    for number, place in enumerate(difference.differing()):
        here, there = _value(difference.here[place]), _value(difference.there[place])
        yield f"{': ' if not number else '; '}{table.columns[place]} is {here} instead of {there}"


def _value(text: str | None) -> str:
    if text is None:
        return "NULL"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def repaired_line(done: Repaired) -> str:
    counts = f"{_counted(done.inserted, 'row')} inserted, {done.deleted:,} deleted, {done.updated:,} updated"
    slot = "" if done.new_slot is None else f'; the subscription goes on from its new slot "{done.new_slot}"'
    return f"repaired at {lsn_text(done.lsn)}: {counts}{slot}"


# --- JSON -------------------------------------------------------------------------------------------------------------


def json_text(comparison: Comparison, **more: Any) -> str:
    answer = {
        "subscription": comparison.subscription,
        "lsn": lsn_text(comparison.lsn),
        "snapshot": comparison.snapshot,
        "equal": comparison.is_equal if comparison.is_told else None,
        **more,
        "tables": [_table_facts(table) for table in comparison.tables],
    }
    return json.dumps(answer, ensure_ascii=False, indent=2)


def repaired_facts(done: Repaired | None) -> dict[str, Any] | None:
    if done is None:
        return None
    counts = {"inserted": done.inserted, "deleted": done.deleted, "updated": done.updated}
    return {"lsn": lsn_text(done.lsn), **counts, "new_slot": done.new_slot}


def _table_facts(table: TableComparison) -> dict[str, Any]:
    if table.error is not None:
        report = table.error.report
        error = {
            "sqlstate": table.error.sqlstate,
            "message": report.message,
            "detail": report.detail,
            "hint": report.hint,
        }
        return {"table": table.name, "equal": None, "error": error}
    return {
        "table": table.name,
        "equal": table.is_equal,
        "publisher_rows": table.rows_there,
        "subscriber_rows": table.rows_here,
        **table.counts,
        "complete": table.is_complete,
        "pieces": table.pieces,
        "left_out": table.known,
        "not_compared": list(table.unjudged),
        "key": list(table.key),
        "differences": [_facts(table.columns, table.key, difference) for difference in table.differences],
    }


def _facts(columns: Sequence[str], key: Sequence[str], difference: Difference) -> dict[str, Any]:
    values = dict(zip(columns, difference.texts, strict=True))
    facts: dict[str, Any] = {"kind": difference.kind, "key": {name: values[name] for name in key or columns}}
    if difference.here is not None and difference.there is not None:
        facts["columns"] = {
            columns[place]: {"publisher": difference.there[place], "subscriber": difference.here[place]}
            for place in difference.differing()
        }
    return facts


# --- compare ----------------------------------------------------------------------------------------------------------


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
            comparison = found_by.compare()
    sys.stdout.write(json_text(comparison) + "\n" if as_json else "".join(f"{line}\n" for line in lines(comparison)))
    return _code(comparison)


def _code(comparison: Comparison) -> int:
    if not comparison.is_told:
        return _NOT_TOLD
    return OK if comparison.is_equal else _DIFFERENT


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
    if as_json and not yes:
        raise click.UsageError("--json is for --yes")
    with connection(catalog, dbname or DEFAULT_DATABASE, username, data_path) as opened, stoppable_command():
        options = Options(table, None, max_connections, rows_per_second, timeout)
        with (
            _Shown() as progress,
            comparer(
                opened.session, subscription, options, progress, log_file, everywhere=dbname is None, kind=Repairer
            ) as repairer,
        ):
            comparison = repairer.look()
            progress.end()
            if not as_json:
                sys.stdout.write("".join(f"{line}\n" for line in lines(comparison, _SHOWN)))
            is_wrong = not comparison.is_equal or repairer.new_slot is not None
            if is_wrong and not (yes or _is_wanted(comparison, repairer.new_slot)):
                return _DIFFERENT
            done = repairer.repair(comparison) if is_wrong else None
    if as_json:
        sys.stdout.write(json_text(comparison, repaired=repaired_facts(done)) + "\n")
    elif done is not None:
        sys.stdout.write(f"{repaired_line(done)}\n")
    return OK


def _is_wanted(comparison: Comparison, new_slot: str | None) -> bool:
    sys.stdout.flush()
    if not sys.stdin.isatty():
        raise PgError("55000", "nothing was repaired", hint="Say --yes where nobody can be asked.")
    what = f"repair {comparison.count:,} row{'' if comparison.count == 1 else 's'}"
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

        from pgrepl.shell.progress import Above, progress

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

    def ends(self, table: TableComparison) -> None:
        if (known := self._tasks.pop(table.name, None)) is not None and self._bars is not None:
            self._bars.remove_task(known[0])
