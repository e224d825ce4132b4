"""`pgrepl check`: the command."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from pgrepl.shell.check.findings import FORMATS
from pgrepl.shell.connection import (
    CATALOG_FILE,
    DEFAULT_DATABASE,
    DEFAULT_USER,
    ConnectFailure,
    ConnectTarget,
    check_catalog,
    failure_of,
    startup_settings,
)
from pgrepl.shell.subcommand import BAD_CONNECTION, FAILURE, OK, connection, run

NOT_CHECKED = BAD_CONNECTION


@click.command("check", short_help="look for errors in scripts, without running them")
@click.argument("file", nargs=-1, required=True)
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), default="text", show_default=True, help="how to tell errors"
)
@click.option("--empty", is_flag=True, help="check against an empty catalog, whatever there is here")
@click.option("-v", "--set", "--variable", "variables", metavar="NAME=VALUE", multiple=True, help="set a variable")
@click.option("-U", "--username", envvar="PGUSER", default=DEFAULT_USER, help="act as this role")
@click.option("-d", "--dbname", envvar="PGDATABASE", default=DEFAULT_DATABASE, help="the database to begin in")
@click.option("--catalog", envvar="PGREPL_CATALOG", help="the catalog's file (default: catalog.db, if there is one)")
def check_command(
    file: tuple[str, ...],
    form: str,
    empty: bool,
    variables: tuple[str, ...],
    username: str,
    dbname: str,
    catalog: str | None,
) -> int:
    """Look for errors in psql scripts (-: standard input), one after the other, without changing anything.

    Definitions are made in a copy of the catalog, without its rows, that is thrown away: a later statement, or a later
    FILE, sees what an earlier one defined. Statements about rows are analysed, but not run. All errors are told, not
    only the first. Nothing is written or contacted: no table, no slot, no server, no program. A NOTICE says what was
    not carried out and could not be checked.

    Without a catalog, or with --empty, scripts are checked against an empty one, in which the database exists.

    Exits with 0 if there is no error, with 1 if there is one, with 2 if something could not be checked at all, such as
    a file that cannot be read.

    \b
    pgrepl check schema.sql publications.sql -d shop
    pgrepl check --format github migrations/*.sql
    pgrepl check --format junit --empty schema.sql > report.xml
    """
    from pgrepl.shell.check.rehearsing import CheckingShell

    for name in file:
        if name != "-" and not can_read(name):
            return NOT_CHECKED
    with rehearsal(None if empty else _named(catalog), dbname, username) as target:
        shell = CheckingShell()
        shell.defaults, shell.catalog_name = target, catalog or CATALOG_FILE
        for variable in variables:
            name, equals, value = variable.partition("=")
            if not shell.variables.set(name, value if equals else None):
                raise click.UsageError(shell.findings[-1].message)
        for name in file:
            shell.read(name, target)
    sys.stdout.write(FORMATS[form](file, shell.findings))
    return FAILURE if any(found.is_error for found in shell.findings) else OK


def can_read(name: str) -> bool:
    try:
        with open(name, "rb") as file:
            file.peek(1)
    except OSError as problem:
        sys.stderr.write(f"pgrepl: error: {name}: {problem.strerror}\n")
        return False
    return True


def _named(catalog: str | None) -> str | None:
    if catalog is None and not os.path.lexists(CATALOG_FILE):
        return None
    return catalog or CATALOG_FILE


@contextmanager
def rehearsal(catalog: str | None, database: str, user: str) -> Iterator[ConnectTarget]:
    """A copy of the catalog, or an empty one with the database, for as long as it is wanted."""
    from pgrepl.errors import PgError
    from pgrepl.statements.rehearsal.copy import copy_without_rows, empty_catalog

    settings = {**startup_settings(os.environ.get("PGOPTIONS", "")), "pgrepl.engine": "local"}
    with tempfile.TemporaryDirectory(prefix="pgrepl-check-") as folder:
        place = Path(folder).resolve()
        try:
            if catalog is None:
                path = empty_catalog(place)
                _make_database(path, database)
            else:
                check_catalog(ConnectTarget(catalog, database, user, makes=False))
                path = copy_without_rows(catalog, place)
        except PgError as problem:
            raise failure_of(catalog or CATALOG_FILE, problem) from problem
        target = ConnectTarget(str(path), database, user, settings)
        try:
            yield target
        except ConnectFailure as failure:
            raise ConnectFailure(str(failure).replace(str(path), catalog or CATALOG_FILE)) from failure


def _make_database(path: Path, name: str) -> None:
    if name != DEFAULT_DATABASE:
        from pgrepl.sql.quote import quote_identifier

        with connection(str(path), DEFAULT_DATABASE, DEFAULT_USER) as opened:
            list(opened.run(f"CREATE DATABASE {quote_identifier(name)}"))


def check(arguments: Sequence[str]) -> int:
    return run(check_command, arguments)
