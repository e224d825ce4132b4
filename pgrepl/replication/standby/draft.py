"""The standby's next catalog, prepared aside: a copy of the primary's with the standby's own paths, slots and
settings.

The copy is SQLite's online backup: one moment of the primary, without blocking writers there. In it paths are those of
the standby, the slots are those that fail over, and the settings are the standby's. It replaces the present catalog in
one transaction of SQLite, by a backup in the other direction: readers of the standby keep their snapshot.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog import copied, disk
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.connection import CatalogConnection
from pgrepl.catalog.copied import Settings
from pgrepl.catalog.opening import place_file, sqlite_catalog
from pgrepl.errors import PgError
from pgrepl.lake import sql
from pgrepl.lake.expire import forget_removed
from pgrepl.replication.standby.files import Fetched, PathMapping, fetch, move_paths, wanted_files

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

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
        draft.link.execute(sql.DELETE_SCHEDULED)  # they are the primary's to remove
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
    with ExitStack() as made:
        for tries_left in reversed(range(tries)):
            draft = made.enter_context(drafted(primary, catalog))
            wanted = wanted_files(draft, place)
            try:
                got = fetch(wanted, link=link)
                break
            except PgError as problem:
                if problem.sqlstate != "58P01" or not tries_left:
                    raise
                made.close()
        yield draft, got, set(wanted)


def make_standby(draft: Session, place: PathMapping, settings: Settings) -> None:
    """Change the copy where a standby differs from the primary."""
    link = draft.link
    link.begin(write=True)
    move_paths(link, place)
    copied.forget_processes(link)
    copied.keep_synced_slots(link, datetime.now(timezone.utc).isoformat())
    copied.change_settings(link, settings)
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
    disk.sync(target)
    place_file(target, catalog)
    target.unlink(missing_ok=True)
    disk.sync(catalog.parent)


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
