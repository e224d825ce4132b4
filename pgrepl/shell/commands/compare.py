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


def lines(found: Comparison, most: int | None = None) -> Iterator[str]:
    """`most`: differences that are shown of a table."""
    yield f'subscription "{found.subscription}": compared at {lsn_text(found.lsn)}'
    for table in found.tables:
        yield from _table(table, most)


def _table(found: TableComparison, most: int | None) -> Iterator[str]:
    if found.error is not None:
        yield f"{found.name}: could not be told: {found.error.message}"
        for label, text in (("DETAIL", found.error.report.detail), ("HINT", found.error.report.hint)):
            if text:
                yield f"  {label}:  {text}"
        return
    if found.is_equal:
        yield f"{found.name}: equal, {_counted(found.rows_here, 'row')}"
    else:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items() if count)
        least = "" if found.is_complete else "at least "
        there, here = f"{found.rows_there:,}", f"{found.rows_here:,}"
        yield f"{found.name}: {least}{kinds}, of {there} rows at the publisher and {here} here"
    if found.known:
        yield f"  left out: {found.known:,} of {found.pieces:,} pieces, which were equal before"
    for text in found.unjudged:
        yield f"  not compared: {text}"
    for each in found.differences[:most]:
        yield f"  {each.kind:<9}  {_named(found, each)}{''.join(_columns(found, each))}"
    if most is not None and len(found.differences) > most:
        yield f"  and {len(found.differences) - most:,} more"
    if not found.is_complete:
        yield f"  and more, in {_counted(len(found.differing), 'piece')} that differ"


def _named(found: TableComparison, difference: Difference) -> str:
    names = found.key or found.columns
    values = dict(zip(found.columns, difference.texts, strict=True))
    return ", ".join(f"{name}={_value(values[name])}" for name in names)


def _columns(found: TableComparison, difference: Difference) -> Iterator[str]:
    if difference.here is None or difference.there is None:
        return
    for number, place in enumerate(difference.differing()):
        here, there = _value(difference.here[place]), _value(difference.there[place])
        yield f"{': ' if not number else '; '}{found.columns[place]} is {here} instead of {there}"


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


def json_text(found: Comparison, **more: Any) -> str:
    answer = {
        "subscription": found.subscription,
        "lsn": lsn_text(found.lsn),
        "snapshot": found.snapshot,
        "equal": found.is_equal if found.is_told else None,
        **more,
        "tables": [_table_facts(table) for table in found.tables],
    }
    return json.dumps(answer, ensure_ascii=False, indent=2)


def repaired_facts(done: Repaired | None) -> dict[str, Any] | None:
    if done is None:
        return None
    counts = {"inserted": done.inserted, "deleted": done.deleted, "updated": done.updated}
    return {"lsn": lsn_text(done.lsn), **counts, "new_slot": done.new_slot}


def _table_facts(found: TableComparison) -> dict[str, Any]:
    if found.error is not None:
        report = found.error.report
        error = {
            "sqlstate": found.error.sqlstate,
            "message": report.message,
            "detail": report.detail,
            "hint": report.hint,
        }
        return {"table": found.name, "equal": None, "error": error}
    return {
        "table": found.name,
        "equal": found.is_equal,
        "publisher_rows": found.rows_there,
        "subscriber_rows": found.rows_here,
        **found.counts,
        "complete": found.is_complete,
        "pieces": found.pieces,
        "left_out": found.known,
        "not_compared": list(found.unjudged),
        "key": list(found.key),
        "differences": [_facts(found.columns, found.key, each) for each in found.differences],
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

    def ends(self, found: TableComparison) -> None:
        if (known := self._tasks.pop(found.name, None)) is not None and self._bars is not None:
            self._bars.remove_task(known[0])
