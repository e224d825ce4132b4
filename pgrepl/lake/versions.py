"""Newest versions of rows that were found: whether they are still at their places, and where they are now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.lake import deleted_rows, sql
from pgrepl.lake.files import data_file, last_snapshot
from pgrepl.lake.table import inlined_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.ctid import RowPlace
    from pgrepl.lake.table import LakeTable

_AT_ONCE = 500


def standing(session: Session, table: LakeTable, places: Iterable[RowPlace]) -> set[RowPlace]:
    """The places whose rows are still there, as the session sees the catalog."""
    by_file: dict[int | None, list[RowPlace]] = {}
    for place in places:
        by_file.setdefault(place.file, []).append(place)
    found: set[RowPlace] = set()
    for file_id, here in by_file.items():
        if file_id is None:
            alive = _inlined(session, table, [place.row for place in here])
            found.update(place for place in here if place.row in alive)
            continue
        file = data_file(session, table, file_id)
        if file is not None:
            gone = set(deleted_rows.deleted_positions(session, table, file).tolist())
            found.update(place for place in here if place.pos not in gone)
    return found


def _inlined(session: Session, table: LakeTable, row_ids: Sequence[int]) -> set[int]:
    """The ids of these rows that are inlined and not deleted."""
    link = session.link
    found: set[int] = set()
    for each in inlined_tables(session, table.table_id):
        for start in range(0, len(row_ids), _AT_ONCE):
            some = row_ids[start : start + _AT_ONCE]
            rows = link.execute(sql.living_inlined_rows(each.name, len(some), each.prefix), tuple(some))
            found.update(row[0] for row in rows)
    return found


def begun_after(session: Session, table: LakeTable, places: Sequence[RowPlace], snapshot: int) -> set[RowPlace]:
    """The places of inlined rows that have a newer version than the snapshot's."""
    link = session.link
    wanted = {place.row: place for place in places if place.file is None}
    found: set[RowPlace] = set()
    for each in inlined_tables(session, table.table_id) if wanted else ():
        rows = link.execute(sql.inlined_rows_begun_after(each.name, each.prefix), (snapshot,))
        found.update(wanted[row[0]] for row in rows if row[0] in wanted)
    return found


def updated_after(session: Session, table: LakeTable, row_id: int, snapshot: int) -> bool:
    """Did a deleted row have a newer version than the snapshot's?"""
    link = session.link
    return any(
        link.execute(sql.is_inlined_row_begun_after(each.name, each.prefix), (row_id, snapshot))
        for each in inlined_tables(session, table.table_id)
    )


def newest(
    session: Session, table: LakeTable, attnums: Sequence[int], row_ids: Collection[int]
) -> dict[int, tuple[Any, ...]]:
    """The rows with these ids as they are now, by id: the columns, and last the RowPlace. Deleted rows are left out."""
    from pgrepl.lake import local

    wanted = set(row_ids)
    return {
        row[-1].row: row
        for row in local.rows(session, table, attnums, places=True, snapshot=last_snapshot(session))
        if row[-1].row in wanted
    }
