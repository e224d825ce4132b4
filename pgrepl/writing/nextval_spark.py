"""Numbers from sequences for rows that Spark computes: each partition of the frame gets a range, in the order of the
rows, so that every row has the number it would have had, had they come one after the other.

The rows of each partition are counted first, which reads only the columns of the query's conditions. If the second run
distributes its rows differently, the write fails; then the rows are persisted and numbered again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.expr.tree import Const, Expr, FuncExpr, NextValueExpr, Query, RelabelType, Target
from pgrepl.frozen import frozen
from pgrepl.query.system.functions.sequences import reserve
from pgrepl.types import oids
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.lake_forms import form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session

UNSTEADY = "the rows of a partition are others than those that were counted"
_PARTITION_ROWS = 2**33  # monotonically_increasing_id counts so many rows in a partition
_CASTS = frozenset({"int84", "int82"})  # of nextval to the type of a serial column
_LARGEST = {oids.INT2: (2**15, "smallint"), oids.INT4: (2**31, "integer")}


@frozen
class Numbered:
    """A column of the query, by its place, that is the next number of a sequence."""

    place: int
    sequence: int
    type: int
    typmod: int


def without_numbers(query: Query) -> tuple[Query, list[Numbered]]:
    """The query with NULL in the columns that are numbers of a sequence, and these columns. If several columns use one
    sequence, the query is returned unchanged."""
    found: list[Numbered] = []
    targets: list[Target] = []
    for place, target in enumerate(query.targets, 1):
        sequence = _sequence(target.expr)
        if sequence:
            found.append(Numbered(place, sequence, target.expr.type, target.expr.typmod))
            targets.append(replace(target, expr=Const(target.expr.type, typmod=target.expr.typmod)))
        else:
            targets.append(target)
    if len({each.sequence for each in found}) < len(found):
        return query, []
    return replace(query, targets=tuple(targets)), found


def _sequence(expr: Expr) -> int:
    """The sequence whose next number the expression is; 0: it is none."""
    if isinstance(expr, NextValueExpr):
        return expr.sequence
    if isinstance(expr, RelabelType) and expr.arg is not None:
        return _sequence(expr.arg)
    if not isinstance(expr, FuncExpr) or not expr.args:
        return 0
    proc = proc_by_oid(expr.func)
    if proc is not None and proc.src == "nextval_oid":
        arg = expr.args[0]
        while isinstance(arg, RelabelType) and arg.arg is not None:
            arg = arg.arg
        return int(arg.value) if isinstance(arg, Const) and arg.value is not None else 0
    return _sequence(expr.args[0]) if proc is not None and proc.src in _CASTS else 0


def numbered(session: Session, frame: DataFrame, columns: Sequence[Numbered]) -> tuple[DataFrame, int]:
    """The frame with the numbers, and the number of rows that it must have."""
    from pyspark.sql import functions as F

    from pgrepl.lake import spark

    with spark.pg_errors():
        counted = frame.groupBy(F.spark_partition_id().alias("part")).count().collect()
    counts = {row["part"]: row["count"] for row in counted}
    total = sum(counts.values())
    if not total:
        return frame, 0
    size = max(counts) + 1
    lengths = [counts.get(part, 0) for part in range(size)]
    starts = [sum(lengths[:part]) for part in range(size)]
    inside = F.monotonically_increasing_id().bitwiseAND(F.lit(_PARTITION_ROWS - 1))
    part = F.spark_partition_id() + 1
    index = F.when(
        inside < F.element_at(F.lit(lengths).cast("array<bigint>"), part),
        inside + F.element_at(F.lit(starts).cast("array<bigint>"), part),
    ).otherwise(F.raise_error(F.lit(UNSTEADY)).cast("bigint"))
    with_index = frame.withColumn("row_index", index)
    for column in columns:
        first, step = _reserved(session, column, total)
        number = (F.lit(first).cast("bigint") + F.lit(step).cast("bigint") * F.col("row_index")).cast(
            form(column.type, column.typmod).spark
        )
        with_index = with_index.withColumn(f"c{column.place}", number)
    return with_index.drop("row_index"), total


def _reserved(session: Session, column: Numbered, count: int) -> tuple[int, int]:
    first, step = reserve(session, column.sequence, count)
    limit = _LARGEST.get(column.type)
    if limit is not None and not -limit[0] <= first + step * (count - 1) < limit[0]:
        raise PgError("22003", f"{limit[1]} out of range")
    return first, step
