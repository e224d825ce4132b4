"""Files in the data folder, local ones and those of pyarrow's other file systems; the owner's mark; crash points for
tests.

A path without a scheme is a file's name. `s3://` takes endpoint and credentials from AWS's variables, or
PGREPL_S3_ENDPOINT. `PGREPL_KILL_AT=commit.statistics:3` kills the process when that point is reached for the third
time.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

from pgrepl.catalog.store import files
from pgrepl.catalog.store.files import MARK, DataFolder, first_line, local_mark, sync
from pgrepl.catalog.store.opening import place_file
from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import fs, pa

if TYPE_CHECKING:
    from pgrepl.lake.table import LakeTable

_reached: Counter[str] = Counter()


def crash_point(name: str) -> None:
    """Kill the process if PGREPL_KILL_AT names this point."""
    wanted, _, count = os.environ.get("PGREPL_KILL_AT", "").partition(":")
    if name == wanted:
        _reached[name] += 1
        if _reached[name] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)


TAIL = 8  # at the end of a Parquet file: the footer's length and the magic word
_LOCAL = "file"


def scheme_of(path: str) -> str:
    scheme, mark, _ = path.partition("://")
    return scheme.lower() if mark else _LOCAL


def local_path(path: str) -> str | None:
    """The file's name on this machine, or None."""
    if "://" not in path:
        return path
    return path[len("file://") :] if scheme_of(path) == _LOCAL else None


def file_system(path: str) -> tuple[Any, str]:
    """pyarrow's file system for a path, and the path in it."""
    local = local_path(path)
    if local is not None:
        return _local_file_system(), local
    scheme, _, rest = path.partition("://")
    if scheme.lower() in ("s3", "s3a", "s3n"):
        return _s3_file_system(s3_endpoint(), s3_region()), rest
    bucket, _, _ = rest.partition("/")
    return _file_system_at(f"{scheme}://{bucket}"), rest


def s3_endpoint() -> str | None:
    environ = os.environ.get
    return environ("PGREPL_S3_ENDPOINT") or environ("AWS_ENDPOINT_URL_S3") or environ("AWS_ENDPOINT_URL")


def s3_region() -> str | None:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


@cache
def _local_file_system() -> fs.FileSystem:
    return fs.LocalFileSystem()


@cache
def _s3_file_system(endpoint: str | None, region: str | None) -> fs.FileSystem:
    if endpoint is None:
        return fs.S3FileSystem(region=region)
    scheme, _, host = endpoint.rpartition("://")
    return fs.S3FileSystem(endpoint_override=host.rstrip("/"), scheme=scheme or "https", region=region or "us-east-1")


@cache
def _file_system_at(root: str) -> fs.FileSystem:
    return fs.FileSystem.from_uri(root)[0]


# --- reading ------------------------------------------------------------------------------------------------------


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise errors in here as PgErrors about the file."""
    try:
        yield
    except Exception as problem:
        if not _is_about_files(problem) and not isinstance(problem, UnicodeDecodeError):
            raise
        number = getattr(problem, "errno", None)
        if isinstance(problem, FileNotFoundError) or number == errno.ENOENT:
            raise PgError("58P01", f'could not open file "{path}": No such file or directory') from problem
        if number in (errno.EACCES, errno.EPERM):
            raise PgError("42501", f'could not open file "{path}": {os.strerror(number)}') from problem
        text = os.strerror(number) if number else first_line(problem)
        raise PgError("XX001", f'could not read file "{path}": {text}') from problem


def open_input(path: str) -> pa.NativeFile:
    system, inside = file_system(path)
    local = local_path(path)
    if local is not None and not os.path.isfile(local) and os.path.exists(local):
        raise OSError("it is not a regular file")  # opening a FIFO would wait for its writer
    return system.open_input_file(inside)


# --- writing ------------------------------------------------------------------------------------------------------


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Raise errors in here as PgErrors about the file, and remove it."""
    try:
        yield
    except BaseException as problem:
        remove(path)
        if isinstance(problem, Exception) and _is_about_files(problem):
            _cannot_write(path, problem)
        raise


def _is_about_files(problem: Exception) -> bool:
    """Is it an error of the operating system, or of pyarrow, which not every process has loaded?"""
    if isinstance(problem, OSError):
        return True
    return isinstance(problem, pa.ArrowException)


def _cannot_write(path: str, problem: Exception) -> NoReturn:
    number = getattr(problem, "errno", None)
    text = os.strerror(number) if number else first_line(problem)
    if number in (errno.ENOSPC, errno.EDQUOT):
        raise PgError("53100", f'could not write file "{path}": {text}', hint="Check free disk space.") from problem
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        raise PgError("42501", f'could not write file "{path}": {text}') from problem
    raise PgError("58030", f'could not write file "{path}": {text}') from problem


def make_folder(location: str) -> None:
    """Make the folder with its parents, and sync them."""
    local = local_path(location)
    if local is None:
        return  # object stores have no folders
    missing = []
    folder = os.path.abspath(local)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    try:
        for folder in reversed(missing):
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            sync(os.path.dirname(folder))
    except OSError as problem:
        _cannot_write(location, problem)


def open_output(path: str) -> pa.NativeFile:
    """A stream to a new file, which only its owner can read."""
    system, inside = file_system(path)
    local = local_path(path)
    if local is not None:
        os.close(os.open(local, os.O_CREAT | os.O_WRONLY, 0o600))
    return system.open_output_stream(inside)


def write(path: str, data: bytes) -> None:
    """Write a new small file, without pyarrow where it is local."""
    local = local_path(path)
    with writing(path):
        if local is None:
            with open_output(path) as file:
                file.write(data)
        else:
            with open(os.open(local, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                file.write(data)


def make_durable(path: str) -> None:
    """Sync a local file that has been written, and its folder. Only its owner can read it then; Spark lets all read
    it."""
    local = local_path(path)
    if local is not None:
        os.chmod(local, 0o600)
        sync(local)
        sync(os.path.dirname(local))


def remove(path: str) -> None:
    """Remove the file if it exists."""
    local = local_path(path)
    with suppress(FileNotFoundError, OSError):
        if local is not None:
            os.unlink(local)
        else:
            system, inside = file_system(path)
            system.delete_file(inside)


def listed(folder: str) -> Iterator[tuple[str, timedelta]]:
    """The files in a folder and below it, each with the time since it was written."""
    system, inside = file_system(folder.rstrip("/"))
    now = datetime.now(timezone.utc)
    with reading(folder):
        infos = system.get_file_info(fs.FileSelector(inside, recursive=True, allow_not_found=True))
    for info in infos:
        if info.type is fs.FileType.File:
            written = info.mtime or now
            yield folder + info.path[len(inside.rstrip("/")) + 1 :], now - written


def folders_in(folder: str) -> list[str]:
    """The names of the folders in a folder."""
    system, inside = file_system(folder.rstrip("/"))
    with reading(folder):
        infos = system.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    return [info.base_name for info in infos if info.type is fs.FileType.Directory]


def size_of(path: str) -> int | None:
    """The bytes of a file; None: it does not exist."""
    local = local_path(path)
    if local is not None:
        try:
            return os.stat(local).st_size
        except OSError:
            return None
    system, inside = file_system(path)
    size: int | None = system.get_file_info(inside).size
    return size


_LIKELY = 64 * 1024  # most footers are shorter, so that one read suffices


def read_footer(path: str) -> tuple[int, bytes]:
    """The size of a Parquet file, and its bytes from the footer on."""
    with reading(path), open_input(path) as file:
        size = int(file.size())
        end = bytes(file.read_at(min(size, _LIKELY), max(size - _LIKELY, 0)))
        if end[-4:] != b"PAR1":
            raise PgError("XX001", f'could not read file "{path}"', detail="It does not end as a Parquet file.")
        wanted = int.from_bytes(end[-TAIL:-4], "little") + TAIL
        if wanted > size:
            raise PgError("XX001", f'could not read file "{path}"', detail="Its footer is longer than itself.")
        if wanted > len(end):
            end = bytes(file.read_at(wanted, size - wanted))
        return size, end[-wanted:]


def new_name(suffix: str = ".parquet") -> str:
    """A unique name for a file, as DuckDB makes it: with a UUID of version 7."""
    return f"ducklake-{uuid7()}{suffix}"


def uuid7() -> str:
    """A UUID of version 7, which sorts by time, as DuckLake has them."""
    raw = bytearray(int(time.time() * 1000).to_bytes(6, "big") + os.urandom(10))
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    return str(UUID(bytes=bytes(raw)))


# --- owner ------------------------------------------------------------------------------------------------------------


_claimed: set[DataFolder] = set()  # by this process, in object stores


def claim(folder: DataFolder) -> None:
    """Mark the folder as its catalog's; an error if it belongs to another catalog."""
    if folder in _claimed:
        return None
    path = folder.path + MARK
    mark = local_mark(folder.path) if local_path(path) is not None else _read(path)
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
    if local_path(path) is None:
        _claimed.add(folder)
    return None


def make_table_folder(table: LakeTable) -> None:
    """Make a table's folder, in a data folder that belongs to its catalog."""
    claim(table.lake)
    make_folder(table.location)


def _read(path: str) -> bytes:
    try:
        with reading(path), open_input(path) as mark:
            return bytes(mark.read())
    except PgError as problem:
        if problem.sqlstate != "58P01":
            raise
        return b""


def _write(folder: DataFolder, path: str, *, replaces: bool) -> None:
    """Write the mark as a whole, and sync it before the first file is written."""
    make_folder(folder.path)
    local = local_path(path)
    if local is None:
        with writing(path), open_output(path) as mark:
            mark.write(folder.mark)
        return
    draft = f"{local}.{os.getpid()}.{threading.get_ident()}"
    with writing(draft):
        with open(draft, "wb") as mark:
            mark.write(folder.mark)
        files.sync(draft)
        if replaces:
            os.replace(draft, local)
        else:
            place_file(Path(draft), Path(local))
            Path(draft).unlink(missing_ok=True)
        files.sync_folder(os.path.dirname(local))
