"""Expiry of snapshots, and removal of the files that only they needed.

A snapshot stays while a slot may read the changes behind it, while a reader has pinned it, and for the time that
snapshots are kept. Rows that ended before the oldest snapshot are deleted from the catalog. Their files are scheduled
for deletion, and removed from the disk a while later, as a reader may be reading them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.subscription import retained
from pgrepl.catalog.store import store, tables
from pgrepl.catalog.store.declarative import every
from pgrepl.catalog.store.sql import SNAPSHOT_AT
from pgrepl.catalog.store.store import rows
from pgrepl.ground.frozen import frozen
from pgrepl.lake import prepared, sql, storage
from pgrepl.lake.define import inlined
from pgrepl.lake.define.options import inlined_prefix
from pgrepl.lake.read.inlined import deletes_table, exists, settle
from pgrepl.lake.read.local import oldest_pin
from pgrepl.lake.storage import claim
from pgrepl.lake.table import lake_table, table_folder

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.connection import CatalogConnection

_ENDING = (  # DuckLake's tables whose rows have an end_snapshot
    "ducklake_schema", "ducklake_table", "ducklake_view", "ducklake_tag", "ducklake_column_tag",
    "ducklake_partition_info", "ducklake_sort_info", "ducklake_macro",
)  # fmt: skip

# rows that stay as long as their table: its files may have columns that were dropped long ago, whose ids must not be
# used again
_OF_TABLES = (
    "pgrepl_file",
    "ducklake_column",
    "ducklake_table_stats",
    "ducklake_table_column_stats",
    "ducklake_schema_versions",
)


@frozen
class Expired:
    snapshots: int
    files: int  # scheduled for deletion


def horizon(session: Session, keep: timedelta) -> int:
    """The oldest snapshot that is needed."""
    last = session.transaction.numbering.last_snapshot()
    needed = [last]
    for slot in rows(session, tables.pg_replication_slot):
        if slot.slot_type == "logical" and slot.restart_lsn and not slot.invalidation_reason:
            needed.append(int(slot.restart_lsn) - 1)
    needed += [int(row.first_snapshot) for row in rows(session, tables.pgrepl_prepared)]
    needed += retained(session)
    pinned = oldest_pin(session)
    if pinned is not None:
        needed.append(pinned)
    if keep:
        since = (datetime.now(timezone.utc) - keep).isoformat(sep=" ")
        link = session.link
        number = link.execute(SNAPSHOT_AT, (since,))[0][0]
        needed.append(0 if number is None else int(number))
    return max(0, min(needed))


def expire(session: Session, keep: timedelta, most: int | None = None) -> Expired:
    """Expire the snapshots before the horizon, at most `most` of them. The caller holds the write lock."""
    link = session.link
    oldest = horizon(session, keep)
    if most is not None:
        oldest = min(oldest, int(link.execute(sql.FIRST_SNAPSHOT)[0][0]) + most)
    gone = link.execute(sql.COUNT_SNAPSHOTS_BEFORE, (oldest,))[0][0]
    if not gone:
        return Expired(0, 0)
    for delete in sql.DELETE_SNAPSHOTS_BEFORE:
        link.execute(delete, (oldest,))
    dropped = [row[0] for row in link.execute(sql.DROPPED_TABLES, (oldest, oldest))]
    for (table_id,) in link.execute(sql.TABLES_WITH_INLINED_ROWS):
        settle(link, table_id)
    files = _expire_files(session, oldest, dropped)
    _expire_inlined(session, oldest, dropped)
    for table_id in dropped:
        for table in _OF_TABLES:
            link.execute(sql.delete(table, "table_id"), (table_id,))
    for table in _ENDING:
        link.execute(sql.delete_ended(table), (oldest,))
    for system_table in every:
        if system_table.versioned:
            store.expire(session, system_table, oldest)
    session.forget_all()
    return Expired(int(gone), files)


def _expire_files(session: Session, oldest: int, dropped: list[int]) -> int:
    """Schedule the files that no remaining snapshot needs for deletion."""
    link = session.link
    data = link.execute(sql.ENDED_DATA_FILES, (oldest,))
    deletes = link.execute(sql.ENDED_DELETE_FILES, (oldest,))
    for table_id in dropped:
        data += link.execute(sql.OTHER_DATA_FILES_OF_TABLE, (table_id, oldest))
    for row in data:
        deletes += link.execute(sql.OTHER_DELETE_FILES_OF_FILE, (row[0], oldest))
    folders: dict[int, str] = {}
    data_path = session.catalog.data_path
    now = datetime.now(timezone.utc).isoformat(sep=" ")
    scheduled: dict[int, tuple[Any, ...]] = {}
    for file_id, table_id, path, relative, *_ in (*data, *deletes):
        if relative:
            path = folders.setdefault(table_id, table_folder(session, table_id)) + path
        relative = path.startswith(data_path)
        scheduled[file_id] = (file_id, path.removeprefix(data_path), int(relative) if link.is_sqlite else relative, now)
    link.execute_many(sql.SCHEDULE_DELETION, list(scheduled.values()))
    for row in data:
        for delete in sql.DELETE_DATA_FILE:
            link.execute(delete, (row[0],))
    link.execute_many(sql.DELETE_OWN_FILE, [(file_id,) for file_id in scheduled])
    for row in deletes:
        link.execute(sql.DELETE_DELETE_FILE, (row[0],))
    ended = {row[0] for row in data}
    for table_id in {row[1] for row in data}:
        name = deletes_table(table_id)
        if exists(link, name):
            for file_id in ended:
                _remove_rows(link, name, "file_id = ?", file_id)
    return len(scheduled)


def _expire_inlined(session: Session, oldest: int, dropped: list[int]) -> None:
    link = session.link
    prefix = inlined_prefix(session)
    for name, table_id in link.execute(sql.EVERY_INLINED_TABLE):
        if table_id not in dropped:
            _remove_rows(link, name, f"{prefix}end_snapshot <= ?", oldest)
            continue
        link.execute(sql.drop_inlined_table(name))
        link.execute(sql.DELETE_INLINED_TABLE, (name,))
        deletes = deletes_table(table_id)
        if exists(link, deletes):
            link.execute(sql.drop_inlined_table(deletes))
        for dropped_name in (name, deletes):
            inlined.forget(link, dropped_name)


def _remove_rows(link: CatalogConnection, table: str, condition: str, value: int) -> None:
    if link.is_sqlite:
        inlined.delete(link, table, condition, (value,))
    else:
        link.execute(sql.delete_inlined_rows(table, condition), (value,))


# --- files ------------------------------------------------------------------------------------------------------------


def remove_files(session: Session, grace: timedelta) -> int:
    """Remove files that were scheduled for deletion before `grace`, and unused files that are older."""
    removed = remove_scheduled(session, grace)
    forget_removed(session)
    for path, age in unused_files(session):
        if age >= grace:
            storage.remove(path)
            removed += 1
    return removed


def remove_scheduled(session: Session, grace: timedelta, most: int | None = None) -> int:
    """Remove files that were scheduled for deletion before `grace`, at most `most` of them."""
    claim(session.catalog.folder)
    due = (datetime.now(timezone.utc) - grace).isoformat(sep=" ")
    data_path = session.catalog.data_path
    link = session.link
    removed = 0
    scheduled = link.execute(sql.DUE_FOR_DELETION, (due,))
    for file_id, path, relative in scheduled[:most]:
        if not relative and not path.startswith(data_path):
            continue  # another program has put it elsewhere, and has to remove it
        storage.remove(data_path + path if relative else path)
        for delete in sql.DELETE_REMOVED_FILE:
            link.execute(delete, (file_id,))
        removed += 1
    return removed


def forget_removed(session: Session) -> None:
    """Forget the checksums of files that another program has removed, or has scheduled for deletion."""
    link = session.link
    unnamed = link.execute(sql.UNNAMED_OWN_FILES)
    for file_id, table_id, path, scheduled in unnamed:
        if scheduled is not None or storage.size_of(table_folder(session, table_id) + path) is None:
            link.execute(sql.DELETE_OWN_FILE, (file_id,))


def unused_files(session: Session) -> list[tuple[str, timedelta]]:
    """Files that the catalog does not refer to, with their age; without those of pgrepl whose row in the catalog is
    lost."""
    named = named_files(session)
    written = {os.path.basename(path) for (path,) in session.link.execute(sql.OWN_PATHS)}
    return [
        (path, age)
        for path, age in storage.listed(session.catalog.data_path)
        if path.endswith((".parquet", ".puffin")) and path not in named and os.path.basename(path) not in written
    ]


def known_files(session: Session) -> set[str]:
    """All files that the catalog refers to, and those of pgrepl whose row is lost."""
    written = session.link.execute(sql.OWN_FILES)
    return named_files(session) | set(_in_folders(session, written))


def named_files(session: Session) -> set[str]:
    """The absolute paths of all files that the catalog refers to."""
    named = set(sizes_by_path(session))
    named.update(lake_table(session, oid).location + name for oid, name in prepared.files(session))
    for path, relative in session.link.execute(sql.SCHEDULED_FOR_DELETION):
        named.add(session.catalog.data_path + path if relative else path)
    return named


def sizes_by_path(session: Session) -> dict[str, int | None]:
    """The data and delete files that the catalog refers to: the size of each by its absolute path."""
    sizes: dict[str, int | None] = {}
    for query in sql.PATHS_AND_SIZES:
        rows = session.link.execute(query)
        sizes.update((path, size) for _, path, relative, size in rows if not relative)
        inside = [(table_id, path, size) for table_id, path, relative, size in rows if relative]
        paths = _in_folders(session, ((table_id, path) for table_id, path, _ in inside))
        sizes.update(zip(paths, (size for *_, size in inside), strict=True))
    return sizes


def _in_folders(session: Session, files: Iterable[tuple[int, str]]) -> Iterator[str]:
    """The absolute paths of files in tables' folders."""
    folders: dict[int, str] = {}
    for table_id, path in files:
        if table_id not in folders:
            folders[table_id] = table_folder(session, table_id)
        yield folders[table_id] + path
