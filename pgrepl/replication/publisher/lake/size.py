"""How many rows came and went between two LSNs, by what the catalog says of files; none is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgrepl.lake.table import lake_table

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def changed_rows(session: Session, start: int, end: int) -> int:
    """About how many rows came from LSN `start` on and before `end`, or went; reads no file. Those inlined in the
    catalog are few: one a snapshot."""
    link = session.link
    mark = link.mark
    found = max(end - start, 0)
    for table, column in (("ducklake_data_file", "record_count"), ("ducklake_delete_file", "delete_count")):
        at = "begin_snapshot" if table == "ducklake_data_file" else "coalesce(partial_max, begin_snapshot)"
        rows = link.execute(
            f"SELECT coalesce(sum({column}), 0) FROM {table} WHERE {at} >= {mark} AND {at} < {mark}", (start, end)
        )
        found += int(rows[0][0])
    return found


def rows_begun(session: Session, start: int, end: int) -> dict[int, int]:
    """How many rows came in files, by snapshot."""
    link = session.link
    rows = link.execute(
        "SELECT begin_snapshot, sum(record_count) FROM ducklake_data_file"
        f" WHERE begin_snapshot >= {link.mark} AND begin_snapshot < {link.mark} GROUP BY begin_snapshot",
        (start, end),
    )
    return {snapshot: int(count) for snapshot, count in rows}


def rows_in_files(session: Session, oids: Iterable[int], start: int, end: int) -> int:
    """Of these tables."""
    link = session.link
    mark = link.mark
    count = 0
    for oid in oids:
        table = lake_table(session, oid).table_id
        for column, name in (("record_count", "ducklake_data_file"), ("delete_count", "ducklake_delete_file")):
            found = link.execute(
                f"SELECT coalesce(sum({column}), 0) FROM {name} WHERE table_id = {mark} AND begin_snapshot >= {mark}"
                f" AND begin_snapshot < {mark}",
                (table, start, end),
            )
            count += int(found[0][0])
    return count
