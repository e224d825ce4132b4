"""A whole analysed query as one Spark SQL statement.

| module | what it writes in SQL |
| --- | --- |
| `statement` | the query as a DataFrame, or as the text that EXPLAIN shows |
| `level` | one query level: the names of columns, aggregates and subqueries in its expressions |
| `select` | FROM … WHERE … GROUP BY … HAVING, windows, DISTINCT, ORDER BY, LIMIT |
| `sources` | the entries of FROM: tables of the lake, subqueries, VALUES, functions, WITH queries |
| `setops` | UNION and the like, subqueries in expressions, WITH RECURSIVE, rows into Spark and out of it |

Each query returns columns c1 … cn, and each entry of FROM has an alias of its own. A query that Spark cannot execute
as PostgreSQL does is `Declined`: then this process executes it, row by row.
"""

from __future__ import annotations

from pgrepl.query.spark.statement import compile_frame, physical_plan, sql_of

__all__ = ["compile_frame", "physical_plan", "sql_of"]
