"""`pgrepl backup` and `restore`: a backup's folder (`backup.json`), brought up to date, and a catalog made of it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import bootstrap, files
from pgrepl.catalog.store.connection import CatalogConnection
from pgrepl.catalog.store.files import BESIDE, MARK, DataFolder
from pgrepl.catalog.store.opening import place_file, sqlite_catalog
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.lake import sql, storage
from pgrepl.lake.storage import claim, crash_point
from pgrepl.replication import standby_files as drafts
from pgrepl.replication.standby_files import Fetched, PathMapping, move_paths

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

NAME = "backup.json"
FILES = "files/"
_FORMAT = 1


@frozen
class Manifest:
    catalog: str  # the file's name
    checksum: str  # of it, SHA-256
    data_path: str  # what paths in it begin with
    lsn: int  # all changes before it are in the backup
    made_at: str
    system_identifier: str
    files: int
    bytes: int
    sizes: dict[str, int] | None = None  # of the files by their names in FILES; None: an older release made it


def read(folder: Path) -> Manifest | None:
    """The manifest in a folder; None: there is no backup in it."""
    try:
        text = (folder / NAME).read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as problem:
        raise PgError("58030", f'could not read backup "{folder}": {problem}') from problem
    try:
        said = json.loads(text)
        if said.pop("format") != _FORMAT:
            raise PgError("55000", f'backup "{folder}" is of a format that this release does not know')
        return Manifest(**said)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise PgError("XX001", f'"{folder / NAME}" is damaged: {problem}') from problem


def write(folder: Path, manifest: Manifest) -> None:
    """Write it as a whole: from then on the folder is this backup."""
    said = {"format": _FORMAT, **{name: getattr(manifest, name) for name in Manifest.__dataclass_fields__}}
    draft = folder / f"{NAME}.new"
    draft.write_text(json.dumps(said, indent=2) + "\n", "utf-8")
    files.sync(draft)
    os.replace(draft, folder / NAME)
    files.sync(folder)


def checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


# --- make -------------------------------------------------------------------------------------------------------------


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
        drafts.require_superuser(session, "back up an instance")
        identifier = str(session.catalog.system_identifier)
        own = session.catalog.path
    if own is None:
        raise unsupported("a backup of a catalog on a database server")
    place = _prepared(folder, own.resolve(), session.catalog.data_path)
    with drafts.alone(folder, PgError("55006", f'another process makes a backup in "{folder}"')):
        before = read(folder)
        if before is not None and before.system_identifier != identifier:
            raise PgError(
                "55000",
                f'folder "{folder}" has a backup of another instance',
                detail=f"Its system identifier is {before.system_identifier}, that of this instance {identifier}.",
                hint="Give a folder of its own to each instance.",
            )
        with _drafted(session, place, session.catalog.data_path) as (draft, got, wanted):
            manifest = _publish(draft, place, got, wanted, identifier)
        removed = _sweep(place, manifest.catalog, wanted)
    return BackupResult(manifest, got.files, got.bytes, removed)


def _prepared(folder: Path, catalog: Path, data_path: str) -> Path:
    """The folder, made if need be. It must not be in what is backed up, or have something else in it."""
    place = folder.resolve()
    if place == catalog.parent or f"{place}/".startswith(data_path.removeprefix("file://")):
        raise PgError("55000", f'folder "{folder}" is a folder of the catalog itself')
    try:
        others = [name for name in os.listdir(place) if not _is_ours(name)] if place.exists() else []
        if others and not (place / NAME).exists():
            raise PgError("55000", f'folder "{folder}" is not empty', detail=f'There is "{min(others)}" in it.')
        os.makedirs(place / FILES, mode=0o700, exist_ok=True)
    except OSError as problem:
        raise PgError("58030", f'could not create folder "{folder}": {problem.strerror}') from problem
    return place


def _is_ours(name: str) -> bool:
    return name.startswith(("catalog-", ".catalog.db.standby.", NAME)) or name == FILES.rstrip("/")


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
        bootstrap.forget_processes(link)
        link.commit()
        yield draft, got, names


def _publish(draft: Session, place: Path, got: Fetched, wanted: Collection[str], identifier: str) -> Manifest:
    """Write the catalog, and then what makes it the backup's."""
    target = place / f"catalog-{secrets.token_hex(8)}.db"
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(sqlite3.connect(target)) as copy:
        draft.link.driver.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    files.sync(target)
    files.sync(place)
    crash_point("backup.catalog")
    within = f"{place}/{FILES}"
    there = {name.removeprefix(within): storage.size_of(name) for name in sorted(wanted)}
    sizes = {name: size for name, size in there.items() if size is not None}
    manifest = Manifest(
        target.name,
        checksum(target),
        within,
        int(draft.link.execute(sql.LAST_SNAPSHOT)[0][0]) + 1,
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
        identifier,
        len(wanted),
        sum(sizes.values()),
        sizes,
    )
    write(place, manifest)
    crash_point("backup.published")
    return manifest


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


# --- restore ----------------------------------------------------------------------------------------------------------


_UNFINISHED = ".part"


def restore(folder: Path, target: Path) -> Manifest:
    """Make the catalog `target` with files beside it, as they were when the backup was made."""
    place = folder.resolve()
    manifest = read(place)
    if manifest is None:
        raise PgError("58P01", f'there is no backup in folder "{folder}"', hint="Make one with: pgrepl backup FOLDER")
    source = place / manifest.catalog
    try:
        if checksum(source) != manifest.checksum:
            raise PgError("XX001", f'backup "{folder}" is damaged: "{manifest.catalog}" is not as it was written')
    except OSError as problem:
        raise PgError("58P01", f'backup "{folder}" is damaged: {manifest.catalog}: {problem.strerror}') from problem
    _check_files(place, folder, manifest)
    target = target.absolute()
    if os.path.lexists(target):
        raise PgError("42710", f'catalog "{target}" already exists', hint="Restore to another place with --to.")
    data_path = f"{target}{BESIDE}"
    try:
        os.makedirs(target.parent, exist_ok=True)
        draft = target.with_name(f".{target.name}.restored")
        claim(DataFolder(data_path, str(target.resolve()), int(manifest.system_identifier)))
        _copy_files(place / FILES, Path(data_path))
        crash_point("restore.files")
        shutil.copyfile(source, draft)
        os.chmod(draft, 0o600)
        _adapt(draft, manifest.data_path, data_path)
        files.sync(draft)
        crash_point("restore.drafted")
        place_file(draft, target)
        draft.unlink(missing_ok=True)
        files.sync_folder(target.parent)
    except OSError as problem:
        raise PgError("58030", f'could not restore to "{target}": {problem.strerror}') from problem
    return manifest


def _check_files(place: Path, folder: Path, manifest: Manifest) -> None:
    for name, size in (manifest.sizes or {}).items():
        there = storage.size_of(str(place / FILES / name))
        if there != size:
            what = "is missing" if there is None else f"has {there} bytes instead of {size}"
            raise PgError(
                "XX001",
                f'backup "{folder}" is damaged: file "{FILES}{name}" {what}',
                hint="If the instance is still there, pgrepl backup copies the file once more.",
            )


def _copy_files(source: Path, target: Path) -> None:
    """Copy the files that are missing: a run that was killed is begun again. What is not of the backup goes."""
    wanted = set()
    folders = set()
    for path in sorted(source.rglob("*")):
        if not path.is_file() or path.name.endswith(_UNFINISHED):
            continue
        there = target / path.relative_to(source)
        wanted.add(there)
        if there.exists() and there.stat().st_size == path.stat().st_size:
            continue
        os.makedirs(there.parent, exist_ok=True)
        unfinished = there.with_name(there.name + _UNFINISHED)
        shutil.copyfile(path, unfinished)
        files.sync(unfinished)
        os.replace(unfinished, there)
        folders.add(there.parent)
    for folder in folders:
        files.sync_folder(folder)
    for path in target.rglob("*"):
        if path.is_file() and path not in wanted and path.name != MARK:
            path.unlink()


def _adapt(path: Path, before: str, now: str) -> None:
    """Point the catalog to the files beside it."""
    catalog = sqlite_catalog(path, str(path))
    try:
        link: CatalogConnection = catalog.connect()
        try:
            link.begin(write=True)
            move_paths(link, PathMapping(before, now))
            link.commit()
        finally:
            link.close()
    finally:
        catalog.close()
    with closing(sqlite3.connect(path)) as copy:
        copy.execute("PRAGMA journal_mode = WAL")
