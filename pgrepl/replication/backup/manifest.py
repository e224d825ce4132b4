"""`backup.json`: what a backup's folder holds."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from pgrepl.catalog import disk
from pgrepl.errors import PgError
from pgrepl.frozen import frozen

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
    disk.sync(draft)
    os.replace(draft, folder / NAME)
    disk.sync(folder)


def checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
