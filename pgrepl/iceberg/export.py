"""Metadata for readers of folders and buckets, who have no catalog: `vN.metadata.json`, and `version-hint.text` with
the N of now."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pgrepl.iceberg.cleaning import HINT
from pgrepl.iceberg.metadata import table_metadata

if TYPE_CHECKING:
    from pgrepl.iceberg.place import Place
    from pgrepl.iceberg.tables import Described


class Exported(NamedTuple):
    location: str  # the table's folder
    version: int
    is_new: bool


def export(table: Described, place: Place) -> Exported:
    """Write the table's metadata of now, unless the last version is that already."""
    found = table_metadata(table, place).json
    folder = place.of(table)
    hint = (folder.read(HINT) or "").strip()
    last = int(hint) if hint.isdecimal() else 0
    if last and folder.read(_name(last)) == found:
        return Exported(folder.location, last, False)
    folder.write(_name(last + 1), found.encode())
    folder.write(HINT, str(last + 1).encode())
    return Exported(folder.location, last + 1, True)


def _name(version: int) -> str:
    return f"metadata/v{version}.metadata.json"
