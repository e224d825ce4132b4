"""The files of a location in the order in which they are read: by name, below the folder that the location names; of
AWS DMS those of the full load first, whose names sort behind those of the changes.

Names that begin with a dot or an underscore are left out, as Spark leaves them out: a file is written under such a name
and renamed when it is complete.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeAlias

from pgrepl.errors import PgError
from pgrepl.frozen import frozen

Order: TypeAlias = "Callable[[str], tuple[bool, bytes]]"  # a key of a file's name

_FULL_LOAD = "LOAD"  # LOAD00000001.csv; changes are in 20141029-1134010000.csv
_HIDDEN = (".", "_")
_PATTERN = re.compile(r"[*?\[]")


@frozen
class ListedFile:
    name: str  # below the folder
    path: str
    size: int
    modified: int  # nanoseconds
    label: str = ""  # in messages, in place of the path

    @property
    def shown(self) -> str:
        return self.label or self.path


def order_of(form: str) -> Order:
    """The order of the files of a format."""
    return _dms_order if form == "dms" else _by_name


def _by_name(name: str) -> tuple[bool, bytes]:
    return False, name.encode("utf-8", "surrogateescape")


def _dms_order(name: str) -> tuple[bool, bytes]:
    return not name.rpartition("/")[2].startswith(_FULL_LOAD), _by_name(name)[1]


def listed(location: str, order: Order = _by_name) -> list[ListedFile]:
    """The files there; an error if a folder, or a file that is named alone, does not exist."""
    from pgrepl.lake import storage

    folder, pattern = _parted(location)
    if pattern is None and storage.local_path(location) is not None:
        alone = _alone(location)
        if alone is not None:
            return [alone]
    walked = _local(folder) if storage.local_path(location) is not None else _remote(folder, alone=pattern is None)
    test = None if pattern is None else _test(pattern)
    found = [file for file in walked if not _is_hidden(file.name) and (test is None or test.fullmatch(file.name))]
    return sorted(found, key=lambda file: order(file.name))


def is_listed(path: str, location: str) -> bool:
    """Whether a file of this machine is, or would be, one of those of a location."""
    from pgrepl.lake import storage

    folder, pattern = _parted(location)
    folder_here = storage.local_path(folder)
    if folder_here is None:
        return False
    name = os.path.relpath(os.path.abspath(path), os.path.abspath(folder_here))
    if name == os.curdir:
        return True  # the location is this file
    inside = name.split(os.sep)[0] != os.pardir and not _is_hidden(name)
    return inside and (pattern is None or _test(pattern).fullmatch(name) is not None)


def _parted(location: str) -> tuple[str, str | None]:
    """The folder, and the pattern of the names below it."""
    found = _PATTERN.search(location)
    if found is None:
        return location.rstrip("/") or "/", None
    folder, _, _ = location[: found.start()].rpartition("/")
    return folder or "/", location[len(folder) + 1 :]


def _alone(location: str) -> ListedFile | None:
    """The file, if the location is one and no folder."""
    from pgrepl.lake import storage

    path = storage.local_path(location) or location
    try:
        found = os.stat(path)
    except OSError as problem:
        raise _not_opened(location, problem) from None
    if stat.S_ISDIR(found.st_mode):
        return None
    if not stat.S_ISREG(found.st_mode):
        raise PgError("42809", f'could not open file "{location}": it is not a regular file')
    return ListedFile(os.path.basename(path), path, found.st_size, found.st_mtime_ns)


def _not_opened(path: str, problem: OSError) -> PgError:
    sqlstate = {"FileNotFoundError": "58P01", "PermissionError": "42501"}.get(type(problem).__name__, "58030")
    return PgError(sqlstate, f'could not open file "{path}": {problem.strerror}')


def _local(folder: str) -> Iterator[ListedFile]:
    from pgrepl.lake import storage

    path = storage.local_path(folder) or "/"
    open_folders = [""]
    while open_folders:
        below = open_folders.pop()
        here = os.path.join(path, below)
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    name = f"{below}{entry.name}"
                    if _is_hidden(entry.name):
                        continue
                    if entry.is_dir():
                        open_folders.append(f"{name}/")
                    elif entry.is_file():
                        found = entry.stat()
                        yield ListedFile(name, entry.path, found.st_size, found.st_mtime_ns)
        except FileNotFoundError as problem:
            if not below:
                raise _not_opened(folder, problem) from None
        except OSError as problem:
            raise _not_opened(here, problem) from None


def _remote(folder: str, *, alone: bool) -> Iterator[ListedFile]:
    """`alone`: the location may be a single object."""
    from pyarrow import fs

    from pgrepl.lake import storage

    system, inside = storage.file_system(folder)
    with storage.reading(folder):
        if alone:
            (itself,) = system.get_file_info([inside])
            if itself.type is fs.FileType.File:
                yield ListedFile(itself.base_name, folder, itself.size or 0, itself.mtime_ns or 0)
                return
        found = system.get_file_info(fs.FileSelector(inside, recursive=True, allow_not_found=True))
    for each in found:
        if each.type is fs.FileType.File:
            name = each.path[len(inside) + 1 :]
            yield ListedFile(name, f"{folder}/{name}", each.size or 0, each.mtime_ns or 0)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in name.split("/"))


@cache
def _test(pattern: str) -> re.Pattern[str]:
    """`*` and `?` stand for characters of one name, `**` for folders, too."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern)
    special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    made = [special.get(part) or (_of_set(part) if part.startswith("[") else re.escape(part)) for part in parts]
    return re.compile("".join(made), re.DOTALL)


def _of_set(part: str) -> str:
    if not part.endswith("]"):
        return re.escape(part)
    inside = part[1:-1]
    negated, chosen = ("^", inside[1:]) if inside[0] in "!^" else ("", inside)
    return f"[{negated}{chosen.replace(chr(92), chr(92) * 2)}]"
