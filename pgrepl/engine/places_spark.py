"""The places of rows that Spark finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.engine import spark
from pgrepl.lake.read.data_file import once
from pgrepl.lake.read.places import Positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def positions(places: DataFrame, column: str = "place") -> Positions:
    """The places in a column of a DataFrame, which is run once."""
    from pyspark.sql import functions as F

    file, pos, row = (F.col(f"{column}.{part}") for part in ("file", "pos", "row"))
    with spark.pg_errors():
        found = places.select(
            F.coalesce(file, F.lit(-1)).alias("file"), F.when(file.isNull(), row).otherwise(pos).alias("at")
        ).toArrow()
    return _grouped(found["file"].to_numpy(), found["at"].to_numpy())


def _grouped(files: Any, at: Any) -> Positions:
    import numpy as np

    order = np.argsort(files, kind="stable")
    present, starts = np.unique(files[order], return_index=True)
    parts = np.split(at[order], starts[1:]) if len(present) else []
    found = {int(file): once(part) for file, part in zip(present, parts, strict=True)}
    return Positions(found, found.pop(-1, np.empty(0, np.int64)))
