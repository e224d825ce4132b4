"""Making a catalog from a backup."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from pgrepl.catalog import disk
from pgrepl.catalog.connection import CatalogConnection
from pgrepl.catalog.data_folder import BESIDE, MARK, DataFolder
from pgrepl.catalog.opening import place_file, sqlite_catalog
from pgrepl.errors import PgError
from pgrepl.lake import storage
from pgrepl.lake.crash_points import crash_point
from pgrepl.lake.owner import claim
from pgrepl.replication.backup import manifest as manifests
from pgrepl.replication.backup.manifest import FILES, Manifest
from pgrepl.replication.standby.files import PathMapping, move_paths

_UNFINISHED = ".part"


def restore(folder: Path, target: Path) -> Manifest:
    """Make the catalog `target` with files beside it, as they were when the backup was made."""
    place = folder.resolve()
    made = manifests.read(place)
    if made is None:
        raise PgError("58P01", f'there is no backup in folder "{folder}"', hint="Make one with: pgrepl backup FOLDER")
    source = place / made.catalog
    try:
        if manifests.checksum(source) != made.checksum:
            raise PgError("XX001", f'backup "{folder}" is damaged: "{made.catalog}" is not as it was written')
    except OSError as problem:
        raise PgError("58P01", f'backup "{folder}" is damaged: {made.catalog}: {problem.strerror}') from problem
    _check_files(place, folder, made)
    target = target.absolute()
    if os.path.lexists(target):
        raise PgError("42710", f'catalog "{target}" already exists', hint="Restore to another place with --to.")
    data_path = f"{target}{BESIDE}"
    try:
        os.makedirs(target.parent, exist_ok=True)
        draft = target.with_name(f".{target.name}.restored")
        claim(DataFolder(data_path, str(target.resolve()), int(made.system_identifier)))
        _copy_files(place / FILES, Path(data_path))
        crash_point("restore.files")
        shutil.copyfile(source, draft)
        os.chmod(draft, 0o600)
        _adapt(draft, made.data_path, data_path)
        disk.sync(draft)
        crash_point("restore.drafted")
        place_file(draft, target)
        draft.unlink(missing_ok=True)
        disk.sync_folder(target.parent)
    except OSError as problem:
        raise PgError("58030", f'could not restore to "{target}": {problem.strerror}') from problem
    return made


def _check_files(place: Path, folder: Path, made: Manifest) -> None:
    for name, size in (made.sizes or {}).items():
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
        disk.sync(unfinished)
        os.replace(unfinished, there)
        folders.add(there.parent)
    for folder in folders:
        disk.sync_folder(folder)
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
