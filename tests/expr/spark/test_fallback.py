"""What Python computes for Spark: values that Spark's own cast cannot read, and results of nested types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from pgrepl.engine.spark import pg_error
from pgrepl.expr import tree
from pgrepl.expr.exchange import Statement, to_sql
from pgrepl.expr.functions.registry import Context
from pgrepl.types import oids
from pgrepl.types.builtin import array_type
from pgrepl.types.lake.forms import form
from tests.expr.spark.expressions import Fails, expected
from tests.harness.dose import dose

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = tree.Var(oids.TEXT, attnum=1)


def answer(spark: SparkSession, expr: tree.Expr, texts: list[str]) -> list[Any]:
    """The values of an expression over the column of texts, or the first row's error."""
    import pyarrow as pa

    spark.createDataFrame(pa.table({"n": range(len(texts)), "c1": texts})).createOrReplaceTempView("texts")
    statement = Statement(Context())
    sql = to_sql(expr, lambda node: "c1" if isinstance(node, tree.Var) else None, statement)
    try:
        found = statement.run(spark, f"SELECT {sql} AS r FROM texts ORDER BY n").toArrow()
    except Exception as problem:
        error = pg_error(problem)
        assert error is not None, problem
        return [Fails(error)]
    return form(expr.type).from_array(found.column("r"))


@pytest.mark.parametrize(
    ("target", "text"),
    dose(
        [
            (oids.DATE, "2023-02-30"),
            (oids.DATE, "0000-01-01"),
            (oids.TIMESTAMP, "2024-01-01 25:00:00"),
            (oids.TIMESTAMPTZ, "2023-02-30 12:00:00+00:00"),
        ],
        4,
    ),
)
def test_an_impossible_moment_is_an_error(spark: SparkSession, target: int, text: str) -> None:
    expr = tree.CoerceViaIO(target, arg=TEXT)
    (wanted,) = expected(expr, [(text,)], Context())
    assert wanted.report.sqlstate == "22008"
    assert answer(spark, expr, [text]) == [wanted]


@pytest.mark.slow
def test_an_array_of_uuids_comes_back(spark: SparkSession) -> None:
    typoid = array_type(oids.UUID)
    one = UUID(int=1)
    (array,) = answer(spark, tree.CoerceViaIO(typoid, arg=TEXT), [f"{{{one},NULL}}"])
    assert array.items == (one, None)
