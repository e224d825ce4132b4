"""Rows computed in this process and sent to Spark: system catalogs, functions, queries without any user table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.expr.context import Context
from pgrepl.expr.tree import Column, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def ship(columns: Sequence[Column], numbers: Sequence[int], rows: Iterable[Sequence[Any]]) -> Callable[[], DataFrame]:
    """Rows of Python values as a frame: the columns of these numbers, counted from 1, as c{number}. The rows are read
    now; the frame is made when Spark has started."""
    import pyarrow as pa

    from pgrepl.lake.scan import storage_array
    from pgrepl.types.lake_forms import form

    forms = [form(columns[number - 1].type, columns[number - 1].typmod) for number in numbers]
    found = list(rows)
    arrays = [
        storage_array(kind.to_array([row[number - 1] for row in found]))
        for number, kind in zip(numbers, forms, strict=True)
    ]
    names = [f"c{number}" for number in numbers]
    types = [kind.spark for kind in forms]
    if not names:  # the number of rows still matters
        arrays, names, types = [pa.nulls(len(found), pa.int32())], ["c0"], ["INT"]
    table = pa.table(arrays, names=names)

    def make() -> DataFrame:
        from pgrepl.lake.scan import arrow_frame

        return arrow_frame(table, types)

    return make


def played(query: Query, context: Context) -> list[tuple[Any, ...]]:
    """The rows of a query without user tables."""
    from pgrepl.query.local.env import Env
    from pgrepl.query.local.execute import compile_query

    return list(compile_query(query, context)(Env([], None)))
