"""Making a standby, bringing it up to date, promoting it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog import copied, tables
from pgrepl.catalog.recovery import STANDBY, require_recovery
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.store import delete
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake import sql
from pgrepl.lake.crash_points import crash_point
from pgrepl.lake.expire import known_files
from pgrepl.lake.owner import claim
from pgrepl.replication.publisher.slots import at_once, slot_or_none
from pgrepl.replication.publisher.standby_slots import create_physical_slot, move_physical_slot
from pgrepl.replication.standby import draft as drafts
from pgrepl.replication.standby.files import Fetched, PathMapping, sweep
from pgrepl.replication.standby.primary import catalog_file, check_primary, conninfo_of, on_primary

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

FILES = "pgrepl.standby_files"  # a setting of the standby: link or copy
_TRIES = 3  # the primary may VACUUM a file away between its catalog's copy and the file's


@frozen
class Synchronized:
    """The result of a synchronization."""

    lsn: int  # the standby has all changes before it
    slots: tuple[str, ...]  # ready to fail over
    files: int  # fetched
    bytes: int
    removed: int  # files


def create(primary: Session, folder: Path, *, slot: str | None, link: bool) -> Synchronized:
    """Create a standby in a folder. `slot` becomes a physical replication slot on the primary with the standby's
    position; `link=False` copies files even where a hard link would do."""
    with reading(primary):
        _require_superuser(primary, "create a standby")
        check_primary(primary)
        conninfo = conninfo_of(primary)
        if folder.resolve() == catalog_file(primary).parent:
            raise PgError("55000", f'folder "{folder}" is the primary\'s own')
        if slot is not None and slot_or_none(primary, slot) is None:
            with at_once(primary) as apart:
                create_physical_slot(apart, slot, reserve=True)
        settings = copied.settings(primary.link)
    catalog = folder.resolve() / "catalog.db"
    if catalog.exists():
        raise PgError("42710", f'catalog "{catalog}" already exists')
    place = PathMapping(primary.catalog.data_path, f"{catalog}.files/")
    try:
        os.makedirs(place.standby, mode=0o700, exist_ok=True)
    except OSError as problem:
        raise PgError("58030", f'could not create folder "{place.standby}": {problem.strerror}') from problem
    claim(replace(primary.catalog.folder, path=place.standby, catalog=str(catalog)))
    settings = [(name, value) for name, value in settings if name != "synchronized_standby_slots"]  # the primary's
    own = drafts.with_settings(
        settings,
        primary_conninfo=conninfo,
        primary_slot_name=slot or "",
        hot_standby_feedback="on",
        sync_replication_slots="on",
        **{FILES: "link" if link else "copy", STANDBY: "on"},
    )
    with _alone(place.standby), _drafted(primary, catalog, place, own, link=link) as (draft, got, needed):
        drafts.publish_new(draft, catalog)
        crash_point("standby.created")
        done = _told(draft, got, sweep(draft, place.standby, needed))
    _report_position(primary, slot, done.lsn)
    return done


def synchronize(standby: Session) -> Synchronized:
    """Fetch what the primary has done since the last time: its snapshots, their files, and the slots that fail over."""
    catalog = catalog_file(standby)
    place_here = standby.catalog.data_path
    with reading(standby):
        _require_superuser(standby, "synchronize a standby")
        require_recovery(standby)
    claim(standby.catalog.folder)
    with _alone(place_here), on_primary(standby) as primary:
        with reading(standby):  # it may have been promoted a moment ago
            require_recovery(standby)
            before = known_files(standby)
            settings = copied.settings(standby.link)
        link = dict(settings).get(FILES) != "copy"
        with reading(primary):  # what other writers have defined in the lake is adopted there, not here
            place = PathMapping(primary.catalog.data_path, place_here)
        with _drafted(primary, catalog, place, settings, link=link) as (draft, got, needed):
            drafts.publish(draft, catalog)
            crash_point("standby.published")
            done = _told(draft, got, sweep(standby, place_here, needed | before))
        _report_position(primary, dict(settings).get("primary_slot_name"), done.lsn)
    return done


def promote(standby: Session) -> int:
    """End following the primary and allow writes; returns the LSN up to which the standby has the primary's changes."""
    with reading(standby):
        _require_superuser(standby, "promote a standby")
        require_recovery(standby)
    with _alone(standby.catalog.data_path):
        apart = standby.elsewhere(standby.database_oid, standby.role, apart=True)
        apart.replays = True
        try:
            apart.transaction.begin_statement(writes=True)
            require_recovery(apart)
            delete(apart, tables.pgrepl_setting, name=STANDBY)
            lsn = apart.transaction.numbering.last_snapshot() + 1
            apart.transaction.end_statement()
        finally:
            apart.close()
    return lsn


# --- the steps --------------------------------------------------------------------------------------------------------


@contextmanager
def _drafted(
    primary: Session, catalog: Path, place: PathMapping, settings: copied.Settings, *, link: bool
) -> Iterator[tuple[Session, Fetched, set[str]]]:
    """A copy of the primary's catalog made the standby's, with all files that it names: the fetched ones, and all
    names."""
    with drafts.complete(primary, catalog, place, link=link, tries=_TRIES) as (draft, got, names):
        crash_point("standby.complete")
        drafts.make_standby(draft, place, settings)
        crash_point("standby.drafted")
        yield draft, got, names


def _told(draft: Session, got: Fetched, removed: int) -> Synchronized:
    link = draft.link
    lsn = int(link.execute(sql.LAST_SNAPSHOT)[0][0]) + 1
    return Synchronized(lsn, tuple(copied.synced_slots(link)), got.files, got.bytes, removed)


def _report_position(primary: Session, slot: str | None, lsn: int) -> None:
    """Move the standby's slot on the primary to its position (synchronized_standby_slots)."""
    if slot:
        with at_once(primary) as apart:
            move_physical_slot(apart, slot, lsn)


# --- checks and the lock ----------------------------------------------------------------------------------------------


def _require_superuser(session: Session, what: str) -> None:
    if not is_superuser(session):
        raise PgError(
            "42501", f"permission denied to {what}", detail=f"Only roles with the SUPERUSER attribute may {what}."
        )


@contextmanager
def _alone(data_path: str) -> Iterator[None]:
    """One process at a time works on a standby; the lock ends with the process."""
    handle = os.open(data_path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PgError("55000", "cannot synchronize replication slots concurrently") from None
        yield
    finally:
        os.close(handle)
