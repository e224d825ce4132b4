"""Typed trees as Spark SQL, with exactly the results of the evaluator.

    statement = Statement(Context(session))              # collects parameters and fall-back functions
    text = to_sql(expr, names, statement)                # SQL of exactly the type of the lake form
    frame = statement.run(spark, f"SELECT {text} AS c1 FROM t")

`names(node)` returns the column that holds a node's value, for every `Var` and for what an earlier step has computed:
SQL of the type of the node's lake form, a `Sql` if a numeric column is a decimal, None for nodes without a column.

| function | gives |
| --- | --- |
| `to_sql(expr, names, statement)` | text whose type is that of the lake form of (expr.type, expr.typmod) |
| `to_value(expr, names, statement)` | a `Sql`: the same, but a numeric may be a decimal of known scale still |
| `to_form(sql, typoid, typmod)` | the text of a `Sql` brought to its lake form |
| `equal_key(expr, names, statement)` | what to group, join, compare for equality and DISTINCT by |
| `sort_item(expr, key, names, statement)` | an item of ORDER BY that Spark orders as PostgreSQL orders the type |
| `aggregate(node, names, statement)` | a `Sql` around Spark aggregates; `names` are those of the aggregate's input |
| `window_function(node, over, names, statement)` | the same over a window; `over` is the text behind OVER |
| `over(window, targets, names, statement, ranked)` | that text; `ranked=is_ranked(node)` |

What Spark evaluates differently runs in Python on the executors, more slowly. An error is text (`errors.marked`) that
`raise_error` throws only for rows whose value is used.
"""

from __future__ import annotations

from pgrepl.expr.exchange import arithmetic, comparisons, constructs, dates, moments, strings
from pgrepl.expr.exchange.aggregates import aggregate, equal_key, sort_item
from pgrepl.expr.exchange.compiler import Statement, to_form, to_sql, to_value
from pgrepl.expr.exchange.sql import Sql
from pgrepl.expr.exchange.windows import is_ranked, over, window_function

# importing these modules registers their native functions
FAMILIES = (arithmetic, constructs, comparisons, dates, moments, strings)

__all__ = [
    "Sql",
    "Statement",
    "aggregate",
    "equal_key",
    "is_ranked",
    "over",
    "sort_item",
    "to_form",
    "to_sql",
    "to_value",
    "window_function",
]
