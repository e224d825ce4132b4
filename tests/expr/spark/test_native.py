"""Whatever has native SQL gives what the evaluator gives: every operator and function, over a table of extremes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from pgrepl.engine.spark import pg_error
from pgrepl.expr.exchange import Statement, to_sql
from pgrepl.expr.exchange.sql import calls_python
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.walk import walk
from pgrepl.types import oids
from pgrepl.types.style import TextStyle
from tests.expr.spark import expressions as made
from tests.expr.spark.expressions import Fails
from tests.harness.dose import dose

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgrepl.expr.tree import Expr

SIZE = 150
OVERFLOWS = {f"{name} out of range" for name in ("smallint", "integer", "bigint")}


def natives(
    random: Random, context: Context, rows: list[tuple[object, ...]], variants: int = 1
) -> list[tuple[str, Expr, list[object]]]:
    """With one variant, each call over columns or with constants."""
    found = []
    zoned = context.style.timezone != "GMT"
    for source, expr in made.every_native(random, variants):
        if zoned and not any(node.type == oids.TIMESTAMPTZ for node in walk(expr)):
            continue
        if not calls_python(to_sql(expr, made.names, Statement(context))):
            found.append((source, expr, made.expected(expr, rows, context)))
    return found


@pytest.mark.parametrize("variants", [1, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("zone", dose(["America/New_York", "GMT"], 2))
def test_native_sql_means_what_the_evaluator_means(spark: SparkSession, zone: str, variants: int) -> None:
    random = Random(zone)
    context = Context(None, TextStyle(timezone=zone))
    rows = made.table(random, 30)
    spark.createDataFrame(made.arrow_table(rows)).createOrReplaceTempView("extremes")
    calls = natives(random, context, rows, variants)
    wrong = []
    for start in range(0, len(calls), SIZE):
        exprs = [expr for _, expr, _ in calls[start : start + SIZE]]
        answers = [answer for _, _, answer in calls[start : start + SIZE]]
        statement = Statement(context)
        query, texts = made.batch(exprs, answers, statement, "extremes")
        result = statement.run(spark, query).toArrow()
        for number, row, wanted, value in made.differences(exprs, answers, result):
            wrong.append((calls[start + number][0], texts[number], rows[row], wanted, value))
    assert wrong == []


@pytest.mark.slow
def test_native_sql_fails_as_the_evaluator_fails(spark: SparkSession) -> None:
    """One call for each kind of failure, and for each function whose integers overflow, where no NULL keeps Spark from
    looking."""
    random = Random(4)
    context = Context()
    rows = made.table(random, 30)
    first = [made.VALUES[typoid][0] for typoid, _ in made.COLUMNS]
    rows = [tuple(f if v is None else v for v, f in zip(row, first, strict=True)) for row in rows]
    spark.createDataFrame(made.arrow_table(rows)).createOrReplaceTempView("failing")
    kinds: dict[tuple[str, str], tuple[Expr, int, object]] = {}
    for source, expr, answer in natives(random, context, rows):
        for row, wanted in enumerate(answer):
            if isinstance(wanted, Fails):
                message = wanted.report.message
                kind = source if message in OVERFLOWS else ""
                kinds.setdefault((kind, message[:24]), (expr, row, wanted))
    wrong = []
    for expr, row, wanted in kinds.values():
        statement = Statement(context)
        text = to_sql(expr, made.names, statement)
        try:
            value = statement.run(spark, f"SELECT {text} AS r FROM failing WHERE n = {row}").toArrow().to_pylist()
        except Exception as problem:
            error = pg_error(problem)
            value = problem if error is None else Fails(error)
        if value != wanted:
            wrong.append((text, rows[row], wanted, value))
    assert wrong == []
    assert len(kinds) >= 50
