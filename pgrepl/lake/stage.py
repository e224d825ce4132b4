"""Rows that Spark writes become data files in the table's folder: nothing refers to them until they are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.lake.table import LakeTable
    from pgrepl.lake.write import NewFile


def write_frame(session: Session, table: LakeTable, df: DataFrame, row_ids: str | None = None) -> list[NewFile]:
    """Write the rows; `df` has a column c{attnum} for each column of the table, in any order (others are left out).
    `row_ids` names the column with the row ids that updated rows keep. Files without rows are not kept; if anything
    fails no file is left."""
    raise NotImplementedError


def positions(
    places: DataFrame, column: str = "place"
) -> tuple[dict[int, npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    """Places as what Write.delete_positions and Write.delete_inlined take: positions by file id, ascending and each
    once, and the row ids of inlined rows."""
    raise NotImplementedError
