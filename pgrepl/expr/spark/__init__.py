"""Typed trees as Spark SQL, with exactly the results of the evaluator.

    statement = Statement(Context(session))              # collects parameters and fall-back functions
    text = to_sql(expr, names, statement)                # SQL of exactly the type types.lake_forms.form names
    frame = statement.run(spark, f"SELECT {text} AS c1 FROM t")

`names(node)` says which column holds a node of the tree: it is asked for every node and must know every `Var`; whoever
computed aggregates, windows or subqueries before answers for those nodes too. It answers with the column's SQL, which
then has the type of the node's lake form, or with a `Sql` when a numeric column is a decimal, or with None.

| function | gives |
| --- | --- |
| `to_sql(expr, names, statement)` | text whose type is that of the lake form of (expr.type, expr.typmod) |
| `to_value(expr, names, statement)` | a `Sql`: the same, but a numeric may be a decimal of known scale still |
| `to_form(sql, typoid, typmod)` | the text of a `Sql` brought to its lake form |
| `equal_key(expr, names, statement)` | what to group, join, compare for equality and DISTINCT by |
| `sort_key(expr, names, statement)` | what Spark orders as PostgreSQL orders the type |
| `sort_item(expr, descending, nulls_first, names, statement)` | the same as an item of ORDER BY |
| `aggregate(node, names, statement)` | a `Sql` around Spark aggregates; `names` are those of the aggregate's input |
| `window_function(node, over, names, statement)` | the same over a window; `over` is the text behind OVER |
| `over(window, targets, names, statement, ranked)` | that text; `ranked=is_ranked(node)` |

What Spark does not do as PostgreSQL does, runs in Python on the executors (`fallback`): slower, never different. An
error is text (`errors.marked`) that `raise_error` throws only for rows whose value is really asked for; arithmetic
overflow and division by zero are Spark's own errors, which `lake.spark.pg_error` knows.
"""

from __future__ import annotations

from pgrepl.expr.spark import (
    arithmetic,
    arrays,
    comparisons,
    dates,
    fields,
    logic,
    numerics,
    output,
    patterns,
    spans,
    strings,
)
from pgrepl.expr.spark.aggregates import aggregate
from pgrepl.expr.spark.compiler import to_form, to_sql, to_value
from pgrepl.expr.spark.keys import equal_key, sort_item, sort_key
from pgrepl.expr.spark.sql import Sql
from pgrepl.expr.spark.statement import Statement
from pgrepl.expr.spark.windows import is_ranked, over, window_function

# importing them registers what is native
FAMILIES = (arithmetic, arrays, comparisons, dates, fields, logic, numerics, output, patterns, spans, strings)

__all__ = [
    "Sql",
    "Statement",
    "aggregate",
    "equal_key",
    "is_ranked",
    "over",
    "sort_item",
    "sort_key",
    "to_form",
    "to_sql",
    "to_value",
    "window_function",
]
