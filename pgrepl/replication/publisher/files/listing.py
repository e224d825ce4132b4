"""The files of a location in the order in which they are read, by name, and the options of a connection string with
`files`.

Names that begin with a dot or an underscore are left out: a file is written under such a name and renamed when it is
complete.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import fs
from pgrepl.lake import storage
from pgrepl.lake.storage import local_path
from pgrepl.replication.conninfo import FILES, OPTIONS

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

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
    folder, pattern = _parted(location)
    if pattern is None and storage.local_path(location) is not None:
        alone = _alone(location)
        if alone is not None:
            return [alone]
    walked = _local(folder) if storage.local_path(location) is not None else _remote(folder, alone=pattern is None)
    test = None if pattern is None else _test(pattern)
    files = [file for file in walked if not _is_hidden(file.name) and (test is None or test.fullmatch(file.name))]
    return sorted(files, key=lambda file: order(file.name))


def is_listed(path: str, location: str) -> bool:
    """Whether a file of this machine is, or would be, one of those of a location."""
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
    match = _PATTERN.search(location)
    if match is None:
        return location.rstrip("/") or "/", None
    folder, _, _ = location[: match.start()].rpartition("/")
    return folder or "/", location[len(folder) + 1 :]


def _alone(location: str) -> ListedFile | None:
    """The file, if the location is one and no folder."""
    path = storage.local_path(location) or location
    try:
        status = os.stat(path)
    except OSError as problem:
        raise _not_opened(location, problem) from None
    if stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        raise PgError("42809", f'could not open file "{location}": it is not a regular file')
    return ListedFile(os.path.basename(path), path, status.st_size, status.st_mtime_ns)


def _not_opened(path: str, problem: OSError) -> PgError:
    sqlstate = {"FileNotFoundError": "58P01", "PermissionError": "42501"}.get(type(problem).__name__, "58030")
    return PgError(sqlstate, f'could not open file "{path}": {problem.strerror}')


def _local(folder: str) -> Iterator[ListedFile]:
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
                        status = entry.stat()
                        yield ListedFile(name, entry.path, status.st_size, status.st_mtime_ns)
        except FileNotFoundError as problem:
            if not below:
                raise _not_opened(folder, problem) from None
        except OSError as problem:
            raise _not_opened(here, problem) from None


def _remote(folder: str, *, alone: bool) -> Iterator[ListedFile]:
    """`alone`: the location may be a single object."""

    system, inside = storage.file_system(folder)
    with storage.reading(folder):
        if alone:
            (itself,) = system.get_file_info([inside])
            if itself.type is fs.FileType.File:
                yield ListedFile(itself.base_name, folder, itself.size or 0, itself.mtime_ns or 0)
                return
        infos = system.get_file_info(fs.FileSelector(inside, recursive=True, allow_not_found=True))
    for info in infos:
        if info.type is fs.FileType.File:
            name = info.path[len(inside) + 1 :]
            yield ListedFile(name, f"{folder}/{name}", info.size or 0, info.mtime_ns or 0)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in name.split("/"))


@cache
def _test(pattern: str) -> re.Pattern[str]:
    """`*` and `?` stand for characters of one name, `**` for folders, too."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern)
    special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    patterns = [special.get(part) or (_of_set(part) if part.startswith("[") else re.escape(part)) for part in parts]
    return re.compile("".join(patterns), re.DOTALL)


def _of_set(part: str) -> str:
    if not part.endswith("]"):
        return re.escape(part)
    inside = part[1:-1]
    negated, chosen = ("^", inside[1:]) if inside[0] in "!^" else ("", inside)
    return f"[{negated}{chosen.replace(chr(92), chr(92) * 2)}]"


# --- options ----------------------------------------------------------------------------------------------------------


STANDARD_INPUT = "-"
_OWN = frozenset((FILES, "format", "on_error", "removed", "table", "undeclared_columns"))
_BINARY = frozenset(("pgoutput", "parquet", "delta", "ducklake"))
_STOP = "stop"


@frozen
class FilesOptions:
    """`files`: a folder, a file, a pattern, a URI, or STANDARD_INPUT: `pgrepl apply --from` gives the files."""

    files: str
    format: str
    on_error: str | None  # the file for rejected records; None: a record that cannot be read stops the subscription
    may_be_removed: bool  # files may disappear once they have been read
    ignores_undeclared: bool  # columns of records that the declared table does not have are left out
    table: tuple[str | None, str] | None  # of records that name none
    is_sorted: bool  # a column says in which order the records of a file are
    reader: Mapping[str, str]  # the format's own

    @property
    def has_lines(self) -> bool:
        """Whether records are lines, so that a file may end within one."""
        return self.format not in _BINARY

    @classmethod
    def of(cls, session: Session, options: Mapping[str, str]) -> FilesOptions:
        """Raises for a value that none of them may have; the format checks its own when a reader is made."""
        files, named = options[FILES], options.get("format")
        if not files:
            raise PgError("22023", 'invalid value for connection option "files": ""')
        if not named:
            raise PgError(
                "22023",
                'connection option "format" is missing',
                hint="Say how the files are written, for example format=debezium.",
            )
        located = files if files == STANDARD_INPUT else _located(session, files)
        return cls(
            located,
            named,
            _rejects(session, options.get("on_error", _STOP), located),
            _chosen(options, "removed", ("error", "allow")) == "allow",
            _chosen(options, "undeclared_columns", ("error", "ignore")) == "ignore",
            _table(options.get("table")),
            "order" in options,
            {name: value for name, value in options.items() if name not in OPTIONS and name not in _OWN},
        )


def _rejects(session: Session, on_error: str, files: str) -> str | None:
    """The file that `on_error` names: one of this machine, and none that is read."""
    if on_error == _STOP:
        return None
    if not on_error:
        raise PgError("22023", 'invalid value for connection option "on_error": ""')
    path = local_path(_located(session, on_error))
    if path is None:
        raise PgError(
            "0A000",
            f'rejected records cannot be written to "{on_error}"',
            hint="on_error names a file of this machine.",
        )
    if files != STANDARD_INPUT and is_listed(path, files):
        raise PgError(
            "22023",
            f'rejected records cannot be written to "{on_error}": files of changes are read there',
            hint="Name a file elsewhere, or one whose name begins with a dot or an underscore.",
        )
    return path


def _table(name: str | None) -> tuple[str | None, str] | None:
    if name is None:
        return None
    schema, dot, table = name.rpartition(".")
    if not table or (dot and not schema):
        raise PgError("22023", f'invalid value for connection option "table": "{name}"')
    return schema or None, table


def _chosen(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = options.get(name, allowed[0])
    if value not in allowed:
        raise PgError(
            "22023",
            f'invalid value for connection option "{name}": "{value}"',
            hint=f"Available values: {', '.join(allowed)}.",
        )
    return value


def _located(session: Session, path: str) -> str:
    """Relative paths begin in the catalog's folder, wherever a worker is started."""
    if "://" in path or os.path.isabs(path):
        return path
    catalog = session.catalog.path
    if catalog is None:
        raise PgError(
            "22023",
            f'relative path not allowed for files of changes: "{path}"',
            detail="The catalog is on a server, and has no folder.",
            hint="Write the absolute path.",
        )
    return os.path.join(os.path.dirname(os.path.abspath(catalog)), path)
