"""Making a backup, or bringing one up to date."""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog import copied, disk
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError, unsupported
from pgrepl.frozen import frozen
from pgrepl.lake import sql, storage
from pgrepl.lake.crash_points import crash_point
from pgrepl.replication.backup import manifest as manifests
from pgrepl.replication.backup.manifest import FILES, Manifest
from pgrepl.replication.standby import draft as drafts
from pgrepl.replication.standby.files import Fetched, PathMapping, move_paths

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_TRIES = 5  # VACUUM may take a file away between the catalog's copy and the file's


@frozen
class BackupResult:
    """The result of a backup."""

    manifest: Manifest
    copied: int  # files that were not there before
    copied_bytes: int
    removed: int  # files that the backup does not need any more


def back_up(session: Session, folder: Path) -> BackupResult:
    with reading(session):
        if not is_superuser(session):
            raise PgError(
                "42501",
                "permission denied to back up an instance",
                detail="Only roles with the SUPERUSER attribute may back up an instance.",
            )
        identifier = str(session.catalog.system_identifier)
        own = session.catalog.path
    if own is None:
        raise unsupported("a backup of a catalog on a database server")
    place = _prepared(folder, own.resolve(), session.catalog.data_path)
    with _alone(folder):
        before = manifests.read(folder)
        if before is not None and before.system_identifier != identifier:
            raise PgError(
                "55000",
                f'folder "{folder}" has a backup of another instance',
                detail=f"Its system identifier is {before.system_identifier}, that of this instance {identifier}.",
                hint="Give a folder of its own to each instance.",
            )
        with _drafted(session, place, session.catalog.data_path) as (draft, got, wanted):
            made = _publish(draft, place, got, wanted, identifier)
        removed = _sweep(place, made.catalog, wanted)
    return BackupResult(made, got.files, got.bytes, removed)


def _prepared(folder: Path, catalog: Path, data_path: str) -> Path:
    """The folder, made if need be. It must not be in what is backed up, or have something else in it."""
    place = folder.resolve()
    if place == catalog.parent or f"{place}/".startswith(data_path.removeprefix("file://")):
        raise PgError("55000", f'folder "{folder}" is a folder of the catalog itself')
    try:
        others = [name for name in os.listdir(place) if not _is_ours(name)] if place.exists() else []
        if others and not (place / manifests.NAME).exists():
            raise PgError("55000", f'folder "{folder}" is not empty', detail=f'There is "{min(others)}" in it.')
        os.makedirs(place / FILES, mode=0o700, exist_ok=True)
    except OSError as problem:
        raise PgError("58030", f'could not create folder "{folder}": {problem.strerror}') from problem
    return place


def _is_ours(name: str) -> bool:
    return name.startswith(("catalog-", ".catalog.db.standby.", manifests.NAME)) or name == FILES.rstrip("/")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time makes a backup in a folder; the lock ends with the process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PgError("55006", f'another process makes a backup in "{folder}"') from None
        yield
    finally:
        os.close(handle)


@contextmanager
def _drafted(session: Session, place: Path, data_path: str) -> Iterator[tuple[Session, Fetched, set[str]]]:
    """A copy of the catalog whose files are all in the backup: the copied ones, and all names."""
    paths = PathMapping(data_path, f"{place}/{FILES}")
    aside = place / "catalog.db"
    with drafts.complete(session, aside, paths, link=False, tries=_TRIES) as (draft, got, names):
        crash_point("backup.fetched")
        link = draft.link
        link.begin(write=True)
        move_paths(link, paths)
        copied.forget_processes(link)
        link.commit()
        yield draft, got, names


def _publish(draft: Session, place: Path, got: Fetched, wanted: Collection[str], identifier: str) -> Manifest:
    """Write the catalog, and then what makes it the backup's."""
    target = place / f"catalog-{secrets.token_hex(8)}.db"
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(sqlite3.connect(target)) as copy:
        draft.link.driver.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    disk.sync(target)
    disk.sync(place)
    crash_point("backup.catalog")
    within = f"{place}/{FILES}"
    there = {name.removeprefix(within): storage.size_of(name) for name in sorted(wanted)}
    sizes = {name: size for name, size in there.items() if size is not None}
    made = Manifest(
        target.name,
        manifests.checksum(target),
        within,
        int(draft.link.execute(sql.LAST_SNAPSHOT)[0][0]) + 1,
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
        identifier,
        len(wanted),
        sum(sizes.values()),
        sizes,
    )
    manifests.write(place, made)
    crash_point("backup.published")
    return made


def _sweep(place: Path, catalog: str, wanted: Collection[str]) -> int:
    """Remove what the backup does not need any more; returns the number of tables' files."""
    for path in place.glob("catalog-*.db*"):
        if path.name != catalog:
            path.unlink(missing_ok=True)
    removed = 0
    for path in (place / FILES).rglob("*"):
        if path.is_file() and str(path) not in wanted:
            path.unlink(missing_ok=True)
            crash_point("backup.removed")
            removed += 1
    return removed


__all__ = ["BackupResult", "back_up"]
