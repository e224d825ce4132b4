"""`pgrepl iceberg export`: metadata of tables for engines that read Iceberg from a folder or bucket."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pgrepl.catalog.driver_errors import first_line
from pgrepl.errors import PgError
from pgrepl.shell.connection import ConnectFailure
from pgrepl.shell.subcommand import OK, connecting, connection, is_only_with, run

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.iceberg.export import Exported

_LASTING = ("42501", "42P01", "3F000", "22023", "42602", "0A000", "42809")  # errors that stay what they are


@click.group("iceberg")
def iceberg_group() -> None:
    """Let other engines read the tables as Iceberg tables: Spark, DuckDB, pyiceberg, polars and more.

    Nothing is copied: the metadata names the lake's own files. `pgrepl serve` has a catalog for such readers;
    `export` is for those that look into a folder or a bucket.
    """


@iceberg_group.command("export", short_help="write metadata for readers of folders and buckets")
@click.argument("table", nargs=-1)
@click.option("--to", metavar="FOLDER|URI", help="where to, instead of beside the data folder: a folder, or s3://…")
@click.option("--follow", is_flag=True, help="go on until stopped, and export what has changed")
@click.option("--interval", type=click.FloatRange(min=0.1), default=10.0, show_default=True,
              help="seconds between two looks")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs: a line for each table")
@connecting
def export_command(
    table: tuple[str, ...], to: str | None, follow: bool, interval: float, as_json: bool, catalog: str, dbname: str,
    username: str,
) -> int:  # fmt: skip
    """Write Iceberg metadata of TABLEs, as name or schema.name (default: all of the database that the role may read).

    Each table gets a folder, with `metadata/version-hint.text`. Readers see the table as it was at the export, and one
    that has not changed since is left as it is. VACUUM keeps the files that are named for pgrepl.iceberg_grace (1 hour)
    after an export: run it again after changes, or with --follow. Small files beside the metadata hold rows that are
    inlined in the catalog.

    Exits with 0; with 1 after an error; with 2 if there is no catalog.

    \b
    pgrepl iceberg export -d shop
    pgrepl iceberg export -d shop orders sales.items --to s3://bucket/iceberg
    pgrepl iceberg export -d shop --follow --interval 60
    duckdb -c "SELECT * FROM iceberg_scan('catalog.db.iceberg/shop/orders')"
    """
    is_only_with("interval", "follow", follow)
    reached = False
    while True:
        try:
            with connection(catalog, dbname, username) as opened:
                reached = True
                while True:
                    _export(opened.session, table, to, as_json, only_new=follow)
                    if not follow:
                        return OK
                    time.sleep(interval)
        except (PgError, ConnectFailure) as problem:
            lasts = problem.sqlstate in _LASTING if isinstance(problem, PgError) else not reached
            if not follow or lasts:
                raise
            sys.stderr.write(f"pgrepl: {first_line(problem)}; trying again in {interval:g} s\n")
            time.sleep(interval)
        except KeyboardInterrupt:
            return OK


def _export(session: Session, names: Sequence[str], to: str | None, as_json: bool, *, only_new: bool) -> None:
    from pgrepl.catalog.transaction import reading
    from pgrepl.iceberg import tables
    from pgrepl.iceberg.export import export
    from pgrepl.iceberg.place import place_of

    place = place_of(session, to)
    with reading(session):
        found = [tables.named(session, name) for name in names] or tables.every(session, session.database.name)
    for table in found:
        with reading(session):  # one for each table, so that none is kept for long
            now = tables.find(session, table.namespace, table.name)
            done = None if now is None else export(now, place)
        if done is not None and (done.is_new or not only_new):
            _tell(".".join((*table.namespace, table.name)), done, as_json)
    if not found and not only_new:
        sys.stdout.write("there are no tables to export\n")
    sys.stdout.flush()


def _tell(name: str, done: Exported, as_json: bool) -> None:
    if as_json:
        told = {"table": name, "location": done.location, "version": done.version, "is_new": done.is_new}
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        what = "exported" if done.is_new else "unchanged"
        sys.stdout.write(f"{what} {name} to {done.location}: version {done.version}\n")


def iceberg(arguments: Sequence[str]) -> int:
    return run(iceberg_group, arguments)
