"""What changes in a copy of a catalog before others open it: as a standby, as a backup, for a rehearsal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog import sql

if TYPE_CHECKING:
    from pgrepl.catalog.connection import CatalogConnection

Settings = Sequence[tuple[str, str]]  # of the instance, as in pgrepl_setting


def empty(link: CatalogConnection, tables: Iterable[str]) -> None:
    """Remove all rows of some tables."""
    for table in tables:
        link.execute(sql.delete_every(table))


def forget_processes(link: CatalogConnection) -> None:
    """Forget who works in the original."""
    empty(link, sql.OF_PROCESSES)
    link.execute(sql.NO_ACTIVE_SLOTS)


def keep_synced_slots(link: CatalogConnection, now: str) -> None:
    """Keep the slots that a standby synchronizes with the primary's."""
    link.execute(sql.DELETE_UNSYNCED_SLOTS)
    link.execute(sql.SYNC_SLOTS, (now,))


def synced_slots(link: CatalogConnection) -> list[str]:
    return [name for (name,) in link.execute(sql.SYNCED_SLOTS)]


def settings(link: CatalogConnection) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in link.execute(sql.SETTINGS)]


def change_settings(link: CatalogConnection, wanted: Settings) -> None:
    """Put these in place of all settings."""
    link.execute(sql.delete_every("pgrepl_setting"))
    link.execute_many(sql.INSERT_SETTING, wanted)
