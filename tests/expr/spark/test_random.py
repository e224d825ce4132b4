"""Random expressions, nested, with errors behind CASE, NULL and infinity: Spark and the evaluator agree."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgrepl.expr.exchange import Statement
from pgrepl.expr.functions.registry import Context
from pgrepl.types.style import TextStyle
from tests.expr.spark import expressions as made
from tests.lake.spark_rows import HAS_TIME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(not HAS_TIME, reason="before 4.1 Python is given no dates")


def disagreements(spark: SparkSession, seed: int, depth: int, count: int, native: float) -> list[object]:
    random = Random(seed)
    context = Context(None, TextStyle(timezone=random.choice(("GMT", "Europe/Berlin", "Asia/Kolkata"))))
    rows = made.table(random)
    spark.createDataFrame(made.arrow_table(rows)).createOrReplaceTempView("random_rows")
    maker = made.Maker(random, native)
    exprs = [maker.expr(random.choice(made.TYPES), depth) for _ in range(count)]
    answers = [made.expected(expr, rows, context) for expr in exprs]
    statement = Statement(context)
    query, texts = made.batch(exprs, answers, statement, "random_rows")
    result = statement.run(spark, query).toArrow()
    return [
        (exprs[number], texts[number], rows[row], wanted, value)
        for number, row, wanted, value in made.differences(exprs, answers, result)
    ]


@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_nests_of_native_expressions(spark: SparkSession, seed: int) -> None:
    assert disagreements(spark, seed, 3, 40, 1.0) == []


@pytest.mark.slow
@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_nests_with_fall_backs_in_them(spark: SparkSession, seed: int) -> None:
    assert disagreements(spark, seed, 2, 20, 0.5) == []


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_many_nests(spark: SparkSession, seed: int) -> None:
    assert disagreements(spark, seed, 3, 60, 0.8) == []
