"""The owner's mark in a data folder (catalog/data_folder.py), which is made before files are written or removed."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog import disk
from pgrepl.catalog.data_folder import MARK, DataFolder, local_mark
from pgrepl.catalog.opening import place_file
from pgrepl.errors import PgError
from pgrepl.lake import storage

if TYPE_CHECKING:
    from pgrepl.lake.table import LakeTable

_claimed: set[DataFolder] = set()  # by this process, in object stores


def claim(folder: DataFolder) -> None:
    """Mark the folder as its catalog's; an error if it belongs to another catalog."""
    if folder in _claimed:
        return None
    path = folder.path + MARK
    mark = local_mark(folder.path) if storage.local_path(path) is not None else _read(path)
    if mark != folder.mark:
        other = folder.other_owner(mark)
        if other is not None:
            raise PgError(
                "55000",
                f'data folder "{folder.path}" belongs to catalog "{other}"',
                detail=f'Catalog "{folder.catalog}" is a copy, or was given the same folder.',
                hint="Copy the files beside this catalog, or to where --data-path then says. If the other catalog is "
                f'no more, remove file "{path}".',
            )
        _write(folder, path, replaces=bool(mark))
        if not mark:
            return claim(folder)  # another process was faster
    if storage.local_path(path) is None:
        _claimed.add(folder)
    return None


def make_folder(table: LakeTable) -> None:
    """Make a table's folder, in a data folder that belongs to its catalog."""
    claim(table.lake)
    storage.make_folder(table.location)


def _read(path: str) -> bytes:
    try:
        with storage.reading(path), storage.open_input(path) as mark:
            return bytes(mark.read())
    except PgError as problem:
        if problem.sqlstate != "58P01":
            raise
        return b""


def _write(folder: DataFolder, path: str, *, replaces: bool) -> None:
    """Write the mark as a whole, and sync it before the first file is written."""
    storage.make_folder(folder.path)
    local = storage.local_path(path)
    if local is None:
        with storage.writing(path), storage.open_output(path) as mark:
            mark.write(folder.mark)
        return
    draft = f"{local}.{os.getpid()}.{threading.get_ident()}"
    with storage.writing(draft):
        with open(draft, "wb") as mark:
            mark.write(folder.mark)
        disk.sync(draft)
        if replaces:
            os.replace(draft, local)
        else:
            place_file(Path(draft), Path(local))
            Path(draft).unlink(missing_ok=True)
        disk.sync_folder(os.path.dirname(local))
