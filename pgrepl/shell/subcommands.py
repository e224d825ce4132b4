"""`pgrepl describe` and `pgrepl dump`: what the catalog holds, for scripts and for safekeeping."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from pgrepl.errors import PgError, Report
from pgrepl.shell.connection import DEFAULT_DATABASE, DEFAULT_USER, ConnectFailure, Connection, Target
from pgrepl.shell.report import message_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

OK, FAILURE, BAD_CONNECTION = 0, 1, 2
KINDS = ("publications", "subscriptions", "tables", "table")

Command = Callable[..., Any]


def _connecting(command: Command) -> Command:
    """The options that say which catalog, database and role."""
    for option in (
        click.option("-U", "--username", envvar="PGUSER", default=DEFAULT_USER, help="act as this role"),
        click.option("-d", "--dbname", envvar="PGDATABASE", default=DEFAULT_DATABASE, help="the database to look at"),
        click.option("--catalog", envvar="PGREPL_CATALOG", default="catalog.db", help="the catalog's file or URL"),
    ):
        command = option(command)
    return command


@click.command("describe", short_help="show what the catalog holds")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@_connecting
def describe_command(kind: str, name: str | None, as_json: bool, catalog: str, dbname: str, username: str) -> int:
    """Show publications, subscriptions, tables, or one table.

    NAME is a pattern as \\d takes it: * and ? stand for any characters, and a dot parts schema from name.

    \b
    pgrepl describe publications -d shop
    pgrepl describe table 'sales.*' --json
    """
    if kind == "table" and name is None:
        raise click.UsageError("which table? pgrepl describe table NAME")
    with _session(catalog, dbname, username) as connection:
        if as_json:
            sys.stdout.write(_json(connection.session, kind, name) + "\n")
            return OK
        return _tables(connection, kind, name)


def _tables(connection: Connection, kind: str, name: str | None) -> int:
    from pgrepl.shell.describe import run
    from pgrepl.shell.shell import Shell

    shell = Shell()
    shell.terse_messages = True
    shell.connection = connection
    command = {"publications": "dRp+", "subscriptions": "dRs+", "tables": "dt", "table": "d+"}[kind]
    found = run(shell, command, [name])
    shell.stdout.flush()
    return OK if found else FAILURE


def _json(session: Session, kind: str, name: str | None) -> str:
    from pgrepl.catalog.transaction import reading
    from pgrepl.shell.describe import data
    from pgrepl.shell.describe.patterns import BadPattern, parse_pattern

    qualified = kind in ("tables", "table")
    with reading(session):
        try:
            pattern = parse_pattern(name, qualified=qualified, database=session.database.name)
        except BadPattern as problem:
            raise PgError("42602", str(problem)) from problem
        if kind == "table":
            assert pattern is not None
            found = data.table(session, pattern)
        else:
            listing = {"publications": data.publications, "subscriptions": data.subscriptions, "tables": data.tables}
            found = listing[kind](session, pattern)
    return _pretty(found)


def _pretty(found: list[dict[str, Any]]) -> str:
    """Objects one key a line; what is inside them on that line."""
    objects = []
    for item in found:
        lines = [f"    {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in item.items()]
        lines = [
            line if len(line) <= 100 or not isinstance(value, list) or not value else _long_list(key, value)
            for line, (key, value) in zip(lines, item.items(), strict=True)
        ]
        objects.append("  {\n" + ",\n".join(lines) + "\n  }")
    return "[\n" + ",\n".join(objects) + "\n]" if objects else "[]"


def _long_list(key: str, values: list[Any]) -> str:
    inside = ",\n".join(f"      {json.dumps(value, ensure_ascii=False)}" for value in values)
    return f"    {json.dumps(key)}: [\n{inside}\n    ]"


@click.command("dump", short_help="a script that makes the objects again")
@click.option("--schema", "schema", is_flag=True, help="schemas, tables, views, indexes, sequences")
@click.option("--publications", is_flag=True, help="publications")
@click.option("--subscriptions", is_flag=True, help="subscriptions, with connect = false")
@_connecting
def dump_command(
    schema: bool, publications: bool, subscriptions: bool, catalog: str, dbname: str, username: str
) -> int:
    """Print a script that makes the objects of a database again; without an option, all of them.

    \b
    pgrepl dump -d shop > shop.sql
    pgrepl -d copy -f shop.sql
    """
    from pgrepl.catalog.transaction import reading
    from pgrepl.commands.dump import dump

    everything = not (schema or publications or subscriptions)
    with _session(catalog, dbname, username) as connection, reading(connection.session):
        statements = dump(
            connection.session,
            schema=schema or everything,
            publications=publications or everything,
            subscriptions=subscriptions or everything,
        )
        for statement in statements:
            sys.stdout.write(statement + "\n")
    return OK


@contextmanager
def _session(catalog: str, database: str, user: str) -> Iterator[Connection]:
    connection = Connection(Target(catalog, database, user), _say)
    try:
        yield connection
    finally:
        connection.close()


def _say(report: Report) -> None:
    sys.stdout.flush()
    sys.stderr.write(message_text(report, None, "default", "errors"))


def describe(arguments: Sequence[str]) -> int:
    return _run(describe_command, arguments)


def dump(arguments: Sequence[str]) -> int:
    return _run(dump_command, arguments)


def _run(command: click.Command, arguments: Sequence[str]) -> int:
    """With one sentence, not a traceback, for what goes wrong."""
    name = command.name or ""
    try:
        code: int = command.main(list(arguments), prog_name=f"pgrepl {name}", standalone_mode=False)
        sys.stdout.flush()
        return code or OK
    except click.ClickException as problem:
        problem.show()
        return FAILURE
    except click.exceptions.Abort:
        return 130
    except ConnectFailure as problem:
        sys.stderr.write(f"pgrepl: error: {problem}\n")
        return BAD_CONNECTION
    except PgError as error:
        _say(error.report)
        return FAILURE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
