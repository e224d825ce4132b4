"""SELECT over the system catalogs, and without any table: the analysed query is carried out here, in Python.

The relations are small and their columns have PostgreSQL's types, so a query is played on `expr.evaluate` as it
stands: scans and joins (`joins`), grouping (`grouping`), windows (`windows`), sorting and set operations
(`execute`). The rows come from `base_tables`, `views` (our own definitions of PostgreSQL's system views) and
`functions` (what such queries call). Queries over user tables are Spark's.
"""

from pgrepl.commands.query import run

__all__ = ["run"]
