"""`pgrepl upgrade`: brings DuckLake's tables in the catalog to the newest version. With `--check` it says what it and
the next command would do."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from pgrepl.api.opened import require_catalog
from pgrepl.catalog.session.transaction import statement
from pgrepl.catalog.store import sql
from pgrepl.catalog.store.bootstrap import BROUGHT, migrate
from pgrepl.catalog.store.connection import FORMAT_VERSION
from pgrepl.catalog.store.opening import copy_file, sqlite_catalog
from pgrepl.ground.errors import PgError
from pgrepl.lake.define.adopt import NEWEST
from pgrepl.lake.define.adopt import upgrade as upgrade_catalog
from pgrepl.lake.define.options import WRITE_VECTORS, set_option
from pgrepl.shell.commands.subcommand import FAILURE, OK, check_superuser, connecting, connection
from pgrepl.shell.connection import ConnectFailure


@click.command("upgrade", short_help="bring the catalog to a newer version of DuckLake")
@click.option("--to", "version", type=click.Choice([NEWEST]), default=NEWEST, help="the version of DuckLake")
@click.option("--deletion-vectors/--no-deletion-vectors", "vectors", default=None, help="how delete files are written")
@click.option("--check", is_flag=True, help="change nothing; say what would happen, which is tried with a copy")
@connecting
def upgrade_command(version: str, vectors: bool | None, check: bool, catalog: str, dbname: str, username: str) -> int:
    """Upgrade the catalog from DuckLake 1.0 to 1.1, in one transaction. No file is changed, and there is no way back:
    make a backup first. Programs that know DuckLake 1.0 alone, such as DuckDB 1.5, cannot read the catalog any more;
    those that have it open have to open it again. --deletion-vectors sets DuckLake's option write_deletion_vectors of
    the whole lake: from then on deleted positions are written as Iceberg's deletion vectors, not as Parquet.

    The format of pgrepl's own tables is another thing: a catalog of an older pgrepl is migrated by the first command
    that opens it, after a copy of its file has been made beside it. --check migrates a copy in a temporary folder, and
    says what was done there.

    Exits with 0; with 1 after an error, or where --check finds an older format; with 2 if there is no catalog, or
    none that this pgrepl can open.

    \b
    pgrepl upgrade --check
    pgrepl backup /backup/shop
    pgrepl upgrade --to 1.1 --deletion-vectors
    """
    if check:
        return _check(catalog)
    with connection(catalog, dbname, username) as opened:
        check_superuser(opened.session, "permission denied to upgrade an instance")
        with statement(opened.session, writes=True):
            done = upgrade_catalog(opened.session)
            if vectors is not None:
                set_option(opened.session, WRITE_VECTORS, str(vectors).lower())
    sys.stdout.write(f"{'upgraded to' if done else 'the catalog has'} DuckLake {version}\n")
    return OK


def _check(name: str) -> int:
    """Migrate a copy of the catalog, and say what was done and what is left to do."""
    if "://" in name:
        raise click.UsageError("--check is for a catalog in a file: it tries the migration with a copy")
    with tempfile.TemporaryDirectory(prefix="pgrepl-") as folder:
        copy = Path(folder, "catalog.db")
        try:
            require_catalog(name)
            copy_file(Path(name).absolute(), name, copy)
        except PgError as error:
            raise ConnectFailure(f'connection to catalog "{name}" failed: FATAL:  {error.message}') from error
        link = sqlite_catalog(copy, name).connect()
        try:
            ((version,),) = link.execute(sql.FORMAT_OF_CATALOG)
            migrate(link, f"{Path(name).absolute()}.files/")
            lake = dict(link.execute(sql.OPTIONS_OF_LAKE))["version"]
        finally:
            link.close()
    if version == FORMAT_VERSION:
        sys.stdout.write(f'catalog "{name}" has format {version}, the newest\n')
    else:
        sys.stdout.write(
            f'catalog "{name}" has format {version}; the next command that opens it copies it to '
            f'"{name}.format{version}"\nand migrates it to format {FORMAT_VERSION}, which went well with a copy:\n'
        )
        for number in range(version + 1, FORMAT_VERSION + 1):
            sys.stdout.write(f"  {number}: {BROUGHT[number]}\n")
    if lake == NEWEST:
        sys.stdout.write(f"it has DuckLake {lake}, the newest\n")
    else:
        sys.stdout.write(f'it has DuckLake {lake}; "pgrepl upgrade" brings it to {NEWEST}\n')
    return OK if version == FORMAT_VERSION else FAILURE
