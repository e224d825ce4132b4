"""The files of a table at a snapshot, and which of them a condition can concern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.table import LakeTable


@frozen
class DeleteFile:
    """A row of ducklake_delete_file."""

    delete_file_id: int
    data_file_id: int
    begin_snapshot: int
    path: str  # absolute, or a URI
    delete_count: int
    file_size_bytes: int
    partial_max: int | None  # not NULL: the file says of each position at which snapshot it was deleted


@frozen
class DataFile:
    """A row of ducklake_data_file with the delete file that belongs to it at the snapshot asked for."""

    data_file_id: int
    begin_snapshot: int
    end_snapshot: int | None
    path: str  # absolute, or a URI
    record_count: int
    file_size_bytes: int
    row_id_start: int | None
    mapping_id: int | None  # not NULL: columns are found by name, not by field id
    partial_max: int | None  # not NULL: rows say at which snapshot they came
    delete_file: DeleteFile | None


def data_files(
    session: Session, table: LakeTable, snapshot: int | None = None, bounds: Sequence[Bound] = ()
) -> list[DataFile]:
    """The table's files at the snapshot (None: as the running transaction sees it), in the order of their rows; those
    whose statistics say that no row is within the bounds are left out."""
    raise NotImplementedError


def estimate(session: Session, table: LakeTable, bounds: Sequence[Bound] = (), snapshot: int | None = None) -> int:
    """How many rows a scan within the bounds has to look at, at most, inlined ones included; reads no file."""
    raise NotImplementedError
