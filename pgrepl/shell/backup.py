"""`pgrepl backup` and `pgrepl restore`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pgrepl.shell.connection import CATALOG_FILE
from pgrepl.shell.subcommand import OK, connecting, connection, many, run
from pgrepl.types.lsn import lsn_text


@click.command("backup", short_help="copy the catalog and its files to a folder")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@connecting
def backup_command(folder: Path, as_json: bool, catalog: str, dbname: str, username: str) -> int:
    """Copy the catalog, as of one moment, and all files of its tables to FOLDER. Others may write meanwhile.

    A second backup into the same folder copies only files that are new, and then removes those that are not needed any
    more. Killed at any moment, the folder is the backup that it was before. It holds one backup: keep several folders
    for several days. All databases, roles, slots and subscriptions are in it.

    Exits with 0; with 1 after an error; with 2 if there is no catalog.

    \b
    pgrepl backup /backup/shop
    pgrepl restore /backup/shop --to /srv/shop
    """
    from pgrepl.replication.backup.make import back_up

    with connection(catalog, dbname, username) as opened:
        done = back_up(opened.session, folder)
    made = done.manifest
    if as_json:
        told = {"lsn": lsn_text(made.lsn), "made_at": made.made_at, "files": made.files, "bytes": made.bytes,
                "copied": done.copied, "copied_bytes": done.copied_bytes, "removed": done.removed}  # fmt: skip
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stdout.write(
            f"backed up to {folder} at {lsn_text(made.lsn)}: {many(made.files, 'file')}, {done.copied} of them new\n"
        )
    return OK


@click.command("restore", short_help="make a catalog from a backup")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--to", "target", type=click.Path(path_type=Path), default=Path(), help="the folder, or file, for it")
def restore_command(folder: Path, target: Path) -> int:
    """Make the catalog and its files again from the backup in FOLDER, in the current folder or where --to says. A
    catalog that is there is not touched: it is an error. A run that was stopped is simply started again.

    The copy has the slots and subscriptions of its original. If the original still works, disable them in the copy
    before a worker starts: ALTER SUBSCRIPTION ... DISABLE, then SET (slot_name = NONE).

    Exits with 0; with 1 after an error.

    \b
    pgrepl restore /backup/shop --to /srv/shop
    pgrepl verify --catalog /srv/shop/catalog.db
    """
    from pgrepl.replication.backup.restore import restore

    file = target if target.suffix == ".db" else target / CATALOG_FILE
    made = restore(folder, file)
    sys.stdout.write(f"restored {file} as of {lsn_text(made.lsn)}, {made.made_at}\n")
    return OK


def backup(arguments: Sequence[str]) -> int:
    return run(backup_command, arguments)


def restore(arguments: Sequence[str]) -> int:
    return run(restore_command, arguments)
