"""What a scan of Spark holds, beside what is read without Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pgrepl.engine import scan_spark
from pgrepl.internals import pyspark as internals
from pgrepl.lake.read import local
from pgrepl.lake.table import lake_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.lake.table import LakeTable
    from tests.lake.conftest import Lake


HAS_TIME = not internals.version().startswith("4.0.")  # Spark has the type time since 4.1
CLOCK = "time" if HAS_TIME else "text"


def values(
    frame: DataFrame, table: LakeTable, attnums: Sequence[int], *, places: bool = False
) -> list[tuple[Any, ...]]:
    """The rows of a scan as Python values, in no order."""
    found = frame.toArrow()
    columns = [table.column(n).form.from_array(found[f"c{n}"]) for n in attnums]
    if places:
        columns.append([(p["file"], p["pos"], p["row"]) for p in found["place"].to_pylist()])
    return list(zip(*columns, strict=True)) if columns else [()] * found.num_rows


def both(lake: Lake, name: str, snapshot: int | None = None, *, places: bool = True) -> tuple[list[str], list[str]]:
    """The same rows read by Spark and without it, as text (NaN is no equal of itself), in one order."""
    oid = lake.table(name).oid
    with lake.statement():
        table = lake_table(lake.session, oid, snapshot)
        wanted = [column.attnum for column in table.columns]
        frame = scan_spark.frame(lake.session, table, wanted, snapshot, places=places)
        by_spark = values(frame, table, wanted, places=places)
        own = [tuple(row) for row in local.rows(lake.session, table, wanted, places=places, snapshot=snapshot)]
    plain = [(*row[:-1], tuple(row[-1])) for row in own] if places else own
    return sorted(map(repr, by_spark)), sorted(map(repr, plain))


def agree(lake: Lake, name: str, snapshot: int | None = None) -> int:
    """Both give the same rows and places; how many."""
    for places in (True, False):
        by_spark, own = both(lake, name, snapshot, places=places)
        assert by_spark == own
    return len(own)


def nothing_inlined(lake: Lake) -> None:
    """From now on every row and every delete goes into a file."""
    with closing(sqlite3.connect(lake.path)) as catalog, catalog:
        catalog.execute("INSERT INTO ducklake_metadata (key, value) VALUES ('data_inlining_row_limit', '0')")
