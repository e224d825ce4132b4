"""`pgrepl verify`: looks for damage in the catalog and in files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from pgrepl.errors import PgError
from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.shell.connection import DEFAULT_DATABASE, DEFAULT_USER, ConnectFailure
from pgrepl.shell.show_table import write_table
from pgrepl.shell.subcommand import OK, check_superuser, connection, many, run, say

if TYPE_CHECKING:
    from pgrepl.lake.verify import Damage, Verification

DAMAGED = 3  # the exit code

Progress = Callable[[int, int], None]


@click.command("verify", short_help="look for damage in the catalog and in files")
@click.option("--quick", is_flag=True, help="read only the footers of files")
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@click.option("-U", "--username", envvar="PGUSER", default=DEFAULT_USER, help="act as this role")
@click.option("-d", "--dbname", help="only the tables of this database")
@click.option("--catalog", envvar="PGREPL_CATALOG", default="catalog.db", help="the catalog's file or URL")
def verify_command(quick: bool, as_json: bool, username: str, dbname: str | None, catalog: str) -> int:
    """Verify that the catalog and every file of its tables are as they were written. Nothing is changed.

    Exits with 0 where all is well, with 3 where something is damaged: that is listed, and stays as it is. A catalog
    too damaged to be opened is an error, with exit code 3, too.

    \b
    pgrepl verify
    pgrepl verify -d shop --quick
    """
    from pgrepl.lake.verify import Verification

    try:
        with connection(catalog, dbname or DEFAULT_DATABASE, username) as opened:
            check_superuser(opened.session, "permission denied to verify an instance")
            work = Verification(opened.session, database=dbname, quick=quick)
            with _bar() as progress:
                found = list(work.run(progress))
    except (PgError, ConnectFailure) as problem:
        cause = problem if isinstance(problem, PgError) else problem.__cause__
        if not isinstance(cause, PgError) or cause.sqlstate != "XX001":
            raise
        say(cause.report)
        return DAMAGED
    if as_json:
        sys.stdout.write(_json(work, found) + "\n")
    else:
        _write(work, found)
    return DAMAGED if found else OK


@contextmanager
def _bar() -> Iterator[Progress]:
    """A progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("verifying", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _write(work: Verification, found: Sequence[Damage]) -> None:
    if found:
        rows = [(damage.table or "", damage.file or "", damage.what) for damage in found]
        write_table(sys.stdout, "Damage", ("Table", "File", "What is wrong"), rows)
    files = f"{many(work.files, 'file')} ({pg_size_pretty(work.bytes)})"
    verified = f"{many(work.tables, 'table')}, {files}, {many(work.inlined_rows, 'inlined row')}"
    result = "no damage" if not found else many(len(found), "problem")
    sys.stdout.write(f"verified {verified}: {result}\n")
    for name, why in work.unknown:
        sys.stdout.write(f"not verified: {name}: {why}\n")
    if work.unused_files:
        what = "belongs" if work.unused_files == 1 else "belong"
        sys.stdout.write(f"{many(work.unused_files, 'file')} {what} to no table: VACUUM removes what is not needed\n")


def _json(work: Verification, found: Sequence[Damage]) -> str:
    answer = {
        "tables": work.tables,
        "files": work.files,
        "bytes": work.bytes,
        "inlined_rows": work.inlined_rows,
        "unused_files": work.unused_files,
        "not_verified": [{"table": name, "why": why} for name, why in work.unknown],
        "damage": [{"table": damage.table, "file": damage.file, "what": damage.what} for damage in found],
    }
    return json.dumps(answer, ensure_ascii=False, indent=2)


def verify(arguments: Sequence[str]) -> int:
    return run(verify_command, arguments)
