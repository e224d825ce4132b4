"""`pgrepl describe` and `pgrepl dump`: the objects of a catalog as tables, as JSON and as a script."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from pgrepl.errors import PgError
from pgrepl.shell.subcommand import FAILURE, OK, connecting, connection, is_only_with, run

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.shell.connection import Connection

KINDS = ("publications", "subscriptions", "tables", "table")


@click.command("describe", short_help="show what the catalog holds")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@connecting
def describe_command(kind: str, name: str | None, as_json: bool, catalog: str, dbname: str, username: str) -> int:
    """Show publications, subscriptions, tables, or one table.

    NAME is a pattern as \\d takes it: * and ? stand for any characters, and a dot parts schema from name.

    \b
    pgrepl describe publications -d shop
    pgrepl describe table 'sales.*' --json
    """
    if kind == "table" and name is None:
        raise click.UsageError("which table? pgrepl describe table NAME")
    with connection(catalog, dbname, username) as connected:
        if as_json:
            sys.stdout.write(_json(connected.session, kind, name) + "\n")
            return OK
        return _tables(connected, kind, name)


def _tables(opened: Connection, kind: str, name: str | None) -> int:
    from pgrepl.shell import describe as describing
    from pgrepl.shell.shell import Shell

    shell = Shell()
    shell.terse_messages = True
    shell.connection = opened
    command = {"publications": "dRp+", "subscriptions": "dRs+", "tables": "dt", "table": "d+"}[kind]
    found = describing.run(shell, command, [name])
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
    """JSON with one key of each object a line, and its value on that line, unless it is a long list."""
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
@click.option("--globals", "shared", is_flag=True, help="roles, memberships, databases and settings; nothing else")
@click.option("--all", "everything", is_flag=True, help="these, and then each database")
@click.option("--no-role-passwords", is_flag=True, help="roles without their passwords (SCRAM verifiers)")
@connecting
def dump_command(
    schema: bool, publications: bool, subscriptions: bool, shared: bool, everything: bool, no_role_passwords: bool,
    catalog: str, dbname: str, username: str,
) -> int:  # fmt: skip
    """Print a script that makes the objects of a database again; without an option, all of them.

    Rows are not in it. A dump that is run in an empty catalog, and dumped there, is the same text.

    \b
    pgrepl dump -d shop > shop.sql
    pgrepl -d copy -f shop.sql
    pgrepl dump --globals > roles.sql       roles, grants of roles, databases, settings
    pgrepl dump --all > everything.sql
    pgrepl --catalog new.db -f everything.sql
    """
    from pgrepl.catalog.transaction import reading
    from pgrepl.statements.dump import dump_shared

    wanted = {"schema": schema, "publications": publications, "subscriptions": subscriptions}
    if (shared or everything) and (any(wanted.values()) or (shared and everything)):
        raise click.UsageError("--globals and --all go with none of --schema, --publications, --subscriptions")
    is_only_with("no-role-passwords", "globals and --all", shared or everything)
    if not any(wanted.values()):
        wanted = dict.fromkeys(wanted, True)
    with connection(catalog, dbname, username) as connected:
        if shared or everything:
            with reading(connected.session):
                _print(dump_shared(connected.session, passwords=not no_role_passwords))
        if shared:
            return OK
        names = _database_names(connected.session) if everything else None
        if names is None:
            _print_database(connected.session, wanted)
    for name in names or ():
        with connection(catalog, name, username) as connected:
            _print_database(connected.session, wanted, f"\\connect {_connect_argument(name)}")
    return OK


def _database_names(session: Session) -> list[str]:
    from pgrepl.catalog.databases import databases
    from pgrepl.catalog.transaction import reading

    with reading(session):
        return [str(row.datname) for row in databases(session) if row.datallowconn]


def _connect_argument(name: str) -> str:
    """The name as \\connect takes it; one that looks like a connection string has to be in one."""
    if re.fullmatch("[a-z_][a-z0-9_]*", name):
        return name
    conninfo = "dbname='" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "-reuse-previous=on '" + conninfo.replace("\\", "\\\\").replace("'", "''") + "'"


def _print_database(session: Session, wanted: dict[str, bool], first: str | None = None) -> None:
    """`first` is a line before the statements, if there are any."""
    from pgrepl.catalog.transaction import reading
    from pgrepl.statements.dump import dump

    with reading(session):
        statements = list(dump(session, **wanted))
        _print([first, *statements] if first is not None and statements else statements)


def _print(statements: Iterable[str]) -> None:
    for statement in statements:
        sys.stdout.write(statement + "\n")


def describe(arguments: Sequence[str]) -> int:
    return run(describe_command, arguments)


def dump(arguments: Sequence[str]) -> int:
    return run(dump_command, arguments)
