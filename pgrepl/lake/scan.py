"""A table at a snapshot as a DataFrame: files, deleted rows, inlined rows, row ids and places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.table import LakeTable


def frame(
    session: Session,
    table: LakeTable,
    attnums: Sequence[int],
    snapshot: int | None = None,
    bounds: Sequence[Bound] = (),
    places: bool = False,
) -> DataFrame:
    """The columns as c{attnum} in the types' Spark form, of the rows at the snapshot (None: as the running transaction
    sees the table); with `places` also `place`: struct<file:bigint,pos:bigint,row:bigint>, `file` and `pos` NULL for
    inlined rows. Rows outside the bounds may be among them: bounds only save work."""
    raise NotImplementedError
