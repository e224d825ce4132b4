"""All rows of a data file, deleted ones included, or those at some positions, for reading changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.ground.lazy import np, pa
from pgrepl.lake.read import footers
from pgrepl.lake.read.data_file import DataFile, row_ids
from pgrepl.lake.read.file_scan import Portion, constant, locate, with_fields
from pgrepl.lake.table import LakeColumn
from pgrepl.types.lake.arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt


def file_rows(
    file: DataFile, columns: Sequence[LakeColumn], only: npt.NDArray[np.int64] | None = None
) -> Iterator[Portion]:
    """The rows of a file with their row ids, a row group at a time, or only those at positions, which ascend."""
    footer = footers.of(file)
    found = locate(file, footer)
    there = [found.get(column.column_id) for column in columns]
    constants = [constant(c, file) if own is None else None for c, own in zip(columns, there, strict=True)]
    own_ids = found.get(footers.ROW_ID)
    wanted = [column for column in there if column is not None] + ([own_ids] if own_ids is not None else [])
    with footers.DataFileReader(footer) as reader:
        for group in footer.row_groups:
            start, stop = footer.starts[group], footer.starts[group + 1]
            positions = np.arange(start, stop, dtype=np.int64)
            if only is not None:
                low, high = np.searchsorted(only, [start, stop])
                positions = only[low:high]
            if not len(positions):
                continue
            arrays: list[Any] = reader.read([group], wanted) if wanted else []
            arrays = [plain_array(array) for array in arrays]
            if len(positions) < stop - start:
                indexes = pa.array(positions - start)
                arrays = [array.take(indexes) for array in arrays]
            ids = row_ids(file.row_id_start, positions, arrays.pop() if own_ids is not None else None)
            given = iter(arrays)
            own = [
                None if c is None else with_fields(next(given), column)
                for c, column in zip(there, columns, strict=True)
            ]
            yield Portion(own, constants, positions, ids)
