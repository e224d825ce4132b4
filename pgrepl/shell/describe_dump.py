"""`pgrepl describe` and `pgrepl dump`: the objects of a catalog as tables, as JSON and as a script."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pgrepl.errors import PgError
from pgrepl.shell.subcommand import FAILURE, OK, connecting, connection, run

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
@connecting
def dump_command(
    schema: bool, publications: bool, subscriptions: bool, catalog: str, dbname: str, username: str
) -> int:
    """Print a script that makes the objects of a database again; without an option, all of them.

    \b
    pgrepl dump -d shop > shop.sql
    pgrepl -d copy -f shop.sql
    """
    from pgrepl.catalog.transaction import reading
    from pgrepl.statements.dump import dump

    everything = not (schema or publications or subscriptions)
    with connection(catalog, dbname, username) as connected, reading(connected.session):
        statements = dump(
            connected.session,
            schema=schema or everything,
            publications=publications or everything,
            subscriptions=subscriptions or everything,
        )
        for statement in statements:
            sys.stdout.write(statement + "\n")
    return OK


def describe(arguments: Sequence[str]) -> int:
    return run(describe_command, arguments)


def dump(arguments: Sequence[str]) -> int:
    return run(dump_command, arguments)
