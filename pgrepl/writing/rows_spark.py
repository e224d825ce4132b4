"""The rows that Spark computes for a statement or an ALTER TABLE, with numbers from sequences in the rows' order.

The rows of each partition are counted first. If the second run distributes them differently the write fails; then
they are persisted and numbered again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.engine import scan_spark, spark
from pgrepl.engine.result_spark import condition_text
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite.dml_queries import TargetRowsQuery
from pgrepl.expr.rewrite.views import expand_views
from pgrepl.expr.tree import Const, Expr, FuncExpr, NextValueExpr, Query, RelabelType, Target
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import F
from pgrepl.lake.table import LakeTable
from pgrepl.query.rowset import frame_of
from pgrepl.query.shape import OutsideRows
from pgrepl.query.system.functions.relations import reserve
from pgrepl.rows.arrivals import Arrival
from pgrepl.rows.checks_table import own
from pgrepl.rows.staged import StagedRows
from pgrepl.types import oids
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.exchange import Statement
    from pgrepl.lake.write.statement import Write


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


def new_rows(table: Relation, rows_query: TargetRowsQuery, frame: DataFrame) -> DataFrame:
    """The new rows: c{attnum} for each column, and `place` of the old row."""
    sources = {attnum: f"c{3 + n}" for n, attnum in enumerate(rows_query.columns)}
    first = 3 + len(rows_query.columns)
    sources |= {attnum: f"c{first + n}" for n, attnum in enumerate(rows_query.assigned)}
    columns = [F.col(sources[a.num]).alias(f"c{a.num}") for a in table.kept]
    return frame.select(F.col("c1").alias("place"), *columns)


# --- nextval spark ----------------------------------------------------------------------------------------------------


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
    numbered: list[Numbered] = []
    targets: list[Target] = []
    for place, target in enumerate(query.targets, 1):
        sequence = _sequence(target.expr)
        if sequence:
            numbered.append(Numbered(place, sequence, target.expr.type, target.expr.typmod))
            targets.append(replace(target, expr=Const(target.expr.type, typmod=target.expr.typmod)))
        else:
            targets.append(target)
    if len({column.sequence for column in numbered}) < len(numbered):
        return query, []
    return replace(query, targets=tuple(targets)), numbered


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


# --- values -----------------------------------------------------------------------------------------------------------


@frozen
class NewColumnValue:
    """A column of existing rows gets another value: a new column its default, one of changed type the converted one.
    The expression is over the row as it was; one that generates the column, over the row as it becomes."""

    table: int
    attnum: int
    expr: Expr
    generates: bool = False
    to_text: bool = False  # a column of lists becomes one of arrays as text
    renumbers: bool = False  # the column and those behind it get other ids, and keep their values


@frozen
class Rewrite:
    """A table whose rows must be rewritten. `was` is the table at `snapshot`, the one before the statement."""

    relation: Relation
    was: LakeTable
    snapshot: int
    values: tuple[NewColumnValue, ...]


# --- rewrite spark ----------------------------------------------------------------------------------------------------


def rewritten_rows(session: Session, rewriting: Rewrite) -> DataFrame:
    """The rows of a table as they become, with their places; or Declined."""
    from pgrepl.expr.exchange import Statement

    statement = Statement(Context(session))
    rel = rewriting.relation
    values, numbers = _without_numbers(rewriting)
    try:
        plain = {v.attnum: condition_text(own(v.expr, rel), statement) for v in values if not v.generates}
        generated = {v.attnum: condition_text(own(v.expr, rel), statement) for v in values if v.generates}
    except PgError as error:
        if error.sqlstate != "0A000":
            raise
        raise Declined(error.message) from error
    attnums = [column.attnum for column in rewriting.was.columns]
    frame = scan_spark.frame(session, rewriting.was, attnums, rewriting.snapshot, places=True)
    columns = [f"c{attnum}" for attnum in attnums if attnum not in plain and not rel.attributes[attnum - 1].dropped]
    columns += [f"{text} AS c{attnum}" for attnum, text in plain.items()]
    text = f"SELECT {', '.join([*columns, 'place'])} FROM {{f}}"
    frame = statement.run(spark.session(), text, {"f": frame})
    if numbers:
        frame, _ = numbered(session, frame, numbers)
    return with_generated(statement, frame, generated) if generated else frame


def with_generated(statement: Statement, frame: DataFrame, generated: Mapping[int, str]) -> DataFrame:
    """The rows with generated columns, of each its attnum and Spark's SQL."""
    kept = [name for name in frame.columns if name not in {f"c{attnum}" for attnum in generated}]
    generated_columns = [f"{text} AS c{attnum}" for attnum, text in generated.items()]
    return statement.run(spark.session(), f"SELECT {', '.join([*kept, *generated_columns])} FROM {{f}}", {"f": frame})


def _without_numbers(rewriting: Rewrite) -> tuple[list[NewColumnValue], list[Numbered]]:
    """The values with NULL in place of numbers of sequences, and the columns of these numbers."""
    query = Query(tuple(Target(v.expr, "", n) for n, v in enumerate(rewriting.values, 1)))
    query, numbered = without_numbers(query)
    values = [replace(v, expr=t.expr) for v, t in zip(rewriting.values, query.targets, strict=True)]
    return values, [replace(number, place=rewriting.values[number.place - 1].attnum) for number in numbered]


def write_rows(session: Session, rewriting: Rewrite, frame: DataFrame, write: Write) -> None:
    """Stage the files of the new rows and the deletion of the old ones."""
    arrival = Arrival(session, rewriting.relation, rewriting.relation, frozenset(), frozenset(), places=True)
    (done,) = arrival.write(frame)
    StagedRows(session, rewriting.relation, rewriting.snapshot, write).take(done, versions=True)
