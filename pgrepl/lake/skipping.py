"""The files and row groups that a scan reads, and those that its bounds let it skip: files by the catalog's statistics,
row groups by those in footers.

For a table with many files only the catalog is read, no footers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.lake.files import Extent, data_files, last_snapshot, whole_extent
from pgrepl.lake.inlined import count_rows

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.data_file import DataFile
    from pgrepl.lake.table import LakeTable

FEW = 100  # files whose footers are looked at


@dataclass
class Skipping:
    """The files, rows, bytes and row groups that a scan reads, and those of the whole table. `groups` None: the footers
    were not read."""

    files: int
    extent: Extent
    all_files: int
    whole: Extent
    inlined: int
    groups: int | None = None
    all_groups: int = 0


def skipping(session: Session, table: LakeTable, bounds: Sequence[Bound]) -> Skipping:
    all_files, whole = whole_extent(session, table)
    inlined = count_rows(session, table, last_snapshot(session))
    if not bounds:
        return Skipping(all_files, whole, all_files, whole, inlined)
    files = data_files(session, table, bounds=bounds)
    left = Extent(sum(file.record_count for file in files), sum(file.file_size_bytes for file in files))
    found = Skipping(len(files), left, all_files, whole, inlined)
    if 0 < len(files) <= FEW:
        _look_into(found, table, files, bounds)
    return found


def _look_into(found: Skipping, table: LakeTable, files: Sequence[DataFile], bounds: Sequence[Bound]) -> None:
    from pgrepl.lake.file_scan import groups_within

    rows, size, groups, every = found.extent.rows, found.extent.bytes, 0, 0
    for file in files:
        try:
            footer, chosen = groups_within(table, file, bounds)
        except PgError:
            return  # the scan itself reports the damaged file
        groups += len(chosen)
        every += len(footer.row_groups)
        for group in set(footer.row_groups).difference(chosen):
            metadata = footer.metadata.row_group(group)
            rows -= metadata.num_rows
            size -= sum(metadata.column(n).total_compressed_size for n in range(metadata.num_columns))
    found.extent = Extent(rows, size)
    found.groups, found.all_groups = groups, every
