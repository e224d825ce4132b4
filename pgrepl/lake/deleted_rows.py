"""The deleted rows of a data file: those of its delete file, and deletes inlined in the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.lake import inlined
from pgrepl.lake.ctid import once
from pgrepl.lake.delete_file import read_delete_file
from pgrepl.lake.files import last_snapshot

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pgrepl.catalog.session import Session
    from pgrepl.lake.data_file import DataFile, DeleteFile
    from pgrepl.lake.table import LakeTable


def deleted_positions(
    session: Session, table: LakeTable, file: DataFile, snapshot: int | None = None
) -> npt.NDArray[np.int64]:
    """The positions of the file that are deleted at the snapshot, ascending, none twice."""
    return once(deletions(session, table, file, snapshot)[0])


def deletions(
    session: Session, table: LakeTable, file: DataFile, snapshot: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The deleted positions with the snapshot of each deletion; in no order."""
    at = last_snapshot(session) if snapshot is None else snapshot
    own = inlined.deletes(session, table, at, file.data_file_id).get(file.data_file_id, [])
    return joined(file.delete_files, own, at)


def joined(
    delete_files: Sequence[DeleteFile], own: list[tuple[int, int]], snapshot: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The deletions of delete files and inlined deletes (position, snapshot) together."""
    import numpy as np

    positions, snapshots = np.array(own, np.int64).reshape(-1, 2).T
    for delete_file in delete_files:
        listed, when = read_delete_file(delete_file)
        past = when <= snapshot
        if not past.all():
            listed, when = listed[past], when[past]
        positions, snapshots = np.concatenate([positions, listed]), np.concatenate([snapshots, when])
    return positions, snapshots
