"""The slots of standbys: their positions, for the subscribers that must not get ahead of them.

PostgreSQL's standbys receive WAL through physical replication slots. Here such a slot keeps nothing, as a standby
copies what it needs; it only has the standby's position (standby.py moves it). Subscriptions that fail over wait for
the slots that synchronized_standby_slots names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, update
from pgrepl.ground.errors import PgError, Report
from pgrepl.replication.publisher.slots import check_new_slot, insert_slot, slot_or_none

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def create_physical_slot(session: Session, name: str, *, reserve: bool) -> tables.pg_replication_slot:
    """Create the slot of a standby (synchronized_standby_slots)."""
    check_new_slot(session, name, failover=False, temporary=False)
    return insert_slot(
        session,
        name,
        plugin=None,
        slot_type="physical",
        datoid=None,
        temporary=False,
        restart_lsn=current_lsn(session) if reserve else None,
        confirmed_flush_lsn=None,
        two_phase=False,
        failover=False,
        catalog_snapshot=None,
    )


def standby_slot(session: Session, name: str) -> tables.pg_replication_slot:
    """The slot that a standby names as its own, if it has one here (validate_remote_info)."""
    row = slot_or_none(session, name)
    if row is None or row.slot_type != "physical":
        raise PgError(
            "22023", f'replication slot "{name}" specified by "primary_slot_name" does not exist on primary server'
        )
    return row


def move_physical_slot(session: Session, name: str, lsn: int) -> None:
    """Move the slot of a standby that has all changes before `lsn`."""
    if (standby_slot(session, name).restart_lsn or 0) < lsn:
        update(session, tables.pg_replication_slot, {"slot_name": name}, restart_lsn=lsn, wal_status="reserved")


def sendable_lsn(session: Session, row: tables.pg_replication_slot) -> tuple[int, Report | None]:
    """The LSN before which a slot's changes may be sent. A slot that fails over waits for the standbys that
    synchronized_standby_slots names, so that no subscriber is ahead of them (StandbySlotsHaveCaughtup); the report
    names the standby it waits for."""
    end = current_lsn(session)
    setting = one(session, tables.pgrepl_setting, name="synchronized_standby_slots") if row.failover else None
    named = setting.value.split(",") if setting is not None else ()
    said: Report | None = None
    for name in filter(None, (part.strip() for part in named)):
        standby = slot_or_none(session, name)
        is_logical = standby is not None and standby.slot_type == "logical"
        if standby is None or is_logical:
            return 0, said or _cannot_wait_for(name, exists=is_logical)
        kept = standby.restart_lsn or 0
        if kept < end and not standby.active_pid:
            said = said or _waits_for(name)
        end = min(end, kept)
    return end, said


_SETTING = '"synchronized_standby_slots"'


def _waits_for(name: str) -> Report:
    return Report(
        "WARNING",
        "55000",
        f'replication slot "{name}" specified in parameter {_SETTING} does not have active_pid',
        f'Logical replication is waiting on the standby associated with replication slot "{name}".',
        f'Start the standby associated with the replication slot "{name}", or amend parameter {_SETTING}.',
    )


def _cannot_wait_for(name: str, *, exists: bool) -> Report:
    if exists:
        return Report(
            "WARNING",
            "22023",
            f'cannot specify logical replication slot "{name}" in parameter {_SETTING}',
            f'Logical replication is waiting for correction on replication slot "{name}".',
            f'Remove the logical replication slot "{name}" from parameter {_SETTING}.',
        )
    return Report(
        "WARNING",
        "22023",
        f'replication slot "{name}" specified in parameter {_SETTING} does not exist',
        f'Logical replication is waiting on the standby associated with replication slot "{name}".',
        f'Create the replication slot "{name}" or amend parameter {_SETTING}.',
    )
