"""LIKE and regular expressions on Spark mean what they mean in this process, and no text takes them long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from pgrepl.expr import tree
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.exchange import Statement, to_sql
from pgrepl.expr.exchange.sql import calls_python
from pgrepl.expr.functions.registry import Context
from pgrepl.types import oids
from pgrepl.types.builtin import operator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = "a" * 100_000
ENDLESS = 300  # seconds: it takes a few; one pattern that goes back in LONG for each of its characters takes hours
TEXTS = ["", "a", "ab", "aab.b\n", "A%b_", "xaby", "abab", "a\\b", "İb", "K", "a" * 40 + "b", LONG, LONG + "b", None]
LIKES = ["%a%a%a%a%a%a%b", "a%b", "%a_%b%", "A\\%b\\_", "%b_y", "a%a%b", "%.%\n", "_%_%_%_%b", "%a\\\\b%", "%İ%b", "%"]
REGEXES = [
    "a+b", "^a+b$", "a+$", "a*a*a*a*b", "^a*b", "(a+)+b", "b|^x", "[ab]+\\.", "^.b.b$", "a{2}b", "(?i)K", "a.*b.*y",
]  # fmt: skip


def _operator(name: str) -> int:
    found = operator(name, oids.TEXT, oids.TEXT)
    assert found is not None
    return found.oid


def _calls() -> list[tree.OpExpr]:
    column = tree.Var(oids.TEXT, attnum=1)
    asked = [(name, text) for name in ("~~", "!~~", "~~*") for text in LIKES]
    asked += [(name, text) for name in ("~", "!~", "~*") for text in REGEXES]
    return [
        tree.OpExpr(oids.BOOL, op=_operator(name), args=(column, tree.Const(oids.TEXT, value=text)))
        for name, text in asked
    ]


@pytest.mark.slow
def test_they_mean_the_same_and_end(spark: SparkSession) -> None:
    import pyarrow as pa

    context = Context(None)
    calls = _calls()
    spark.createDataFrame(pa.table({"n": range(len(TEXTS)), "c1": TEXTS})).createOrReplaceTempView("texts")
    statement = Statement(context)
    texts = [to_sql(call, lambda node: "c1" if isinstance(node, tree.Var) else None, statement) for call in calls]
    query = ", ".join(f"{text} AS r{n}" for n, text in enumerate(texts))
    began = time.monotonic()
    found = statement.run(spark, f"SELECT {query} FROM texts ORDER BY n").toArrow()
    assert time.monotonic() - began < ENDLESS
    wrong: list[Any] = []
    for number, call in enumerate(calls):
        run = compile(call, context)
        wanted = [run((text,)) for text in TEXTS]
        if found.column(f"r{number}").to_pylist() != wanted:
            wrong.append((texts[number], wanted))
    assert wrong == []


def test_java_gets_what_grows_with_the_text_only(spark: SparkSession) -> None:
    def python_for(pattern: str) -> bool:
        column = tree.Var(oids.TEXT, attnum=1)
        call = tree.OpExpr(oids.BOOL, op=_operator("~"), args=(column, tree.Const(oids.TEXT, value=pattern)))
        return calls_python(
            to_sql(call, lambda node: "c1" if isinstance(node, tree.Var) else None, Statement(Context(None)))
        )

    assert [pattern for pattern in ("abc", "^a+b$", "a|b$", "[0-9]{3}") if python_for(pattern)] == []
    assert [pattern for pattern in ("a+b", "a*a*b", "(a+)+b") if not python_for(pattern)] == []
