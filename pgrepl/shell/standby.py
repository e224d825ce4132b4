"""`pgrepl standby create | sync | promote`: a standby, which follows the primary's catalog and can take its place."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgrepl.catalog.driver_errors import first_line
from pgrepl.errors import PgError
from pgrepl.shell.connection import CATALOG_FILE, ConnectFailure
from pgrepl.shell.subcommand import OK, Seconds, connecting, connection, is_only_with, run
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.replication.standby.synchronize import Synchronized

_FOLDER = click.argument("folder", required=False, type=click.Path(path_type=Path))
_JSON = click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")


@click.group("standby")
def standby_group() -> None:
    """Keep a second folder ready to take the place of this one (failover).

    A standby has a catalog and files of its own, which follow the primary's: the same tables, the same LSNs, and the
    replication slots of all subscriptions made WITH (failover = true). It can be read, and is written only once it has
    been promoted. The whole way:

    \b
    pgrepl standby create /backup/shop      on the primary, once
    pgrepl standby sync /backup/shop        every now and then, or with --follow
    pgrepl standby promote /backup/shop     when the primary is lost
    pgrepl --catalog /reports/catalog.db -c \\
      "ALTER SUBSCRIPTION s CONNECTION 'host=/backup/shop dbname=shop'"

    What a subscriber has received must have reached the standby before the primary is lost. `create --slot` and the
    setting synchronized_standby_slots see to that.
    """


@standby_group.command("create", short_help="make a standby")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--slot",
    metavar="NAME",
    help="a physical replication slot on the primary that says where it is; pg_sync_replication_slots() asks for it",
)
@click.option("--copy", is_flag=True, help="copy files even where hard links would do")
@_JSON
@connecting
def create_command(
    folder: Path, slot: str | None, copy: bool, as_json: bool, catalog: str, dbname: str, username: str
) -> int:
    """Make a standby of the catalog in FOLDER.

    On the same file system its files are hard links, which take no room and stay when the primary's VACUUM removes its
    own; elsewhere they are copied. A run that was stopped is simply started again.

    \b
    pgrepl standby create /backup/shop
    pgrepl standby create /backup/shop --slot backup
    pgrepl -c "ALTER SYSTEM SET synchronized_standby_slots = 'backup'"
    """
    from pgrepl.replication.standby.synchronize import create

    with connection(catalog, dbname, username) as primary:
        done = create(primary.session, folder, slot=slot, link=not copy)
    _tell("created", str(folder), done, as_json)
    return OK


@standby_group.command("sync", short_help="bring it up to date")
@_FOLDER
@click.option("--follow", is_flag=True, help="go on until stopped")
@click.option("--interval", type=Seconds(min=0.1), default=5.0, show_default=True, help="seconds between runs")
@_JSON
@connecting
def sync_command(
    folder: Path | None, follow: bool, interval: float, as_json: bool, catalog: str, dbname: str, username: str
) -> int:
    """Bring the standby in FOLDER up to date, or the one that --catalog names.

    What the primary has done since is there at once for all who read the standby, or, if this is interrupted, not yet.
    """
    is_only_with("interval", "follow", follow)
    from pgrepl.replication.standby.synchronize import synchronize

    file = _catalog_of(folder, catalog)
    reached = False
    while True:
        try:
            with connection(file, dbname, username) as standby:
                reached = True
                _tell("synchronized", os.path.dirname(file) or ".", synchronize(standby.session), as_json)
            sys.stdout.flush()
        except PgError as error:
            if not follow or error.sqlstate in ("42501", "55000"):
                raise
            sys.stderr.write(f"pgrepl: {error.message}; trying again in {interval:g} s\n")
        except ConnectFailure as failure:
            if not follow or not reached:  # a wrong name stays wrong; a catalog that was there may come back
                raise
            sys.stderr.write(f"pgrepl: {first_line(failure)}; trying again in {interval:g} s\n")
        if not follow:
            return OK
        try:
            time.sleep(interval)
        except KeyboardInterrupt:
            return OK


@standby_group.command("promote", short_help="let it take the primary's place")
@_FOLDER
@_JSON
@connecting
def promote_command(folder: Path | None, as_json: bool, catalog: str, dbname: str, username: str) -> int:
    """Make the standby in FOLDER, or the one that --catalog names, a primary of its own.

    It is written from now on. Point subscriptions to it with ALTER SUBSCRIPTION … CONNECTION, and see to it that
    nobody writes to the old primary any more.
    """
    from pgrepl.replication.standby.synchronize import promote

    file = _catalog_of(folder, catalog)
    with connection(file, dbname, username) as standby:
        lsn = promote(standby.session)
    where = os.path.dirname(file) or "."
    if as_json:
        print(json.dumps({"action": "promoted", "folder": where, "lsn": lsn_text(lsn)}))
    else:
        print(f"promoted {where} at {lsn_text(lsn)}")
    return OK


def _catalog_of(folder: Path | None, catalog: str) -> str:
    return catalog if folder is None else str(folder / CATALOG_FILE)


def _tell(action: str, folder: str, done: Synchronized, as_json: bool) -> None:
    if as_json:
        found = {
            "action": action,
            "folder": folder,
            "lsn": lsn_text(done.lsn),
            "slots": list(done.slots),
            "files": done.files,
            "bytes": done.bytes,
            "removed": done.removed,
        }
        print(json.dumps(found))
        return
    slots = f"slots: {', '.join(done.slots)}" if done.slots else "no slots"
    files = f"{done.files} new {'file' if done.files == 1 else 'files'}"
    print(f"{action} {folder} at {lsn_text(done.lsn)}: {files}, {slots}")


def standby(arguments: Sequence[str]) -> int:
    return run(standby_group, arguments)
