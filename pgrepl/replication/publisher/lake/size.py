"""The number of rows inserted and deleted between two LSNs, by the catalog's row counts of files; no file is read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from pgrepl.lake import sql
from pgrepl.lake.history import committed_since
from pgrepl.lake.table import lake_table

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
