"""`pgrepl import-schema`: the tables that a server publishes, and their types, as statements, printed or run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from pgrepl.catalog.facts.relation import find_relation
from pgrepl.catalog.session.settings import USUAL_RELEASE
from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.replication.conninfo import ConnectionFailure, ConninfoError, parse_conninfo
from pgrepl.replication.publisher.postgres import ddl_trigger
from pgrepl.replication.publisher.postgres.link import link_to
from pgrepl.replication.publisher.postgres.schema import create_statements
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.shell.commands.subcommand import OK, connecting, connection
from pgrepl.shell.connection import ConnectFailure, startup_settings
from pgrepl.sql.nodes.expr import RangeVar
from pgrepl.statements.run import run as run_statements

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.postgres.link import Link
    from pgrepl.replication.publisher.postgres.schema import Imported
    from pgrepl.replication.publisher.tables import RemoteDefinition


T = TypeVar("T")
_RELEASE = "pgrepl.postgres_version"
_THERE = frozenset(("42P06", "42P07", "42710", "42723"))  # a schema, a relation, a type or another object, a function


@click.command("import-schema", short_help="CREATE TABLE statements for what a server publishes")
@click.argument("conninfo")
@click.option("-p", "--publication", "publications", multiple=True, help="only what this publication publishes")
@click.option("--views", is_flag=True, help="also views and materialized views that read published tables")
@click.option("--routines", is_flag=True, help="also functions and procedures")
@click.option("--triggers", is_flag=True, help="also triggers of published tables, and what they call")
@click.option("--servers", is_flag=True, help="also foreign servers of postgres_fdw, and their user mappings")
@click.option("--apply", "applied", is_flag=True, help="run the statements instead of printing them")
@click.option("--ddl-trigger", is_flag=True, help="instead: event triggers for the server, for schema_changes = all")
@connecting
def import_schema_command(
    conninfo: str,
    publications: tuple[str, ...],
    views: bool,
    routines: bool,
    triggers: bool,
    servers: bool,
    applied: bool,
    ddl_trigger: bool,
    catalog: str,
    dbname: str,
    username: str,
) -> int:
    """Print the statements that make the published tables of the PostgreSQL server at CONNINFO here.

    Of each table: the published columns, NOT NULL, the primary key, the replica identity, its partitions; of its
    columns the enums, domains and composite types. A type that cannot be made here becomes text. Materialized views
    are made without rows: REFRESH MATERIALIZED VIEW when the tables have theirs. Foreign servers come with the
    wrapper postgresql, for CREATE SUBSCRIPTION … SERVER, and with the passwords of user mappings that your role at the
    server may see. What is not imported is named, in a
    comment or with --apply on standard error. --apply makes what is missing here, columns as well, and leaves what is
    there as it is. --ddl-trigger prints a script that a superuser runs at the server: its event triggers tell
    subscriptions with schema_changes = all of each ALTER and DROP of a published table, in its transaction.

    \b
    pgrepl import-schema 'host=db.example.com dbname=shop user=repl' -p orders > shop.sql
    pgrepl import-schema 'postgresql://repl@db.example.com/shop' --views --triggers --apply -d shop
    pgrepl import-schema 'host=db.example.com dbname=shop' --ddl-trigger | psql -h db.example.com -d shop
    """
    if ddl_trigger:
        if views or routines or triggers or servers or applied or publications:
            raise click.UsageError("--ddl-trigger stands alone: its script is for the server, for all its publications")
        sys.stdout.write(_ddl_trigger(conninfo))
        return OK
    asked = {"view": views, "routine": routines or triggers, "trigger": triggers}
    kinds = [kind for kind, is_asked in asked.items() if is_asked]
    spoken = partial(_spoken, catalog, dbname, username)
    imported = _asked(
        conninfo, lambda link: list(create_statements(link, publications, kinds, with_servers=servers, spoken=spoken))
    )
    if not applied:
        sys.stdout.write("".join(map(_printed, imported)))
        return OK
    with connection(catalog, dbname, username, makes=True) as connected:
        _apply(connected.session, imported)
    return OK


def _spoken(catalog: str, dbname: str, username: str) -> int:
    """The release that is spoken here; where there is no catalog yet, that of PGOPTIONS."""
    try:
        with connection(catalog, dbname, username) as connected:
            return connected.session.settings.release
    except ConnectFailure:
        return int(startup_settings(os.environ.get("PGOPTIONS", "")).get(_RELEASE, USUAL_RELEASE))


def _printed(item: Imported) -> str:
    notes = [f"-- {line}\n" for note in item.notes for line in note.splitlines()]
    return "".join(notes) + (f"{item.statement}\n" if item.statement else "")


def _apply(session: Session, imported: Sequence[Imported]) -> None:
    """Run the statements in one transaction, and name what is there, and what is not imported."""
    there: set[str] = set()  # tables
    _run(session, "BEGIN")
    for item in imported:
        for note in (*item.notes, *item.noted):
            _warn(note)
        if not item.statement or (item.table is not None and item.table.qualified_name in there):
            continue
        _run(session, "SAVEPOINT import_schema")
        try:
            tags = _run(session, item.statement)
        except PgError as error:
            if error.sqlstate not in _THERE and not item.name:
                raise
            _run(session, "ROLLBACK TO import_schema")
            tags = []
            if error.sqlstate not in _THERE:
                _warn(f"{item.name} is not imported: {error.message}")
            else:
                session.notice("NOTICE", f"{error.message}, skipping", sqlstate=error.sqlstate)
                if item.table is not None:
                    there.add(item.table.qualified_name)
                    tags = _add_columns(session, item.table)
        _run(session, "RELEASE import_schema")
        sys.stdout.write("".join(f"{tag}\n" for tag in tags))
    _run(session, "COMMIT")


def _add_columns(session: Session, wanted: RemoteDefinition) -> list[str | None]:
    """Add the columns that a table lacks. Partitions get them with their root, and rows have no values for them."""
    with reading(session):
        here = find_relation(session, RangeVar(wanted.name, wanted.schema))
    if wanted.parent is not None or here.kind not in ("r", "p"):
        return []
    tags = []
    for column in wanted.columns:
        if here.attribute(column.name) is None:
            tags += _run(session, wanted.add_column(column))
            if column.notnull:
                _warn(f"column {column.name} of table {wanted.qualified_name} is added without NOT NULL")
    return tags


def _run(session: Session, text: str) -> list[str | None]:
    return [result.tag for result in run_statements(session, text)]


def _warn(text: str) -> None:
    sys.stderr.write(f"pgrepl: warning: {text}\n")


def _ddl_trigger(conninfo: str) -> str:
    version = _asked(conninfo, lambda link: link.version)
    if version < ddl_trigger.SINCE:
        raise PgError(
            "0A000", f"a server of release {version // 10000} sends no logical messages", hint="14 is needed."
        )
    return ddl_trigger.SCRIPT


def _asked(conninfo: str, ask: Callable[[Link], T]) -> T:
    """What a server answers; ConnectFailure: it cannot be reached."""
    try:
        link = link_to(parse_conninfo(conninfo))
    except (ConninfoError, ConnectionFailure) as failure:
        raise ConnectFailure(str(failure)) from failure
    try:
        return ask(link)
    except PublisherError as error:
        raise PgError(error.sqlstate, f"could not read the publisher's catalog: {error}") from None
    finally:
        link.close()
