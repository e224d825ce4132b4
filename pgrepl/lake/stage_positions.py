"""The positions that a write deletes, by Arrow and numpy, without rows in Python.

An UPDATE need not find its rows twice: the new versions are written with their row ids, by which the old versions are
found (`row_ids_of`, `locate`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.lake import footers, inlined
from pgrepl.lake.ctid import once, row_ids
from pgrepl.lake.deleted_rows import joined
from pgrepl.lake.files import data_files, last_snapshot

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pgrepl.catalog.session import Session
    from pgrepl.lake.data_file import DataFile, NewFile
    from pgrepl.lake.table import LakeTable


class Positions(NamedTuple):
    """Distinct positions by file id, ascending, for Write.delete_positions; and row ids for Write.delete_inlined."""

    files: dict[int, npt.NDArray[np.int64]]
    inlined: npt.NDArray[np.int64]


def row_ids_of(table: LakeTable, files: Iterable[NewFile]) -> npt.NDArray[np.int64]:
    """The row ids of files that were written with them."""
    import numpy as np

    found = [np.empty(0, np.int64)]
    for file in files:
        footer = footers.footer(table.location + file.name)
        with footers.DataFileReader(footer) as reader:
            found.append(reader.read(footer.row_groups, [footer.by_id[footers.ROW_ID]])[0].to_numpy())
    return np.concatenate(found)


def locate(
    session: Session, table: LakeTable, row_ids: npt.NDArray[np.int64], snapshot: int | None = None
) -> Positions:
    """The places at the snapshot of the rows with these ids."""
    import numpy as np

    at = last_snapshot(session) if snapshot is None else snapshot
    wanted = once(row_ids)
    in_catalog = np.array([row.row_id for row in inlined.rows(session, table, (), at)], np.int64)
    found_inlined = np.intersect1d(wanted, in_catalog)
    deletes = inlined.deletes(session, table, at)
    found: dict[int, Any] = {}
    left = len(wanted) - len(found_inlined)
    for file in data_files(session, table, at):
        if left <= 0:
            break
        here = _positions_in(file, wanted)
        if len(here):
            gone, _ = joined(file.delete_files, deletes.get(file.data_file_id, []), at)
            here = np.setdiff1d(here, gone)
        if len(here):
            found[file.data_file_id] = here
            left -= len(here)
    return Positions(found, found_inlined)


def _positions_in(file: DataFile, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The positions of the file's rows, deleted ones included, whose ids are in `wanted`, which ascends."""
    import numpy as np

    footer = footers.of(file)
    column = footer.by_id.get(footers.ROW_ID) or footer.by_name.get(footers.ROW_ID_NAME)
    start = file.row_id_start
    if column is None:
        if start is None:
            return np.empty(0, np.int64)
        first, last = np.searchsorted(wanted, [start, start + file.record_count])
        return wanted[first:last] - start
    with footers.DataFileReader(footer) as reader:
        array = reader.read(footer.row_groups, [column])[0]
    if array.null_count and start is not None:
        ids = row_ids(start, np.arange(len(array)), array.combine_chunks())
    else:
        ids = array.to_numpy()
    places = np.searchsorted(wanted, ids)
    places[places == len(wanted)] = 0
    found: npt.NDArray[np.int64] = np.flatnonzero(wanted[places] == ids) if len(wanted) else np.empty(0, np.int64)
    return found
