"""`pgrepl import-schema`: the tables that a server publishes, as CREATE TABLE statements, printed or run."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from pgrepl.errors import PgError
from pgrepl.shell.subcommand import BAD_CONNECTION, OK, connecting, connection, run


@click.command("import-schema", short_help="CREATE TABLE statements for what a server publishes")
@click.argument("conninfo")
@click.option("-p", "--publication", "publications", multiple=True, help="only what this publication publishes")
@click.option("--apply", "applied", is_flag=True, help="run the statements instead of printing them")
@connecting
def import_schema_command(
    conninfo: str, publications: tuple[str, ...], applied: bool, catalog: str, dbname: str, username: str
) -> int:
    """Print the statements that make the published tables of the PostgreSQL server at CONNINFO here.

    Of each table: the published columns, NOT NULL, the primary key, the replica identity, its partitions.

    \b
    pgrepl import-schema 'host=db.example.com dbname=shop user=repl' -p orders > shop.sql
    pgrepl import-schema 'postgresql://repl@db.example.com/shop' --apply -d shop
    """
    statements = _statements(conninfo, publications)
    if statements is None:
        return BAD_CONNECTION
    if not applied:
        sys.stdout.write("".join(statement + "\n" for statement in statements))
        return OK
    from pgrepl.statements.run import run as run_statements

    with connection(catalog, dbname, username, makes=True) as connected:
        text = "BEGIN;\n" + "\n".join(statements) + "\nCOMMIT;"
        for result in run_statements(connected.session, text):
            if result.tag not in ("BEGIN", "COMMIT"):
                sys.stdout.write(f"{result.tag}\n")
    return OK


def _statements(conninfo: str, publications: Sequence[str]) -> list[str] | None:
    """The CREATE statements; None, after a message: the server cannot be reached."""
    from pgrepl.replication.libpq.conninfo import check_conninfo
    from pgrepl.replication.libpq.endpoints import ConnectionFailure
    from pgrepl.replication.publisher.postgres.connecting import link_to
    from pgrepl.replication.publisher.protocol import PublisherError

    options = check_conninfo(conninfo, False)
    try:
        link = link_to(options)
    except ConnectionFailure as failure:
        sys.stderr.write(f"pgrepl: error: {failure}\n")
        return None
    from pgrepl.replication.publisher.postgres.schema import create_statements

    try:
        return list(create_statements(link, publications))
    except PublisherError as error:
        raise PgError(error.sqlstate, f"could not read the publisher's catalog: {error}") from None
    finally:
        link.close()


def import_schema(arguments: Sequence[str]) -> int:
    return run(import_schema_command, arguments)
