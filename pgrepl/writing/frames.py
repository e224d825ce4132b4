"""The rows of a statement as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation
from pgrepl.expr.dml.queries import TargetRowsQuery
from pgrepl.expr.rewrite import expand_views
from pgrepl.query.outside import OutsideRows
from pgrepl.query.rowset import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.expr.tree import Query


class FrameRows(OutsideRows):
    """The rows of a DataFrame with columns c1 … cn, as rows of a query that Spark carries out."""

    def __init__(self, kept: DataFrame) -> None:
        self._kept = kept

    def frame(self, numbers: Sequence[int]) -> DataFrame:
        return self._kept.select(*[f"c{n}" for n in numbers])

    def __len__(self) -> int:
        return self._kept.count()

    def __getitem__(self, index: Any) -> Any:
        raise IndexError("these rows are only for Spark")


def query_frame(session: Session, query: Query) -> DataFrame:
    """The rows with columns c1 … cn; or Declined."""
    return frame_of(session, expand_views(session, query))


def new_rows(table: Relation, found: TargetRowsQuery, frame: DataFrame) -> DataFrame:
    """The new rows: c{attnum} for each column, and `place` of the old row."""
    from pyspark.sql import functions as F

    sources = {attnum: f"c{3 + n}" for n, attnum in enumerate(found.columns)}
    first = 3 + len(found.columns)
    sources |= {attnum: f"c{first + n}" for n, attnum in enumerate(found.assigned)}
    columns = [F.col(sources[a.num]).alias(f"c{a.num}") for a in table.columns]
    return frame.select(F.col("c1").alias("place"), *columns)
