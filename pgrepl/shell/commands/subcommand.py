"""What subcommands share: options for the catalog, the connection, the end after an error, tables (by rich on a
terminal).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.core import ParameterSource

from pgrepl.api.opened import internal_error
from pgrepl.ground.errors import PgError, Report
from pgrepl.shell.connection import (
    DEFAULT_DATABASE,
    DEFAULT_USER,
    ConnectFailure,
    Connection,
    ConnectTarget,
    startup_settings,
)
from pgrepl.shell.formats.aligned import aligned, lay_out
from pgrepl.shell.formats.table import PrintOptions, TableContent, message_text
from pgrepl.types.plain import parse_lsn

if TYPE_CHECKING:
    from rich.console import Console

    from pgrepl.catalog.session.session import Session

OK, FAILURE, BAD_CONNECTION = 0, 1, 2
_LONGEST = 1e9  # seconds; a thread waits for no more than nine times that

Command = Callable[..., Any]


class Seconds(click.FloatRange):
    """Seconds that can be waited for: neither NaN nor infinity, which are numbers for Python."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if not seconds <= _LONGEST:
            self.fail(f"{value} is too long a time", param, ctx)
        return seconds


def connecting(command: Command) -> Command:
    """The options for catalog, database and role."""
    for option in (
        click.option("-U", "--username", envvar="PGUSER", default=DEFAULT_USER, help="act as this role"),
        click.option("-d", "--dbname", envvar="PGDATABASE", default=DEFAULT_DATABASE, help="the database to look at"),
        click.option("--catalog", envvar="PGREPL_CATALOG", default="catalog.db", help="the catalog's file or URL"),
    ):
        command = option(command)
    return command


def on_spark(command: Command) -> Command:
    """The options for Spark, and for the files of a new catalog."""

    @functools.wraps(command)
    def configured(master: str | None, remote: str | None, conf: tuple[str, ...], **others: Any) -> Any:
        if master is not None or remote is not None or conf:
            from pgrepl.engine import spark, spark_options

            try:
                spark.configure(spark_options.read_options(os.environ, master, remote, conf))
            except PgError as error:
                raise click.UsageError(error.message) from error
        return command(**others)

    options: Command = configured
    for option in (
        click.option("--data-path", metavar="FOLDER|URI", help="where a new catalog has the files of its tables"),
        click.option("--conf", metavar="NAME=VALUE", multiple=True, help="a setting of Spark's"),
        click.option("--remote", metavar="URL", help="use a Spark Connect server: sc://host"),
        click.option("--master", metavar="URL", help="run Spark there: spark://host:7077, local[4] …"),
    ):
        options = option(options)
    return options


@contextmanager
def connection(
    catalog: str, database: str, user: str, data_path: str | None = None, *, makes: bool = False
) -> Iterator[Connection]:
    """A session, for as long as it is wanted. A missing catalog is an error, unless the command `makes` one."""
    settings = startup_settings(os.environ.get("PGOPTIONS", ""))
    data_path = data_path or os.environ.get("PGREPL_DATA_PATH") or None
    announces = makes and click.get_current_context().get_parameter_source("catalog") is ParameterSource.DEFAULT
    target = ConnectTarget(catalog, database, user, settings, data_path, makes=makes, announces=announces)
    opened = Connection(target, say)
    try:
        yield opened
    finally:
        opened.close()


def check_superuser(session: Session, otherwise: str) -> None:
    """Raise 42501 with this message for other roles."""
    from pgrepl.catalog.facts.roles import is_superuser
    from pgrepl.catalog.session.transaction import reading

    with reading(session):
        if is_superuser(session, session.role):
            return
    raise PgError("42501", otherwise, detail="Only superusers may do it.")


def say(report: Report) -> None:
    sys.stdout.flush()
    sys.stderr.write(message_text(report, None, "default", "errors"))


def many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def is_given(option: str) -> bool:
    """Whether the running command's line has an option: neither its default nor the environment gives it."""
    return click.get_current_context().get_parameter_source(option.replace("-", "_")) is ParameterSource.COMMANDLINE


def is_only_with(option: str, other: str, is_there: bool) -> None:
    """Refuse an option that would do nothing without another."""
    if is_given(option) and not is_there:
        raise click.UsageError(f"--{option} is for --{other}")


def as_lsn(text: str) -> int:
    """The value of an option that is an LSN."""
    try:
        return parse_lsn(text)
    except PgError as error:
        raise click.BadParameter(error.message) from error


def run(command: click.Command, arguments: Sequence[str], *, failure: int = FAILURE) -> int:
    """Run a subcommand; returns its exit code: click's for a command line that is not valid (2), `failure` for an
    error. An error is one message, without a traceback."""
    name = command.name or ""
    try:
        code: int = command.main(list(arguments), prog_name=f"pgrepl {name}", standalone_mode=False)
        sys.stdout.flush()
        return code or OK
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except click.exceptions.Abort:
        return 130
    except ConnectFailure as problem:
        sys.stderr.write(f"pgrepl: error: {problem}\n")
        return BAD_CONNECTION
    except PgError as error:
        say(error.report)
        return failure
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failure
    except Exception as problem:
        say(internal_error(problem).report)
        return failure


# --- show table -------------------------------------------------------------------------------------------------------


def write_table(
    stream: TextIO, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()
) -> None:
    if stream.isatty():
        from rich.console import Console

        console = Console(file=stream)
        console.print(rich_table(console, title, headers, rows, numeric))
    else:
        stream.write(plain_table(title, headers, rows, numeric))


def plain_table(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()
) -> str:
    aligns = "".join("r" if at in numeric else "l" for at in range(len(headers)))
    table, options = TableContent(headers, rows, aligns, title, ()), PrintOptions(title=title)
    return aligned(table, options, lay_out(table, options, 0))


def rich_table(
    console: Console, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()
) -> Any:
    """A table of rich; one that is too wide is printed row after row, as with `\\x auto`."""
    from rich.markup import escape
    from rich.measure import Measurement
    from rich.table import Table as RichTable

    table = RichTable(title=escape(title), title_justify="left")
    for at, header in enumerate(headers):
        table.add_column(header, justify="right" if at in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*[escape(cell) for cell in row])
    if Measurement.get(console, console.options.update(max_width=10_000), table).maximum <= console.width:
        return table
    upright = RichTable(title=escape(title), title_justify="left", show_header=False)
    upright.add_column(style="bold")
    upright.add_column(overflow="fold")
    for row in rows:
        for header, cell in zip(headers, row, strict=True):
            if cell:
                upright.add_row(header, escape(cell))
        upright.add_section()
    return upright
