"""The data files of a standby: which it needs, how they are fetched from the primary, and the removal of others.

Files are written once and never changed, so on one file system a hard link is as good as a copy. Files that the primary
has outside its own folder (those that other writers registered in the lake) get a name in `elsewhere/`.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pgrepl.catalog import disk, sql
from pgrepl.catalog.data_folder import MARK
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake import storage
from pgrepl.lake.crash_points import crash_point
from pgrepl.lake.expire import known_files, named_files, sizes_by_path
from pgrepl.lake.snapshot_pins import FOLDER as PINS_FOLDER
from pgrepl.lake.snapshot_pins import oldest_pin

if TYPE_CHECKING:
    from pgrepl.catalog.connection import CatalogConnection
    from pgrepl.catalog.session import Session

_ELSEWHERE = "elsewhere/"
_UNFINISHED = ".part"
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@frozen
class PathMapping:
    """The standby's path for a path of the primary. Both data paths end in a slash."""

    primary: str
    standby: str

    def of(self, path: str) -> str:
        if path.startswith(self.primary):
            return self.standby + path[len(self.primary) :]
        return self.standby + _ELSEWHERE + path.replace("://", "/").lstrip("/")


@frozen
class Fetched:
    files: int
    bytes: int


def wanted_files(draft: Session, place: PathMapping) -> dict[str, tuple[str, int | None]]:
    """Each file that the catalog refers to: its name on the standby, its path on the primary, and its size if that is
    known. A file whose row is lost is fetched if it exists, so that the loss is noticed on the standby, too."""
    with reading(draft):
        named, known, sizes = named_files(draft), known_files(draft), sizes_by_path(draft)
    lost = (path for path in known - named if storage.size_of(path) is not None)
    return {place.of(path): (path, sizes.get(path)) for path in (*named, *lost)}


def move_paths(link: CatalogConnection, place: PathMapping) -> None:
    """Change the paths in the catalog to those of the standby."""
    for table in sql.WITH_PATHS:
        for (path,) in link.execute(sql.absolute_paths(table)):
            link.execute(sql.change_path(table), (place.of(path), path))
    link.execute(sql.SET_DATA_PATH, (place.standby,))


def fetch(wanted: Mapping[str, tuple[str, int | None]], *, link: bool) -> Fetched:
    """Fetch the files that are missing, or have another size than the catalog says, and sync them."""
    count = size = 0
    folders = set()
    for target, (source, size_there) in wanted.items():
        size_here = storage.size_of(target)
        if size_here is not None:
            if size_there in (size_here, None):
                continue
            storage.remove(target)
        folder = os.path.dirname(target)
        if folder not in folders:
            storage.make_folder(folder)
            folders.add(folder)
        _get(source, target, link)
        crash_point("standby.fetched")
        count += 1
        size += os.stat(target).st_size
    for folder in folders:
        disk.sync(folder)
    return Fetched(count, size)


def _get(source: str, target: str, link: bool) -> None:
    local = storage.local_path(source)
    if link and local is not None:
        try:
            os.link(local, target)
            return
        except FileNotFoundError as problem:
            raise PgError("58P01", f'could not open file "{source}": No such file or directory') from problem
        except OSError as problem:
            if problem.errno not in _NO_LINK:
                raise PgError("58030", f'could not link file "{source}" to "{target}": {problem.strerror}') from problem
    unfinished = target + _UNFINISHED
    with (
        storage.writing(unfinished),
        storage.reading(source),
        storage.open_input(source) as original,
        open(unfinished, "wb") as copy,
    ):
        shutil.copyfileobj(original, copy, 1 << 20)
        copy.flush()
        os.fsync(copy.fileno())
    os.replace(unfinished, target)


def sweep(standby: Session, data_path: str, needed: Collection[str]) -> int:
    """Remove the files that are not needed, unless a reader has pinned a snapshot; returns their number."""
    if not os.path.isdir(data_path) or oldest_pin(standby) is not None:
        return 0
    removed = 0
    for path, _ in storage.listed(data_path):
        if path not in needed and not path.startswith((data_path + PINS_FOLDER, data_path + MARK)):
            storage.remove(path)
            crash_point("standby.removed")
            removed += 1
    return removed
