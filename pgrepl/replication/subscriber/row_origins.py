"""Where the rows of a table come from: by the snapshots in which they were written.

A snapshot tells the origin of replicated rows. Of one that was expired, or in which files were merged, nothing is
known: then the row is nobody's, as PostgreSQL has it of rows whose commit timestamps are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.ground.frozen import frozen
from pgrepl.lake.changes.history import snapshots
from pgrepl.lake.read.extent import table_rows

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import RowPlace
    from pgrepl.lake.table import LakeTable


@frozen
class RowOrigin:
    """`name` None: the row was written here."""

    name: str | None
    xid: int
    at: int  # microseconds


@frozen
class Foreign:
    """The files, and the inlined rows, that another origin than one's own has written, with their snapshots."""

    files: dict[int, RowOrigin]
    inlined: dict[int, RowOrigin]

    def of(self, place: RowPlace) -> RowOrigin | None:
        return self.inlined.get(place.row) if place.file is None else self.files.get(place.file)


NOBODYS = Foreign({}, {})


def foreign_rows(session: Session, table: LakeTable, own: str, snapshot: int) -> Foreign:
    """What of the table another origin than `own` has written. The subscription has copied its tables, too."""
    found = table_rows(session, table, snapshot, ())
    files = {file.data_file_id: file.begin_snapshot for file in found.files if file.partial_max is None}
    inlined = {row.row_id: row.begin_snapshot for row in found.inlined}
    known = {number: origin_at(session, table, number) for number in {*files.values(), *inlined.values()}}
    others = {number: each for number, each in known.items() if each is not None and not is_own(each.name, own)}
    return Foreign(
        {file: others[number] for file, number in files.items() if number in others},
        {row: others[number] for row, number in inlined.items() if number in others},
    )


def is_own(name: str | None, own: str) -> bool:
    return name is not None and (name == own or name.startswith(f"{own}_"))


def origin_at(session: Session, table: LakeTable, number: int) -> RowOrigin | None:
    """The origin of rows that were written in this snapshot; None: not known."""
    for each in snapshots(session, number - 1, number):
        if not each.rearranges(table.table_id):
            return RowOrigin(each.origin, each.first, each.time)
    return None
