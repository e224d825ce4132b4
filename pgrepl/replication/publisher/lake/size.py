"""The number of rows inserted and deleted between two LSNs, and what is kept for a slot, by what the catalog says of
files; no file is read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.numbering import current_lsn
from pgrepl.catalog.store import rows
from pgrepl.lake import sql
from pgrepl.lake.history import committed_since
from pgrepl.lake.table import lake_table
from pgrepl.replication.publisher.retained import Retained

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def changed_rows(session: Session, start: int, end: int) -> int:
    """About how many rows were inserted or deleted from LSN `start` on and before `end`. Inlined rows are few: each
    snapshot counts as one."""
    link = session.link
    rows = link.execute(sql.ROWS_CHANGED_BETWEEN, (start, end, start, end))
    return max(end - start, 0) + sum(int(count) for (count,) in rows)


def waiting(session: Session, start: int, end: int) -> tuple[int, datetime | None]:
    """About how many rows were changed from LSN `start` on and before `end`, and when the first of them was; None: the
    log ends there."""
    if start >= end:
        return 0, None
    return changed_rows(session, start, end), committed_since(session, start)


def rows_by_snapshot(session: Session, start: int, end: int) -> dict[int, int]:
    """About how many rows were inserted in files or deleted by delete files from LSN `start` on and before `end`, by
    snapshot."""
    found: dict[int, int] = {}
    for snapshot, count in session.link.execute(sql.ROWS_CHANGED_BY_SNAPSHOT, (start, end, start, end)):
        found[snapshot] = found.get(snapshot, 0) + int(count)
    return found


def rows_in_files(session: Session, oids: Iterable[int], start: int, end: int) -> int:
    """The number of rows of these tables that were inserted in files, or deleted by delete files, from LSN `start` on
    and before `end`."""
    link = session.link
    count = 0
    for oid in oids:
        table = lake_table(session, oid).table_id
        for asked in sql.ROWS_OF_TABLE_CHANGED_BETWEEN:
            count += int(link.execute(asked, (start, end, table))[0][0])
    return count


def retained(session: Session, slot: tables.pg_replication_slot) -> Retained:
    """What the lake keeps for a slot (lake/expire.py): the snapshots from its restart point on but the last, and the
    bytes of files that these have and the last one has not."""
    start, end = int(slot.restart_lsn or 0), current_lsn(session)
    if not start or slot.invalidation_reason:
        return Retained(0, status=slot.wal_status, invalid=slot.invalidation_reason, snapshots=0)
    size = sum(int(session.link.execute(asked, (start,))[0][0]) for asked in sql.BYTES_ENDED_SINCE)
    since = waiting(session, start, end)[1]
    others = [int(row.restart_lsn or 0) for row in rows(session, tables.pg_replication_slot) if _keeps(row)]
    return Retained(
        size,
        0.0 if since is None else max(0.0, (datetime.now(timezone.utc) - since).total_seconds()),
        status=slot.wal_status or "reserved",
        snapshots=max(0, end - start),
        is_oldest=start <= min(others, default=start),
    )


def _keeps(row: tables.pg_replication_slot) -> bool:
    return row.slot_type == "logical" and bool(row.restart_lsn) and not row.invalidation_reason
