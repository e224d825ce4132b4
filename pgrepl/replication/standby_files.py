"""The files of a standby: data files (linked where possible, else copied), its next catalog, and its primary.

The catalog is SQLite's online backup of the primary's with the standby's paths, slots and settings; it replaces the
present one in one transaction, so that readers keep their snapshot. Files outside the primary's folder get a name in
`elsewhere/`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.roles import is_superuser
from pgrepl.catalog.session.context import is_standby
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import bootstrap, files, sql
from pgrepl.catalog.store.bootstrap import Settings
from pgrepl.catalog.store.connection import CatalogConnection
from pgrepl.catalog.store.files import MARK
from pgrepl.catalog.store.opening import open_catalog, place_file, sqlite_catalog
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.lake import sql as lake_sql
from pgrepl.lake import storage
from pgrepl.lake.expire import forget_removed, known_files, named_files, sizes_by_path
from pgrepl.lake.read.local import FOLDER as PINS_FOLDER
from pgrepl.lake.read.local import oldest_pin
from pgrepl.lake.storage import crash_point
from pgrepl.replication.conninfo import check_conninfo

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


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
        files.sync(folder)
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


# --- draft ------------------------------------------------------------------------------------------------------------


_LOCK_TIMEOUT = 30.0


def draft_prefix(catalog: Path) -> str:
    return f".{catalog.name}.standby."


def remove_drafts(catalog: Path) -> None:
    """Remove the drafts of runs that were killed."""
    for left in catalog.parent.glob(f"{draft_prefix(catalog)}*"):
        left.unlink(missing_ok=True)


@contextmanager
def drafted(primary: Session, catalog: Path) -> Iterator[Session]:
    """A session, in no transaction, on a copy of the primary's catalog beside the standby's."""
    path = catalog.with_name(f"{draft_prefix(catalog)}{secrets.token_hex(4)}")
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        copy = sqlite_catalog(path, str(catalog))
        copy.data_path = primary.catalog.data_path  # until the paths are moved
        _back_up(primary.link, path)
        draft = primary.elsewhere(0, BOOTSTRAP_SUPERUSER, catalog=copy)
        forget_removed(draft)
        draft.link.execute(lake_sql.DELETE_SCHEDULED)  # they are the primary's to remove
        try:
            yield draft
        finally:
            draft.close()
            copy.close()
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            Path(f"{path}{end}").unlink(missing_ok=True)


@contextmanager
def complete(
    primary: Session, catalog: Path, place: PathMapping, *, link: bool, tries: int
) -> Iterator[tuple[Session, Fetched, set[str]]]:
    """A draft with all files that it names: the fetched ones, and all names. A file that does not exist any more means
    that the draft is out of date, since VACUUM took it away meanwhile: another is made."""
    remove_drafts(catalog)
    with ExitStack() as drafts:
        for tries_left in reversed(range(tries)):
            draft = drafts.enter_context(drafted(primary, catalog))
            wanted = wanted_files(draft, place)
            try:
                got = fetch(wanted, link=link)
                break
            except PgError as problem:
                if problem.sqlstate != "58P01" or not tries_left:
                    raise
                drafts.close()
        yield draft, got, set(wanted)


def make_standby(draft: Session, place: PathMapping, settings: Settings) -> None:
    """Change the copy where a standby differs from the primary."""
    link = draft.link
    link.begin(write=True)
    move_paths(link, place)
    bootstrap.forget_processes(link)
    bootstrap.keep_synced_slots(link, datetime.now(timezone.utc).isoformat())
    bootstrap.change_settings(link, settings)
    link.commit()


def with_settings(settings: Settings, **changed: str) -> list[tuple[str, str]]:
    return [*((name, value) for name, value in settings if name not in changed), *changed.items()]


def publish_new(draft: Session, catalog: Path) -> None:
    """Make the draft the catalog of a new standby."""
    path = draft.catalog.path
    assert path is not None
    target = path.with_name(path.name + ".new")
    with closing(sqlite3.connect(target)) as copy:
        os.chmod(target, 0o600)
        draft.link.driver.backup(copy)
    files.sync(target)
    place_file(target, catalog)
    target.unlink(missing_ok=True)
    files.sync(catalog.parent)


def publish(draft: Session, catalog: Path) -> None:
    """Replace the present catalog by the draft, at once for all readers."""
    try:
        with closing(sqlite3.connect(catalog, timeout=_LOCK_TIMEOUT)) as live:
            live.execute("PRAGMA synchronous = FULL")
            draft.link.driver.backup(live)
    except sqlite3.Error as problem:
        raise draft.catalog.failure(problem) from problem


def _back_up(link: CatalogConnection, path: Path) -> None:
    try:
        with closing(sqlite3.connect(path)) as copy:
            copy.execute("PRAGMA synchronous = OFF")  # a draft may be lost in a crash
            link.driver.backup(copy)
        link.flush()  # the primary must not lose commits that the standby has
    except sqlite3.Error as problem:
        raise PgError("58030", f'catalog "{link.catalog.name}" could not be copied: {problem}') from problem


# --- primary ----------------------------------------------------------------------------------------------------------


def conninfo_of(primary: Session) -> str:
    """The connection string of the primary."""
    path = catalog_file(primary)
    host = path.parent if path.name == "catalog.db" else path
    quoted = str(host).replace("\\", "\\\\").replace("'", "\\'")
    return f"host='{quoted}' dbname=postgres"


def catalog_file(session: Session) -> Path:
    path = session.catalog.path
    if path is None:
        raise unsupported("a standby of a catalog on a database server")
    return path.resolve()


@contextmanager
def on_primary(standby: Session) -> Iterator[Session]:
    """A session in the primary, as the bootstrap superuser: a user who may read its files may follow it."""
    conninfo = str(standby.settings.get("primary_conninfo"))
    if not conninfo:
        raise PgError("22023", 'replication slot synchronization requires "primary_conninfo" to be set')
    host = check_conninfo(conninfo, False).get("host", "")
    file = Path(host, "catalog.db") if Path(host).is_dir() else Path(host)
    if not host.startswith("/") or not file.is_file():
        raise PgError("08006", f'could not connect to the primary server: there is no catalog in "{host}"')
    try:
        catalog = open_catalog(file)
    except PgError as problem:
        raise PgError("08006", f"could not connect to the primary server: {problem.message}") from problem
    try:
        session = standby.elsewhere(0, BOOTSTRAP_SUPERUSER, catalog=catalog)
        try:
            check_primary(session)
            yield session
        finally:
            session.close()
    finally:
        catalog.close()


# --- checks and the lock ----------------------------------------------------------------------------------------------


def require_superuser(session: Session, what: str) -> None:
    if not is_superuser(session):
        raise PgError(
            "42501", f"permission denied to {what}", detail=f"Only roles with the SUPERUSER attribute may {what}."
        )


@contextmanager
def alone(folder: str | Path, error: PgError) -> Iterator[None]:
    """One process at a time works on a folder, others meet the error; the lock ends with the process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise error from None
        yield
    finally:
        os.close(handle)


def check_primary(session: Session) -> None:
    """Raise unless the session's catalog is a primary's (validate_remote_info)."""
    if is_standby(session.link):
        raise PgError("0A000", "cannot synchronize replication slots from a standby server")
