"""Opening a catalog: making it, checking that it is one, finding the files of one that was moved.

A file that is no catalog, of a newer format or cut short is an error of one sentence, and is left as it is.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.store import files, sql
from pgrepl.catalog.store.connection import (
    APPLICATION_ID,
    FORMAT_VERSION,
    Catalog,
    fatal,
    is_connected,
    without_password,
    wrong_version,
)
from pgrepl.catalog.store.files import BESIDE, DataFolder, first_line, local_mark, same_folder
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.store.connection import CatalogConnection

_PATIENCE = 1.0  # seconds to wait for the catalog's lock; the next opening tries again
_LOOKED_AT = 50  # files that tell whether a folder is the right one


def found_beside(link: CatalogConnection, folder: DataFolder) -> str | None:
    """The folder beside the catalog to use in place of its `data_path`, which lacks the catalog's files, is another
    catalog's or is gone. None: no change."""
    before = folder.path.removeprefix("file://")
    here = os.path.dirname(folder.catalog)
    beside = folder.catalog + BESIDE
    if "://" in before or same_folder(before, beside):
        return None
    named = _named_files(link)
    for now in (beside, f"{here}/{os.path.basename(before.rstrip('/'))}/"):
        if not same_folder(now, before) and os.path.isdir(now) and named and _has(now, named):
            return now if _folder_of(folder, now).other_owner(local_mark(now)) is None else None
    if not named and before.endswith(BESIDE) and _is_others(before, folder):
        return beside  # nothing is lost by beginning there
    if not os.path.exists(before) and before.endswith(BESIDE) and not os.path.exists(before.removesuffix(BESIDE)):
        return beside
    return None


def _is_others(before: str, folder: DataFolder) -> bool:
    """Does the folder stand beside a catalog that is not this one?"""
    other = before.removesuffix(BESIDE)
    return os.path.exists(other) and not os.path.samefile(other, folder.catalog)


def may_take(link: CatalogConnection, folder: DataFolder, wanted: str) -> bool:
    """Are the catalog's files in the folder that --data-path names, and is the folder of its `data_path` gone or
    another catalog's?"""
    there, before = wanted.removeprefix("file://"), folder.path.removeprefix("file://")
    if "://" in there or "://" in before or _folder_of(folder, wanted).other_owner(local_mark(wanted)) is not None:
        return False
    lost = not os.path.isdir(before) or folder.other_owner(local_mark(before)) is not None
    named = _named_files(link)
    return lost and bool(named) and _has(there, named)


def _named_files(link: CatalogConnection) -> list[str]:
    """Some of the catalog's files, relative to the folder that all are in."""
    named: list[str] = []
    for table in ("ducklake_data_file", "ducklake_delete_file"):
        for path, *above in link.execute(sql.newest_files(table), (_LOOKED_AT,)):
            schema_relative, table_path, table_relative, file = above
            if schema_relative and table_relative:
                named.append(path + table_path + file)
    return named


def _has(folder: str, named: list[str]) -> bool:
    return all(os.path.exists(os.path.join(folder, name)) for name in named)


def move(link: CatalogConnection, before: str, now: str) -> None:
    """Write the new folder into the catalog: into `data_path`, and into every absolute path."""
    link.begin(write=True, lock_timeout=_PATIENCE)
    for table in (*sql.WITH_PATHS, "ducklake_files_scheduled_for_deletion"):
        link.execute(sql.change_folder(table), (now, len(before) + 1, len(before), before))
    link.execute(sql.SET_DATA_PATH, (now,))
    link.commit()


def _folder_of(folder: DataFolder, path: str) -> DataFolder:
    return DataFolder(path, folder.catalog, folder.system_identifier)


# --- opening ----------------------------------------------------------------------------------------------------------


_BUSY_SLICE_MS = 200  # SQLite waits in slices of this, so that Ctrl-C is noticed between two of them


def open_catalog(
    path_or_url: str | os.PathLike[str] = "catalog.db", *, data_path: str | None = None, folder: str = ""
) -> Catalog:
    """Open the catalog, and make it if there is none. `data_path` is the folder for the files of a new catalog's
    tables, if not beside it. Relative paths start from `folder`, by default the working directory."""
    text = os.fspath(path_or_url)
    where = None if data_path is None else _data_path(data_path, folder)
    if "://" in text:
        return _open_url(text, where, folder)
    if text == ":memory:":  # what SQLite calls a database without a file
        raise _in_memory()
    return _open_file(Path(folder, text), text, where)


def _data_path(text: str, folder: str = "") -> str:
    """The path as DuckLake keeps it: absolute, with a slash at its end."""
    whole = text if "://" in text else os.path.abspath(os.path.join(folder, text))
    return whole if whole.endswith("/") else f"{whole}/"


def _open_file(path: Path, name: str, data_path: str | None) -> Catalog:
    path = path.absolute()  # the working directory may change while the catalog is open
    fresh = not os.path.lexists(path)
    if fresh:
        _create_file(path, name, data_path or _data_path(f"{path}.files"))
    version = None if _is_connected(path, name) else _check_file(path, name)
    catalog = _reachable(path, name)
    if version is None:
        version = _version(catalog)
    if version != FORMAT_VERSION:
        _migrate(catalog, data_path or _data_path(f"{path}.files"))
    catalog.check_format()
    _follow_data(catalog, data_path)
    _check_data_path(catalog, data_path)
    return catalog


def _reachable(path: Path, name: str) -> Catalog:
    """The catalog, read-only if an obstacle keeps pgrepl from writing it."""
    obstacle = files.obstacle(path)
    if obstacle is None:
        catalog = sqlite_catalog(path, name)
        try:
            catalog.probe()
            return catalog
        except PgError:
            catalog.close()
            if not files.is_full(path):
                raise
            obstacle = files.DISK_FULL
    try:
        reader = files.reader(path)
    except (OSError, sqlite3.Error) as problem:
        raise fatal("58030", f'catalog "{name}" cannot be read: {problem}') from problem
    catalog = sqlite_catalog(path, name, reader.connect)
    catalog.obstacle, catalog.at_close = obstacle, reader.close
    return catalog


def copy_file(path: Path, name: str, target: Path) -> None:
    """Copy the catalog's file as of one moment. Who writes it is not blocked, and nothing of it is changed, not even
    the format of an old one."""
    if not os.path.lexists(path) or not _is_connected(path, name):
        _check_file(path, name)
    try:
        if files.obstacle(path) is None:
            _copy_from(sqlite3.connect(path), target)
            return
        reader = files.reader(path)
        try:
            _copy_from(reader.connect(), target)
        finally:
            reader.close()
    except (OSError, sqlite3.Error) as problem:
        raise fatal("58030", f'catalog "{name}" could not be copied: {problem}') from problem


def _copy_from(source: sqlite3.Connection, target: Path) -> None:
    with closing(source), closing(sqlite3.connect(target)) as copy:
        copy.execute("PRAGMA synchronous = OFF")
        source.backup(copy)


def _is_connected(path: Path, name: str) -> bool:
    """Has this process connections to the file? Then it must not open and close the file beside SQLite: that would
    release the locks of all connections (POSIX), and another program could write at the same time."""
    try:
        return is_connected(path)
    except OSError as problem:  # a link that leads nowhere, or in circles
        raise fatal("58P01", f'could not open catalog "{name}": {problem.strerror}') from problem


def _version(catalog: Catalog) -> int:
    link = catalog.connect()
    try:
        return int(link.execute("PRAGMA user_version")[0][0])
    finally:
        catalog.keep(link)


def _follow_data(catalog: Catalog, wanted: str | None) -> None:
    """Point a catalog that was moved or copied to the files beside it, or to those in the folder that --data-path
    names. A read-only one uses them, too, without remembering it."""
    link = catalog.connect()
    try:
        before = catalog.data_path
        now = found_beside(link, catalog.folder)
        if wanted is not None and wanted != before and may_take(link, catalog.folder, wanted):
            now = wanted
        if now is not None:
            catalog.data_path = now
            with suppress(PgError):
                move(link, before, now)
    finally:
        catalog.keep(link)


def _migrate(catalog: Catalog, data_path: str) -> None:
    from pgrepl.catalog.store.bootstrap import migrate

    link = catalog.connect()
    try:
        migrate(link, data_path, lambda version: _keep_old(catalog, version))
    finally:
        link.close()


def _keep_old(catalog: Catalog, version: int) -> None:
    """Copy a catalog's file beside it, readable by its owner only, before it is migrated: `catalog.db.format12`. A
    server's catalog is backed up by its server's means."""
    if catalog.path is None:
        return
    draft = catalog.path.with_name(f".{catalog.path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _copy_from(sqlite3.connect(catalog.path), draft)
        files.sync(draft)
        os.replace(draft, f"{catalog.path}.format{version}")
        files.sync_folder(catalog.path.parent)
    except (OSError, sqlite3.Error) as problem:
        raise fatal(
            "58030", f'catalog "{catalog.name}" could not be copied before its migration: {problem}'
        ) from problem
    finally:
        draft.unlink(missing_ok=True)


def _check_data_path(catalog: Catalog, wanted: str | None) -> None:
    if wanted is None or wanted == catalog.data_path:
        return
    catalog.close()
    raise fatal("55000", f'catalog "{catalog.name}" has the data of its tables in "{catalog.data_path}"')


def sqlite_catalog(path: Path, name: str, reader: Callable[[], sqlite3.Connection] | None = None) -> Catalog:
    """A catalog in SQLite; `reader` connects to one that cannot be written."""
    file = os.path.abspath(path)

    def open_driver() -> sqlite3.Connection:
        if reader is not None:
            driver = reader()
        else:
            driver = sqlite3.connect(
                file,
                timeout=_BUSY_SLICE_MS / 1000,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=512,
            )
        driver.execute("PRAGMA synchronous = FULL")
        driver.execute("PRAGMA cache_size = -32000")
        return driver

    return Catalog(name, path, open_driver)


def _create_file(path: Path, name: str, data_path: str) -> None:
    """Make the catalog under another name and link it into place when it is complete."""
    from pgrepl.catalog.store import bootstrap

    owner = DataFolder(data_path, os.path.realpath(path), 0).other_owner(files.local_mark(data_path))
    if owner is not None:
        raise fatal("55000", f'data folder "{data_path}" belongs to catalog "{owner}"')
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as problem:
        raise fatal("58P01", f'could not create catalog "{name}": {problem.strerror}') from problem
    try:
        catalog = sqlite_catalog(draft, name)
        link = catalog.connect()
        try:
            link.execute("PRAGMA synchronous = OFF")  # it is synced when it is whole
            bootstrap.create(link, data_path)
            link.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            link.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            link.execute("PRAGMA journal_mode = WAL")
        finally:
            link.close()
            catalog.close()
        files.sync(draft)
        place_file(draft, path)
        files.sync_folder(path.absolute().parent)
    finally:
        for leftover in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm"), Path(f"{draft}-journal")):
            leftover.unlink(missing_ok=True)


def place_file(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return  # another process was faster: its catalog stays
    except OSError as problem:
        if problem.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if not path.exists():  # a file system without links
            os.rename(draft, path)


def _check_file(path: Path, name: str) -> int:
    """The catalog's format, from the file's first hundred bytes, without opening it as a database; FATAL if it is no
    catalog."""
    if path.is_dir():
        raise fatal("58P01", f'could not open catalog "{name}": Is a directory')
    if not path.is_file():  # a FIFO, whose reader would wait for a writer
        raise fatal("42809", f'"{name}" is not a pgrepl catalog')
    try:
        with path.open("rb") as file:
            header = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except OSError as problem:
        raise fatal("58P01", f'could not open catalog "{name}": {problem.strerror}') from problem
    if size == 0:
        raise fatal("XX001", f'catalog "{name}" is empty: it was cut short, or it is no pgrepl catalog')
    if header[:16] != b"SQLite format 3\0"[: len(header[:16])]:
        raise fatal("42809", f'"{name}" is not a pgrepl catalog')
    if len(header) < 100:
        raise fatal("XX001", f'catalog "{name}" is cut short: it has {size} bytes')
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise fatal("42809", f'"{name}" is an SQLite database, but not a pgrepl catalog')
    version = int.from_bytes(header[60:64], "big")
    if not 1 <= version <= FORMAT_VERSION:
        raise wrong_version(name, version)
    page = int.from_bytes(header[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    wal = Path(f"{path}-wal")
    if size < expected and not (wal.exists() and wal.stat().st_size > 0):
        raise fatal("XX001", f'catalog "{name}" is cut short: it has {size} of {expected} bytes')
    return version


def _open_url(text: str, data_path: str | None, folder: str) -> Catalog:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    from pgrepl.catalog.store import bootstrap

    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError) as problem:
        raise fatal("08001", f"invalid catalog URL: {first_line(problem)}") from problem
    if backend == "sqlite":
        if not url.database or url.database == ":memory:":
            raise _in_memory()
        return _open_file(Path(folder, url.database), url.database, data_path)
    name = without_password(url.render_as_string(hide_password=True))
    if backend != "postgresql":
        raise fatal("0A000", f'catalog "{name}": only SQLite and PostgreSQL can hold a catalog')
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    try:
        dialect = url.get_dialect()()
        module: Any = dialect.import_dbapi()
    except (NoSuchModuleError, ModuleNotFoundError) as problem:
        hint = "Install it with: pip install 'psycopg[binary]>=3.2'"
        raise fatal("08001", f'catalog "{name}" needs a driver: {first_line(problem)}', hint) from problem
    arguments, named = dialect.create_connect_args(url)
    catalog = Catalog(name, None, lambda: module.connect(*arguments, **named, autocommit=True), module.Error)
    link = catalog.connect()
    try:
        if not bootstrap.create_on_server(link, data_path):
            version = link.execute("SELECT format_version FROM pgrepl_instance")[0][0]
            if 1 <= version < FORMAT_VERSION:
                _migrate(catalog, bootstrap.require_data_path(link, data_path))
    finally:
        link.close()
    catalog.check_format()
    _check_data_path(catalog, data_path)
    return catalog


def _in_memory() -> PgError:
    return fatal("0A000", "a catalog in memory is not supported")
