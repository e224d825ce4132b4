"""Metadata for readers of folders and buckets, who have no catalog: `vN.metadata.json`, and `version-hint.text` with
the N of now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.iceberg import tables
from pgrepl.iceberg.cleaning import HINT, named_by
from pgrepl.iceberg.metadata import table_metadata
from pgrepl.iceberg.place import place_of

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.iceberg.place import Place, TableFolder
    from pgrepl.iceberg.tables import Described


class Exported(NamedTuple):
    location: str  # the table's folder
    version: int
    is_new: bool

    @property
    def metadata(self) -> str:
        """The path of metadata.json."""
        return f"{self.location}/{_name(self.version)}"


Done = Callable[["Described", Exported], None]


def export_tables(session: Session, names: Sequence[str], to: str | None, done: Done) -> list[PgError]:
    """Export the tables of these names, or all of the database that the role may read whole. One that fails does not
    keep the others from their export: the errors are returned, but raised if there is nothing else."""
    place = place_of(session, to)
    with reading(session):
        found = [tables.named(session, name) for name in names] or tables.every(session, session.database.name)
    errors: list[PgError] = []
    for table in found:
        try:
            with reading(session):  # one for each table, so that none is kept for long
                now = tables.find(session, table.namespace, table.name)
                exported = None if now is None else export(now, place)
            if now is not None and exported is not None:
                done(now, exported)
        except PgError as error:
            errors.append(error.with_context(f'export of table "{table.full_name}"'))
    if errors and len(errors) == len(found):
        raise errors[0]
    return errors


def export(table: Described, place: Place) -> Exported:
    """Write the table's metadata of now, unless the last version is that already. A version that another exporter has
    written meanwhile, or that a killed one has not told, stays what it is."""
    found = table_metadata(table, place).json
    folder = place.of(table)
    last = _told(folder)
    if last and folder.read(_name(last)) == found:
        return Exported(folder.location, last, False)
    version = last + 1
    while not folder.write_first(_name(version), found.encode()) and folder.read(_name(version)) != found:
        version += 1
    folder.make_durable(named_by(folder, [_name(version)]) - {HINT})
    if _told(folder) < version:
        folder.write(HINT, str(version).encode())
        folder.make_durable([HINT])
    return Exported(folder.location, version, True)


def _told(folder: TableFolder) -> int:
    """The version that readers find; 0: none."""
    hint = (folder.read(HINT) or "").strip()
    return int(hint) if hint.isdecimal() else 0


def _name(version: int) -> str:
    return f"metadata/v{version}.metadata.json"
