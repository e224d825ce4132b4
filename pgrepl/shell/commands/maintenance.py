"""`pgrepl backup`, `restore`, `standby` and `verify`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgrepl.catalog.store.files import first_line
from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.ground.errors import PgError
from pgrepl.shell.commands.subcommand import (
    OK,
    Seconds,
    check_superuser,
    connecting,
    connection,
    is_only_with,
    many,
    say,
    write_table,
)
from pgrepl.shell.connection import CATALOG_FILE, DEFAULT_DATABASE, DEFAULT_USER, ConnectFailure
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.lake.verify import Damage, Verification
    from pgrepl.replication.standby import Synchronized


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
    from pgrepl.replication.backup import back_up

    with connection(catalog, dbname, username) as opened:
        done = back_up(opened.session, folder)
    manifest = done.manifest
    if as_json:
        told = {
            "lsn": lsn_text(manifest.lsn), "made_at": manifest.made_at,
            "files": manifest.files, "bytes": manifest.bytes,
            "copied": done.copied, "copied_bytes": done.copied_bytes, "removed": done.removed,
        }  # fmt: skip
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stdout.write(
            f"backed up to {folder} at {lsn_text(manifest.lsn)}: "
            f"{many(manifest.files, 'file')}, {done.copied} of them new\n"
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
    from pgrepl.replication.backup import restore

    file = target if target.suffix == ".db" else target / CATALOG_FILE
    manifest = restore(folder, file)
    sys.stdout.write(f"restored {file} as of {lsn_text(manifest.lsn)}, {manifest.made_at}\n")
    return OK


# --- standby ----------------------------------------------------------------------------------------------------------


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
    from pgrepl.replication.standby import create

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
    from pgrepl.replication.standby import synchronize

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
    from pgrepl.replication.standby import promote

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
        told = {
            "action": action,
            "folder": folder,
            "lsn": lsn_text(done.lsn),
            "slots": list(done.slots),
            "files": done.files,
            "bytes": done.bytes,
            "removed": done.removed,
        }
        print(json.dumps(told))
        return
    slots = f"slots: {', '.join(done.slots)}" if done.slots else "no slots"
    files = f"{done.files} new {'file' if done.files == 1 else 'files'}"
    print(f"{action} {folder} at {lsn_text(done.lsn)}: {files}, {slots}")


# --- verify -----------------------------------------------------------------------------------------------------------


DAMAGED = 3  # the exit code

Progress = Callable[[int, int], None]


@click.command("verify", short_help="look for damage in the catalog and in files")
@click.option("--quick", is_flag=True, help="read only the footers of files")
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@click.option("-U", "--username", envvar="PGUSER", default=DEFAULT_USER, help="act as this role")
@click.option("-d", "--dbname", help="only the tables of this database")
@click.option("--catalog", envvar="PGREPL_CATALOG", default="catalog.db", help="the catalog's file or URL")
def verify_command(quick: bool, as_json: bool, username: str, dbname: str | None, catalog: str) -> int:
    """Verify that the catalog and every file of its tables are as they were written. Nothing is changed.

    Exits with 0 where all is well, with 3 where something is damaged: that is listed, and stays as it is. A catalog
    too damaged to be opened is an error, with exit code 3, too.

    \b
    pgrepl verify
    pgrepl verify -d shop --quick
    """
    from pgrepl.lake.verify import Verification

    try:
        with connection(catalog, dbname or DEFAULT_DATABASE, username) as opened:
            check_superuser(opened.session, "permission denied to verify an instance")
            work = Verification(opened.session, database=dbname, quick=quick)
            with _bar() as progress:
                damages = list(work.run(progress))
    except (PgError, ConnectFailure) as problem:
        cause = problem if isinstance(problem, PgError) else problem.__cause__
        if not isinstance(cause, PgError) or cause.sqlstate != "XX001":
            raise
        say(cause.report)
        return DAMAGED
    if as_json:
        sys.stdout.write(_json(work, damages) + "\n")
    else:
        _write(work, damages)
    return DAMAGED if damages else OK


@contextmanager
def _bar() -> Iterator[Progress]:
    """A progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("verifying", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _write(work: Verification, damages: Sequence[Damage]) -> None:
    if damages:
        rows = [(damage.table or "", damage.file or "", damage.what) for damage in damages]
        write_table(sys.stdout, "Damage", ("Table", "File", "What is wrong"), rows)
    files = f"{many(work.files, 'file')} ({pg_size_pretty(work.bytes)})"
    verified = f"{many(work.tables, 'table')}, {files}, {many(work.inlined_rows, 'inlined row')}"
    result = "no damage" if not damages else many(len(damages), "problem")
    sys.stdout.write(f"verified {verified}: {result}\n")
    for name, why in work.unknown:
        sys.stdout.write(f"not verified: {name}: {why}\n")
    if work.unused_files:
        what = "belongs" if work.unused_files == 1 else "belong"
        sys.stdout.write(f"{many(work.unused_files, 'file')} {what} to no table: VACUUM removes what is not needed\n")


def _json(work: Verification, damages: Sequence[Damage]) -> str:
    answer = {
        "tables": work.tables,
        "files": work.files,
        "bytes": work.bytes,
        "inlined_rows": work.inlined_rows,
        "unused_files": work.unused_files,
        "not_verified": [{"table": name, "why": why} for name, why in work.unknown],
        "damage": [{"table": damage.table, "file": damage.file, "what": damage.what} for damage in damages],
    }
    return json.dumps(answer, ensure_ascii=False, indent=2)
