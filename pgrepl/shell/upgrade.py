"""`pgrepl upgrade`: brings DuckLake's tables in the catalog to the newest version."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from pgrepl.lake.upgrade import NEWEST
from pgrepl.lake.upgrade import upgrade as upgrade_catalog
from pgrepl.shell.subcommand import OK, check_superuser, connecting, connection, run


@click.command("upgrade", short_help="bring the catalog to a newer version of DuckLake")
@click.option("--to", "version", type=click.Choice([NEWEST]), default=NEWEST, help="the version of DuckLake")
@click.option("--deletion-vectors/--no-deletion-vectors", "vectors", default=None, help="how delete files are written")
@connecting
def upgrade_command(version: str, vectors: bool | None, catalog: str, dbname: str, username: str) -> int:
    """Upgrade the catalog from DuckLake 1.0 to 1.1, in one transaction. No file is changed, and there is no way back:
    make a backup first. Programs that know DuckLake 1.0 alone, such as DuckDB 1.5, cannot read the catalog any more;
    those that have it open have to open it again. --deletion-vectors sets DuckLake's option write_deletion_vectors of
    the whole lake: from then on deleted positions are written as Iceberg's deletion vectors, not as Parquet.

    Exits with 0; with 1 after an error; with 2 if there is no catalog.

    \b
    pgrepl backup /backup/shop
    pgrepl upgrade --to 1.1 --deletion-vectors
    """
    from pgrepl.catalog.transaction import statement
    from pgrepl.lake.ducklake_options import WRITE_VECTORS, set_option

    with connection(catalog, dbname, username) as opened:
        check_superuser(opened.session, "permission denied to upgrade an instance")
        with statement(opened.session, writes=True):
            done = upgrade_catalog(opened.session)
            if vectors is not None:
                set_option(opened.session, WRITE_VECTORS, str(vectors).lower())
    sys.stdout.write(f"{'upgraded to' if done else 'the catalog has'} DuckLake {version}\n")
    return OK


def upgrade(arguments: Sequence[str]) -> int:
    return run(upgrade_command, arguments)
