"""A standby: a second folder with a catalog and files that follows a first one, the primary, and can take its place.

    pgrepl standby create FOLDER    a copy of the catalog, and its files linked or copied
    pgrepl standby sync FOLDER      what has come since
    pgrepl standby promote FOLDER   it follows no longer, and may be written

A standby has the primary's snapshots under the primary's numbers, so LSNs mean the same in both, and the slots of the
subscriptions that have `failover = true`, as they stood at those snapshots. A subscription that is pointed at the
promoted standby goes on where it was. Until then the standby is read-only (catalog/session/context.py).

Synchronizing is three steps, of which only the second is seen by others: files come first, under names that nothing
refers to yet; then one transaction of SQLite puts the new catalog in the place of the old one; then files go that
neither needs. Killed between any two, a standby is as it was before or as it is after, and the next run tidies up.
Every file belongs to one folder: a hard link is a name of its own, so that VACUUM on one side takes nothing from the
other.

standby_files.py does that; here a standby is made, brought up to date and promoted, also by SQL functions (slotsync.c).
Only a slot that needs nothing beyond the standby's last snapshot is synchronized: one whose subscriber is past it
would miss changes after a failover.

Rule: nothing here writes to the primary but the position of the standby's own slot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog.session.context import STANDBY, in_recovery, require_recovery
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.session.transaction import reading, statement
from pgrepl.catalog.store import bootstrap, tables
from pgrepl.catalog.store.store import delete, insert, rows, update
from pgrepl.expr.functions.registry import Family
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake import sql
from pgrepl.lake.expire import known_files
from pgrepl.lake.storage import claim, crash_point
from pgrepl.replication import standby_files as drafts
from pgrepl.replication.conninfo import check_conninfo
from pgrepl.replication.publisher.slots import at_once, check_slot_permissions, slot_or_none
from pgrepl.replication.publisher.standby_slots import create_physical_slot, move_physical_slot, standby_slot
from pgrepl.replication.standby_files import (
    Fetched,
    PathMapping,
    catalog_file,
    check_primary,
    conninfo_of,
    on_primary,
    require_superuser,
    sweep,
)
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.functions.registry import Call


_FOLLOWED = ("plugin", "datoid", "restart_lsn", "confirmed_flush_lsn", "catalog_snapshot", "two_phase", "two_phase_at",
             "failover")  # fmt: skip
_LOST = ("invalidation_reason", "wal_status")
_REQUIRES = "replication slot synchronization requires"


def synchronize_slots(standby: Session) -> None:
    """Synchronize all failover slots (SyncReplicationSlots)."""
    if not in_recovery(standby):
        raise PgError("55000", "replication slots can only be synchronized to a standby server")
    _check_settings(standby)
    with on_primary(standby) as primary, reading(primary):
        standby_slot(primary, standby.settings.get("primary_slot_name"))
        remote = {row.slot_name: row for row in rows(primary, tables.pg_replication_slot, failover=True)}
    apart = standby.elsewhere(standby.database_oid, standby.role, apart=True)
    apart.replays = True
    with closing(apart), statement(apart, writes=True):
        for row in rows(apart, tables.pg_replication_slot, synced=True):
            if _is_obsolete(row, remote.get(row.slot_name)):
                delete(apart, tables.pg_replication_slot, slot_name=row.slot_name)
        for row in remote.values():
            _synchronize(apart, row)


def _check_settings(standby: Session) -> None:
    """Raise unless the settings say how to follow the primary (ValidateSlotSyncParams)."""
    settings = standby.settings
    conninfo = settings.get("primary_conninfo")
    for is_met, what in (
        (settings.get("wal_level") == "logical", '"wal_level" >= "logical"'),
        (settings.get("primary_slot_name"), '"primary_slot_name" to be set'),
        (settings.value("hot_standby_feedback"), '"hot_standby_feedback" to be enabled'),
        (conninfo, '"primary_conninfo" to be set'),
        (check_conninfo(conninfo, False).get("dbname"), '"dbname" to be specified in "primary_conninfo"'),
    ):
        if not is_met:
            raise PgError("22023", f"{_REQUIRES} {what}")


def _is_obsolete(own: tables.pg_replication_slot, remote: tables.pg_replication_slot | None) -> bool:
    """Whether a synchronized slot goes, maybe to be made anew (local_sync_slot_required)."""
    return remote is None or bool(own.invalidation_reason and not remote.invalidation_reason)


def _synchronize(standby: Session, remote: tables.pg_replication_slot) -> None:
    """Create or update one slot (synchronize_one_slot)."""
    name, reached = remote.slot_name, current_lsn(standby)
    confirmed = remote.confirmed_flush_lsn or 0
    if confirmed > reached:
        raise PgError(
            "55000",
            f"skipping slot synchronization because the received slot sync LSN {lsn_text(confirmed)} "
            f'for slot "{name}" is ahead of the standby position {lsn_text(reached)}',
        )
    own = slot_or_none(standby, name)
    now = datetime.now(timezone.utc).isoformat()
    if own is None:
        if not remote.invalidation_reason:
            values = {**remote._asdict(), "synced": True, "active_pid": None, "inactive_since": now}
            insert(standby, tables.pg_replication_slot, **values)
        return
    if not own.synced:
        raise PgError(
            "55000", f'exiting from slot synchronization because same name slot "{name}" already exists on the standby'
        )
    followed = {column: getattr(remote, column) for column in (_LOST if remote.invalidation_reason else _FOLLOWED)}
    update(standby, tables.pg_replication_slot, {"slot_name": name}, **followed, inactive_since=now)


# --- synchronize ------------------------------------------------------------------------------------------------------


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
        require_superuser(primary, "create a standby")
        check_primary(primary)
        conninfo = conninfo_of(primary)
        if folder.resolve() == catalog_file(primary).parent:
            raise PgError("55000", f'folder "{folder}" is the primary\'s own')
        if slot is not None and slot_or_none(primary, slot) is None:
            with at_once(primary) as apart:
                create_physical_slot(apart, slot, reserve=True)
        settings = bootstrap.settings(primary.link)
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
        require_superuser(standby, "synchronize a standby")
        require_recovery(standby)
    claim(standby.catalog.folder)
    with _alone(place_here), on_primary(standby) as primary:
        with reading(standby):  # it may have been promoted a moment ago
            require_recovery(standby)
            before = known_files(standby)
            settings = bootstrap.settings(standby.link)
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
        require_superuser(standby, "promote a standby")
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
    primary: Session, catalog: Path, place: PathMapping, settings: bootstrap.Settings, *, link: bool
) -> Iterator[tuple[Session, Fetched, set[str]]]:
    """A copy of the primary's catalog made the standby's, with all files that it names: the fetched ones, and all
    names."""
    with drafts.complete(primary, catalog, place, link=link, tries=_TRIES) as (draft, got, names):
        crash_point("standby.complete")
        drafts.make_standby(draft, place, settings)
        crash_point("standby.drafted")
        yield draft, got, names


def _alone(data_path: str) -> AbstractContextManager[None]:
    return drafts.alone(data_path, PgError("55000", "cannot synchronize replication slots concurrently"))


def _told(draft: Session, got: Fetched, removed: int) -> Synchronized:
    link = draft.link
    lsn = int(link.execute(sql.LAST_SNAPSHOT)[0][0]) + 1
    return Synchronized(lsn, tuple(bootstrap.synced_slots(link)), got.files, got.bytes, removed)


def _report_position(primary: Session, slot: str | None, lsn: int) -> None:
    """Move the standby's slot on the primary to its position (synchronized_standby_slots)."""
    if slot:
        with at_once(primary) as apart:
            move_physical_slot(apart, slot, lsn)


# --- functions --------------------------------------------------------------------------------------------------------


implements = Family()

VOID = ""


@implements("pg_sync_replication_slots", context=True)
def sync_replication_slots(call: Call) -> str:
    check_slot_permissions(call.session)
    synchronize_slots(call.session)
    return VOID


@implements("pg_promote", context=True)
def pg_promote(call: Call, wait: bool, wait_seconds: int) -> bool:
    """The promotion is done at once, so that `wait` has no effect."""
    if wait_seconds <= 0:
        raise PgError("22003", '"wait_seconds" must not be negative or zero')
    promote(call.session)
    return True
