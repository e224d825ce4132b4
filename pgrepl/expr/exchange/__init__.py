"""Typed trees as Spark SQL, with exactly the results of the evaluator.

    statement = Statement(Context(session))              # collects parameters and fall-back functions
    text = to_sql(expr, names, statement)                # SQL of exactly the type of the lake form
    frame = statement.run(spark, f"SELECT {text} AS c1 FROM t")

`names(node)` returns the column that holds a node's value, for every `Var` and for what an earlier step has computed:
SQL of the type of the node's lake form, a `Sql` if a numeric column is a decimal, None for nodes without a column.

| function | gives |
| --- | --- |
| `to_sql(expr, names, statement)` | text whose type is that of the lake form of (expr.type, expr.typmod) |
| `compiler = Compiler(names, statement)` | what compiles many expressions over the same columns |
| `over_columns(columns, statement)` | the same over columns by attnum |
| `compiler.text(expr)` | the same as `to_sql` |
| `compiler.value(expr)` | a `Sql`: the same, but a numeric may be a decimal of known scale still |
| `to_form(sql, typoid, typmod)` | the text of a `Sql` brought to its lake form |
| `equal_key(expr, compiler)` | what to group, join, compare for equality and DISTINCT by |
| `sort_item(expr, key, compiler)` | an item of ORDER BY that Spark orders as PostgreSQL orders the type |
| `aggregate(node, compiler)` | a `Sql` around Spark aggregates; the columns are those of their input |
| `window_function(node, over, compiler)` | the same over a window; `over` is the text behind OVER |
| `over(window, targets, compiler, ranked=…)` | that text; `ranked=is_ranked(node)` |

What Spark evaluates differently runs in Python on the executors, more slowly. An error is text (`errors.marked`) that
`raise_error` throws only for rows whose value is used.

Functions that Spark has too are written in its SQL, as Python is slower: over two million rows a condition with
`lower()` took four to five times as long by a UDF, also where one UDF computed a whole level, and a maximum of float
sums almost twice as long. Only kernels that read the files by themselves, and hand on what is left, were as fast.
"""

from __future__ import annotations

from pgrepl.expr.exchange import arithmetic, comparisons, constructs, dates, moments, strings
from pgrepl.expr.exchange.aggregates import aggregate, equal_key, sort_item
from pgrepl.expr.exchange.compiler import Compiler, Statement, over_columns, to_form, to_sql
from pgrepl.expr.exchange.sql import Sql
from pgrepl.expr.exchange.windows import is_ranked, over, window_function

# importing these modules registers their native functions
FAMILIES = (arithmetic, constructs, comparisons, dates, moments, strings)

__all__ = [
    "Compiler",
    "Sql",
    "Statement",
    "aggregate",
    "equal_key",
    "is_ranked",
    "over",
    "over_columns",
    "sort_item",
    "to_form",
    "to_sql",
    "window_function",
]
